"""Agents' databases as an earlier version of cpsrl wrote them, and how they went on there.

    PYTHONPATH=EARLIER/src:tests python -m live.written tests/live/fixtures

makes them anew, with facts.json, by the version whose sources are in EARLIER. It calls nothing that
is not public, so that every version can be asked the same.
"""

import hashlib
import json
import shutil
import sqlite3
import sys
from pathlib import Path

import numpy as np

import cpsrl
from cpsrl.agents import AGENTS
from cpsrl.beliefs import Forgetting, Parametric, Truncated

FIXTURES = Path(__file__).parent / "fixtures"
STATES, ACTIONS = ["idle", "busy", "down"], ["wait", "go"]
SHOPS = (None, "shop-1", "$array")
PRIOR = cpsrl.Dirichlet(1.0, rewards=cpsrl.NormalGamma(0.4, 1.0, 4.0, 8.0))
MASK = [[True, False, True], [True, True, True], [False, True, True]]
PSRL, COIN = cpsrl.PSRL, cpsrl.Bernoulli

CASES = {
    "coin": (cpsrl.ContinuingPSRL(0.9), (STATES, ACTIONS), {}),
    "keep": (cpsrl.TSDE(PRIOR), (STATES, ACTIONS, (-1, 2)), {"journal": "keep"}),
    "streams": (cpsrl.ContinuingPSRL(0.8), (STATES, ACTIONS), {"remember": 20}),
    "forgetting": (PSRL(COIN(0.8), belief=Forgetting(half_life=30.0)), (3, 2), {}),
    "truncated": (PSRL(cpsrl.FixedLength(3), cpsrl.Average(), Truncated(50.0)), (3, 2), {}),
    "parametric": (
        PSRL(
            COIN(0.8),
            belief=Parametric(
                "queue", {"arrival_share": ("uniform", 0.2, 0.8)}, {"capacity": 5}, points=32
            ),
        ),
        (6, 2, (-5, 1)),
        {},
    ),
    "doubling": (AGENTS.make("count-doubling-psrl"), (3, 2), {"journal": "keep"}),
    "available": (cpsrl.TSDE(), cpsrl.Sizes(3, 3, available=MASK), {}),
    "ucrl2": (cpsrl.UCRL2(), (3, 2), {}),
    "networks": (
        cpsrl.BootstrappedDQN(0.9, members=2, hidden=(4,), batch=4, capacity=30),
        (3, ["left", "right"]),
        {},
    ),
}
"""By name: the agent, its problem and options. All but "keep" were let go without being closed."""


def shown(labels, state):
    if labels.n_states is None:
        return np.eye(labels.sizes.n_features)[state].tolist()
    return labels.state_name(state)


def go(agent, name, first, last):
    """Decide, and tell what comes of it late, out of order or never; return the actions."""
    labels, done = agent.labels, []
    n = labels.n_states or labels.sizes.n_features
    for i in range(first, last):
        rng = np.random.default_rng((7, i))
        stream = SHOPS[int(rng.integers(3))] if name == "streams" else None
        done.append(agent.decide(shown(labels, int(rng.integers(n))), f"d{i}", stream).action)
        told, after = (
            f"d{max(i - int(rng.integers(4)), first)}",
            shown(labels, int(rng.integers(n))),
        )
        if told in agent.pending() and i % 9:
            try:
                agent.outcome(told, round(float(rng.random()), 3), after)
            except ValueError:  # the belief calls it impossible
                agent.discard(told)
        if name == "keep" and i % 5 == 0:
            done.append(agent.act("idle"))
            agent.observe("idle", done[-1], 0.25, "busy")
    return done


def learnt(labels):
    """A log of the past."""
    state, after = (shown(labels, s) for s in (0, 1))
    return [(state, labels.action_name(0), 0.5, after), (after, labels.action_name(1), 1.0, after)]


def facts(agent, last=10**9):
    """What an agent says about itself, whatever version it is in, and what is in its tables."""
    totals = getattr(agent, "totals", None) or agent.tally
    status = agent.status()
    status.pop("path")
    with sqlite3.connect(agent.path) as db:
        counts = {
            table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("decisions", "history", "logs")
        }
        kept = db.execute(
            "SELECT n, at, id, state, action, reward, next_state FROM events WHERE n <= ?", (last,)
        )
        events = hashlib.sha256(repr(sorted(kept.fetchall())).encode()).hexdigest()
    db.close()
    return {
        "status": status,
        "pending": agent.pending(),
        "tables": counts,
        "events": events,
        "visits": totals.visits.tolist(),
        "marks": [list(mark) for mark in totals.marks],
        "rates": [list(rate)[:3] for rate in agent.rates()],
    }


def write(folder, name):
    """Write an agent's database, all of it in one file, and return the facts about it."""
    spec, problem, options = CASES[name]
    path, spare = folder / f"{name}.db", folder / f"{name}-spare.db"
    agent = cpsrl.open(path, spec, problem, seed=11, snapshot_every=45, **options)
    go(agent, name, 0, 30)
    if name not in ("available", "parametric"):
        agent.learn(learnt(agent.labels))
    go(agent, name, 30, 70)
    if name == "keep":
        agent.close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    shutil.copy(path, spare)
    again = cpsrl.open(spare, snapshot_every=45)
    found = {"facts": facts(again), "actions": go(again, name, 70, 110)}
    again.close()
    shutil.copy(path, folder / f"{name}.copied")
    agent.close()
    (folder / f"{name}.copied").replace(path)
    for rest in (*folder.glob(f"{name}.db-*"), *folder.glob(f"{name}-spare.db*")):
        rest.unlink()
    return found


if __name__ == "__main__":
    from cpsrl.experiments.provenance import provenance

    where = Path(sys.argv[1])
    written = {name: write(where, name) for name in CASES}
    text = json.dumps({"cpus": [provenance().cpu], "agents": written}, indent=None)
    (where / "facts.json").write_text(text.replace('}, "', '},\n"') + "\n")
