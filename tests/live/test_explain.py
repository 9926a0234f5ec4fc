import json

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.live.explain import interval_of
from cpsrl.planning import solve_average

STATES, ACTIONS = ["low", "high"], ["stay", "climb"]


def taught(folder, spec, rows=400):
    """An agent that has learnt that climbing pays: in `high` a step earns 1, in `low` nothing."""
    agent = cpsrl.open(folder / "agent.db", spec, (STATES, ACTIONS))
    rng = np.random.default_rng(0)
    log = []
    for _ in range(rows):
        s, a = rng.integers(2, size=2).tolist()
        up = rng.random() < (0.1 + 0.7 * a)
        log.append((STATES[s], ACTIONS[a], float(s), STATES[int(up)]))
    agent.learn(log)
    agent.decide("low")
    return agent


@pytest.mark.parametrize("spec", [cpsrl.ContinuingPSRL(0.9), cpsrl.TSDE()])
def test_it_says_what_is_best_and_how_sure_it_is(folder, spec):
    agent = taught(folder, spec)
    before, event = agent.agent.state(), agent.event
    said = agent.explain("low")
    stay, climb = said.actions
    assert climb.probability > 0.99
    assert stay.probability + climb.probability == pytest.approx(1)
    assert stay.visits + climb.visits == pytest.approx(200, abs=40)
    assert climb.value.low <= climb.value.median <= climb.value.high
    assert stay.value.high < climb.value.high
    assert said.gain.low < 0.8 < said.gain.high
    assert said.action == "climb"
    assert (said.drawn["decision"], said.drawn["why"]) == (0, "the first step")
    assert equal(agent.agent.state(), before)
    assert agent.event == event
    assert agent.explain("low") == said
    assert json.loads(said.to_json())["gain"]["median"] == said.gain.median
    text = str(said)
    assert "state low: it would take climb now" in text
    assert "optimal gain" in text
    with pytest.raises(ValueError, match="state must be one of low, high"):
        agent.explain("middle")
    with pytest.raises(ValueError, match="draws must be a whole number of at least 39"):
        agent.explain("low", draws=10)
    agent.close()


def test_actions_have_their_names_and_none_is_chosen_before_the_first_draw(folder):
    with cpsrl.open(folder / "agent.db", cpsrl.AdaptivePSRL(), (STATES, ACTIONS)) as agent:
        text = str(agent.explain("low"))
    assert text.startswith("state low: no action is chosen yet\n")
    assert "share of deterministic pairs, action stay " in text
    assert "share of deterministic pairs, action climb " in text


def test_values_of_the_average_are_what_an_action_loses(folder):
    said = taught(folder, cpsrl.TSDE()).explain("low")
    assert said.actions[1].value.median == 0
    assert said.actions[0].value.high < 0


def test_a_large_model_is_solved_as_a_small_one_is(folder):
    """The same draws, planned by the solvers of large models, give the same answers."""
    agent = taught(folder, cpsrl.ContinuingPSRL(0.9), rows=40)
    belief = agent.agent.belief
    models = [belief.sample(np.random.default_rng(i)) for i in range(99)]
    gains = interval_of([solve_average(model).gain[0] for model in models])
    said = agent.explain("low", draws=999)
    assert said.gain.median == pytest.approx(gains.median, abs=0.3)
    agent.close()


@pytest.mark.parametrize("name", ["ucrl2", "differential-q", "random"])
def test_agents_that_believe_nothing_say_what_they_have(folder, name):
    agent = taught(folder, cpsrl.agents.AGENTS.make(name))
    said = agent.explain("high")
    assert said.gain is None
    assert all(one.probability is None for one in said.actions)
    assert sum(one.visits for one in said.actions) > 150
    assert "visits" in str(said)
    agent.close()


def test_networks_say_what_their_functions_say(folder):
    pytest.importorskip("jax")
    spec = cpsrl.BootstrappedDQN(members=4, hidden=(8,), batch=4, capacity=50)
    mdp = cpsrl.environment("riverswim", features="one-hot")
    with cpsrl.open(folder / "agent.db", spec, mdp) as agent:
        for _ in range(5):
            agent.observe(5, "right", 1.0, 5)
        agent.decide(5)
        said = agent.explain(5)
        assert sum(one.probability for one in said.actions) == pytest.approx(1)
        assert said.actions[1].visits == 5
        assert said.gain is None
        assert said.action in ("left", "right")


def test_the_interval_is_exact_where_it_can_be():
    """Of 999 draws the 25th and the 975th: 950 of the 1,000 places that a truth may have."""
    found = interval_of(np.arange(1, 1000))
    assert (found.low, found.high) == (25, 975)
    assert found.median == 500


