"""The store: whole or not at all, exactly once, damage noticed, no code run."""

import json
import multiprocessing
import os
import pickle
import resource
from contextlib import suppress
from dataclasses import replace

import numpy as np
import polars
import pytest

from cpsrl.experiments import Entry
from cpsrl.experiments import store as module
from cpsrl.experiments.files import (
    COLUMNS,
    locked,
    read_json,
    write_file,
    write_json,
)
from cpsrl.experiments.store import Group, Store, reached
from cpsrl.simulation import Runs
from cpsrl.trees import DamagedError, sha256

RIVER, AGENT = Entry("riverswim", label="river"), Entry("psrl", label="agent, gamma=0.9")
GROUP = Group(RIVER, AGENT, (3, 1, 4), "runs/01-river/02-agent/0000")


def stored(step, seed=0, group=GROUP):
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
    return Runs(
        times=times,
        regret=rng.random(shape),
        resamples=rng.integers(0, 9, shape),
        seeds=np.array(group.runs),
        agent=(group.agent.called,) * 3,
        environment=(group.environment.called,) * 3,
        gain=np.array([0.1 + 0.2, 1 / 3, 2.0]),
        seed=2**70,
        state=state,
    )


def assert_same(one, other):
    np.testing.assert_equal(vars(one), vars(other))


def tidied(store):
    """The store after what the next writer does first."""
    for path in store.directory.rglob(".*.tmp"):
        path.unlink()
    store.tidy(GROUP, store.read(GROUP))
    return store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path, "this experiment")


def files(store):
    return sorted(p for p in store.directory.rglob("*") if p.is_file())


def test_what_is_written_is_read(store):
    assert store.read(GROUP) is None
    store.write(GROUP, stored(100))
    assert_same(store.read(GROUP), stored(100))
    assert store.read(GROUP, states=False).state is None


def test_the_later_state_replaces_the_earlier_one(store):
    store.write(GROUP, stored(100))
    store.write(GROUP, stored(200, seed=1))
    assert_same(store.read(GROUP), stored(200, seed=1))
    assert [path.name for path in files(store)] == [
        "0000-000000000200.json",
        "0000-000000000200.npz",
        "0000.parquet",
    ]


