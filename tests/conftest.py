"""What the whole suite runs under, and what it says at its end."""

import os

# Ray's workers are nice to other processes unless told: on a busy machine they starve, and Ray
# starts them again and again because they do not report.
os.environ.setdefault("RAY_worker_niceness", "0")


def pytest_terminal_summary(terminalreporter):
    """Say plainly that pages were not looked at, which a count of skipped tests would hide."""
    skipped = terminalreporter.stats.get("skipped", [])
    unseen = [one for one in skipped if one.nodeid.startswith("tests/browser/")]
    if unseen:
        terminalreporter.section("NOT TESTED IN A BROWSER", yellow=True)
        terminalreporter.line(f"{len(unseen)} tests were skipped: {unseen[0].longrepr[2]}")
