"""`cpsrl agent`, `cpsrl learn` and `cpsrl serve`: durable agents from the shell."""

import json as json_module
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from cpsrl.agents import AGENTS
from cpsrl.cli.output import facts, show
from cpsrl.live import open
from cpsrl.live.durable import DurableAgent, view
from cpsrl.sizes import UNIT_RANGE

File = Annotated[Positional[Path], arg(metavar="FILE")]
Text = Annotated[Positional[str], arg(metavar="TEXT")]
OptionalText = Annotated[str | None, arg(metavar="TEXT")]
OptionalPath = Annotated[Path | None, arg(metavar="FILE")]

TOKEN = "CPSRL_TOKEN"


def new(
    file: File,
    name: Text,
    states: tuple[str, ...],
    actions: tuple[str, ...],
    reward_range: tuple[float, float] = UNIT_RANGE,
) -> None:
    """Make an agent: `cpsrl agent new agent.db tsde --states idle busy --actions wait go`.

    Args:
        file: the SQLite file.
        name: the agent, one of those that `cpsrl list agents` shows, with its default settings.
        states: the labels of the states, or how many there are (of features, for networks).
        actions: the labels of the actions, or how many there are.
        reward_range: the least and the largest mean reward that is thought possible.
    """
    if file.exists():
        raise ValueError(f"there is something at {file} already")
    problem = tuple(
        int(given[0]) if len(given) == 1 and given[0].isdigit() else list(given)
        for given in (states, actions)
    )
    with open(file, AGENTS.make(name), (*problem, reward_range)) as agent:
        show(f"made {agent.label} in {file}")


def status(file: File, json: bool = False) -> None:
    """Print where an agent stands, also while another process has it open.

    Args:
        file: the SQLite file.
        json: print one JSON object.
    """
    with view(file) as agent:
        found = agent.status()
    if json:
        print(json_module.dumps(found))
        return
    if last := found["last_resample"]:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(last["at"]))
        whose = f", stream {last['stream']}" if last["stream"] else ""
        found["last_resample"] = f"decision {last['decision'] + 1}{whose}, {when}: {last['why']}"
    show(facts({k.replace("_", " "): "-" if v is None else v for k, v in found.items()}))


def decide(
    file: File,
    state: Text,
    id: OptionalText = None,
    stream: OptionalText = None,
    json: bool = False,
) -> None:
    """Let an agent decide, and print the decision's id and the action.

    Args:
        file: the SQLite file.
        state: the state, by label or number.
        id: an id of one's own, with which the command may be repeated.
        stream: the name of the stream whose decision it is.
        json: print one JSON object.
    """
    with open(file) as agent:
        decision = agent.decide(_shown(agent, state), id, stream)
    found = vars(decision)
    print(json_module.dumps(found) if json else " ".join(map(str, found.values())))


def outcome(
    file: File, id: Text, reward: Annotated[Positional[float], arg(metavar="REWARD")], state: Text
) -> None:
    """Tell an agent how a decision went.

    Args:
        file: the SQLite file.
        id: that of the decision.
        reward: the reward.
        state: the next state.
    """
    with open(file) as agent:
        agent.outcome(id, reward, _shown(agent, state))


def discard(file: File, id: Text) -> None:
    """Tell an agent that a decision will have no outcome.

    Args:
        file: the SQLite file.
        id: that of the decision.
    """
    with open(file) as agent:
        agent.discard(id)


def explain(
    file: File,
    state: Text,
    draws: Annotated[int | None, arg(metavar="N")] = None,
    stream: OptionalText = None,
    json: bool = False,
) -> None:
    """Print what an agent believes about a state, also while another process has it open.

    Args:
        file: the SQLite file.
        state: the state, by label or number.
        draws: how many models to draw.
        stream: the name of the stream that is to act.
        json: print one JSON object.
    """
    with view(file) as agent:
        found = agent.explain(_shown(agent, state), draws, stream)
    if json:
        print(found.to_json())
    else:
        show(str(found))


def learn(file: File, past: Annotated[Positional[Path], arg(metavar="PAST")]) -> None:
    """Let an agent learn from a log, once: columns state, action, reward and, if known, next_state.

    For example, `cpsrl learn agent.db past.csv`.

    Args:
        file: the SQLite file.
        past: a .csv or .parquet file.
    """
    with open(file) as agent:
        show(str(agent.learn(past)))


def serve(
    file: File,
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: OptionalPath = None,
    name: tuple[str, ...] = (),
    durability: str = "full",
) -> None:
    """Serve an agent as JSON over HTTP, with a page to watch it at /.

    For example, `cpsrl serve agent.db --port 8000`. On an address that is not this machine's own a
    token is needed: from a file, or from the environment variable CPSRL_TOKEN.

    Args:
        file: the SQLite file.
        host: the address to listen at.
        port: the port; 0 takes a free one.
        token_file: a file that holds the token that clients must show.
        name: a host name by which clients may call, besides localhost and addresses.
        durability: "full" or "group" (see `cpsrl.open`).
    """
    from cpsrl.live.service import serve as run

    token = os.environ.get(TOKEN)
    if token_file is not None:
        token = token_file.read_text().strip()
        if not token:
            raise ValueError(f"{token_file} has no token in it")
    with open(file, durability=durability) as agent:
        run(agent, host, port, token, name)


def agent() -> None:
    """Durable agents: make one, look at it, let it decide (see `cpsrl agent --help`)."""
    show(f"cpsrl agent {{{','.join(COMMANDS)}}} FILE ...; `cpsrl agent --help` says more")


COMMANDS: dict[str, Callable[..., Any]] = {
    "new": new,
    "status": status,
    "decide": decide,
    "outcome": outcome,
    "discard": discard,
    "explain": explain,
}


def _shown(agent: DurableAgent, text: str) -> Any:
    """Return a state that is written as text, as the agent's calls take it."""
    return agent.labels.state_name(agent.labels.read_state("state", text))
