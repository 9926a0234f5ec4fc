"""Kills with everything switched on: streams, deadlines, draws in the background, evolution.

What happens when is then a matter of the clock. The journal says what has happened: everything that
was acknowledged is in it, and an agent in memory that does all of it is equal bit for bit.
"""

import os
import struct

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.live import Conflict
from cpsrl.live.events import Kind
from cpsrl.live.labels import labels_of
from cpsrl.live.memory import Memory
from cpsrl.live.options import Options
from live import clients
from live.forks import die_in, forked, was_killed

SPEC = cpsrl.ContinuingPSRL(0.9)
PROBLEM = (["a", "b", "c"], ["x", "y"])
OPTIONS = {
    **{"journal": "keep", "snapshot_every": 150, "background": 4},
    **{"outcome_within": 0.25, "otherwise": 0.125, "stream_within": 0.02},
}
CHANGES = (
    {"add_states": ["d"], "reward_range": (-1.0, 1.0)},
    {"add_actions": ["z"], "retire_states": ["b"]},
    {"agent": cpsrl.ContinuingPSRL(0.95), "add_states": ["b"], "retire_actions": ["x"]},
)
RECORD = struct.Struct("qqq")
DECIDED, TOLD, LATE, CHANGED = range(4)


def go_on(path, written, operations, most, seconds):
    """Decide and tell from where the file `written` says that this client is.

    It is killed `seconds` after operation `most`, if there is one.
    """
    done = len(acknowledged(written))
    file = os.open(written, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    given = (None, None) if path.exists() else (SPEC, PROBLEM)
    agent = cpsrl.open(path, *given, seed=3, **OPTIONS)
    each = operations // (len(CHANGES) + 1)
    for k in range(done, operations):
        rng = np.random.default_rng(k)
        i, told = divmod(k, 2)
        late = max(0, i - int(rng.integers(0, 12)))
        what = TOLD
        if k and k % each == 0 and k // each <= len(CHANGES):
            try:
                agent.evolve(**CHANGES[k // each - 1])
            except ValueError as error:  # it was done, and the kill came before it was noted
                unless_it_says(error, "twice")
            what, i = CHANGED, k // each - 1
        elif not told:
            what, state = DECIDED, ["a", "c"][i % 2] if i % 9 else ["a", "b", "c", "d"][i % 4]
            try:
                agent.decide(
                    state, id=f"d{i}", stream=f"s{int(rng.integers(5))}" if i % 3 else None
                )
            except ValueError as error:
                unless_it_says(error, "retired", "must be one of")
                what = CHANGED
        else:
            i = late
            try:
                agent.outcome(f"d{i}", 1 / (1 + i), "a")
            except Conflict:
                what = LATE
            except ValueError as error:
                unless_it_says(error, "unknown", "retired")
                what = CHANGED
        os.write(file, RECORD.pack(k, what, i))
        if k >= most:
            die_in(seconds)
            most = operations


def unless_it_says(error, *words):
    if not any(word in str(error) for word in words):
        raise error


def acknowledged(written):
    return list(RECORD.iter_unpack(written.read_bytes())) if written.exists() else []


def twin_of(path, spec, problem, seed, background, changes):
    """The agent in memory that has done all that is in the journal, and the events by kind and id.

    Where the agent decides otherwise than it is written, `repeat` raises.
    """
    options = Options(background=background)
    memory = Memory(spec, labels_of(problem, spec), seed, options)
    changes, found = list(changes), {}
    with cpsrl.live.view(path) as agent:
        agent.check()
        database = agent._database
        events = [*database._chain("history", 1, 0)]
        events += database._chain("journal", len(events) + 1, events[-1][1] if events else 0)
        for event, seal in events:
            found.setdefault((event.kind, event.id), []).append(event)
            if event.kind is Kind.EVOLVE:
                change = dict(changes.pop(0))
                new = change.pop("agent", None) or memory.live.spec
                names = ("add_states", "retire_states", "add_actions", "retire_actions")
                given = dict.fromkeys(names, ()) | {"reward_range": None} | change
                memory, _ = memory.evolved(new, *memory.labels.evolved(given), options)
                memory.event, memory.seal = event.n, seal
            else:
                memory.repeat(event, seal)
        assert equal(agent.agent.state(), memory.live.state())
        assert equal(agent.totals.state(), memory.totals.state())
    assert not changes
    return found


@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_in_process(folder, kills):
    path, written, operations = folder / "agent.db", folder / "acks", 200 * kills
    rng = np.random.default_rng(kills)
    for kill in range(kills + 1):
        most = operations * (kill + 1) // (kills + 2) if kill < kills else operations
        child = forked(go_on, path, written, operations, most, float(rng.random() * 0.003))
        assert was_killed(child) == (kill < kills), "it ended by itself"
    done = acknowledged(written)
    assert [k for k, _, _ in done] == list(range(operations))
    found = twin_of(path, SPEC, PROBLEM, 3, OPTIONS["background"], CHANGES)
    for kind in (Kind.DECIDE, Kind.OUTCOME, Kind.DISCARD, Kind.EVOLVE):
        assert all(len(events) == 1 for key, events in found.items() if key[0] is kind)
    for _, what, i in done:
        if what == DECIDED:
            assert (Kind.DECIDE, f"d{i}") in found
        elif what == TOLD:
            assert found[Kind.OUTCOME, f"d{i}"][0].reward == 1 / (1 + i)
        elif what == LATE:
            ends = [found.get((kind, f"d{i}")) for kind in (Kind.OUTCOME, Kind.DISCARD)]
            assert any(ends)
    kinds = {kind for kind, _ in found}
    assert {Kind.LEAVE, Kind.EVOLVE} <= kinds


@pytest.mark.slow
def test_forty_kills_of_a_server_with_eight_clients(folder):
    path, port, kills = folder / "agent.db", clients.free_port(), 40
    options = OPTIONS | {"outcome_within": 2.0, "stream_within": 1.0}
    changes = ({"add_states": 1}, {"add_actions": 1}, {"agent": cpsrl.ContinuingPSRL(0.97)})
    talking = [clients.Client(i, port, 2500, 100, streams=3) for i in range(8)]
    for client in talking:
        client.start()
    rng, server, done = np.random.default_rng(3), None, 0
    while any(client.is_alive() for client in talking):
        if server is None or not server.is_alive():
            if done in (10, 20, 30):
                with cpsrl.open(path, **options) as agent:
                    agent.evolve(**changes[done // 10 - 1])
            server = forked(clients.serve, path, port, options)
            clients.wait_for(port, server)
        if done < kills:
            clients.wait_for_requests(talking, (done + 0.5) / kills, server)
            server.join(float(0.02 * rng.random()))
            server.kill()
            server.join()
            done += 1
        else:
            server.join(0.1)
    server.kill()
    server.join()
    assert done == kills, "the clients were through before the last kill"
    found = twin_of(path, clients.SPEC, clients.SIZES, 4, options["background"], changes)
    late = 0
    for client in talking:
        assert not client.wrong
        for place, body, answer in client.acknowledged:
            if "error" in answer:
                late += 1
                assert (
                    "had no outcome within" in answer["error"]
                    or "another outcome" in answer["error"]
                )
                continue
            (event,) = found[Kind(place), body["id"]]
            if place == "decide":
                assert (event.action, event.state) == (answer["action"], body["state"])
            else:
                assert (event.reward, event.next_state) == (body["reward"], body["next_state"])
    assert late < sum(len(client.acknowledged) for client in talking) / 2
