"""`cpsrl solve`: everything exact about one MDP."""

from typing import Annotated, Any, NamedTuple

import numpy as np
from tyro.conf import arg

from cpsrl.cli.output import facts, show, show_json
from cpsrl.documents import Table
from cpsrl.mdp import TabularMDP
from cpsrl.planning import (
    AverageSolution,
    AveragingTime,
    PlanningGap,
    SufficientGamma,
    classify,
    diameter,
    planning_gap,
    reward_averaging_time,
    solve_average,
    span,
    sufficient_gamma,
)
from cpsrl.support.checks import checked_gamma, count

SHOWN_STATES = 40
"""How many rows of the policy are printed without --all."""
THOROUGH_STATES = 300
"""Up to this many states the diameter and the scan over gamma need no --thorough."""
MOST_STATES = 2000
"""Of more states the diameter is not computed."""
UNASKED = "not computed (--thorough does)"


def solve(
    mdp: TabularMDP,
    gamma: Annotated[tuple[float, ...], arg(metavar="GAMMA ...", help_behavior_hint="")] = (),
    thorough: bool = False,
    all: bool = False,
    json: bool = False,
) -> None:
    """Solve an MDP exactly: its class, optimal gain, policy, span, tau and diameter.

    For example, `cpsrl solve riverswim --variant tsde --gamma 0.99 0.999`, or `cpsrl solve my.csv`.
    With --gamma it also says what planning with these discount factors costs.

    Args:
        gamma: discount factors to judge.
        thorough: compute diameter and sufficient gamma for more than 300 states, too.
        all: print the policy of all states, also where there are more than 40.
        json: print one JSON object, with the names and the policy of all states.
    """
    gamma = tuple(map(checked_gamma, gamma))
    thorough = thorough or mdp.n_states <= THOROUGH_STATES
    best = solve_average(mdp, bias_optimal=thorough)
    answer = Answer(
        mdp,
        classify(mdp).kind,
        best,
        reward_averaging_time(mdp, best.policy),
        diameter(mdp) if thorough and mdp.n_states <= MOST_STATES else None,
        sufficient_gamma(mdp) if thorough else None,
        [planning_gap(mdp, factor, best) for factor in gamma],
    )
    if json:
        show_json(_tree(answer))
    else:
        _show(answer, all)


class Answer(NamedTuple):
    """What `cpsrl solve` found."""

    mdp: TabularMDP
    kind: str
    best: AverageSolution
    tau: AveragingTime
    diameter: float | None
    sufficient: SufficientGamma | None
    gaps: list[PlanningGap]


def _tree(answer: Answer) -> dict[str, Any]:
    """Return the answer as a tree for JSON."""
    mdp, kind, best, tau, diameter, sufficient, gaps = answer
    return {
        "name": mdp.name,
        "n_states": mdp.n_states,
        "n_actions": mdp.n_actions,
        "state_names": mdp.state_names,
        "action_names": mdp.action_names,
        "class": kind,
        "gain": best.gain[0] if span(best.gain) <= best.error else None,
        "gains": best.gain,
        "gain_error": best.error,
        "reached_tolerance": best.reached,
        "policy": best.policy,
        "bias": best.bias,
        "span": span(best.bias),
        "reward_averaging_time": [tau.low, tau.high],
        "reward_averaging_time_closed": tau.closed,
        "diameter": diameter,
        "sufficient_gamma": sufficient.gamma if sufficient else None,
        "gammas": [
            {
                "gamma": gap.gamma,
                "planning_gap": gap.gap,
                "policy": gap.policy,
                "linear_regret": gap.gap > 0,
            }
            for gap in gaps
        ],
    }


def _show(answer: Answer, everything: bool) -> None:
    mdp, kind, best, tau, diameter, sufficient, gaps = answer
    alike = span(best.gain) <= best.error
    reached = f": the tolerance {best.tol:.0e} was NOT reached"
    bracket = "" if tau.closed else f"between {tau.low:.8g} and "
    large = mdp.n_states > MOST_STATES
    unknown = f"not computed of more than {MOST_STATES:,} states" if large else UNASKED
    by_state = f"{best.gain.min():.12g} to {best.gain.max():.12g}, by state"
    actions = set(best.policy.tolist())
    same = f"{mdp.action_name(best.policy[0])} in every state"
    rows = {
        "model": mdp.name or "unnamed",
        "size": f"{count(mdp.n_states, 'state')}, {count(mdp.n_actions, 'action')}, {kind}",
        "optimal gain": f"{best.gain[0]:.12g}" if alike else by_state,
        "": f"error at most {best.error:.1e}{'' if best.reached else reached}",
        "span of the bias": f"{span(best.bias):.8g}",
        "averaging time tau": f"{bracket}{tau.high:.8g}",
        "diameter": unknown if diameter is None else f"{diameter:.8g}",
        "sufficient gamma": _sufficient(sufficient) if sufficient else UNASKED,
        **{f"gamma = {gap.gamma:.16g}": _gap(mdp, best, gap) for gap in gaps},
        "policy": same if len(actions) == 1 else "by state:",
    }
    show(facts(rows))
    if everything or len(actions) > 1:
        first = mdp.n_states if everything else min(SHOWN_STATES, mdp.n_states)
        show("", _policy(mdp, best, alike, first))
        if first < mdp.n_states:
            show(f"... and {mdp.n_states - first:,} states more: --all prints them, --json too")


def _policy(mdp: TabularMDP, best: AverageSolution, alike: bool, first: int) -> Table:
    """Return the table of the action and the bias of the `first` states."""
    rows = [
        (mdp.state_name(s), mdp.action_name(best.policy[s]), best.bias[s], best.gain[s])
        for s in range(first)
    ]
    shown = 3 if alike else 4
    return Table(("state", "action", "bias", "gain")[:shown], [row[:shown] for row in rows], left=2)


def _sufficient(found: SufficientGamma) -> str:
    scan = f"scan of {found.points} gammas up to 1 - {1 - found.largest:.0e}"
    if np.isnan(found.gamma):
        return f"above 1 - {1 - found.largest:.0e}, the largest of a {scan}"
    if found.gamma == 0:
        return f"any: for every gamma a discounted optimal policy is gain-optimal ({scan})"
    return (
        f"{found.gamma:.10g}: for every larger gamma a discounted optimal policy is gain-optimal "
        f"({scan}, then bisected to {found.refined:.0e})"
    )


def _gap(mdp: TabularMDP, best: AverageSolution, gap: PlanningGap) -> str:
    if gap.gap == 0:
        return "planning gap 0: large enough, the discounted optimal policy is gain-optimal."
    differ = np.flatnonzero(gap.policy != best.policy)
    first = f"state {mdp.state_name(differ[0])}"
    where = f"{differ.size} states, first in {first}" if differ.size > 1 else first
    return (
        f"planning gap {gap.gap:.8g}: TOO SMALL. An agent that plans with this gamma settles on a "
        f"policy that loses {gap.gap:.4g} a step: its regret will be linear. It differs in "
        f"{where}."
    )
