"""A group of runs as an actor: kept between its tasks, or started again from a checkpoint."""

import copy

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal, masked
from cpsrl import beliefs
from cpsrl.agents import Fleet
from cpsrl.simulation import Group

RIVER = cpsrl.environment("riverswim")
CHANGING = cpsrl.environment("changing", every=70)
NUMBERS = [4, 0]


class Counter:
    """Acts at random, counts, and gives its own array and its own list as its state."""

    def __init__(self):
        self.counts, self.seen = np.zeros(2, np.int64), []

    def seed(self, rng):
        self.rng = rng

    def act(self, state):
        return int(self.rng.integers(2))

    def observe(self, state, action, reward, next_state):
        self.counts[action] += 1
        self.seen.append(next_state)

    def state(self):
        return {"counts": self.counts, "seen": self.seen}

    def restore(self, state):
        self.counts, self.seen = state["counts"], state["seen"]


CASES = {
    "psrl": (cpsrl.ContinuingPSRL(0.95), RIVER),
    "a rule that looks": (cpsrl.TSDE(), masked()),
    "tuned to a horizon": (cpsrl.PSRL(cpsrl.Bernoulli(schedule="horizon")), RIVER),
    "paused": (cpsrl.PSRL(cpsrl.Bernoulli(0.9), belief=beliefs.Forgetting(half_life=50.0)), RIVER),
    "a fleet": (Fleet(3, rule=cpsrl.Bernoulli(0.9)), RIVER),
    "changing": (cpsrl.ContinuingPSRL(0.95), CHANGING),
    "no learning": (cpsrl.agents.OptimalAgent(), RIVER),
    "without a compiled loop": (cpsrl.agents.UCRL2(), RIVER),
    "plain": (Counter(), RIVER),
}


@pytest.mark.parametrize("case", CASES)
def test_tasks_of_a_group_are_the_runs_in_one(case):
    agent, mdp = CASES[case]
    whole = cpsrl.simulate(agent, mdp, 300, NUMBERS, seed=3, record=1)
    kept = Group.start(agent, mdp, NUMBERS, 3, horizon=300)
    parts, checkpoint = [], ()
    for steps in (113, 1, 186):
        again = Group.start(agent, mdp, NUMBERS, 3, 300, checkpoint)
        part, stop = again.advance(steps, 1), np.zeros(1, np.int64)
        np.testing.assert_array_equal(kept.advance(steps, 1, stop=stop).regret, part.regret)
        assert kept.step == again.step == part.times[-1]
        checkpoint = again.checkpoint()
        assert equal(list(checkpoint), list(kept.checkpoint()))
        parts.append(part)
    assert equal(list(checkpoint), list(whole.state))
    for name in ("regret", "resamples"):
        joined = np.concatenate([getattr(part, name) for part in parts], axis=1)
        np.testing.assert_array_equal(joined, getattr(whole, name))


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_stays_as_it_was_while_the_runs_go_on(case):
    agent, mdp = CASES[case]
    group = Group.start(agent, mdp, NUMBERS, horizon=300)
    group.advance(150)
    checkpoint = group.checkpoint()
    before = copy.deepcopy(checkpoint)
    first = group.advance(150, 1)
    for _ in range(2):  # a group started from it changes it as little
        again = Group.start(agent, mdp, NUMBERS, horizon=300, resume=checkpoint)
        np.testing.assert_array_equal(again.advance(150, 1).regret, first.regret)
        assert equal(list(checkpoint), list(before))


def test_a_group_that_was_interrupted_says_so():
    stop = np.zeros(1, np.int64)
    group = Group.start(cpsrl.ContinuingPSRL(), RIVER, [0, 1])

    def interrupt(steps):
        stop[0] = 1

    with pytest.raises(InterruptedError):
        group.advance(200_000, progress=interrupt, stop=stop)
    for use in (group.checkpoint, lambda: group.advance(10)):
        with pytest.raises(ValueError, match="start a group from their last checkpoint"):
            use()


def test_what_cannot_be_recorded_leaves_the_group_as_it_is():
    group = Group.start(cpsrl.TSDE(), RIVER, [0])
    group.advance(100)
    before = group.checkpoint()
    for options in ({"steps": 0}, {"steps": 5, "record": 0}, {"steps": 5, "threads": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            group.advance(**options)
    with pytest.raises(ValueError, match="discounted regret"):
        group.advance(5, discounted_regret=True)
    assert equal(list(before), list(group.checkpoint()))
