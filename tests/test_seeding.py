import hashlib
import json

import numpy as np
import pytest

import cpsrl
from cpsrl import seeding
from cpsrl._private.variates import standard_gamma, uniform
from cpsrl.seeding import MOST_RUN, STREAMS, Streams, first_words, stream, words_of

SEEDS = [0, 1, 7, 2**31, 2**32 - 1, 2**32, 2**64 - 1, 2**64, 2**96 + 5]
SEEDS += [2**127, 2**128 - 1, 2**128, 2**128 + 2**64, 3**150, 2**256 - 1, 2**1000]
RUNS = [0, 1, 2, 255, 65_536, 2**31, 2**32 - 1]


def test_a_stream_is_the_child_of_its_seed_run_and_number():
    for number, name in enumerate(STREAMS):
        sequence = np.random.SeedSequence(11, spawn_key=(3, number))
        right = np.random.Generator(np.random.PCG64(sequence)).random(5)
        np.testing.assert_array_equal(stream(11, 3, name).random(5), right)
        np.testing.assert_array_equal(getattr(Streams(11, 3), name).random(5), right)


def test_all_streams_of_all_runs_and_seeds_differ():
    firsts = {
        stream(seed, run, name).random()
        for seed in range(5)
        for run in range(5)
        for name in STREAMS
    }
    assert len(firsts) == 5 * 5 * len(STREAMS)


def test_the_order_of_the_streams_is_part_of_every_result():
    assert STREAMS == ("transition", "reward", "belief", "rule", "action", "model")


def test_restored_streams_go_on_where_they_stood():
    streams = Streams(1, 2)
    for steps, name in enumerate(STREAMS):
        getattr(streams, name).random(steps)
    kept = json.loads(json.dumps(streams.state()))
    ahead = [getattr(streams, name).random() for name in STREAMS]
    other = Streams(8, 9)
    other.restore(kept)
    assert [getattr(other, name).random() for name in STREAMS] == ahead


def test_a_state_with_other_streams_is_refused_and_changes_nothing():
    streams = Streams()
    before = streams.state()
    for wrong in ({}, {"belief": before["belief"]}, before | {"luck": before["rule"]}):
        with pytest.raises(ValueError, match="streams are transition, reward"):
            streams.restore(wrong)
    assert streams.state() == before


@pytest.mark.parametrize("value", [-1, 1.0, "1", True, None])
def test_seeds_and_runs_are_whole_numbers(value):
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0"):
        Streams(value, 0)
    with pytest.raises(ValueError, match="run must be a whole number of at least 0"):
        Streams(0, value)


def test_whole_numbers_of_numpy_are_welcome():
    assert Streams(np.int64(3), np.uint8(1)).state() == Streams(3, 1).state()


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.bit_length()} bits")
def test_first_words_are_those_of_numpys_seed_sequence(seed):
    words = first_words(seed, RUNS)
    assert words.shape == (len(RUNS), len(STREAMS), 4)
    for row, run in zip(words, RUNS, strict=True):
        for number in range(len(STREAMS)):
            sequence = np.random.SeedSequence(seed, spawn_key=(run, number))
            inner = np.random.PCG64(sequence).state["state"]
            low, high, more, most = map(int, row[number])
            assert (low + (high << 64), more + (most << 64)) == (inner["state"], inner["inc"])


def test_first_words_of_many_seeds():
    rng = np.random.default_rng(0)
    for _ in range(300):
        seed = int.from_bytes(rng.bytes(int(rng.integers(1, 40))), "little")
        run = int(rng.integers(2**32))
        number = int(rng.integers(len(STREAMS)))
        inner = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(run, number))).state
        assert Streams(seed, run).state()[STREAMS[number]] == inner


@pytest.mark.parametrize("run", [2**32, 2**40, 2**64])
def test_a_run_number_of_more_than_a_word_is_refused(run):
    message = f"run must be at most {MOST_RUN}, not {run}"
    river = cpsrl.environment("riverswim")
    for use in (
        lambda: first_words(0, [0, run]),
        lambda: Streams(0, run),
        lambda: stream(0, run, "rule"),
        lambda: cpsrl.start(cpsrl.TSDE(), river, run=run),
        lambda: cpsrl.simulate(cpsrl.RandomAgent(), river, 5, [run]),
    ):
        with pytest.raises(ValueError, match=message):
            use()


