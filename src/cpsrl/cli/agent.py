"""`cpsrl agent`, `cpsrl learn` and `cpsrl serve`: durable agents from the shell."""

import json as json_module
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from cpsrl._private.interrupts import end_process
from cpsrl.agents import AGENTS
from cpsrl.cli.output import facts, show
from cpsrl.live import DurableAgent, open, view
from cpsrl.live import backup as copy
from cpsrl.mdp.problem import UNIT_RANGE
from cpsrl.support.checks import count

File = Annotated[Positional[Path], arg(metavar="FILE")]
Text = Annotated[Positional[str], arg(metavar="TEXT")]
OptionalText = Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")]
OptionalPath = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]
Labels = Annotated[tuple[str, ...], arg(metavar="TEXT ...", help_behavior_hint="")]

TOKEN = "CPSRL_TOKEN"


def new(
    file: File,
    name: Annotated[Positional[str], arg(metavar="NAME")] = "adaptive-psrl",
    *,
    states: tuple[str, ...],
    actions: tuple[str, ...],
    reward_range: tuple[float, float] = UNIT_RANGE,
) -> None:
    """Make an agent: `cpsrl agent new agent.db --states idle busy --actions wait go`.

    Args:
        file: the SQLite file.
        name: the agent: the one to start with, or another of those that `cpsrl list agents` shows,
            with its default settings.
        states: the labels of the states, or how many there are (of features, for networks).
        actions: the labels of the actions, or how many there are.
        reward_range: the least and the largest mean reward that is thought possible.
    """
    if file.exists():
        raise ValueError(f"{file} exists already")
    problem = tuple(
        int(given[0]) if len(given) == 1 and given[0].isdigit() else list(given)
        for given in (states, actions)
    )
    low, high = reward_range
    with open(file, AGENTS.make(name), (*problem, reward_range)):
        labels = f"states {', '.join(states)}; actions {', '.join(actions)}"
        show(f"{labels}; mean rewards from {low:g} to {high:g}")


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
    found = {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in found.items()}
    show(facts({k.replace("_", " "): "-" if v is None else v for k, v in found.items()}))


def decide(
    file: File,
    state: Text,
    id: OptionalText = None,
    stream: OptionalText = None,
    actions: Annotated[
        tuple[str, ...] | None, arg(metavar="TEXT ...", help_behavior_hint="")
    ] = None,
    json: bool = False,
) -> None:
    """Let an agent decide, and print the decision's id and the action.

    Args:
        file: the SQLite file.
        state: the state, by label or number.
        id: an id of one's own, with which the command may be repeated.
        stream: the name of the stream whose decision it is.
        actions: those that are allowed this time.
        json: print one JSON object.
    """
    with open(file) as agent:
        labels = agent.labels
        allowed = actions and [labels.action_name(labels.read_action(text)) for text in actions]
        decision = agent.decide(_shown(agent, state), id, stream, allowed)
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
    draws: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None,
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


def check(file: File) -> None:
    """Check every row of an agent's file, also while another process has it open.

    The other commands check what they need, which does not take longer as a file grows.

    Args:
        file: the SQLite file.
    """
    with view(file) as agent:
        agent.check()
        found = agent.status()
    show(
        f"{file} is whole: {count(found['decisions'], 'decision')}, "
        f"{count(found['outcomes'], 'outcome')}"
    )


def backup(file: File, to: File) -> None:
    """Copy an agent's file, also while a process has it open; the copy is checked, row by row.

    Args:
        file: the SQLite file.
        to: where the copy goes; there must be nothing yet.
    """
    copy(file, to)
    show(f"copied {file} to {to}")


def restore(file: File, to: File) -> None:
    """Put a copy of an agent in its place, after a check of every row; the same as backup.

    Args:
        file: the copy.
        to: where the agent is to be; there must be nothing yet.
    """
    backup(file, to)


def evolve(
    file: File,
    agent: OptionalText = None,
    add_states: Labels = (),
    retire_states: Labels = (),
    add_actions: Labels = (),
    retire_actions: Labels = (),
    reward_range: Annotated[
        tuple[float, float] | None, arg(metavar="LEAST MOST", help_behavior_hint="")
    ] = None,
    forget: bool = False,
    dry_run: bool = False,
) -> None:
    """Change an agent's problem, or the agent, and keep what was learnt where that can be.

    Args:
        file: the SQLite file.
        agent: what it is from now on, one of those that `cpsrl list agents` shows.
        add_states: labels of new states; where states have no labels, how many more.
        retire_states: states that will not be met any more.
        add_actions: as for states.
        retire_actions: actions that will not be taken any more.
        reward_range: the new least and largest mean reward.
        forget: do it where nothing that was learnt can be kept, too.
        dry_run: say what would be kept, and change nothing.
    """
    with open(file) as one:
        labels = one.labels

        def new(given: tuple[str, ...], names: Any) -> Any:
            return given if names is not None or not given else int(given[0])

        found = one.evolve(
            None if agent is None else AGENTS.make(agent),
            add_states=new(add_states, labels.states),
            retire_states=[_shown(one, text) for text in retire_states],
            add_actions=new(add_actions, labels.actions),
            retire_actions=[labels.action_name(labels.read_action(a)) for a in retire_actions],
            reward_range=reward_range,
            forget=forget,
            dry_run=dry_run,
        )
    show(f"{'would be' if dry_run else 'is now'} {found}")


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
    name: Annotated[tuple[str, ...], arg(metavar="HOST ...", help_behavior_hint="")] = (),
    durability: str = "full",
    log: bool = False,
) -> None:
    """Serve an agent, or those of a folder, as JSON over HTTP, with a page to watch one at /.

    For example, `cpsrl serve agent.db --port 8000`. On an address that is not this machine's own a
    token is needed: from a file, or from the environment variable CPSRL_TOKEN.

    Args:
        file: the SQLite file, or a folder of them: then NAME.db is at /agents/NAME/.
        host: the address to listen at.
        port: the port; 0 takes a free one.
        token_file: a file that holds the token that clients must show, or several, one a line:
            read or write, the token, and perhaps an agent's name. It is read again when it changes.
        name: a host name by which clients may call, besides localhost and addresses.
        durability: "full" or "group" (see `cpsrl.open`).
        log: write a line of JSON for every request to standard error.
    """
    from cpsrl.live.agents import Agents
    from cpsrl.live.service import serve as run

    if log:
        logging.basicConfig(format="%(message)s")
        logging.getLogger("cpsrl").setLevel(logging.INFO)
    token = os.environ.get(TOKEN) if token_file is None else token_file
    if file.is_dir():
        agents = Agents(file, durability=durability)
    else:
        agents = Agents(agent=open(file, durability=durability))
    try:
        run(agents, host, port, token, name)
    finally:
        agents.close()
    end_process(0)  # or SQLite would tidy up after each of a thousand, and a draw would end


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
    "check": check,
    "backup": backup,
    "restore": restore,
    "evolve": evolve,
}


def _shown(agent: DurableAgent, text: str) -> Any:
    """Return a state that is written as text, as the agent's calls take it."""
    return agent.labels.state_name(agent.labels.read_state("state", text))
