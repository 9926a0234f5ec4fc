"""Compile what the usual agents need, into CPSRL_CACHE_DIR, before anybody waits for it."""

import sys
import tempfile
from pathlib import Path

import cpsrl
from cpsrl.agents import AGENTS

USUAL = ("continuing-psrl", "tsde", "ds-psrl")


def warm(name: str, n_states: int) -> None:
    """Let an agent do all that a durable agent does, once."""
    with tempfile.TemporaryDirectory() as folder:
        problem = (n_states, 2)
        with cpsrl.open(Path(folder) / "agent.db", AGENTS.make(name), problem) as agent:
            for t in range(3):
                agent.outcome(agent.decide(t).id, 0.5, t + 1)
            agent.learn([(0, 1, 0.5, 1)])
            agent.explain(0, draws=39)


if __name__ == "__main__":
    for name in sys.argv[1:] or USUAL:
        for n_states in (5, 200):
            warm(name, n_states)