def used(streams):
    """Use every stream, some through a generator, some through words, some through both in turn."""
    found = []
    for i in range(3):
        found.append(streams.rule.random())
        with streams.words("transition", "belief", "reward") as (first, second, third):
            found += [uniform(first), standard_gamma(second, 0.3), uniform(third)]
        found.append(streams.belief.standard_gamma(0.7))
        with streams.words("belief") as (words,):
            found.append(standard_gamma(words, 2.5))
        if i == 1:
            found += [streams.transition.random(), streams.action.standard_normal()]
            found += streams.action.integers(0, 9, 3, dtype=np.int32).tolist()
    return found, streams.state()


@pytest.mark.parametrize("shared", [True, False])
def test_generators_and_words_are_one_stream(monkeypatch, shared):
    monkeypatch.setattr(seeding, "SHARED", shared)
    found, state = used(Streams(5, 1))
    generators = {name: stream(5, 1, name) for name in STREAMS}
    by_hand = []
    for i in range(3):
        by_hand.append(generators["rule"].random())
        by_hand.append(generators["transition"].random())
        by_hand.append(generators["belief"].standard_gamma(0.3))
        by_hand.append(generators["reward"].random())
        by_hand.append(generators["belief"].standard_gamma(0.7))
        by_hand.append(generators["belief"].standard_gamma(2.5))
        if i == 1:
            by_hand.append(generators["transition"].random())
            by_hand.append(generators["action"].standard_normal())
            by_hand += generators["action"].integers(0, 9, 3, dtype=np.int32).tolist()
    assert found == by_hand
    assert state == {name: rng.bit_generator.state for name, rng in generators.items()}
    assert state["action"]["has_uint32"] == 1  # half a word is kept for the next small integer


@pytest.mark.parametrize("shared", [True, False])
def test_restored_streams_are_lent_from_where_they_stood(monkeypatch, shared):
    monkeypatch.setattr(seeding, "SHARED", shared)
    streams = Streams(5, 1)
    used(streams)
    kept, other = streams.state(), Streams(9)
    other.belief.random()
    other.restore(kept)
    assert used(other) == used(streams)


@pytest.mark.parametrize("shared", [True, False])
def test_a_generator_used_while_its_words_are_lent_keeps_its_place(monkeypatch, shared):
    monkeypatch.setattr(seeding, "SHARED", shared)
    streams, right = Streams(2, 0), stream(2, 0, "belief")
    with streams.words("transition", "belief"):
        found = [streams.belief.random() for _ in range(3)]
    found.append(streams.belief.random())
    assert found == right.random(4).tolist()


@pytest.mark.parametrize("shared", [True, False])
def test_a_lent_generator_goes_on_after_its_words(monkeypatch, shared):
    monkeypatch.setattr(seeding, "SHARED", shared)
    rng, right = np.random.default_rng(4), np.random.default_rng(4)
    found = [rng.random()]
    with words_of(rng) as words:
        found.append(uniform(words))
    found.append(rng.random())
    assert found == right.random(3).tolist()


def test_runs_are_the_same_where_memory_cannot_be_shared(monkeypatch):
    river = cpsrl.environment("riverswim")
    agents = [cpsrl.ContinuingPSRL(0.9), cpsrl.TSDE(), cpsrl.RandomAgent(), cpsrl.UCRL2()]
    for agent in agents:
        found = []
        for shared in (True, False):
            monkeypatch.setattr(seeding, "SHARED", shared)
            first = cpsrl.simulate(agent, river, 150, 2, record=1)
            second = cpsrl.simulate(agent, river, 150, 2, record=1, resume=first.state)
            found.append((first.regret.tobytes(), second.regret.tobytes(), second.state))
        np.testing.assert_equal(*found)


def test_named_streams_are_children_by_the_hash_of_the_name():
    parent, names = Streams(5, 2), ["1", "shop-3", "Gl\u00fcck"]
    parent.rule.random(7)
    children = parent.named(names)
    assert parent.named([]) == []
    for name, child in zip(names, children, strict=True):
        key = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], "<u4").tolist()
        for stream_name in STREAMS:
            root = stream(5, 2, stream_name).bit_generator.state["state"]["inc"]
            sequence = np.random.SeedSequence(root, spawn_key=key)
            right = np.random.Generator(np.random.PCG64(sequence)).random(3)
            np.testing.assert_array_equal(getattr(child, stream_name).random(3), right)