def test_any_reader_of_parquet_finds_every_point_once(store):
    other = replace(GROUP, runs=(5, 9, 2), stem="runs/01-river/02-agent/0001")
    for group in (GROUP, other):
        store.write(group, stored(100, group=group))
        store.write(group, stored(200, group=group))
    table = polars.read_parquet(store.directory / "**/*.parquet")
    assert tuple(table.columns) == COLUMNS
    assert len(table) == 2 * 3 * 20 == table.select("seed", "step").n_unique()
    first = table.filter(polars.col("seed") == 3)
    np.testing.assert_array_equal(first["regret"], stored(200).regret[0])


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the store may catch it."""


@pytest.mark.parametrize("fatal", range(15))
def test_a_crash_at_any_system_call_leaves_one_whole_state(store, monkeypatch, fatal):
    before, after = stored(100), stored(200, seed=1)
    store.write(GROUP, before)
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
            store.write(GROUP, after)
            assert fatal == 14, f"the write takes {calls} calls: try all of them"
        except Killed:
            pass
    found = store.read(GROUP)
    assert_same(found, after if reached(found) == 200 else before)
    table = polars.read_parquet(store.directory / "**/*.parquet")
    assert len(table) == 3 * reached(found) / 10
    assert_same(tidied(store).read(GROUP), found)
    assert len(files(store)) == 3
    store.write(GROUP, after)
    assert_same(store.read(GROUP), after)


@pytest.mark.parametrize("fatal", range(1, 11))
def test_a_crash_in_the_first_write_of_all_leaves_nothing_or_everything(store, monkeypatch, fatal):
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
            store.write(GROUP, stored(100))
    if (found := store.read(GROUP)) is not None:
        assert_same(found, stored(100))
    assert len(files(tidied(store))) == (3 if found else 0)


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


@pytest.mark.parametrize("ending", [".parquet", ".json", ".npz"])
def test_every_mutation_of_a_file_is_noticed_and_named(store, monkeypatch, ending):
    monkeypatch.setattr(module, "PATIENCE", (0.0,))
    store.write(GROUP, stored(100))
    (path,) = (path for path in files(store) if path.suffix == ending)
    good = path.read_bytes()
    rng = np.random.default_rng(9)
    harmless = 0
    for _ in range(150):
        bad = mutate(good, rng)
        path.write_bytes(bad)
        try:
            found = store.read(GROUP)
        except DamagedError as error:
            named = path.name in str(error)
            assert named
        else:
            # White space between the tokens of JSON is the one thing that carries nothing.
            assert ending == ".json" or bad == good
            assert_same(found, stored(100))
            harmless += 1
    assert harmless < 20
    path.write_bytes(good)
    assert_same(store.read(GROUP), stored(100))


def test_files_of_other_experiments_agents_and_runs_are_strangers(store, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", (0.0,))
    for other, its in [
        (Store(store.directory, "another experiment"), GROUP),
        (store, replace(GROUP, agent=Entry("tsde"))),
        (store, replace(GROUP, environment=Entry("random"))),
        (store, replace(GROUP, runs=(0, 1, 2))),
    ]:
        other.write(its, stored(100, group=its))
        with pytest.raises(DamagedError, match=r"0000-000000000100.json.* is "):
            store.read(GROUP)
        other.remove(its)
        assert files(store) == []


def test_a_stranger_among_the_runs_is_named(store):
    store.write(GROUP, stored(100))
    store.check_strangers([GROUP])
    write_file(store.directory / "runs/01-river/extra.parquet", b"")
    with pytest.raises(DamagedError, match=r"extra.parquet .* no part of this experiment"):
        store.check_strangers([GROUP])


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_a_missing_file_is_named(store, monkeypatch, ending):
    monkeypatch.setattr(module, "PATIENCE", (0.0,))
    store.write(GROUP, stored(100))
    for path in files(store):
        if path.suffix == ending:
            path.unlink()
    with pytest.raises(DamagedError, match="missing"):
        store.read(GROUP)


class Trap:
    def __reduce__(self):
        return (os._exit, (13,))


def test_pickles_are_never_opened(store, monkeypatch):
    """An author of a directory can make every checksum fit; still nothing of theirs is run."""
    monkeypatch.setattr(module, "PATIENCE", (0.0,))
    store.write(GROUP, stored(100))
    arrays = next(path for path in files(store) if path.suffix == ".npz")
    head_path = arrays.with_suffix(".json")
    head = read_json(head_path)
    trap = np.array([Trap()], dtype=object)
    for payload in (pickle.dumps(Trap()), trap):
        if isinstance(payload, bytes):
            arrays.write_bytes(payload)
        else:
            with open(arrays, "wb") as file:
                np.savez(file, a0=payload)
        write_json(head_path, head | {"arrays": sha256(arrays.read_bytes())})
        with pytest.raises(DamagedError, match=r"\.npz .* does not hold the arrays"):
            store.read(GROUP)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 1},
        {"step": "100"},
        {"step": 200},
        {"gain": [1.0]},
        {"gain": None},
        {"state": {}},
        {"state": [{"$array": "a99"}]},
        {"state": [{"$array": ["<f8", 10**9, [4]]}]},
        {"state": [{"$array": ["<f8", 0, ["x"]]}]},
        {"arrays": 5},
    ],
)
def test_a_header_that_does_not_make_sense_is_damage(store, monkeypatch, change):
    monkeypatch.setattr(module, "PATIENCE", (0.0,))
    store.write(GROUP, stored(100))
    path = next(path for path in files(store) if path.suffix == ".json")
    write_json(path, read_json(path) | change)
    with pytest.raises(DamagedError, match="damaged"):
        store.read(GROUP)


def test_deeply_nested_json_is_damage(tmp_path):
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(DamagedError, match=r"x\.json"):
        read_json(tmp_path / "x.json")


def test_a_full_disk_loses_nothing_and_says_so(store):
    """A limit on the size of files stands for the full disk: the same error, from the same call."""
    store.write(GROUP, stored(100))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limit[1]))
    try:
        with pytest.raises(OSError, match=r"cannot write .*0000.*: "):
            store.write(GROUP, stored(5_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert_same(store.read(GROUP), stored(100))
    assert len(files(tidied(store))) == 3


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
