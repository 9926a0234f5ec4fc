"""How far do V*_gamma and lambda / (1 - gamma) lie apart? A search for the worst MDP.

Lemma 3.3 and eq. 5 of the paper, and what is true instead, are inequalities between the
discounted optimal value, the optimal gain, and either the reward averaging time tau of a
bias-optimal policy or the span of its bias. `ratios` computes left side over right side for one
MDP, the worst over gammas and states; `random_mdp` draws MDPs of many shapes; `climb` changes
one, at random, as long as that makes a ratio larger.
"""

from collections.abc import Sequence

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.planning import classify, reward_averaging_time, solve_average, solve_discounted, span
from cpsrl.support.types import Floats

GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)

RATIOS = {
    "upper/tau": "max over s of V*(s) - lambda/(1 - gamma), over tau",
    "lower/tau": "max over s of lambda/(1 - gamma) - V*(s), over tau",
    "upper/span": "max over s of V*(s) - lambda/(1 - gamma), over the span of the bias",
    "lower/span": "max over s of lambda/(1 - gamma) - V*(s), over the span of the bias",
    "range/2tau": "span of V*, over 2 tau",
    "range/2span": "span of V*, over twice the span of the bias",
    "range/(span+tau)": "span of V*, over the span of the bias plus tau",
    "tau/span": "tau over the span of the bias",
    "span/2tau": "span of the bias over 2 tau",
}

SLOW_STEPS = 5_000
"""MDPs whose reward averaging time would need more steps than this are left out."""


def ratios(
    mdp: TabularMDP, gammas: Sequence[float] = GAMMAS
) -> dict[str, tuple[float, float]] | None:
    """Return for every entry of RATIOS the worst ratio and its gamma.

    None if tau is not known to nine digits, or if it is 0 (then all rewards are alike).
    """
    best = solve_average(mdp, bias_optimal=True)
    tau = reward_averaging_time(mdp, best.policy, most_steps=SLOW_STEPS)
    height = span(best.bias)
    if not tau.closed or tau.low <= 1e-6:
        return None
    found: dict[str, tuple[float, float]] = dict.fromkeys(RATIOS, (-np.inf, np.nan))
    policy = best.policy
    for gamma in gammas:
        discounted = solve_discounted(mdp, gamma, policy=policy)
        policy = discounted.policy
        excess = discounted.value - best.gain / (1 - gamma)
        upper, lower, width = float(excess.max()), float(-excess.min()), span(excess)
        values = (
            upper / tau.high,
            lower / tau.high,
            upper / height,
            lower / height,
            width / (2 * tau.high),
            width / (2 * height),
            width / (height + tau.high),
            tau.high / height,
            height / (2 * tau.high),
        )
        for name, value in zip(RATIOS, values, strict=True):
            found[name] = max(found[name], (value, gamma))
    return found


def random_mdp(rng: np.random.Generator) -> TabularMDP:
    """Return a weakly communicating MDP with continuous rewards in [0, 1].

    Two to five states, two or three actions. The rows are Dirichlet, from nearly deterministic to
    nearly uniform, over all states or over one to three of them.
    """
    while True:
        S, A = int(rng.integers(2, 6)), int(rng.integers(2, 4))
        shape = np.full((S, A, S), 10 ** rng.uniform(-1, 0.5))
        if rng.random() < 0.5:
            reach = rng.integers(1, min(3, S) + 1)
            shape[rng.permuted(np.tile(np.arange(S), (S, A, 1)), axis=2) >= reach] = 0.0
        weights = rng.standard_gamma(shape)
        if not (weights.sum(axis=2) > 0).all():
            continue
        mdp = TabularMDP(weights / weights.sum(axis=2, keepdims=True), rng.random((S, A)))
        if classify(mdp).kind != "multichain":
            return mdp


def climb(
    mdp: TabularMDP, name: str, tries: int, rng: np.random.Generator
) -> tuple[TabularMDP, float]:
    """Return an MDP near `mdp` with a larger ratio `name`, and that ratio.

    Each try moves one row of transitions towards a state, or one reward, by a random amount.
    """
    found = ratios(mdp)
    best = found[name][0] if found else -np.inf
    for _ in range(tries):
        changed = _changed(mdp, rng)
        found = ratios(changed)
        if found and found[name][0] > best and classify(changed).kind != "multichain":
            mdp, best = changed, found[name][0]
    return mdp, best


def _changed(mdp: TabularMDP, rng: np.random.Generator) -> TabularMDP:
    transitions, rewards = np.array(mdp.dense), np.array(mdp.rewards)
    s, a = rng.integers(mdp.n_states), rng.integers(mdp.n_actions)
    amount = 10 ** rng.uniform(-3, 0)
    if rng.random() < 0.5:
        row: Floats = transitions[s, a]
        row *= 1 - amount
        row[rng.integers(mdp.n_states)] += amount
        row /= row.sum()
    else:
        rewards[s, a] = np.clip(rewards[s, a] + amount * rng.choice((-1, 1)), 0, 1)
    return TabularMDP(transitions, rewards)
