"""A damaged directory: the file is named, no wrong number comes out, and repair makes it whole."""

import os
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest

from cpsrl.experiments import (
    DamagedError,
    Entry,
    Execution,
    Experiment,
    continue_experiment,
    load,
    run_experiment,
)

EXPERIMENT = Experiment(
    name="damaged",
    environments=(Entry("riverswim"),),
    agents=(Entry("continuing-psrl"), Entry("tsde")),
    steps=300,
    seeds=4,
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sound") / "results"
    run_experiment(EXPERIMENT, directory)
    return directory


@pytest.fixture
def copy(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "copy")


def stored_files(directory):
    return sorted(p for p in directory.rglob("*") if p.is_file() and p.name != "lock")


def damage(path, others, rng):
    """One seeded piece of damage to `path`: bits, length, order, or the content of another file."""
    data = bytearray(path.read_bytes())
    place, kind = int(rng.integers(len(data))), rng.integers(7)
    if kind <= 2:
        data[place] ^= 1 << int(rng.integers(8))
    elif kind == 3:
        del data[place:]
    elif kind == 4:
        data[place:place] = rng.bytes(int(rng.integers(1, 40)))
    elif kind == 5:
        data = bytearray(others[rng.integers(len(others))].read_bytes())
    else:
        path.unlink()
        return
    path.write_bytes(data)


def test_hundreds_of_mutations_give_an_error_or_the_right_numbers(sound, copy, assert_same_runs):
    """White space in JSON may change; checkpoints that are gone are said to be unfinished runs.

    The Parquet files are for others: nothing here depends on them.
    """
    expected = load(sound)
    files = [path for path in stored_files(copy) if path.suffix != ".parquet"]
    rng = np.random.default_rng(11)
    refused = 0
    for _ in range(400):
        path = files[rng.integers(len(files))]
        good = path.read_bytes()
        damage(path, files, rng)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                found = load(copy)
        except UserWarning as warning:
            assert path.suffix == ".checkpoint"
            assert "not finished" in str(warning)  # noqa: PT017
            refused += 1
        except ValueError as error:
            assert str(copy) in str(error)  # noqa: PT017
            refused += 1
        else:
            assert_same_runs(found, expected)
        path.write_bytes(good)
    assert refused > 350
    assert_same_runs(load(copy), expected)


def test_damage_is_refused_by_name_and_repaired_on_request(sound, copy, assert_same_results):
    rng = np.random.default_rng(12)
    for number, path in enumerate(sorted((copy / "runs").rglob("*.checkpoint"))):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        again = {
            0: lambda repair: run_experiment(EXPERIMENT, copy, Execution(repair=repair)),
            1: lambda repair: continue_experiment(copy, execution=Execution(repair=repair)),
        }[number % 2]
        with pytest.raises(DamagedError, match=f"{path.name} is damaged: .*--repair"):
            again(False)
        again(True)
        assert_same_results(copy, sound)


def test_a_parquet_file_that_is_damaged_or_gone_is_written_again(sound, copy):
    for number, path in enumerate(sorted((copy / "runs").rglob("*.parquet"))):
        path.unlink() if number % 2 else path.write_bytes(path.read_bytes()[:-9])
    run_experiment(EXPERIMENT, copy)
    for path in (sound / "runs").rglob("*.parquet"):
        assert (copy / path.relative_to(sound)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["experiment.json", "spec.toml"])
def test_a_damaged_header_is_made_anew_from_the_specification(
    sound, copy, name, assert_same_results
):
    (copy / name).write_bytes((copy / name).read_bytes()[:-40])
    before = {path: path.stat().st_mtime_ns for path in stored_files(copy / "runs")}
    with pytest.raises(DamagedError, match=name):
        run_experiment(EXPERIMENT, copy)
    run_experiment(EXPERIMENT, copy, Execution(repair=True))
    assert before == {path: path.stat().st_mtime_ns for path in stored_files(copy / "runs")}
    assert_same_results(copy, sound)


def test_a_missing_header_is_made_anew_from_the_specification(sound, copy, assert_same_results):
    (copy / "experiment.json").unlink()
    with pytest.raises(ValueError, match=r"holds other things \(runs\)"):
        run_experiment(EXPERIMENT, copy)
    run_experiment(EXPERIMENT, copy, Execution(repair=True))
    assert_same_results(copy, sound)


def test_runs_of_another_directory_are_not_taken_over(sound, copy, tmp_path):
    """The same agents and runs of another root seed: every checksum is right, and still refused."""
    run_experiment(replace(EXPERIMENT, seed=1), tmp_path / "other")
    ours, others = (sorted(at.rglob("*.checkpoint")) for at in (copy, tmp_path / "other"))
    for path, other in zip(ours, others, strict=True):
        shutil.copy(other, path)
    with pytest.raises(DamagedError, match="its experiment is "):
        load(copy)


def test_what_leads_out_of_the_directory_is_refused_before_anything_is_written(copy, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("not ours")
    (copy / "lock").unlink()
    (copy / "lock").symlink_to(outside)
    with pytest.raises(ValueError, match="lock is a link"):
        continue_experiment(copy, 400)
    assert outside.read_text() == "not ours"
    (copy / "lock").unlink()
    checkpoint = next(copy.rglob("*.checkpoint"))
    checkpoint.unlink()
    os.mkfifo(checkpoint)
    with pytest.raises(ValueError, match="pipe"):
        load(copy)


def left_behind(copy):
    """What a crash leaves behind, and a Parquet file that is to be written again."""
    next(copy.rglob("*.parquet")).write_bytes(b"damage")
    (copy / "runs" / ".left.tmp").write_bytes(b"by a crash")


def contents(directory):
    return {path: path.read_bytes() for path in stored_files(directory)}


@pytest.mark.parametrize("repair", [False, True])
def test_a_refused_run_changes_nothing(copy, repair):
    """With an agent less, whose runs are to go aside, and damage to those that stay."""
    left_behind(copy)
    if repair:  # what no repair mends: a file of somebody else
        (copy / "runs" / "my" / "own").mkdir(parents=True)
        damaged = copy / "runs" / "my" / "own" / "table.parquet"
    else:
        damaged = next(copy.glob("runs/*/tsde*/*.checkpoint"))
    damaged.write_bytes(b"damage")
    before = contents(copy)
    fewer = replace(EXPERIMENT, agents=EXPERIMENT.agents[1:], name="fewer")
    with pytest.raises(DamagedError, match=damaged.name):
        run_experiment(fewer, copy, Execution(repair=repair))
    assert contents(copy) == before


def test_a_run_without_a_place_to_be_performed_changes_nothing(copy, monkeypatch):
    left_behind(copy)
    before = contents(copy)

    def unreachable(*_):
        raise ValueError("no cluster at this address")

    monkeypatch.setattr(Execution, "open", unreachable)
    for agents in (EXPERIMENT.agents[1:], (*EXPERIMENT.agents, Entry("random"))):
        changed = replace(EXPERIMENT, agents=agents, seeds=5)
        with pytest.raises(ValueError, match="no cluster"):
            run_experiment(changed, copy)
        assert contents(copy) == before


def test_what_cannot_be_moved_aside_is_named_before_anything_is_moved(copy):
    folder = next((copy / "runs").glob("*/continuing-psrl*"))
    shutil.copytree(folder, copy / "aside" / folder.relative_to(copy / "runs"))
    before = contents(copy)
    with pytest.raises(ValueError, match=r"continuing-psrl.* is there already: move one"):
        run_experiment(replace(EXPERIMENT, agents=EXPERIMENT.agents[1:]), copy)
    assert contents(copy) == before
