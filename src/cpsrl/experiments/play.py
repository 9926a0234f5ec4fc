"""`play`: an agent in an environment of Gymnasium.

    for t = 1, 2, ...
        A_t = agent.act(X_t)
        X_(t+1), R_(t+1) = env.step(A_t)
        agent.observe(X_t, A_t, R_(t+1), X_(t+1))

Nothing is known of the environment but its spaces, so there is no gain and no regret: what is
recorded are rewards, resamplings and ends of episodes. For an exact MDP `simulate` does more.
"""

import copy
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpsrl.agents.agent import Agent, LiveAgent
from cpsrl.checks import checked_whole, shown
from cpsrl.experiments.progress import shown_progress
from cpsrl.mdp import TabularMDP
from cpsrl.networks.agent import ValueSamplingAgent
from cpsrl.seeding import Streams
from cpsrl.simulation.readable import resamples_of
from cpsrl.simulation.runs import record_steps
from cpsrl.sizes import UNIT_RANGE
from cpsrl.types import Floats, Ints

TOLD_EVERY = 100
"""Steps from one word to whoever shows the progress to the next."""


@dataclass(frozen=True, eq=False)
class Played:
    """What was played: curves, one row a copy of the environment, and the live agents.

    Attributes:
        times: `(points,)` the recorded steps.
        rewards: `(rows, points)` the sum of the rewards up to step t.
        resamples: `(rows, points)` number of resamplings up to step t.
        ends: `(rows, points)` number of episodes that ended up to step t, where
            `cpsrl.gym.Continuing` says so.
        label: what the agent is called.
        environment: the id of the environment.
        seed: the root seed.
        agents: the live agents, one a row.
        observation: where the environment stands.
        env: the environment.
    """

    times: Ints
    rewards: Floats
    resamples: Ints
    ends: Ints
    label: str
    environment: str
    seed: int
    agents: tuple[Any, ...]
    observation: Any
    env: Any

    def __repr__(self) -> str:
        rows, points = self.rewards.shape
        steps = f"{self.times[-1]:,}" if points else "no recorded"
        where = self.environment or "an environment"
        return f"Played({self.label} in {where}: {rows} rows, {steps} steps)"

    @property
    def agent(self) -> Any:
        """The live agent, where there is one row."""
        if len(self.agents) > 1:
            raise ValueError(f"there are {len(self.agents)} agents, one a row: see `agents`")
        return self.agents[0]


def play(
    agent: Any,
    env: Any,
    steps: int,
    seed: int = 0,
    record: Any = None,
    resume: Played | None = None,
    reward_range: tuple[float, float] | None = None,
) -> Played:
    """Let an agent act and learn in an environment of Gymnasium that never ends.

    Tabular agents are for environments whose observations are states (Discrete, MultiDiscrete, or a
    Tuple of Discrete ones), networks for those whose observations are vectors (Box); actions are
    Discrete. In a vector environment every copy gets an agent of its own, which learns from that
    copy alone. Interrupted (Ctrl-C), it returns what was played, with which `resume` goes on.

    Args:
        agent: one of the package's agents, or a live one (`cpsrl.start`), or any object with
            `act(observation)` and `observe(observation, action, reward, next_observation)`. A live
            agent or an object learns itself; only copies of it would do in a vector environment.
        env: the environment. One with episodes is wrapped in `cpsrl.gym.Continuing` first.
        steps: how many steps to take.
        seed: the root seed of the agents, run i being that of copy i, and the environment's seed.
        record: which steps to record (see `simulate`).
        resume: what an earlier call with this environment returned: its agents go on from there,
            and neither `agent` nor `seed` is used.
        reward_range: the least and the largest mean reward that is thought possible; (0, 1) unless
            the environment is one of ours, whose range is known.

    Returns:
        The curves and the live agents.
    """
    from cpsrl.gym.spaces import problem_of  # first, since it says how to get Gymnasium

    steps = checked_whole("steps", steps, 1)
    from gymnasium.vector import VectorEnv

    many = isinstance(env, VectorEnv)
    _check_endless(env, many)
    kinds = ("single_observation_space", "single_action_space")
    observations, actions = (
        getattr(env, name.removeprefix("" if many else "single_")) for name in kinds
    )
    mdp = _model_of(env)
    if reward_range is None:
        reward_range = getattr(mdp, "reward_range", UNIT_RANGE)
    available = getattr(mdp, "available", None)
    problem, encode, first_action = problem_of(observations, actions, reward_range, available)
    rows = env.num_envs if many else 1
    if resume is None:
        agents = _started(agent, problem, rows, steps, seed)
        observation, _ = env.reset(seed=checked_whole("seed", seed))
        before, label = 0, str(getattr(agent, "label", type(agent).__name__))
        sums, ends = np.zeros(rows), np.zeros(rows, np.int64)
    else:
        if env is not resume.env:
            raise ValueError(
                "resume goes on in the environment that was played in, which stands where it "
                "stopped: give that object; in another one, play(played.agent, env, ...) goes on "
                "learning"
            )
        agents, observation, seed = list(resume.agents), resume.observation, resume.seed
        before, label = int(resume.times[-1]), resume.label
        sums, ends = resume.rewards[:, -1].copy(), resume.ends[:, -1].copy()
    marks = record_steps(record, steps, before + 1)
    last = before + steps
    if not len(marks) or marks[-1] != last:
        marks = np.append(marks, last)
    kept = {name: np.zeros((rows, len(marks))) for name in ("rewards", "resamples", "ends")}

    def split(batch: Any) -> list[Any]:
        """Return what every agent sees."""
        if not many:
            return [encode(batch)]
        each = zip(*batch, strict=True) if isinstance(batch, tuple) else batch
        return [encode(one) for one in each]

    name = getattr(env.spec, "id", "") if env.spec is not None else ""
    shown = shown_progress()
    shown.begin(
        f"{label} in {name or 'an environment'}, {rows} x {steps:,} steps", {label: steps}, {}
    )
    mark, taken, seen, crew = 0, 0, split(observation), _crew(agents)
    try:
        with _interrupts() as interrupted:
            for t in range(before + 1, last + 1):
                chosen = crew.act(seen)
                given = np.array(chosen) + first_action
                observation, reward, over, cut, info = env.step(given if many else int(given[0]))
                _check_going(t, over, cut, env)
                following, paid = split(observation), np.atleast_1d(np.asarray(reward, np.float64))
                crew.observe(seen, chosen, paid.tolist(), following)
                seen = following
                sums += paid
                ends += np.atleast_1d(info.get("ended", False)).astype(np.int64)
                stop = interrupted.is_set()
                if stop:
                    marks = np.append(marks[:mark], t)
                if marks[mark] == t:
                    for key, values in (("rewards", sums), ("ends", ends)):
                        kept[key][:, mark] = values
                    kept["resamples"][:, mark] = [resamples_of(one) for one in agents]
                    mark += 1
                if t % TOLD_EVERY == 0 or t == last:
                    shown.advance(label, t - before - taken)
                    taken = t - before
                if stop:
                    break
    finally:
        crew.disband()
        shown.end()
    if mark and marks[mark - 1] < last:
        print(
            f"cpsrl: stopped at step {marks[mark - 1]:,}: play(..., resume=what this returns) goes "
            "on from there",
            file=sys.stderr,
            flush=True,
        )
    return Played(
        times=marks[:mark],
        rewards=kept["rewards"][:, :mark],
        resamples=kept["resamples"][:, :mark].astype(np.int64),
        ends=kept["ends"][:, :mark].astype(np.int64),
        label=label,
        environment=name,
        seed=seed,
        agents=tuple(agents),
        observation=observation,
        env=env,
    )


