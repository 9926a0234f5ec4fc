"""`cpsrl bound` and `cpsrl verify`: the paper's theorems as numbers, its statements checked."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from cpsrl.cli.output import facts as facts_table
from cpsrl.cli.output import plain, show, show_json
from cpsrl.documents import Table
from cpsrl.mdp import TabularMDP
from cpsrl.planning import reward_averaging_time, solve_average
from cpsrl.planning import span as span_of
from cpsrl.support.progress import shown_progress

if TYPE_CHECKING:
    from cpsrl.paper import Finding
    from cpsrl.theory import Bound

Number = Annotated[float | None, arg(metavar="NUMBER", help_behavior_hint="")]


def bound(
    mdp: TabularMDP,
    steps: int = 100_000,
    gamma: Number = None,
    tau: Number = None,
    span: Number = None,
    json: bool = False,
) -> None:
    """Print the paper's regret bounds for an MDP's sizes, beside the trivial one.

    For example, `cpsrl bound riverswim --steps 100000`. The theorems bound Bayesian regret, with a
    tau or span that holds for every MDP of the prior; by default those of the model are taken.

    Args:
        steps: T, the number of steps.
        gamma: discount factor; 1 - sqrt(S A / T) by default.
        tau: bound on the reward averaging time; that of the model by default.
        span: bound on the span of the optimal bias; that of the model by default.
        json: print one JSON object.
    """
    from cpsrl.theory import bounds

    best = solve_average(mdp, bias_optimal=True)
    if mdp.rewards.min() < 0 or mdp.rewards.max() > 1:
        raise ValueError(
            f"the theorems are for rewards in [0, 1]; those of {mdp.name or 'the model'} go from "
            f"{mdp.rewards.min():g} to {mdp.rewards.max():g}: rescale them by (r - low) / (high - "
            "low), and the bound by (high - low)"
        )
    if span_of(best.gain) > max(best.error, 1e-9):
        raise ValueError(
            "the theorems are for weakly communicating MDPs; here the optimal gain differs by state"
        )
    S, A = mdp.n_states, mdp.n_actions
    tau = float(reward_averaging_time(mdp, best.policy)) if tau is None else tau
    span = span_of(best.bias) if span is None else span

    def gamma_at(T: int) -> float:
        return bounds.horizon_gamma(S, A, T) if gamma is None else gamma

    rows = _bounds(
        lambda T, theorem, version: theorem(S, A, T, gamma_at(T), tau, span, version), steps
    )
    chosen = gamma_at(steps)
    width = float(bounds.confidence_width(1, S, A, steps, steps))
    facts: dict[str, Any] = {
        "model": mdp.name or "unnamed",
        "S": S,
        "A": A,
        "T": steps,
        "gamma": chosen,
        "tau": tau,
        "span": span,
        "expected pseudo-episodes": bounds.expected_pseudo_episodes(steps, chosen),
        "length they rarely exceed (m)": bounds.high_probability_length(steps, chosen),
        "confidence width after N visits, at T": f"{width:.6g} / sqrt(N), at least 2 (so that it "
        f"excludes nothing) up to N = {int(width**2 / 4):,}",
        "trivial bound": steps,
    }
    if json:
        show_json({**facts, "bounds": rows})
    else:
        _show_bounds(facts, rows)


def _bounds(at: "Callable[..., Bound]", steps: int) -> list[dict[str, Any]]:
    """Return every version of both theorems; `at` gives a bound for T, a theorem and a version."""
    from cpsrl.theory import bounds

    rows = []
    for name, theorem in (("4.2", bounds.theorem_4_2), ("4.1", bounds.theorem_4_1)):
        for version in bounds.VERSIONS:
            found = at(steps, theorem, version)
            row: dict[str, Any] = {"theorem": name, "version": version, "terms": found.terms}
            row |= {"total": found.total, "vacuous": found.is_vacuous}
            useful = bounds.useful_from(partial(at, theorem=theorem, version=version))
            rows.append(row | {"useful_from": useful})
    return rows


def _show_bounds(facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    words = {}
    for key, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        words[key] = f"{value:,.6g}" if isinstance(value, float) else shown
    show(facts_table(words))
    for theorem, about in (
        ("4.2", "on E[gamma-discounted regret], eq. 6"),
        ("4.1", "on E[regret], eq. 2, through appendix C"),
    ):
        here = [row for row in rows if row["theorem"] == theorem]
        show(f"\nTheorem {theorem}, {about}")
        terms = dict.fromkeys(term for row in here for term in row["terms"])
        lines = [
            [term, *(f"{row['terms'][term]:,.6g}" if term in row["terms"] else "" for row in here)]
            for term in terms
        ]
        lines.append(["total", *(f"{row['total']:,.6g}" for row in here)])
        lines.append(["over T", *(f"{row['total'] / facts['T']:,.3g}" for row in here)])
        show(Table(("term", *(row["version"] for row in here)), lines), "")
        for row in here:
            useful = row["useful_from"]
            when = f"from T = {useful:,} on" if useful is not None else "at no T up to 1e30"
            verdict = f"says more than the trivial bound (it does {when})."
            if row["vacuous"]:
                verdict = f"vacuous. Regret is at most T anyway; it says more than that {when}."
            show(f"{row['version']}: {verdict}")
    show(
        "\n'corrected' is what a complete proof gives, 'sharp' the same with the narrowest "
        "confidence set that it allows: `cpsrl.theory.bounds` has the proof."
    )


def verify(
    only: Annotated[tuple[str, ...], arg(metavar="NAME ...", help_behavior_hint="")] = (),
    quick: bool = False,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Check the statements of the paper, one claim after the other.

    For example, `cpsrl verify --quick`, or `cpsrl verify --only lemma-3.3-upper eq-5`. A statement
    that is false is reported as failing, with a counterexample and what is true instead; one that
    would hold whatever was measured, as vacuous. Each check is also put to a control, which shows
    that it can fail. The exit code is 0 if every claim and every control had the expected outcome,
    which for a false claim is to fail, and 1 otherwise.

    Args:
        only: names of claims; all of them by default.
        quick: compute less.
        seed: root seed of everything random.
        json: print a JSON list of objects, one for every claim.
    """
    from cpsrl.paper import CLAIMS
    from cpsrl.paper import verify as findings

    found = []
    shown, begun = shown_progress(unit="", transient=True), dict[str, float]()

    def tell(name: str, share: float) -> None:
        before = begun.setdefault(name, -1.0)
        part = f"claim {[*begun].index(name) + 1} of {len(only) or len(CLAIMS)}: {name}"
        if before < 0:
            shown.begin(part, {part: 1.0}, {})
        shown.advance(part, share - max(before, 0.0))
        begun[name] = share

    try:
        for finding in findings(only, quick, seed, tell):
            shown.end()
            found.append(finding)
            if not json:
                _show_finding(finding)
    finally:
        shown.end()
    if json:
        show_json([f.as_dict() for f in found])
    words = [f.verdict.word for f in found]
    surprises = ", ".join(f.claim.name for f in found if not f.as_expected)
    if not json:
        vacuous = f", {words.count('vacuous')} vacuous" if "vacuous" in words else ""
        seconds = sum(f.seconds for f in found)
        as_known = "Every claim and every control had the expected outcome."
        show(
            f"\n{words.count('holds')} of {len(found)} claims hold{vacuous} ({seconds:.0f} s). "
            + (f"Not as known: {surprises}." if surprises else as_known)
        )
    if surprises:
        raise SystemExit(1)


