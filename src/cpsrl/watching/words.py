"""What a film shows, in words; and the names of states and actions."""

import inspect

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.planning import sufficient_gamma
from cpsrl.support.checks import count
from cpsrl.support.types import Ints
from cpsrl.watching.film import Film

ARROWS = {"left": "←", "right": "→", "up": "↑", "down": "↓"}
SCANNED_STATES = 40
"""Up to this many states, the smallest sufficient gamma is looked for."""


def action_name(mdp: TabularMDP, action: int) -> str:
    """Return the name of an action, as it can stand in a sentence."""
    return mdp.action_name(action) if mdp.action_names else f"action {action}"


def symbols(mdp: TabularMDP) -> list[str]:
    """Return a character for every action: an arrow, the first letter of its name, its number."""
    names = [name.lower() for name in mdp.action_names or ()]
    if names and set(names) <= ARROWS.keys():
        return [ARROWS[name] for name in names]
    first = [name[:1] for name in names]
    if names and len(set(first)) == len(names):
        return first
    return [np.base_repr(action, 36)[-1].lower() for action in range(mdp.n_actions)]


def policy_words(mdp: TabularMDP, policy: Ints, most: int = 6) -> str:
    """Return a policy in words: the action taken almost everywhere, and where it is another."""
    counts = np.bincount(policy, minlength=mdp.n_actions)
    usual = int(counts.argmax())
    others = np.flatnonzero(policy != usual)
    if not len(others):
        return f"{action_name(mdp, usual)} in every state"
    where: dict[int, list[str]] = {}
    for s in others[:most]:
        where.setdefault(int(policy[s]), []).append(mdp.state_name(s))
    shown = [f"{action_name(mdp, a)} in {', '.join(states)}" for a, states in where.items()]
    more = f" and {len(others) - most} more" if len(others) > most else ""
    return f"{action_name(mdp, usual)}, but {'; '.join(shown)}{more}"


def story(film: Film) -> list[str]:
    """Return what has happened in a film so far, a sentence or two for each thing to see."""
    said = [f"Regret after {film.step:,} steps: {number(film.regret)}."]
    if not film.begun:
        return [*said, "It draws no models: it has no pseudo-episodes."]
    waits, losses = film.waits, film.losses()
    if film.rule is not None:
        said.append(f"Its rule: {(inspect.getdoc(film.rule) or '').partition(chr(10))[0]}")
    said.append(
        f"{count(len(waits), 'pseudo-episode')} so far, the last from step {film.begun[-1]:,} on; "
        f"the longest lasted {count(int(waits.max()), 'step')}."
    )
    worse = np.flatnonzero(losses)
    since = f", and in every one from step {worse[-1] + 2 if len(worse) else 1:,} on"
    said.append(
        f"It took a best action in {np.mean(losses == 0):.0%} of the steps"
        f"{'' if len(worse) and worse[-1] > 0.9 * film.step else since}."
    )
    costs = np.add.reduceat(losses, np.array(film.begun) - 1)
    worst = int(costs.argmax())
    if costs[worst] > 0:
        first, lasted = film.begun[worst], int(waits[worst])
        said.append(
            f"Its most costly pseudo-episode, steps {first:,} to {first + lasted - 1:,}, cost "
            f"{number(costs[worst])}, or {number(costs[worst] / lasted)} a step."
        )
    return [*said, *gamma_words(film)]


def gamma_words(film: Film) -> list[str]:
    """Return whether the agent's gamma is large enough, where it plans with one."""
    gap = film.gap()
    if gap is None:
        return []
    mdp, gamma = film.mdp, f"gamma = {film.gamma:.6g}"
    if gap.gap == 0:
        return [f"{gamma} is large enough here: the discounted-optimal policy is gain-optimal."]
    differ = np.flatnonzero(gap.policy != film.best.policy)
    where = "; ".join(
        f"in state {mdp.state_name(s)} it takes {action_name(mdp, gap.policy[s])}, the best policy"
        f" {action_name(mdp, film.best.policy[s])}"
        for s in differ[:3]
    )
    said = (
        f"{gamma} is too small here. An agent that knew the model would choose a policy that earns "
        f"{number(gap.gain[film.path()[0][0]])} a step where {number(film.gain)} can be had "
        f"({where}). However much it learns, it loses {number(gap.gap)} a step."
    )
    if mdp.n_states <= SCANNED_STATES:
        enough = sufficient_gamma(mdp).gamma
        if np.isfinite(enough):
            said += f" Every gamma above {enough:.6g} would do."
    return [said]


def number(value: float) -> str:
    """Return a number with four digits, or with one decimal where it is large."""
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
