"""The statements of the paper as claims that can be checked, in the paper's order.

A module for every part of the paper, in which a claim is one function; a new claim is that function
and a line here. `verify` checks them.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from cpsrl.paper.claims import averaging, posterior, pseudo_episodes, theorems
from cpsrl.paper.verdicts import Claim, Effort, Finding
from cpsrl.support.registry import unknown

Progress = Callable[[str, float], None]

CLAIMS: dict[str, Claim] = {
    claim.name: claim
    for claim in (
        pseudo_episodes.length,
        pseudo_episodes.count,
        pseudo_episodes.unbiased_return,
        pseudo_episodes.discounted_series,
        pseudo_episodes.bellman_equation,
        averaging.tau_is_span,
        averaging.lemma_lower,
        averaging.lemma_upper,
        averaging.lemma_span,
        averaging.span_of_values,
        averaging.span_of_values_corrected,
        theorems.bayesian_regret,
        theorems.discounted_regret,
        posterior.posterior_sampling,
        posterior.regret_equivalence,
        posterior.value_decomposition,
        posterior.confidence_set,
        posterior.long_pseudo_episodes,
        posterior.indicator_in_the_sum,
        posterior.sum_of_widths,
        theorems.decomposition,
        theorems.doubling_schedule,
        theorems.constant_gamma,
    )
}
"""Every claim that `cpsrl verify` checks, by name."""


def verify(
    only: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Iterator[Finding]:
    """Check claims and give each finding as soon as it is there.

    Args:
        only: names of claims; all of them by default.
        quick: compute less.
        seed: the root seed of everything random.
        progress: called with the name of the current claim and the share of it that is done.
    """
    for name in only:
        if name not in CLAIMS:
            raise unknown("claim", name, CLAIMS)
    return _findings([CLAIMS[name] for name in only or CLAIMS], quick, seed, progress)


def _findings(
    claims: Sequence[Claim], quick: bool, seed: int, progress: Progress | None
) -> Iterator[Finding]:
    for claim in claims:

        def tell(share: float, name: str = claim.name) -> None:
            if progress is not None:
                progress(name, share)

        tell(0.0)
        began = time.perf_counter()
        verdict = claim.check(Effort(quick, seed, tell))
        yield Finding(claim, verdict, time.perf_counter() - began)
