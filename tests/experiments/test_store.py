"""The store: whole or not at all, exactly once, damage noticed, no code run."""

import io
import json
import multiprocessing
import os
import pickle
import resource
from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import polars
import pytest

from cpsrl.experiments import Entry
from cpsrl.experiments import store as module
from cpsrl.experiments.files import (
    locked,
    read_json,
    write_file,
    write_json,
)
from cpsrl.experiments.provenance import Provenance
from cpsrl.experiments.store import Checkpoint, Group, check_strangers
from cpsrl.simulation import Runs
from cpsrl.support.serialise import DamagedError, sha256

RIVER, AGENT = Entry("riverswim", label="river"), Entry("psrl", label="agent, gamma=0.9")
VERSIONS = ((0, Provenance({"numpy": "1.0"}, "a")), (20, Provenance({"numpy": "1.1"}, "a")))


@pytest.fixture
def group(tmp_path):
    return Group(RIVER, AGENT, (3, 1, 4), tmp_path / "runs/river/agent/0000", "this experiment")


def stored(group, step, seed=0):
    rng = np.random.default_rng(seed)
    times = np.arange(10, step + 1, 10)
    shape = (3, len(times))
    state = tuple(
        {
            "step": step,
            "streams": {"belief": {"state": 2**127 + run, "inc": 1}},
            "agent": {"counts": rng.random((2, 2)), "flags": [True, np.arange(3)], "none": None},
            "sum": float("nan"),
        }
        for run in range(3)
    )
    runs = Runs(
        times=times,
        regret=rng.random(shape),
        resamples=rng.integers(0, 9, shape),
        seeds=np.array(group.runs),
        agent=(group.agent.called,) * 3,
        environment=(group.environment.called,) * 3,
        gain=np.array([0.1 + 0.2, 1 / 3, 2.0]),
        seed=2**70,
        at_end=state,
    )
    return Checkpoint(step, runs, VERSIONS)


def assert_same(one, other):
    assert (one.step, one.versions) == (other.step, other.versions)
    np.testing.assert_equal(one.runs.state, other.runs.state)
    for name in (item.name for item in fields(Runs)):
        np.testing.assert_equal(getattr(one.runs, name), getattr(other.runs, name), name)


def tidied(group):
    """The group after what the next writer does first."""
    for path in group.path.parent.glob(".*.tmp"):
        path.unlink()
    group.mend()
    return group


def files(group):
    return sorted(p.name for p in group.path.parent.rglob("*") if p.is_file())


def test_what_is_written_is_read(group):
    assert group.read() is None
    group.write(stored(group, 100))
    assert_same(group.read(), stored(group, 100))
    assert group.read(states=False).runs.state is None


def test_the_later_state_replaces_the_earlier_one(group):
    group.write(stored(group, 100))
    group.write(stored(group, 200, seed=1))
    assert_same(group.read(), stored(group, 200, seed=1))
    assert files(group) == ["0000.checkpoint", "0000.parquet"]


def test_any_reader_of_parquet_finds_every_point_once(group, tmp_path):
    other = replace(group, runs=(5, 9, 2), path=group.path.with_name("0001"))
    for one in (group, other):
        one.write(stored(one, 100))
        one.write(stored(one, 200))
    table = polars.read_parquet(tmp_path / "**/*.parquet")
    assert table.columns == stored(group, 200).runs.to_polars().columns
    assert len(table) == 2 * 3 * 20 == table.select("seed", "step").n_unique()
    first = table.filter(polars.col("seed") == 3)
    np.testing.assert_array_equal(first["regret"], stored(group, 200).runs.regret[0])


