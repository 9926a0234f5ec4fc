"""What the suite runs under and says at its end, and runs to draw and to report."""

import os
import signal

import numpy as np
import pytest

from cpsrl.simulation import Runs

# Ray's workers are nice to other processes unless told: on a busy machine they starve, and Ray
# starts them again and again because they do not report.
os.environ.setdefault("RAY_worker_niceness", "0")


@pytest.fixture(autouse=True, scope="session")
def heeds_ctrl_c():
    """What a shell starts in the background begins with Ctrl-C ignored, and would never end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def make_runs():
    """Makes runs whose regret is scale * t^power for every agent, with noise from run to run."""

    def make(agents, environments=("river",), seeds=20, steps=10_000, gain=0.5):
        times = np.arange(50, steps + 1, 50)
        rng = np.random.default_rng(1)
        rows, names, places = [], [], []
        for place in environments:
            for name, (scale, power) in agents.items():
                for _ in range(seeds):
                    rows.append(scale * rng.lognormal(0, 0.3) * times.astype(float) ** power)
                    names.append(name)
                    places.append(place)
        regret = np.array(rows)
        return Runs(
            times=times,
            regret=regret,
            resamples=np.ones(regret.shape, np.int64),
            seeds=np.tile(np.arange(seeds), len(agents) * len(environments)),
            agent=tuple(names),
            environment=tuple(places),
            gain=np.full(len(regret), gain),
            seed=0,
        )

    return make


@pytest.fixture(scope="session")
def runs(make_runs):
    """Five agents, four of which end close together."""
    return make_runs(
        {
            "Continuing PSRL, gamma=0.99": (40, 0.2),
            "Continuing PSRL, doubling": (39, 0.2),
            "TSDE": (38, 0.2),
            "DS-PSRL": (2, 0.75),
            "random": (0.4, 1.0),
        }
    )


def pytest_terminal_summary(terminalreporter):
    """Say plainly that pages were not looked at, which a count of skipped tests would hide."""
    skipped = terminalreporter.stats.get("skipped", [])
    unseen = [one for one in skipped if one.nodeid.startswith("tests/browser/")]
    if unseen:
        terminalreporter.section("NOT TESTED IN A BROWSER", yellow=True)
        terminalreporter.line(f"{len(unseen)} tests were skipped: {unseen[0].longrepr[2]}")