def _show_finding(finding: "Finding") -> None:
    from rich.padding import Padding
    from rich.text import Text

    from cpsrl.paper.counterexamples import path

    claim, verdict = finding.claim, finding.verdict
    colour = {"holds": "green", "fails": "red", "vacuous": "yellow"}[verdict.word]
    word = f"[{colour}]{verdict.word}[/]"
    level = f", confidence {verdict.level:.0%}" if verdict.level is not None else ""
    surprise = "" if finding.as_expected else "  [bold red]NOT AS KNOWN[/]"
    show(
        f"{word} [bold]{claim.name}[/] ({claim.reference}) ratio {verdict.ratio:.4g}{level}, "
        f"{finding.seconds:.1f} s{surprise}",
        markup=True,
    )
    control = verdict.control
    came = "holds" if control.ratio <= 1 else "fails"
    known = "as it must" if control.as_expected else "WHICH IT MUST NOT"
    lines = [
        claim.statement,
        f"control: {control.what}: {came}, {known} (ratio {control.ratio:.4g})",
        *_lines(plain(verdict.details)),
    ]
    if claim.instead:
        lines.append(f"true instead: {claim.instead}")
    if claim.counterexample:
        file = path(claim.counterexample)
        lines.append(f"counterexample: {claim.counterexample} (`cpsrl solve {file}`)")
    show(*(Padding(Text(line), (0, 0, 0, 6)) for line in lines))


def _lines(details: dict[str, Any]) -> Iterator[str]:
    """Give the details of a claim as lines of text."""
    for key, value in details.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{key}:"
            yield from (f"  {_short(row)}" for row in value)
        else:
            yield f"{key}: {_short(value)}"


def _short(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not finite"}[value]
    if isinstance(value, dict):
        return ", ".join(f"{k} {_short(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(_short(x) for x in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