def test_curves_get_the_labels_that_the_group_has_now(group):
    group.write(stored(group, 100))
    renamed = replace(group, agent=replace(AGENT, label="another name"))
    assert renamed.read().runs.agent == ("another name",) * 3
    renamed.mend()
    table = polars.read_parquet(group.path.with_suffix(".parquet"))
    assert table["agent"].unique().to_list() == ["another name"]


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the store may catch it."""


@pytest.mark.parametrize("fatal", range(11))
def test_a_crash_at_any_system_call_leaves_one_whole_state(group, monkeypatch, fatal):
    before, after = stored(group, 100), stored(group, 200, seed=1)
    group.write(before)
    calls = 0

    def dying(real):
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls > fatal:
                raise Killed
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("open", "fsync", "replace", "unlink"):
            patch.setattr(os, name, dying(getattr(os, name)))
        try:
            group.write(after)
            assert fatal == 10, f"the write takes {calls} calls: try all of them"
        except Killed:
            pass
    found = group.read()
    assert_same(found, after if found.step == 200 else before)
    table = polars.read_parquet(group.path.with_suffix(".parquet"))
    assert 30 <= len(table) <= 3 * found.step / 10
    assert_same(tidied(group).read(), found)
    table = polars.read_parquet(group.path.with_suffix(".parquet"))
    assert len(table) == 3 * found.step / 10
    assert len(files(group)) == 2
    group.write(after)
    assert_same(group.read(), after)


@pytest.mark.parametrize("fatal", range(1, 6))
def test_a_crash_in_the_first_write_of_all_leaves_nothing_or_everything(group, monkeypatch, fatal):
    calls = 0
    real = os.fsync

    def fsync(file):
        nonlocal calls
        calls += 1
        if calls == fatal:
            raise Killed
        real(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with suppress(Killed):
            group.write(stored(group, 100))
    if (found := group.read()) is not None:
        assert_same(found, stored(group, 100))
    assert len(files(tidied(group))) == (2 if found else 0)


def mutate(data, rng):
    """A seeded piece of damage: bits flipped, an end or a piece lost, noise added, all replaced."""
    data = bytearray(data)
    place, kind = int(rng.integers(len(data))), rng.integers(6)
    if kind <= 1:
        data[place] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        del data[place:]
    elif kind == 3:
        del data[place : place + int(rng.integers(1, 64))]
    elif kind == 4:
        data[place:place] = rng.bytes(int(rng.integers(1, 64)))
    else:
        data[:] = rng.bytes(len(data))
    return bytes(data)


def test_every_mutation_of_a_checkpoint_is_noticed_and_named(group):
    group.write(stored(group, 100))
    good = group.checkpoint.read_bytes()
    rng = np.random.default_rng(9)
    for _ in range(300):
        bad = mutate(good, rng)
        group.checkpoint.write_bytes(bad)
        if bad != good:
            with pytest.raises(DamagedError, match=r"0000\.checkpoint is damaged"):
                group.read()
    group.checkpoint.write_bytes(good)
    assert_same(group.read(), stored(group, 100))


def test_files_of_other_experiments_and_runs_are_strangers(group):
    for other in (replace(group, identity="another"), replace(group, runs=(0, 1, 2))):
        other.write(stored(other, 100))
        with pytest.raises(DamagedError, match=r"0000\.checkpoint.* is "):
            group.read()
        other.remove()
        assert files(group) == []


def test_a_stranger_among_the_runs_is_named(group, tmp_path):
    group.write(stored(group, 100))
    check_strangers(tmp_path, [group])
    write_file(tmp_path / "runs/river/extra.parquet", b"")
    with pytest.raises(DamagedError, match=r"extra.parquet .* this experiment did not write it"):
        check_strangers(tmp_path, [group])


class Trap:
    def __reduce__(self):
        return (os._exit, (13,))


def rewritten(group, change):
    """Write the head of a checkpoint anew with another content, every checksum right."""
    with open(group.checkpoint, "rb") as file:
        head, states = module._next(file), module._next(file)
    change(head, states)
    write_file(group.checkpoint, module._part(head) + module._part(states))


def test_pickles_are_never_opened(group, monkeypatch):
    """An author of a directory can make every checksum fit; still nothing of theirs is run."""
    group.write(stored(group, 100))
    file = io.BytesIO()
    np.savez(file, a0=np.array([Trap()], dtype=object))
    for payload in (pickle.dumps(Trap()), file.getvalue()):
        with monkeypatch.context() as patch:
            text = '[{"$array": ["a0", 0, [1]]}]'
            checksum = sha256(text.encode() + b"\0" + payload)
            patch.setattr(module, "sealed", lambda tree, p=payload, t=text, c=checksum: (t, p, c))
            write_file(group.checkpoint, module._part(None))
        with pytest.raises(DamagedError, match=r"\.checkpoint .* not what was written"):
            group.read()


@pytest.mark.parametrize(
    "change",
    [
        {"format": 1},
        {"step": "100"},
        {"step": 200},
        {"gain": [1.0]},
        {"gain": None},
        {"regret": [[1.0]]},
        {"regret": np.zeros((3, 7))},
        {"times": None},
        {"versions": [[0, {"numpy": 1}]]},
    ],
)
def test_a_head_that_does_not_make_sense_is_damage(group, change):
    group.write(stored(group, 100))
    rewritten(group, lambda head, states: head.update(change))
    with pytest.raises(DamagedError, match="damaged"):
        group.read()


@pytest.mark.parametrize("change", [{}, {"$array": ["<f8", 10**9, [4]]}, {"step": 7}])
def test_states_that_do_not_make_sense_are_damage(group, change):
    group.write(stored(group, 100))
    rewritten(group, lambda head, states: states.__setitem__(0, change))
    with pytest.raises(DamagedError, match="damaged"):
        group.read()


def test_deeply_nested_json_is_damage(tmp_path):
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(DamagedError, match=r"x\.json"):
        read_json(tmp_path / "x.json")


def test_a_full_disk_loses_nothing_and_says_so(group):
    """A limit on the size of files stands for the full disk: the same error, from the same call."""
    group.write(stored(group, 100))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limit[1]))
    try:
        with pytest.raises(OSError, match=r"cannot write .*0000.*: "):
            group.write(stored(group, 5_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert_same(group.read(), stored(group, 100))
    assert len(files(tidied(group))) == 2


def _hold(directory, ready, done):
    with locked(directory):
        ready.set()
        done.wait(30)


def test_the_second_process_is_told_who_is_at_work(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path, ready, done))
    process.start()
    try:
        assert ready.wait(30)
        with (
            pytest.raises(ValueError, match=f"in use: process {process.pid} is working on it"),
            locked(tmp_path),
        ):
            pass
    finally:
        done.set()
        process.join(30)
    with locked(tmp_path):
        pass


def test_json_carries_numbers_exactly(tmp_path):
    content = {"a": [0.1 + 0.2, 1e-320, 2**200, float("inf")], "b": "ä\u2028"}
    write_json(tmp_path / "x.json", content)
    assert read_json(tmp_path / "x.json") == content
    assert json.loads((tmp_path / "x.json").read_text())["content"] == content
