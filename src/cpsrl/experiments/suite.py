"""The continuing suite as an experiment: every problem of it, and agents by name."""

from collections.abc import Sequence

from cpsrl.environments.suite import SUITE, VERSION
from cpsrl.experiments.entry import Entry
from cpsrl.experiments.spec import Experiment

AGENTS = (
    Entry("continuing-psrl", {"gamma": 0.99}),
    Entry("continuing-psrl", {"gamma": 0.999}),
    Entry("tsde"),
    Entry("ds-psrl"),
    Entry("differential-q"),
    Entry("ucrl2"),
    Entry("ucrl2b"),
    Entry("ucrl2b", {"width": 0.01}, label="UCRL2B, width 0.01"),
)
"""The agents that are compared where none are chosen."""
STEPS, SEEDS = 10_000, 5


def suite(
    agents: Sequence[str] = (), steps: int = STEPS, seeds: int | Sequence[int] = SEEDS
) -> Experiment:
    """Return the experiment: all problems of the suite, with the registered `agents`, as they are.

    Without `agents` they are those of `AGENTS`.
    """
    return Experiment(
        name=f"suite-{VERSION}",
        description=f"The continuing suite, version {VERSION}: {len(SUITE)} problems.",
        environments=tuple(
            Entry(problem.name, problem.options, problem.label, per_run=problem.per_run)
            for problem in SUITE
        ),
        agents=tuple(map(Entry, agents)) or AGENTS,
        steps=steps,
        seeds=seeds if isinstance(seeds, int) else tuple(seeds),
    )
