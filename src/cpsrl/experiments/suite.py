"""The continuing suite as an experiment: every problem of it, and agents by name."""

from collections.abc import Sequence
from typing import Any

from cpsrl.environments.suite import SUITES, VERSION
from cpsrl.experiments.entry import Entry
from cpsrl.experiments.spec import Experiment

AGENTS = (
    Entry("adaptive-psrl"),
    Entry("imed-rl"),
    Entry("continuing-psrl", {"gamma": 0.99}),
    Entry("continuing-psrl", {"gamma": 0.999}),
    Entry("tsde"),
    Entry("ds-psrl"),
    Entry("differential-q"),
)
"""The agents that are compared where none are chosen."""
BOUNDED = (
    Entry("ucrl2"),
    Entry("ucrl2b"),
    Entry("ucrl2b", {"width": 0.01}, label="UCRL2B, width 0.01"),
)
"""Agents for rewards in a range: not for version 2, which has Gaussian noise."""
STEPS, SEEDS = 10_000, 5


def suite(
    agents: Sequence[Any] = (),
    steps: int = STEPS,
    seeds: int | Sequence[int] = SEEDS,
    version: int = VERSION,
    seed: int = 0,
) -> Experiment:
    """Return the experiment: all problems of the suite, with `agents`, an `Entry` or a name each.

    Without `agents` they are those of `AGENTS`, in version 1 also those of `BOUNDED`.
    """
    if version not in SUITES:
        raise ValueError(f"the suite has the versions {sorted(SUITES)}, not {version!r}")
    problems = SUITES[version]
    return Experiment(
        name=f"suite-{version}",
        description=f"The continuing suite, version {version}: {len(problems)} problems.",
        environments=tuple(
            Entry(problem.name, problem.options, problem.label, per_run=problem.per_run)
            for problem in problems
        ),
        agents=tuple(agents) or (AGENTS + BOUNDED if version == 1 else AGENTS),
        steps=steps,
        seeds=seeds if isinstance(seeds, int) else tuple(seeds),
        seed=seed,
    )
