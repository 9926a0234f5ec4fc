"""A deterministic client of a durable agent, which can be killed and go on where it was.

It writes the number of every operation that was acknowledged, and the action of a decision, to a
file: what a process has written to one is there after it was killed.
"""

import os
import struct
from functools import cache

import numpy as np

import cpsrl
from cpsrl.mdp.problem import FeatureSizes
from live.forks import die_in

STATES = 6
SPECS = {
    "coin": (lambda: cpsrl.ContinuingPSRL(0.95), cpsrl.Sizes(STATES, 2)),
    "tsde": (cpsrl.TSDE, cpsrl.Sizes(STATES, 2)),
    "networks": (
        lambda: cpsrl.BootstrappedDQN(0.9, members=2, hidden=(8,), batch=4, capacity=60),
        FeatureSizes(STATES, 2),
    ),
}


@cache
def operations(decisions):
    """The calls in their order: decisions, and outcomes late, out of order, or never."""
    rng, due = np.random.default_rng(8), {}
    calls = []
    for i in range(decisions):
        calls.append(("decide", i))
        u = rng.random()
        if u < 0.97:
            late = 0 if u < 0.8 else int(rng.integers(1, 40))
            due.setdefault(i + late, []).append(("discard" if u > 0.95 else "outcome", i))
        ready = due.pop(i, [])
        calls += [ready[j] for j in rng.permutation(len(ready))]
    return calls


@cache
def noise(decisions):
    return np.random.default_rng(9).random(decisions)


class Client:
    """Where a client stands that has learnt the actions of its first decisions."""

    def __init__(self, decisions, actions=()):
        self.calls, self.noise = operations(decisions), noise(decisions)
        self.states, self.actions = [0], []
        for action in actions:
            self.act(action)

    def act(self, action):
        state, u = self.states[-1], self.noise[len(self.actions)]
        self.actions.append(action)
        self.states.append(min(state + 1, STATES - 1) if u < 0.3 + 0.4 * action else 0)

    def told(self, i):
        """The reward and next state of decision i."""
        return float(self.states[i] == STATES - 1) + 0.1 * self.noise[i], self.states[i + 1]


def shown(kind, state):
    return np.eye(STATES)[state] if kind == "networks" else state


def opened(path, kind, **options):
    make, problem = SPECS[kind]
    return cpsrl.open(path, make(), problem, seed=3, snapshot_every=300, **options)


def go_on(agent, kind, decisions, first, actions, acknowledge):
    """Call from operation `first` on."""
    client = Client(decisions, actions)
    for k in range(first, len(client.calls)):
        call, i = client.calls[k]
        action = -1
        if call == "decide":
            action = agent.decide(shown(kind, client.states[i]), id=f"d{i}").action
            if i == len(client.actions):
                client.act(action)
        elif call == "outcome":
            reward, next_state = client.told(i)
            agent.outcome(f"d{i}", reward, shown(kind, next_state))
        else:
            agent.discard(f"d{i}")
        acknowledge(k, action)


def twin(kind, decisions, calls=None):
    """A live agent in memory after the first `calls` operations, and the client."""
    make, problem = SPECS[kind]
    agent, client = cpsrl.start(make(), problem, seed=3), Client(decisions)
    for call, i in client.calls[:calls]:
        state = shown(kind, client.states[i])
        if call == "decide":
            client.act(agent.decide(state))
        elif call == "outcome":
            reward, next_state = client.told(i)
            agent.learn(state, client.actions[i], reward, shown(kind, next_state))
    return agent, client


RECORD = struct.Struct("qq")


def go_on_and_write(path, kind, decisions, written, options, calls, seconds):
    """Go on from where the file `written` says that the client is, in a process of its own.

    It is killed `seconds` after its call number `calls`, or after its start if that is 0, or never
    if that is None.
    """
    if calls == 0:
        die_in(seconds)
    done = acknowledged(written)
    actions = [action for k, action in done if operations(decisions)[k][0] == "decide"]
    file = os.open(written, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def acknowledge(k, action):
        os.write(file, RECORD.pack(k, action))
        if k - len(done) + 1 == calls:
            die_in(seconds)

    go_on(opened(path, kind, **options), kind, decisions, len(done), actions, acknowledge)


def acknowledged(written):
    """The (operation, action) pairs of the file."""
    return list(RECORD.iter_unpack(written.read_bytes())) if written.exists() else []