def _model_of(env: Any) -> Any:
    """Return the MDP of an environment of ours, or of copies of one side by side; else None."""
    from gymnasium.vector import SyncVectorEnv

    inner = env.unwrapped
    if isinstance(inner, SyncVectorEnv):
        inner = inner.envs[0].unwrapped
    mdp = getattr(inner, "mdp", None)
    return mdp if isinstance(mdp, TabularMDP) else None


def _started(agent: Any, problem: Any, rows: int, steps: int, seed: int) -> list[Any]:
    """Return a live agent for every row."""
    if isinstance(agent, Agent):
        agent.check(problem)
        spec = agent.resolve(problem, steps)
        return [spec.start(problem, Streams(seed, run)) for run in range(rows)]
    able = all(callable(getattr(agent, name, None)) for name in ("act", "observe"))
    if isinstance(agent, type) or not able:
        raise ValueError(
            "an agent is one of the package's, such as cpsrl.ContinuingPSRL(), or any object with "
            f"act(observation) and observe(...), not {shown(agent)}"
        )
    if rows == 1:
        return [agent]
    if isinstance(agent, LiveAgent):
        raise ValueError(
            f"{type(agent).__name__} is live and there are {rows} copies of the environment: give "
            "play the agent that was started, such as cpsrl.ContinuingPSRL(), and it starts one "
            "for every copy"
        )
    return [copy.deepcopy(agent) for _ in range(rows)]


class _OneByOne:
    """Agents that act and learn one after the other."""

    def __init__(self, agents: list[Any]) -> None:
        self._agents = agents

    def act(self, seen: list[Any]) -> list[int]:
        return [one.act(x) for one, x in zip(self._agents, seen, strict=True)]

    def observe(self, *transitions: list[Any]) -> None:
        for one, *transition in zip(self._agents, *transitions, strict=True):
            one.observe(*transition)

    def disband(self) -> None:
        pass


def _crew(agents: list[Any]) -> Any:
    """Return the agents together, in compiled code where there are several with networks."""
    if len(agents) > 1 and all(isinstance(one, ValueSamplingAgent) for one in agents):
        from cpsrl.networks.crew import Crew

        return Crew(agents)
    return _OneByOne(agents)


def _check_endless(env: Any, many: bool) -> None:
    """Raise a ValueError where it is known beforehand that the environment has episodes."""
    if not hasattr(env, "step") or not hasattr(env, "action_space"):
        raise ValueError(f"env must be an environment of Gymnasium, not {env!r}")
    limit = getattr(env.spec, "max_episode_steps", None)
    if limit is not None and not many:
        raise ValueError(f"{env.spec.id} has episodes of at most {limit} steps: {ADVICE}")


ADVICE = (
    "wrap it, as in cpsrl.gym.Continuing(env, reset='same-step', terminal_reward=0.0), which says "
    "what follows the end of an episode; in a vector environment every copy is wrapped: "
    "gymnasium.make_vec(..., vectorization_mode='sync', wrappers=[cpsrl.gym.Continuing])"
)


def _check_going(t: int, over: Any, cut: Any, env: Any) -> None:
    if np.any(over) or np.any(cut):
        raise ValueError(f"an episode of {env} ended at step {t}, and play never ends: {ADVICE}")


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event, so that no step is left half done; a second raises."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def note(number: int, frame: Any) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
