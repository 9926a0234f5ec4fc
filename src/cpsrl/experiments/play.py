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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cpsrl.agents.agent import Agent, LiveAgent, shown_agent
from cpsrl.environments.pure import Environment
from cpsrl.mdp import Tabular, TabularMDP
from cpsrl.mdp.problem import UNIT_RANGE
from cpsrl.networks.agent import ValueSamplingAgent
from cpsrl.seeding import Streams
from cpsrl.simulation.readable import resamples_of
from cpsrl.simulation.runs import needed, record_steps
from cpsrl.support.checks import checked_whole
from cpsrl.support.progress import shown_progress
from cpsrl.support.types import Floats, Ints

REPORT_EVERY = 100
"""How many steps there are between two reports of the progress."""


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

    def plot(self, ax: Any = None) -> Any:
        """Draw the reward a step between recorded steps; return the matplotlib axes.

        Args:
            ax: axes to draw into; None makes new ones.
        """
        from cpsrl.documents import figures  # it imports matplotlib

        with figures.given_or_new(ax) as ax:
            figures.reward_rates(ax, self)
        return ax

    def to_pandas(self) -> Any:
        """Return the curves as a pandas data frame in long form: a line for each row and step."""
        rows, points = self.rewards.shape
        columns = {"row": np.repeat(np.arange(rows), points), "step": np.tile(self.times, rows)}
        curves = ("rewards", "resamples", "ends")
        columns |= {name: getattr(self, name).ravel() for name in curves}
        return needed("pandas").DataFrame(columns)

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
    world = _World(env, reward_range)
    steps = checked_whole("steps", steps, 1)
    if resume is None:
        label = str(getattr(agent, "label", type(agent).__name__))
        agents = _started(agent, world, steps, seed)
        observation, _ = env.reset(seed=checked_whole("seed", seed))
        nothing, none = np.zeros((world.rows, 0)), np.zeros((world.rows, 0), np.int64)
        start = Played(
            times=np.zeros(0, np.int64),
            rewards=nothing,
            resamples=none,
            ends=none,
            label=label,
            environment=world.name,
            seed=seed,
            agents=tuple(agents),
            observation=observation,
            env=env,
        )
    elif env is resume.env:
        start = resume
    else:
        raise ValueError(
            "resume goes on in the environment that was played in, which stands where it stopped: "
            "give that object; in another one, play(played.agent, env, ...) goes on learning"
        )
    before = int(start.times[-1]) if len(start.times) else 0
    marks = np.union1d(record_steps(record, steps, before + 1), [before + steps])
    shown, what = shown_progress(), f"{world.name or 'an environment'}, {world.rows}"
    shown.begin(f"{start.label} in {what} x {steps:,} steps", {start.label: steps}, {})
    crew = _crew(list(start.agents))
    try:
        played = _played(world, crew, start, marks, lambda n: shown.advance(start.label, n))
    finally:
        crew.disband()
        shown.end()
    if len(played.times) and played.times[-1] < before + steps:
        print(
            f"cpsrl: stopped at step {played.times[-1]:,}: play(..., resume=what this returns) "
            "goes on from there",
            file=sys.stderr,
            flush=True,
        )
    return played


def _played(
    world: "_World", crew: Any, start: Played, marks: Ints, advance: Callable[[int], None]
) -> Played:
    """Take steps up to the last of `marks`, or until Ctrl-C, and return what was played."""
    first, last = (int(start.times[-1]) + 1 if len(start.times) else 1), int(marks[-1])
    sums, ends = (
        values[:, -1].copy() if len(start.times) else np.zeros(world.rows, values.dtype)
        for values in (start.rewards, start.ends)
    )
    shape = (world.rows, len(marks))
    rewards, resamples, ended = np.zeros(shape), *np.zeros((2, *shape), np.int64)
    mark, reported, observation = 0, first - 1, start.observation
    seen = world.seen(observation)
    with _interrupts() as interrupted:
        for t in range(first, last + 1):
            chosen = crew.act(seen)
            observation, paid, over = world.step(t, chosen)
            following = world.seen(observation)
            crew.observe(seen, chosen, paid.tolist(), following)
            seen = following
            sums += paid
            ends += over
            stop = interrupted.is_set()
            if stop or marks[mark] == t:
                marks[mark] = t
                rewards[:, mark], ended[:, mark] = sums, ends
                resamples[:, mark] = [resamples_of(one) for one in start.agents]
                mark += 1
            if t % REPORT_EVERY == 0 or t == last:
                advance(t - reported)
                reported = t
            if stop:
                break
    return replace(
        start,
        times=marks[:mark],
        rewards=rewards[:, :mark],
        resamples=resamples[:, :mark],
        ends=ended[:, :mark],
        observation=observation,
    )


