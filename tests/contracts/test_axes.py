"""Every registered belief with every rule and every objective: one run, however it is run."""

from functools import cache
from itertools import combinations, product

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.agents.rule_buffer import AHEAD
from cpsrl.beliefs import BELIEFS
from cpsrl.mdp import Simulator
from cpsrl.objectives import OBJECTIVES
from cpsrl.resampling import RULES
from cpsrl.seeding import Streams
from cpsrl.simulation import readable, simulate
from cpsrl.simulation.loops import Recorder, Run

NOISY = cpsrl.TabularMDP(
    np.random.default_rng(0).dirichlet(np.ones(4), (4, 2)),
    np.random.default_rng(1).random((4, 2)),
    noise="bernoulli",
    initial=np.full(4, 1 / 4),
    name="noisy",
)


def blurred(share):
    """Return the model of which a share of the steps ends anywhere."""
    return (1 - share) * NOISY.dense + share / 4, NOISY.rewards


OPTIONS = {
    "bernoulli": {"schedule": "doubling"},
    "fixed-length": {"length": 37},
    "truncated": {"span": 2.0},
    "forgetting": {"half_life": 300.0},
    "parametric": {"family": blurred, "prior": {"share": ("uniform", 0.0, 0.9)}, "points": 50},
    "tied": {"outcomes": np.tile(np.arange(4), (4, 2, 1)), "classes": [[0, 1]] * 4},
}
"""Where the defaults would exercise less, or there are none."""

EVERY = list(product(BELIEFS.names(), RULES.names(), OBJECTIVES.names()))
every = pytest.mark.parametrize(("belief", "rule", "objective"), EVERY)

LARGE = cpsrl.environment("gridworld", rows=12, columns=12)
STEPS, SPLITS = AHEAD + 200, (300, AHEAD)
"""A run of more than a stretch of the rules known in advance, split within it and at its end."""


def agent_of(belief, rule, objective):
    """Return the agent of the three parts of these names."""
    parts = RULES.make(rule, **OPTIONS.get(rule, {})), OBJECTIVES.make(objective)
    if parts[1].discounts and not parts[0].has_gamma:
        parts = parts[0], OBJECTIVES.make(objective, gamma=0.9)
    return cpsrl.PSRL(*parts, BELIEFS.make(belief, **OPTIONS.get(belief, {})))


def in_steps(spec, mdp, steps, start=None):
    """Run step by step in Python, from the beginning or from a run's state.

    Returns the trajectory, the times of resampling, and the state as `simulate` gives it.
    """
    streams = Streams(0, 3)
    horizon = steps if start is None else start["horizon"]
    simulator = Simulator(mdp, streams)
    run = Run(spec.resolve(mdp, horizon).start(mdp, streams), simulator)
    if start is not None:
        run.agent.restore(start["agent"])
        simulator.state = start["environment_state"]
        run.step, run.reward_sum = start["step"], start["reward_sum"]
    recorder = Recorder(np.zeros(0, np.int64), 100, resample_times=True, trajectory=True)
    run.recorder = recorder
    readable.advance(run, steps, lambda n: None, np.zeros(1, np.int64))
    state = {"agent": run.agent.state(), "environment_state": simulator.state}
    state |= {"step": run.step, "reward_sum": run.reward_sum}
    return recorder.trajectory(simulator.state), recorder.resample_times, state


@cache
def compiled(parts, mdp, steps):
    """Return run 3 of the agent of these parts, from `simulate`."""
    return simulate(agent_of(*parts), mdp, steps, [3], trajectory=True, resample_times=True)


def joined(paths):
    """Return the trajectory of a run from those of its parts."""
    whole = {name: np.concatenate([p[name] for p in paths]) for name in ("actions", "rewards")}
    states = [p["states"][:-1] for p in paths] + [paths[-1]["states"][-1:]]
    return whole | {"states": np.concatenate(states)}


@every
def test_the_readable_and_the_compiled_loop_give_the_same_run(belief, rule, objective):
    parts = (belief, rule, objective)
    whole = compiled(parts, NOISY, STEPS)
    path, times, state = in_steps(agent_of(*parts), NOISY, STEPS)
    assert equal(path, whole.trajectory[0])
    assert np.array_equal(times, whole.resample_times[0])
    assert equal(whole.state[0] | state, whole.state[0])


@every
def test_a_run_stopped_and_resumed_is_the_run_in_one(belief, rule, objective):
    parts = (belief, rule, objective)
    whole, spec = compiled(parts, NOISY, STEPS), agent_of(*parts)
    ends, start, runs = (*SPLITS, STEPS), (), []
    for first, last in zip((0, *SPLITS), ends, strict=True):
        options = {"trajectory": True, "resample_times": True, "resume": start}
        runs.append(simulate(spec, NOISY, last - first, [3], **options))
        start = runs[-1].state
    assert equal(joined([part.trajectory[0] for part in runs]), whole.trajectory[0])
    times = np.concatenate([part.resample_times[0] for part in runs])
    assert np.array_equal(times, whole.resample_times[0])
    assert equal(start[0], whole.state[0])


@every
def test_a_live_agent_takes_over_from_the_compiled_loop_and_hands_back(belief, rule, objective):
    parts = (belief, rule, objective)
    whole, spec = compiled(parts, NOISY, STEPS), agent_of(*parts)
    first = simulate(spec, NOISY, SPLITS[0], [3], trajectory=True)
    path, _, state = in_steps(spec, NOISY, 400, first.state[0])
    middle = first.state[0] | state
    rest = STEPS - SPLITS[0] - 400
    last = simulate(spec, NOISY, rest, [3], resume=[middle], trajectory=True)
    paths = [first.trajectory[0], path, last.trajectory[0]]
    assert equal(joined(paths), whole.trajectory[0])
    assert equal(last.state[0], whole.state[0])


def few_steps(rule):
    return 6 if rule == "every-step" else 60


@pytest.mark.parametrize("objective", OBJECTIVES.names())
@pytest.mark.parametrize("rule", RULES.names())
def test_the_same_where_the_model_is_sparse(rule, objective):
    """The live form of a large model brings no compiled functions: its transitions wait."""
    parts, steps = ("dirichlet", rule, objective), few_steps(rule)
    spec, whole = agent_of(*parts), compiled(parts, LARGE, steps)
    path, times, state = in_steps(spec, LARGE, steps)
    assert equal(path, whole.trajectory[0])
    assert np.array_equal(times, whole.resample_times[0])
    assert equal(whole.state[0] | state, whole.state[0])
    half = steps // 2
    first = simulate(spec, LARGE, half, [3])
    second = simulate(spec, LARGE, steps - half, [3], resume=first.state)
    assert equal(second.state[0], whole.state[0])
    if rule == "never":
        assert len(first.state[0]["agent"]["backlog"]["rows"]) == half


def test_a_truncated_belief_is_not_for_a_large_model():
    with pytest.raises(ValueError, match="144 states are too many"):
        simulate(agent_of("truncated", "never", "average"), LARGE, 5, 1)


@pytest.mark.parametrize("axis", range(3), ids=["belief", "rule", "objective"])
def test_every_part_makes_a_difference(axis):
    """Of two parts of a kind, there is a pair of agents that differ in them and in what they do."""
    done = {}
    for parts in EVERY:
        rest = parts[:axis] + parts[axis + 1 :]
        path = compiled(parts, NOISY, STEPS).trajectory[0]["actions"]
        done.setdefault(parts[axis], {})[rest] = path.tobytes()
    for one, other in combinations(done.values(), 2):
        assert any(one[rest] != other[rest] for rest in one)
