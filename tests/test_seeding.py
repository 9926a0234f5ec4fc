import json

import numpy as np
import pytest

from cpsrl.seeding import STREAMS, Streams, stream


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


def test_run_numbers_that_could_meet_another_seed_are_refused():
    for run in (2**32, 7 * 2**32 + 3):
        with pytest.raises(ValueError, match=r"run must be below 2\^32"):
            Streams(5, run)
    last = Streams(5, 2**32 - 1).state()
    assert last != Streams(5 + 2**160 - 2**128, 5).state()
