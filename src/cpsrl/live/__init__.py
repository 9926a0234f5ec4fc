"""Agents that live: on disk, through kills, with outcomes that come late or never.

    agent = cpsrl.open("agent.db", cpsrl.ContinuingPSRL(), (["idle", "busy"], ["wait", "go"]))
    decision = agent.decide("idle")                 what it did is on disk when a call returns
    agent.outcome(decision.id, 1.0, "busy")         now, much later, in any order, or never

What happens when:

- `decide` moves the agent's clock on by one step and tosses the rule's coin. Where a draw is due it
  is made then, from the belief of all the outcomes that had come by then.
- `outcome` learns, in the order of arrival. A rule that looks at counts is asked after each one; if
  it says so, the draw is made at the next `decide`.
- `discard` ends a decision without an outcome, and turns nothing back.
- `evolve` goes on with other labels, another range or another agent, and the counts of what was
  seen; a label keeps its number in the database, so nothing that was written is written anew.
- `act` and `observe` are the simple loop: `observe` learns and moves the clock on. `learn` takes a
  file of past transitions: it learns, and time stands still.
- Asked again with the same id, `decide` gives the same action; with another state it raises. The
  same outcome twice is one outcome; another outcome for a finished decision raises, and so does an
  unknown id. A decision that waits costs a row and nothing else.

Every call is an event, numbered 1, 2, ... . The agent is its events applied in order: the last
snapshot and the events since then give it back bit for bit (`cpsrl.live.schema` has the tables).
"""

from cpsrl.live.apprentice import Verdict
from cpsrl.live.durable import DurableAgent
from cpsrl.live.events import Conflict, Decision, Evolution, UnknownDecision
from cpsrl.live.opening import backup, open, view
from cpsrl.live.options import Options

__all__ = [
    "Conflict",
    "Decision",
    "DurableAgent",
    "Evolution",
    "Options",
    "UnknownDecision",
    "Verdict",
    "backup",
    "open",
    "view",
]
