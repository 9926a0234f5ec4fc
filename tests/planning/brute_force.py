"""Independent answers for small MDPs, in plain NumPy and SciPy, to test the planners against."""

import itertools

import numpy as np
import scipy.linalg
import scipy.optimize


def random_mdp(rng, kind):
    """Return P (S, A, S) and r (S, A) of a small MDP of the given kind."""
    n_states, n_actions = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    shape = (n_states, n_actions)
    r = np.round(rng.normal(size=shape), 2) if rng.random() < 0.3 else rng.random(shape)
    if kind == "deterministic":
        P = np.eye(n_states)[rng.integers(n_states, size=shape)]
    elif kind == "communicating":
        P = rng.dirichlet(np.ones(n_states), shape)
    elif kind == "weakly communicating":
        P = rng.dirichlet(np.ones(n_states), shape)
        transient = int(rng.integers(0, n_states))
        P[transient:, :, transient:] *= 1 if transient == 0 else 0.5
        P[:transient, :, transient:] = 0
        P /= P.sum(axis=2, keepdims=True)
    elif kind == "multichain":
        P = rng.dirichlet(np.full(n_states, 0.4), shape) * (rng.random((*shape, n_states)) < 0.4)
        for s, a in itertools.product(range(n_states), range(n_actions)):
            if P[s, a].sum() < 1e-3:
                P[s, a] = np.eye(n_states)[rng.integers(n_states)]
        P /= P.sum(axis=2, keepdims=True)
    elif kind == "periodic":
        P = np.zeros((*shape, n_states))
        for s, a in itertools.product(range(n_states), range(n_actions)):
            P[s, a, (s + 1 + a * (a % 2)) % n_states] = 1
    elif kind == "nearly decomposable":
        coupling = 10.0 ** -rng.integers(2, 8)
        block = rng.integers(2, size=n_states)
        P = rng.dirichlet(np.ones(n_states), shape)
        P[block[:, None, None] != block[None, None, :] + np.zeros((*shape, 1), int)] *= coupling
        P /= P.sum(axis=2, keepdims=True)
    else:
        raise AssertionError(kind)
    return P, r


KINDS = (
    "communicating",
    "weakly communicating",
    "multichain",
    "deterministic",
    "periodic",
    "nearly decomposable",
)


def policies(n_states, n_actions):
    return itertools.product(range(n_actions), repeat=n_states)


def limit_matrix(P):
    """Return P* = lim (1/T) sum P^t, class by class from linear solves."""
    n = len(P)
    reach = np.linalg.matrix_power((np.eye(n) + (P > 0)).astype(float), n) > 0
    closed = [s for s in range(n) if all(reach[t, s] for t in np.flatnonzero(reach[s]))]
    star = np.zeros((n, n))
    seen = set()
    for s in closed:
        if s in seen:
            continue
        states = [t for t in closed if reach[s, t]]
        seen.update(states)
        sub = P[np.ix_(states, states)]
        system = np.vstack([(np.eye(len(states)) - sub).T, np.ones(len(states))])
        target = np.r_[np.zeros(len(states)), 1.0]
        pi = np.linalg.lstsq(system, target, rcond=None)[0]
        star[np.ix_(states, states)] = pi
    transient = [s for s in range(n) if s not in closed]
    if transient:
        inside = np.eye(len(transient)) - P[np.ix_(transient, transient)]
        into = P[np.ix_(transient, closed)] @ star[np.ix_(closed, closed)]
        star[np.ix_(transient, closed)] = np.linalg.solve(inside, into)
    return star


def gain_and_bias(P, r):
    """Return gain and bias of a chain through the deviation matrix."""
    star = limit_matrix(P)
    n = len(P)
    gain = star @ r
    return gain, (np.linalg.inv(np.eye(n) - P + star) - star) @ r


def best_gain(P, r):
    """Return the largest gain (S,) over all deterministic policies."""
    n_states, n_actions = r.shape
    states = np.arange(n_states)
    best = np.full(n_states, -np.inf)
    for policy in policies(n_states, n_actions):
        choice = list(policy)
        best = np.maximum(best, limit_matrix(P[states, choice]) @ r[states, choice])
    return best


def best_value(P, r, gamma):
    """Return the optimal discounted value (S,) by linear programming."""
    n_states, n_actions = r.shape
    rows = np.repeat(np.eye(n_states), n_actions, axis=0) - gamma * P.reshape(-1, n_states)
    result = scipy.optimize.linprog(
        np.ones(n_states),
        A_ub=-rows,
        b_ub=-r.ravel(),
        bounds=(None, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-9},
    )
    assert result.status == 0
    return result.x


def averaging_time(P, r, most):
    """Return the largest |expected total of T rewards - T gain| over T <= most and all states."""
    gain = limit_matrix(P) @ r
    total, worst = np.zeros(len(r)), 0.0
    for steps in range(most):
        total = r + P @ total
        worst = max(worst, np.abs(total - (steps + 1) * gain).max())
    return worst


def diameter(P):
    """Return the largest over pairs of states of the least expected time between them."""
    n_states, n_actions = P.shape[:2]
    worst = 0.0
    for target in range(n_states):
        rest = [s for s in range(n_states) if s != target]
        best = np.full(len(rest), np.inf)
        for policy in policies(len(rest), n_actions):
            chain = P[rest, list(policy)]
            reach = np.linalg.matrix_power(np.eye(len(rest)) + (chain[:, rest] > 0), n_states)
            sure = ((reach > 0) @ (chain[:, target] > 0) > 0).astype(float)
            proper = (reach > 0) @ (sure == 0) == 0
            if proper.any():
                inside = np.eye(proper.sum()) - chain[np.ix_(proper, np.array(rest)[proper])]
                best[proper] = np.minimum(
                    best[proper], np.linalg.solve(inside, np.ones(proper.sum()))
                )
        worst = max(worst, best.max(initial=0.0))
    return worst


def end_components(P):
    """Return the maximal end components, by trying every set of states, as sorted tuples."""
    n_states, n_actions = P.shape[:2]
    found = []
    for size in range(n_states, 0, -1):
        for states in itertools.combinations(range(n_states), size):
            if any(set(states) <= set(larger) for larger in found):
                continue
            outside = [s for s in range(n_states) if s not in states]
            arrows = np.zeros((size, size), bool)
            for i, s in enumerate(states):
                for a in range(n_actions):
                    if P[s, a, outside].sum() == 0:
                        arrows[i] |= P[s, a, list(states)] > 0
            reach = np.linalg.matrix_power(np.eye(size) + arrows, size) > 0
            if arrows.any(axis=1).all() and reach.all():
                found.append(states)
    return sorted(found)
