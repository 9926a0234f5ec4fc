"""Agents that are plain objects: a generator for every run, and going on or being told why not."""

import random
from dataclasses import dataclass

import numpy as np
import pytest

import cpsrl
from cpsrl.agents import Agent, LiveAgent

RIVER = cpsrl.environment("riverswim")


class Wanderer:
    """Acts at random, with the generator it is given."""

    def seed(self, rng):
        self.rng = rng

    def act(self, state):
        return int(self.rng.integers(2))

    def observe(self, state, action, reward, next_state):
        pass


class LastingWanderer(Wanderer):
    def state(self):
        return {}

    def restore(self, state):
        pass


class OwnRandomness:
    def __init__(self, generator):
        self.parts = [{"generator": generator}]

    def act(self, state):
        return 0

    def observe(self, state, action, reward, next_state):
        pass


def actions(runs):
    return [path["actions"].tolist() for path in runs.trajectory]


def test_every_run_gets_a_generator_of_its_own():
    runs = cpsrl.simulate(Wanderer(), RIVER, 60, 3, trajectory=True)
    first, second, third = actions(runs)
    assert first != second != third != first
    alone = cpsrl.simulate(Wanderer(), RIVER, 60, [2], trajectory=True)
    assert actions(alone) == [third]
    other = cpsrl.simulate(Wanderer(), RIVER, 60, [2], seed=1, trajectory=True)
    assert actions(other) != [third]


def test_the_generator_goes_on_where_it_was():
    whole = cpsrl.simulate(LastingWanderer(), RIVER, 100, 2, trajectory=True)
    half = cpsrl.simulate(LastingWanderer(), RIVER, 40, 2)
    rest = cpsrl.simulate(LastingWanderer(), RIVER, 60, 2, resume=half.state, trajectory=True)
    assert actions(rest) == [path[40:] for path in actions(whole)]
    np.testing.assert_array_equal(rest.regret[:, -1], whole.regret[:, -1])


@pytest.mark.parametrize(
    "generator", [np.random.default_rng(0), np.random.RandomState(0), random.Random(0)]
)
def test_a_generator_that_all_runs_would_share_is_refused(generator):
    with pytest.raises(ValueError, match=r"OwnRandomness has a random generator.*seed\(rng\)"):
        cpsrl.simulate(OwnRandomness(generator), RIVER, 10, 2)


def test_runs_without_a_state_cannot_go_on_from_it():
    runs = cpsrl.simulate(Wanderer(), RIVER, 10, 2)
    assert runs.state is None
    with pytest.raises(ValueError, match=r"resume is None: .*no state\(\) and restore\(state\)"):
        cpsrl.simulate(Wanderer(), RIVER, 10, 2, resume=runs.state)
    with pytest.raises(ValueError, match="resume has 0 states for 2 seeds"):
        cpsrl.simulate(Wanderer(), RIVER, 10, 2, resume=[])


class OwnStateAgent(LiveAgent):
    """Has a `state` of its own, in which there is nothing of the streams."""

    def __init__(self, spec, problem, streams):
        self.spec, self.problem, self.streams, self.turn = spec, problem, streams, 0

    def act(self, state):
        return self.turn % 2

    def observe(self, state, action, reward, next_state):
        self.turn += 1

    def state(self):
        return {"turn": self.turn}

    def restore(self, state):
        self.turn = state["turn"]


class NotALiveAgent:
    def __init__(self):
        self.turn = 0

    act, observe = OwnStateAgent.act, OwnStateAgent.observe
    state, restore = OwnStateAgent.state, OwnStateAgent.restore


@dataclass(frozen=True)
class Own(Agent):
    live: type = OwnStateAgent
    label: str = "own"

    def start(self, problem, streams):
        return self.live(self, problem, streams) if self.live is OwnStateAgent else self.live()


@pytest.mark.parametrize("live", [OwnStateAgent, NotALiveAgent])
def test_an_agent_with_a_state_of_its_own_goes_on(live, tmp_path, monkeypatch):
    whole = cpsrl.simulate(Own(live), RIVER, 100, 3)
    half = cpsrl.simulate(Own(live), RIVER, 40, 3)
    rest = cpsrl.simulate(Own(live), RIVER, 60, 3, resume=half.state)
    np.testing.assert_array_equal(rest.regret[:, -1], whole.regret[:, -1])
    monkeypatch.setitem(cpsrl.agents.AGENTS._factories, "own", lambda: Own(live))
    experiment = cpsrl.Experiment("own", ("riverswim",), ("own",), 40, 3)
    cpsrl.run_experiment(experiment, tmp_path)
    cpsrl.experiments.continue_experiment(tmp_path, 60)
    np.testing.assert_array_equal(cpsrl.load(tmp_path).regret[:, -1], whole.regret[:, -1])
