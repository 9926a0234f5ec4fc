"""`cpsrl solve`: everything exact about one MDP."""

import json as json_module
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from tyro.conf import arg

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

SHOWN_STATES = 40
THOROUGH_STATES = 300
"""Up to this many states the diameter and the scan over gamma are done unasked."""


def solve(
    mdp: TabularMDP,
    gamma: Annotated[tuple[float, ...], arg(metavar="GAMMA ...")] = (),
    thorough: bool = False,
    json: bool = False,
) -> None:
    """Solve an MDP exactly: its class, optimal gain, policy, span, tau and diameter.

    For example, `cpsrl solve riverswim --variant tsde --gamma 0.99 0.999`, or `cpsrl solve my.csv`.
    With --gamma it also says what planning with these discount factors costs.

    Args:
        gamma: discount factors to judge.
        thorough: compute diameter and sufficient gamma for more than 300 states, too.
        json: print one JSON object.
    """
    answer = examine(mdp, gamma, thorough or mdp.n_states <= THOROUGH_STATES)
    if json:
        print(json_module.dumps(answer.as_dict(), indent=2))
    else:
        _show(answer)


@dataclass(frozen=True)
class Answer:
    """What `cpsrl solve` found."""

    mdp: TabularMDP
    kind: str
    best: AverageSolution
    tau: AveragingTime
    diameter: float | None
    sufficient: SufficientGamma | None
    gaps: tuple[PlanningGap, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as a tree for JSON; numbers that are not finite become null."""
        best = self.best
        sufficient = self.sufficient
        return {
            "name": self.mdp.name,
            "n_states": self.mdp.n_states,
            "n_actions": self.mdp.n_actions,
            "class": self.kind,
            "gain": _number(best.gain[0]) if span(best.gain) <= best.error else None,
            "gains": best.gain.tolist(),
            "gain_error": best.error,
            "reached_tolerance": best.reached,
            "policy": best.policy.tolist(),
            "bias": best.bias.tolist(),
            "span": span(best.bias),
            "reward_averaging_time": [self.tau.low, self.tau.high],
            "reward_averaging_time_closed": self.tau.closed,
            "diameter": _number(self.diameter),
            "sufficient_gamma": _number(sufficient.gamma) if sufficient else None,
            "gammas": [
                {
                    "gamma": gap.gamma,
                    "planning_gap": gap.gap,
                    "policy": gap.policy.tolist(),
                    "linear_regret": gap.gap > 0,
                }
                for gap in self.gaps
            ],
        }


def examine(mdp: TabularMDP, gammas: tuple[float, ...], thorough: bool) -> Answer:
    """Return everything exact about `mdp`; the slow parts only if `thorough`."""
    best = solve_average(mdp, bias_optimal=thorough)
    return Answer(
        mdp,
        classify(mdp).kind,
        best,
        reward_averaging_time(mdp, best.policy),
        diameter(mdp) if thorough and mdp.n_states <= 2000 else None,
        sufficient_gamma(mdp) if thorough else None,
        tuple(planning_gap(mdp, gamma, best) for gamma in gammas),
    )


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def _show(answer: Answer) -> None:
    from rich.console import Console
    from rich.table import Table

    mdp, best, tau = answer.mdp, answer.best, answer.tau
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_row("model", mdp.name or "unnamed")
    table.add_row("size", f"{mdp.n_states:,} states, {mdp.n_actions} actions, {answer.kind}")
    if span(best.gain) <= best.error:
        table.add_row("optimal gain", f"{best.gain[0]:.12g}")
    else:
        table.add_row("optimal gain", f"{best.gain.min():.12g} to {best.gain.max():.12g}, by state")
    reached = "" if best.reached else f": the tolerance {best.tol:.0e} was NOT reached"
    table.add_row("", f"error at most {best.error:.1e}{reached}")
    table.add_row("policy", _policy(mdp, best.policy))
    table.add_row("span of the bias", f"{span(best.bias):.8g}")
    bracket = f"{tau.high:.8g}" if tau.closed else f"between {tau.low:.8g} and {tau.high:.8g}"
    table.add_row("averaging time tau", bracket)
    if answer.diameter is not None:
        table.add_row("diameter", f"{answer.diameter:.8g}")
    else:
        table.add_row("diameter", "not computed (--thorough does, up to 2,000 states)")
    if answer.sufficient is not None:
        table.add_row("sufficient gamma", _sufficient(answer.sufficient))
    for gap in answer.gaps:
        table.add_row(f"gamma = {gap.gamma:g}", _gap(mdp, best, gap))
    Console(highlight=False, soft_wrap=True).print(table)


def _sufficient(found: SufficientGamma) -> str:
    scan = f"scan of {found.points} gammas up to 1 - {1 - found.largest:.0e}"
    if np.isnan(found.gamma):
        return f"above 1 - {1 - found.largest:.0e}, the largest of a {scan}"
    if found.gamma == 0:
        return f"any: every gamma has a gain-optimal policy ({scan})"
    return (
        f"{found.gamma:.10g}: every larger gamma has a gain-optimal policy "
        f"({scan}, then bisected to {found.refined:.0e})"
    )


def _gap(mdp: TabularMDP, best: AverageSolution, gap: PlanningGap) -> str:
    if gap.gap == 0:
        return "planning gap 0: large enough, the discounted optimal policy is gain-optimal."
    differ = np.flatnonzero(gap.policy != best.policy)
    count = "one state" if differ.size == 1 else f"{differ.size} states"
    where = f" It differs in {count}, first in state {_state(mdp, int(differ[0]))}."
    return (
        f"planning gap {gap.gap:.8g}: TOO SMALL. An agent that plans with this gamma settles on a "
        f"policy that loses {gap.gap:.4g} a step: its regret will be linear.{where}"
    )


def _policy(mdp: TabularMDP, policy: Any) -> str:
    names = mdp.action_names or tuple(str(a) for a in range(mdp.n_actions))
    words = [names[a] for a in policy[:SHOWN_STATES]]
    if len(set(policy.tolist())) == 1:
        return f"{words[0]} in every state"
    more = f" ... ({policy.size - SHOWN_STATES:,} more)" if policy.size > SHOWN_STATES else ""
    return " ".join(words) + more


def _state(mdp: TabularMDP, state: int) -> str:
    return mdp.state_names[state] if mdp.state_names else str(state)