POLICIES = {
    "one action most of the time": lambda rng, s: int(rng.random() < 0.1),
    "any action": lambda rng, s: int(rng.integers(2)),
    "by the state": lambda rng, s: s % 2,
}
FAR_REWARDS = pytest.mark.filterwarnings("ignore:a reward of")
"""Some truths that the prior expects have rewards a good way outside of [0, 1]."""
PRIOR = cpsrl.NormalGamma(mu0=0.5, n_mu=1.0, tau0=4.0, n_tau=8.0)


def covered(folder, policy, truths, draws, steps=60):
    """How many of `truths` optimal gains lie in the intervals, truths being drawn from the prior.

    Rewards are normal with a mean and a precision of their own, as the prior has it.
    """
    n_states, n_actions = 3, 2
    spec = cpsrl.PSRL(cpsrl.EveryStep(), cpsrl.Average(), cpsrl.Dirichlet(rewards=PRIOR))
    inside = 0
    for number in range(truths):
        rng = np.random.default_rng((number, len(policy)))
        transitions = rng.dirichlet(np.full(n_states, 1 / n_states), (n_states, n_actions))
        precision = rng.gamma(PRIOR.n_tau / 2, 2 * PRIOR.tau0 / PRIOR.n_tau, transitions.shape[:2])
        means = rng.normal(PRIOR.mu0, 1 / np.sqrt(PRIOR.n_mu * precision))
        log, s = [], 0
        for _ in range(steps):
            a = POLICIES[policy](rng, s)
            after = int(rng.choice(n_states, p=transitions[s, a]))
            log.append((s, a, float(rng.normal(means[s, a], precision[s, a] ** -0.5)), after))
            s = after
        with cpsrl.open(folder / f"{number}.db", spec, (n_states, n_actions)) as agent:
            agent.learn(log)
            said = agent.explain(0, draws)
        for file in folder.iterdir():
            file.unlink()
        gain = solve_average(cpsrl.TabularMDP(transitions, means)).gain[0]
        inside += said.gain.low <= gain <= said.gain.high
    return inside


@pytest.mark.slow
@FAR_REWARDS
@pytest.mark.parametrize("policy", POLICIES)
def test_the_interval_covers_95_of_100_truths_whoever_has_chosen(folder, policy):
    """929 to 971 of 1,000: three standard deviations of a binomial."""
    assert 929 <= covered(folder, policy, 1000, 199) <= 971


@FAR_REWARDS
def test_the_interval_covers_most_truths(folder):
    """Of 60 truths 57 on average, and 50 or fewer once in 1,500 times; seeded."""
    assert covered(folder, "any action", 60, 199) > 50


@pytest.mark.parametrize("spec", [cpsrl.ContinuingPSRL(0.9), cpsrl.TSDE()])
def test_actions_that_are_not_there_are_not_spoken_of(folder, spec):
    sizes = cpsrl.Sizes(2, 3, available=[[True, False, True], [True, True, True]])
    with cpsrl.open(folder / "agent.db", spec, sizes) as agent:
        with pytest.raises(ValueError, match="not available"):
            agent.learn([(0, 1, 0.5, 1)])
        agent.learn([(0, 2, 1.0, 1), (1, 0, 0.0, 0)] * 20)
        assert {agent.decide(0).action for _ in range(50)} <= {0, 2}
        said = agent.explain(0, 199)
        assert [one.action for one in said.actions] == [0, 2]
        assert sum(one.probability for one in said.actions) == pytest.approx(1)
        assert len(agent.explain(1, 199).actions) == 3


@pytest.mark.parametrize(
    ("objective", "beyond"), [(cpsrl.Discounted(), -5 / (1 - 0.5)), (cpsrl.Average(), 0)]
)
def test_networks_answer_in_the_units_of_the_rewards(folder, objective, beyond):
    """The same data in other units: values are those of the first, times 10, minus 5 a step.

    Values relative to each other, those for the average reward, have no such step.
    """
    pytest.importorskip("jax")
    small = {"members": 3, "hidden": (8,), "batch": 4, "capacity": 50}
    spec = cpsrl.BootstrappedDQN(0.5, objective=objective, **small)
    said = []
    for low, width in ((0, 1), (-5, 10)):
        with cpsrl.open(folder / f"{width}.db", spec, (2, 2, (low, low + width))) as agent:
            for t in range(8):
                agent.observe([t % 2, 1], t % 2, low + width * t / 8, [(t + 1) % 2, 1])
            agent.decide([1, 1])
            said.append(agent.explain([1, 1], 99).actions[0].value.median)
    assert said[1] == pytest.approx(10 * said[0] + beyond, rel=1e-4)


def test_a_best_action_loses_nothing_at_all(folder):
    with cpsrl.open(folder / "agent.db", cpsrl.TSDE(), (3, 2)) as agent:
        for one in agent.explain(0, 199).actions:
            assert one.value.high == 0.0
            assert (one.value.median == 0.0) == (one.probability > 0.5)
