"""A damaged directory: the file is named, no wrong number comes out, and repair makes it whole."""

import shutil
import warnings

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
    store,
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
def copy(sound, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "PATIENCE", (0.0,))
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
    """White space in JSON may change; curves that are gone are said to be unfinished runs."""
    expected = load(sound)
    files = stored_files(copy)
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
            assert path.suffix == ".parquet"
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
    for number, path in enumerate(stored_files(copy / "runs")):
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
    from dataclasses import replace

    run_experiment(replace(EXPERIMENT, seed=1), tmp_path / "other")
    for path in stored_files(copy / "runs"):
        shutil.copy(tmp_path / "other" / path.relative_to(copy), path)
    with pytest.raises(DamagedError, match="its experiment is "):
        load(copy)