class _World:
    """An environment as agents see it: a row for every copy of it."""

    def __init__(self, env: Any, reward_range: tuple[float, float] | None) -> None:
        from cpsrl.gym.spaces import problem_of  # first, since it says how to get Gymnasium

        self.env = env
        from gymnasium.vector import VectorEnv

        self._many = isinstance(env, VectorEnv)
        _check_endless(env, self._many)
        self.rows = env.num_envs if self._many else 1
        self.name = getattr(env.spec, "id", "") if env.spec is not None else ""
        single = "single_" if self._many else ""
        mdp = _model_of(env)
        if reward_range is None:
            reward_range = getattr(mdp, "reward_range", UNIT_RANGE)
        self.problem, self._encode, self._first_action = problem_of(
            getattr(env, f"{single}observation_space"),
            getattr(env, f"{single}action_space"),
            reward_range,
            getattr(mdp, "available", None),
        )

    def seen(self, batch: Any) -> list[Any]:
        """Return what every agent sees."""
        if not self._many:
            return [self._encode(batch)]
        each = zip(*batch, strict=True) if isinstance(batch, tuple) else batch
        return [self._encode(one) for one in each]

    def step(self, t: int, chosen: list[int]) -> tuple[Any, Floats, Ints]:
        """Take step `t`; return what is observed, the rewards, and which episodes ended."""
        given = np.array(chosen) + self._first_action
        observation, reward, over, cut, info = self.env.step(given if self._many else int(given[0]))
        if np.any(over) or np.any(cut):
            raise ValueError(
                f"an episode of {self.env} ended at step {t}, and play never ends: {ADVICE}"
            )
        paid = np.atleast_1d(np.asarray(reward, np.float64))
        return observation, paid, np.atleast_1d(info.get("ended", False)).astype(np.int64)


def _model_of(env: Any) -> Any:
    """Return the MDP of an environment of ours, or of copies of one side by side; else None."""
    from gymnasium.vector import SyncVectorEnv

    inner = env.unwrapped
    if isinstance(inner, SyncVectorEnv):
        inner = inner.envs[0].unwrapped
    mdp = getattr(inner, "mdp", None)
    return mdp if isinstance(mdp, TabularMDP) else None


def _started(agent: Any, world: _World, steps: int, seed: int) -> list[Any]:
    """Return a live agent for every row."""
    problem, rows = world.problem, world.rows
    if isinstance(agent, Agent):
        agent.check(problem)
        spec = agent.resolve(problem, steps)
        return [spec.start(problem, Streams(seed, run)) for run in range(rows)]
    able = all(callable(getattr(agent, name, None)) for name in ("act", "observe"))
    if isinstance(agent, type) or not able:
        raise ValueError(
            "an agent is one of the package's, such as cpsrl.ContinuingPSRL(), or any object with "
            f"act(observation) and observe(...), not {shown_agent(agent)}"
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
        from cpsrl.networks.batched import Crew

        return Crew(agents)
    return _OneByOne(agents)


def _check_endless(env: Any, many: bool) -> None:
    """Raise a ValueError where it is known beforehand that the environment has episodes."""
    if not hasattr(env, "step") or not hasattr(env, "action_space"):
        model = isinstance(env, Tabular | Environment)
        hint = "; cpsrl.simulate(agent, mdp, steps) runs an agent in a model" if model else ""
        raise ValueError(f"env must be an environment of Gymnasium, not {env!r}{hint}")
    limit = getattr(env.spec, "max_episode_steps", None)
    if limit is not None and not many:
        raise ValueError(f"{env.spec.id} has episodes of at most {limit} steps: {ADVICE}")


ADVICE = (
    "wrap it, as in cpsrl.gym.Continuing(env, reset='same-step', terminal_reward=0.0), which says "
    "what follows the end of an episode; in a vector environment every copy is wrapped: "
    "gymnasium.make_vec(..., vectorization_mode='sync', wrappers=[cpsrl.gym.Continuing])"
)


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
