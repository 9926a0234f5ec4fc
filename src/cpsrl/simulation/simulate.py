"""`simulate`: one agent or several, one environment, many runs."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cpsrl.environments.pure import Environment
from cpsrl.mdp import Tabular
from cpsrl.seeding import checked_run
from cpsrl.simulation.group import Group
from cpsrl.simulation.runs import Runs
from cpsrl.simulation.states import check_count, label_of, place_of
from cpsrl.support.checks import checked_whole, count
from cpsrl.support.progress import Progress, shown_progress
from cpsrl.support.types import Ints

STEPS, SEEDS = 100_000, 50
"""How many steps and runs are taken where nothing else is said."""
MOST_RUNS = 1_000_000
"""The most runs that a number, and not a list, can stand for."""


def simulate(
    agent: Any,
    mdp: Tabular | Environment,
    steps: int = STEPS,
    seeds: int | Sequence[int] | None = None,
    seed: int | None = None,
    record: Any = None,
    resume: Sequence[dict[str, Any]] = (),
    threads: int | None = None,
    progress: bool | Callable[[int], None] | Progress = True,
    resample_times: bool = False,
    trajectory: bool = False,
    discounted_regret: bool = False,
    stop: Ints | None = None,
    device: str = "auto",
    on_record: Callable[[Runs], None] | None = None,
) -> Runs:
    """Run an agent, or several, in an environment that never resets, once for every seed.

    A call that takes longer than two seconds shows its progress. Interrupted (Ctrl-C), it returns
    what was simulated: of every agent the runs that came farthest. The `notes` of the runs say so,
    and where agents came unequally far, `select` gives each as far as it came.

    Args:
        agent: one agent, or a list of them, which meet the same noise. It is one of the package's,
            or any object with `act(state)` and `observe(state, action, reward, next_state)`, of
            which every run gets a copy. One that is random has a method `seed(rng)`, too: every
            copy is given the generator of its run. `state()`, a dictionary, and `restore(state)`
            let its runs go on; the generator goes on by itself. A policy with Stable-Baselines3's
            `predict` will do, too (see `cpsrl.agents.sb3`).
        mdp: the environment, a table or, for agents with networks, one of pure functions (see
            `cpsrl.environments.pure`).
        steps: how many steps every run takes.
        seeds: a number n (runs 0, ..., n - 1), or a list of run numbers; None for 50 runs, or for
            those that are resumed.
        seed: the root seed of all randomness; None for 0, or for that of the runs resumed.
        record: which steps to record: a stride, "log", or None for a stride that gives about 200
            points, each with the last step as well; or an array of exactly the steps to record.
        resume: the `state` of earlier runs; these go on for `steps` further steps. Without any,
            `()`, the runs begin.
        threads: how many threads; None takes one per core.
        progress: False shows nothing; a function is called now and then with the number of steps
            taken since the last call.
        resample_times: keep the steps that resampled.
        trajectory: keep states, actions and rewards; without states, where they are not numbers.
        discounted_regret: compute the discounted regret of the paper's eq. 6.
        stop: `(1,)`, to be set to 1 by another thread to end early, with an `InterruptedError`. The
            runs are then taken in the calling thread.
        device: where networks are computed: "auto", "cpu", "gpu", "tpu" and others (see
            `cpsrl.networks.devices`); tables are always computed by the processor.
        on_record: called at every recorded step, as soon as all runs of an agent have taken it,
            with the runs at that step, `(runs, 1)`. What it raises ends the simulation. It costs
            about a tenth of a millisecond a recorded step and run.

    Returns:
        The runs, a row each.
    """
    agents = list(agent) if isinstance(agent, list | tuple) else [agent]
    unasked = seeds is None and resume == ()
    seeds, seed = _seeds_of(seeds, seed, resume, len(agents))
    steps, runs = checked_whole("steps", steps, 1), run_numbers(seeds)
    how = (stop, threads, resample_times, trajectory, discounted_regret)
    if on_record is not None and any(how[2:]):
        raise ValueError(
            "on_record goes with none of resample_times, trajectory and discounted_regret: "
            "take them from a second call, which meets the same noise"
        )
    groups = []
    if len(agents) > 1 and resume != ():
        check_count(resume, len(runs), len(agents))
    for k, one in enumerate(agents):
        states = resume[k * len(runs) : (k + 1) * len(runs)] if len(agents) > 1 else resume
        groups.append(Group.start(one, mdp, runs, seed, steps, states, device))
    labels = _labels(groups)
    shown = _shown(progress if stop is None else False)
    cost = f"{count(len(runs), 'run')} of {steps:,} steps"
    usual = [f"steps={STEPS:_}"] * (steps == STEPS) + [f"seeds={SEEDS}"] * unasked
    default = f" ({', '.join(usual)} by default)" if usual else ""
    who = " and ".join(labels) if len(labels) < 3 else f"{len(labels)} agents"
    what = f"{who} in {place_of(mdp)}: {cost}{' each' * (len(labels) > 1)}{default}"
    shown.begin(what, dict.fromkeys(labels, float(steps * len(runs))), {})
    parts, group = list[Runs](), groups[0]
    try:
        for label, group in zip(labels, groups, strict=True):
            advance = partial(shown.advance, label)
            found = group.advance(steps, record, advance, *how, on_record=on_record)
            parts.append(replace(found, at_end=group.checkpoint))
    except KeyboardInterrupt:
        if group.interrupted is not None:
            parts.append(group.interrupted)
        if not parts:
            raise
        note = _interrupted(group, labels[len(parts) :])
        print(f"cpsrl: {note}", file=sys.stderr, flush=True)
        return replace(parts[0] if len(parts) == 1 else Runs.padded(parts), notes=(note,))
    finally:
        shown.end()
    return parts[0] if len(parts) == 1 else Runs.join(parts)


def _interrupted(group: Group, missing: list[str]) -> str:
    """Return a note on what there is of an interrupted agent, and of which there is nothing."""
    words = []
    if (runs := group.interrupted) is not None:
        words = [
            f"{label_of(group.agent)} has {len(runs.seeds)} of {len(group.numbers)} runs, to step "
            f"{runs.times[-1]:,}"
        ]
    if missing:
        words.append(f"there are no runs of {', '.join(missing)}")
    return f"interrupted: {'; '.join(words)}"


def _labels(groups: list[Group]) -> list[str]:
    """Return the labels of the agents, or raise where two have the same."""
    labels = [label_of(group.agent) for group in groups]
    if not labels:
        raise ValueError("there is no agent in the list: simulate takes one or more")
    if len(set(labels)) < len(labels):
        label, times = Counter(labels).most_common(1)[0]
        raise ValueError(f"{times} agents are called {label!r}: give each a label of its own")
    return labels


def _shown(progress: Any) -> Progress:
    """Return the progress display that the argument `progress` stands for."""
    if isinstance(progress, Progress):
        return progress
    if callable(progress):
        return _Called(progress)
    here = threading.current_thread() is threading.main_thread()
    wanted = progress is not False
    return shown_progress(transient=True, late=True) if wanted and here else Progress()


class _Called(Progress):
    """Calls a function with the steps taken since the last call."""

    def __init__(self, function: Callable[[int], None]) -> None:
        self._function = function

    def advance(self, part: str, amount: float) -> None:
        """Call the function."""
        self._function(int(amount))


def _seeds_of(seeds: Any, seed: Any, states: Any, agents: int) -> tuple[Any, Any]:
    """Return the seeds and the root seed: as given, or else those of the states to go on from."""
    known = isinstance(states, list | tuple) and all(
        isinstance(state, dict) and {"run", "seed"} <= state.keys() for state in states
    )
    first = states[0] if known and states else {"seed": 0}
    if seeds is None:
        own = states[: len(states) // max(1, agents)] if known else ()
        seeds = [state["run"] for state in own] or SEEDS
    return seeds, first["seed"] if seed is None else seed


def run_numbers(seeds: int | Sequence[int]) -> list[int]:
    """Return the run numbers that `seeds`, a number of runs or a list of them, stands for."""
    if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool):
        return list(range(checked_whole("seeds", seeds, 1, MOST_RUNS)))
    numbers = [checked_run(run) for run in np.ravel(np.asarray(seeds, object))]
    twice = [str(run) for run, times in Counter(numbers).items() if times > 1]
    if twice:
        raise ValueError(f"seeds must be different run numbers, and {', '.join(twice)} is repeated")
    if not numbers:
        raise ValueError("seeds must be a number of runs or a list of run numbers, and it is empty")
    return numbers
