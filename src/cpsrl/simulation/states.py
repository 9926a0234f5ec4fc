"""What a run needs to go on: a tree of scalars and arrays, one for every run."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from cpsrl.agents.agent import Agent, LiveAgent
from cpsrl.environments.pure import Environment
from cpsrl.mdp import Tabular
from cpsrl.mdp.problem import width_of
from cpsrl.simulation.loops import LOOPS, TOGETHER, Run
from cpsrl.simulation.optimum import gains_of, reference_of
from cpsrl.support.checks import checked_floats, checked_index, checked_number, checked_whole
from cpsrl.support.types import Floats

STATE_FORMAT = 4
STATE_KEYS = {"format", "seed", "run", "step", "horizon", "environment_state", "reward_sum", "gain"}
STATE_KEYS |= {"discounted_regret", "streams", "agent"}


def states_of(
    runs: Sequence[Run], numbers: Sequence[int], seed: int, spec: Any
) -> tuple[dict[str, Any], ...] | None:
    """Return what each run needs to go on; None where the agents do not say."""
    horizon, states = spec.horizon if isinstance(spec, Agent) else None, []
    for run, number in zip(runs, numbers, strict=True):
        able = all(callable(getattr(run.agent, name, None)) for name in ("state", "restore"))
        agent = _apart(run.agent, run.agent.state()) if able else None
        if not isinstance(agent, dict):
            return None
        mine = isinstance(run.agent, LiveAgent) and "streams" in agent
        states.append(
            {
                "format": STATE_FORMAT,
                "seed": seed,
                "run": number,
                "step": run.step,
                "horizon": horizon,
                "environment_state": run.simulator.stored(),
                "reward_sum": float(run.reward_sum),
                "discounted_regret": run.discounted_regret,
                "gain": run.gain,
                "streams": None if mine else run.simulator.streams.state(),
                "agent": agent,
            }
        )
    return tuple(states)


def restore(run: Run, state: dict[str, Any]) -> None:
    """Put a run that has just begun where `state` was stored."""
    agent, simulator = run.agent, run.simulator
    if not callable(getattr(agent, "restore", None)):
        raise ValueError(
            f"{label_of(agent)} has no restore(state), so its runs cannot be carried on"
        )
    agent.restore(_apart(agent, state["agent"]))
    if type(agent) in LOOPS and agent.step != state["step"] + 1:
        raise ValueError("the state is damaged: agent and run are not at the same step")
    if state["streams"] is not None or not isinstance(agent, LiveAgent):
        simulator.streams.restore(state["streams"])
    simulator.restore(state["environment_state"])
    run.gain, run.step, run.reward_sum = state["gain"], state["step"], state["reward_sum"]
    run.discounted_regret = state["discounted_regret"]


def check_states(
    states: Any, numbers: Sequence[int], seed: int, mdp: Tabular | Environment
) -> None:
    """Raise a ValueError unless `states` are those of these runs in this environment."""
    check_count(states, len(numbers))
    for state, run in zip(states, numbers, strict=True):
        _check_state(state, run, seed, mdp)
    if len(began := {state["step"] for state in states}) > 1:
        raise ValueError(f"the runs to go on with stand at different steps: {sorted(began)}")


def check_count(states: Any, runs: int, agents: int = 1) -> None:
    """Raise a ValueError unless there is a state for each of so many runs of each agent."""
    if states is None:
        raise ValueError(
            "resume is None: the earlier runs have no state to go on from, since their agent has "
            "no state() and restore(state), they were loaded without, or they were interrupted at "
            "different steps; leave resume out to begin"
        )
    if not isinstance(states, list | tuple) or not all(isinstance(s, dict) for s in states):
        raise ValueError("resume must be the `state` of earlier runs, one for every seed")
    if len(states) != runs * agents:
        several = f" of {agents} agents" if agents > 1 else ""
        raise ValueError(
            f"resume has {len(states)} states for {runs} seeds{several}: it takes one of every "
            "run, agent by agent; `runs.select(agent).state` are those of one"
        )


def _check_state(state: dict[str, Any], run: int, seed: int, mdp: Tabular | Environment) -> None:
    """Raise a ValueError unless `state` is that of a run in this environment."""
    if missing := STATE_KEYS - state.keys():
        raise ValueError(f"the state of a run lacks {', '.join(sorted(missing))}")
    if state["format"] != STATE_FORMAT:
        raise ValueError(f"the state has format {state['format']!r}, not {STATE_FORMAT}")
    if (state["seed"], state["run"]) != (seed, run):
        raise ValueError(
            f"the state is that of run {state['run']} of seed {state['seed']}, not of run "
            f"{run} of seed {seed}"
        )
    checked_whole("the step of the state", state["step"], 1)
    if state["horizon"] is not None:
        checked_whole("the horizon of the state", state["horizon"], 1)
    gain = checked_number("the gain of the state", state["gain"])
    checked_number("the reward sum of the state", state["reward_sum"])
    if state["discounted_regret"] is not None:
        checked_number("the discounted regret of the state", state["discounted_regret"])
    if not isinstance(state["agent"], dict):
        raise ValueError("the state of a run is damaged: the agent's must be a dictionary")
    gains, rounding = np.atleast_1d(reference_of(mdp).gain), 1e-9 * width_of(mdp.reward_range)
    if isinstance(mdp, Tabular):
        if not isinstance(state["environment_state"], dict):  # of a fleet, which looks itself
            checked_index("the environment's state", state["environment_state"], mdp.n_states)
        gains, rounding = (
            gains_of(mdp),
            rounding + 1e-14 * np.abs(mdp.models[0].rewards).max(),
        )
    if not (np.abs(gains[:, None] - _counted_against(state)) <= rounding).any(axis=0).all():
        raise ValueError(
            f"the state is that of a run in another environment: its optimal gain is {gain:g}, "
            f"and that of {mdp!r} is {gains[0]:g}"
        )


def _counted_against(state: dict[str, Any]) -> Floats:
    """Return the gain of a run's state, or those of the agents of a fleet, in an array `(n,)`."""
    place = state["environment_state"]
    own = place.get("gains") if isinstance(place, dict) else [state["gain"]]
    return checked_floats("the gains of the state", own, 1)


def _apart(agent: Any, state: Any) -> Any:
    """Return an agent's state, copied unless its class copies: those with a compiled loop do."""
    return state if type(agent) in LOOPS or type(agent) in TOGETHER else copy.deepcopy(state)


def place_of(mdp: Any) -> str:
    """Return what an environment is called in tables and figures."""
    return str(mdp.name or type(mdp).__name__)


def label_of(agent: Any) -> str:
    """Return what an agent is called in tables and figures."""
    return str(getattr(agent, "label", type(agent).__name__))
