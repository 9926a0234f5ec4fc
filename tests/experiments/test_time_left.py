"""The time left is the sum over agents and environments of unlike speed, each at its own pace."""

import itertools

import pytest

from cpsrl.experiments import Entry, Execution, Experiment, run_experiment
from cpsrl.experiments import backends as places
from cpsrl.experiments import run as module
from cpsrl.support import progress as shown
from cpsrl.support.progress import Pace, Progress

AGENTS = ("random", "tsde", "ds-psrl", "continuing-psrl", "optimal")
COSTS = dict(zip(AGENTS, (1e-4, 2e-3, 3e-4, 5e-2, 1e-3), strict=True))
FACTORS = (1.0, 30.0, 4.0)
EXPERIMENT = Experiment(
    name="unlike",
    environments=tuple(Entry("riverswim", {"n_states": n}) for n in (4, 5, 6)),
    agents=tuple(map(Entry, AGENTS)),
    steps=2_000,
    seeds=4,
)


class Clock:
    """A clock that only work moves."""

    now = 0.0

    def monotonic(self):
        return self.now


class Watching(Progress):
    """Keeps what is said of the time left, and when."""

    def __init__(self, clock):
        self.clock, self.said = clock, []

    def begin(self, what, totals, done):
        self.pace = Pace(totals, done)

    def expect(self, seconds):
        self.pace.expect(seconds, self.clock.now)

    def advance(self, part, amount):
        self.pace.advance(part, amount, self.clock.now)
        self.said.append((self.clock.now, self.pace.seconds_left(self.clock.now)))


@pytest.mark.parametrize("order", [AGENTS, AGENTS[::-1]], ids=["slow last", "slow first"])
def test_the_time_left_is_within_half_as_much_again_from_a_tenth_on(tmp_path, monkeypatch, order):
    """3 environments x 5 agents, real runs, and a clock that each moves at its own speed."""
    clock, factors = Clock(), itertools.cycle(FACTORS)
    experiment = Experiment(
        name="unlike",
        environments=EXPERIMENT.environments,
        agents=tuple(map(Entry, order)),
        steps=2_000,
        seeds=4,
    )
    slower = {entry.called: next(factors) for entry in experiment.all_environments}
    perform = places.Worker.perform

    def at_its_speed(self, task, advance=None, stop=None):
        cost = COSTS[task.group.agent.name] * slower[task.group.environment.called]

        def count(n):
            clock.now += n * cost
            advance(n)

        return perform(self, task, count, stop)

    monkeypatch.setattr(places.Worker, "perform", at_its_speed)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(shown, "time", clock)
    watching = Watching(clock)
    run_experiment(experiment, tmp_path / "r", Execution(jobs=1), watching)
    total = clock.now
    assert total == pytest.approx(2_000 * 4 * sum(COSTS.values()) * sum(FACTORS), rel=1e-6)
    late = [
        (total - now, left) for now, left in watching.said if 0.1 * total <= now < 0.999 * total
    ]
    assert len(late) > 20
    assert max(max(left / true, true / max(left, 1e-9)) for true, left in late) < 1.5


def test_a_fast_agent_whose_first_task_is_mostly_overhead_is_not_taken_for_slow(
    tmp_path, monkeypatch
):
    """A task costs 50 ms whatever it does: its first 100 steps do not show how fast an agent is."""
    clock, costs = Clock(), {"tsde": 2e-4, "random": 1e-7}
    experiment = Experiment("overhead", ("riverswim",), tuple(costs), 20_000, 4)
    perform = places.Worker.perform

    def with_overhead(self, task, advance=None, stop=None):
        clock.now += 0.05

        def count(n):
            clock.now += n * costs[task.group.agent.name]
            advance(n)

        return perform(self, task, count, stop)

    monkeypatch.setattr(places.Worker, "perform", with_overhead)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(shown, "time", clock)
    watching = Watching(clock)
    run_experiment(experiment, tmp_path / "r", Execution(jobs=1), watching)
    late = [(clock.now - now, left) for now, left in watching.said if 0.1 <= now / clock.now < 0.99]
    assert len(late) >= 3
    assert max(max(left / true, true / max(left, 1e-9)) for true, left in late) < 1.5
