"""Every registered belief of networks with every rule and objective: one run, however it is run."""

from functools import cache
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from contracts.test_axes import NOISY, in_steps
from cpsrl.experiments import Entry, Experiment
from cpsrl.experiments.entry import make_agent
from cpsrl.networks import NETWORK_BELIEFS, ValueSampling
from cpsrl.objectives import OBJECTIVES, Discounted
from cpsrl.resampling import RULES

pytestmark = pytest.mark.skipif(not find_spec("jax"), reason="networks need JAX")

SMALL = {
    "members": {"members": 3, "mask": 0.5, "hidden": (6,)},
    "heads": {"members": 3, "mask": 0.5, "hidden": (6,)},
    "hypermodel": {"dimension": 2, "functions": 3, "noise": 0.1, "hidden": (6,)},
}
"""Few and small functions; where the defaults are, they would take long to compile."""
AHEAD = [name for name in RULES.names() if not RULES.make(name).needs_counts]
OPTIONS = {"bernoulli": {"gamma": 0.9}, "fixed-length": {"length": 7}}
STEPS, SPLIT = 90, 40

every = pytest.mark.parametrize(
    ("belief", "rule", "objective"),
    list(product(NETWORK_BELIEFS.names(), AHEAD, OBJECTIVES.names())),
)
TABLE = cpsrl.TabularMDP(
    NOISY.dense, NOISY.rewards, noise="bernoulli", initial=NOISY.initial, features=np.eye(4)
)


def agent_of(belief, rule, objective):
    """Return the agent of the three parts of these names."""
    when, what = RULES.make(rule, **OPTIONS.get(rule, {})), OBJECTIVES.make(objective)
    if what.discounts:
        what = Discounted(0.8)
    functions = NETWORK_BELIEFS.make(belief, **SMALL.get(belief, {}))
    return ValueSampling(when, what, functions, batch=4, target_every=7, capacity=60)


@cache
def compiled(parts, steps=STEPS):
    """Return run 3 of the agent of these parts, from `simulate`."""
    return cpsrl.simulate(agent_of(*parts), TABLE, steps, [3], trajectory=True)


@every
def test_the_readable_and_the_compiled_loop_give_the_same_run(belief, rule, objective):
    whole = compiled((belief, rule, objective))
    path, _, state = in_steps(agent_of(belief, rule, objective), TABLE, STEPS)
    assert equal(path, whole.trajectory[0])
    assert equal(state["agent"], whole.state[0]["agent"], rounding=True)


@every
def test_a_run_stopped_and_resumed_is_the_run_in_one(belief, rule, objective):
    parts = (belief, rule, objective)
    whole, first = compiled(parts), compiled(parts, SPLIT)
    rest = cpsrl.simulate(agent_of(*parts), TABLE, STEPS - SPLIT, [3], resume=first.state)
    assert equal(rest.state[0], whole.state[0])
    again = cpsrl.simulate(agent_of(*parts), TABLE, SPLIT, [3], trajectory=True)
    assert equal(again.state[0], first.state[0])
    assert equal(again.trajectory[0], first.trajectory[0])


@every
def test_a_live_agent_goes_on_from_its_state(belief, rule, objective):
    """Bit for bit, and from the compiled loop's as well."""
    spec, first = agent_of(belief, rule, objective), compiled((belief, rule, objective), SPLIT)
    path, _, state = in_steps(spec, TABLE, 20, first.state[0])
    rest = first.state[0] | state
    whole = in_steps(spec, TABLE, 30, first.state[0])[2]
    assert equal(in_steps(spec, TABLE, 10, rest)[2], whole)
    taken = compiled((belief, rule, objective)).trajectory[0]["actions"]
    assert np.array_equal(path["actions"], taken[SPLIT : SPLIT + 20])


@pytest.mark.parametrize("objective", OBJECTIVES.names())
@pytest.mark.parametrize("belief", NETWORK_BELIEFS.names())
def test_a_durable_agent_goes_on_from_its_file(belief, objective, tmp_path):
    spec = agent_of(belief, "bernoulli", objective)
    live, decided = cpsrl.start(spec, TABLE), []
    for t in range(24):
        decided.append(live.decide(t % 4))
        live.learn(t % 4, decided[-1], t % 3 / 2, (t + 1) % 4)
    for first in (0, 12):  # closed and opened again in between
        with cpsrl.open(tmp_path / "agent.db", spec, TABLE) as agent:
            for t in range(first, first + 12):
                decision = agent.decide(t % 4)
                assert decision.action == decided[t]
                agent.outcome(decision.id, t % 3 / 2, (t + 1) % 4)
            found = agent.agent.state()
    assert equal(found["learner"], live.state()["learner"])


@pytest.mark.parametrize("objective", OBJECTIVES.names())
@pytest.mark.parametrize("belief", NETWORK_BELIEFS.names())
def test_parts_are_made_by_name(belief, objective):
    """In a specification, which can be written to a file and read again."""
    spec = agent_of(belief, "bernoulli", objective)
    options = {
        "rule": {"name": "bernoulli", "gamma": 0.9},
        "objective": "average" if objective == "average" else {"name": objective, "gamma": 0.8},
        "belief": {"name": belief, **SMALL.get(belief, {})},
        "batch": 4,
        "target_every": 7,
        "capacity": 60,
    }
    seen = Entry("riverswim", {"features": "one-hot"})
    for entry in (Entry("value-sampling", options), Entry(spec)):
        again = Experiment.from_toml(Experiment("x", (seen,), (entry,), 10).to_toml())
        assert make_agent(again.all_agents[0]) == spec
