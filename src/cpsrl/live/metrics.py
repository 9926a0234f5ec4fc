"""What a server and its open agents have done, in Prometheus's text form (version 0.0.4)."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from cpsrl.live.agents import Agents
from cpsrl.live.events import NotOpen

GAUGES = ("pending", "oldest_pending_seconds", "snapshot_age_seconds", "reward_rate", "streams")
SHOWN = {
    "decisions": "Decisions taken.",
    "outcomes": "Outcomes learnt from.",
    "discarded": "Decisions that ended without an outcome.",
    "pending": "Decisions that wait for their outcome.",
    "oldest_pending_seconds": "How long the oldest of them has waited.",
    "streams": "Streams.",
    "resamples": "Models drawn.",
    "resample_seconds": "Seconds in which models were drawn and planned in.",
    "lock_wait_seconds": "Seconds for which calls waited for each other.",
    "commits": "Transactions written since the agent was opened.",
    "commit_seconds": "Seconds in which they were written.",
    "snapshot_age_seconds": "How long ago the last snapshot was written.",
    "reward_rate": "Mean reward of the outcomes.",
}


def exposition(agents: Agents, requests: Mapping[tuple[str, int], int]) -> str:
    """Return the metrics of the open agents and of the requests."""
    return "\n".join([*_lines(agents, requests), ""])


def _lines(agents: Agents, requests: Mapping[tuple[str, int], int]) -> Iterator[str]:
    measured = {}
    for name, agent in list(agents.open.items()):
        with suppress(NotOpen):
            measured[name] = agent.metrics()
    for key, what in SHOWN.items():
        kind, name = ("gauge", key) if key in GAUGES else ("counter", f"{key}_total")
        yield f"# HELP cpsrl_{name} {what}"
        yield f"# TYPE cpsrl_{name} {kind}"
        for whose, found in measured.items():
            if found.get(key) is not None:
                yield f'cpsrl_{name}{{agent="{whose}"}} {_number(found[key])}'
    yield "# HELP cpsrl_requests_total Requests answered, by what was asked and the status."
    yield "# TYPE cpsrl_requests_total counter"
    for (place, status), n in sorted(requests.items()):
        yield f'cpsrl_requests_total{{place="{place}",status="{status}"}} {n}'


def _number(value: Any) -> str:
    return repr(value) if isinstance(value, int) else f"{value:.9g}"
