"""What the whole suite says at its end."""


def pytest_terminal_summary(terminalreporter):
    """Say plainly that pages were not looked at, which a count of skipped tests would hide."""
    skipped = terminalreporter.stats.get("skipped", [])
    unseen = [one for one in skipped if one.nodeid.startswith("tests/browser/")]
    if unseen:
        terminalreporter.section("NOT TESTED IN A BROWSER", yellow=True)
        terminalreporter.line(f"{len(unseen)} tests were skipped: {unseen[0].longrepr[2]}")
