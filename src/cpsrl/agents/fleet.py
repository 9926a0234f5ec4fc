"""Many agents that learn as one: each acts in a place of its own, and all share one belief.

Agent j tosses its own coin, and when it falls draws its own model from what all have seen so far.
Dimakopoulou and Van Roy (2018), "Coordinated exploration in concurrent reinforcement learning", ask
of such agents that they adapt to each other's data, commit to a plan for a while, and be diverse.
Draws of one's own are diverse; one draw that all act on is not, and is here to compare with.

A rule that looks at counts is refused: what a pair's visits were before the pseudo-episode is a
matter of one agent, and N agents would have to agree on whose counts those are. A coin needs no
such agreement.

The agents act in turn: at step t agent 0 acts and learns, then agent 1, which already believes what
agent 0 has just learnt, and so on. Agent 0 has the streams of the run, and agent j those by the
name "j": in fleets of different sizes it meets the same noise. A fleet of one is `PSRL`.
"""

from dataclasses import dataclass, field
from typing import Any

from cpsrl.agents.agent import AGENTS, sizes_of
from cpsrl.agents.psrl import PSRL, PosteriorSampler, PSRLAgent
from cpsrl.beliefs import Dirichlet
from cpsrl.mdp import Problem
from cpsrl.objectives import Discounted, Objective
from cpsrl.resampling import Bernoulli, Rule
from cpsrl.seeding import Streams
from cpsrl.support.checks import check_room, checked_whole, checked_word

DRAWS = ("own", "shared")
MOST = 100_000
"""The most agents of a fleet: these begin in seconds, and take some kilobytes each."""


@AGENTS.add("fleet")
@dataclass(frozen=True)
class Fleet(PosteriorSampler):
    """Many agents in as many copies of a problem, which share one belief.

    Regret is that of an agent, the mean over all of them; `Runs.by_agent` has each.

    Args:
        n: how many.
        draws: "own": each draws models when its own coin says so; "shared": all act on one draw,
            made when one coin says so.
        rule: when to draw a new model; one that does not look at the data.
        objective: what to plan for.
        belief: what is drawn.
        label: what to call the fleet in tables and figures.
    """

    n: int = 1
    draws: str = "own"
    rule: Rule = field(default_factory=Bernoulli)
    objective: Objective = field(default_factory=Discounted)
    belief: Any = field(default_factory=Dirichlet)
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checked_whole("n", self.n, 1, MOST))
        checked_word("draws", self.draws, DRAWS)
        super().__post_init__()
        if self.n > 1 and self.rule.needs_counts:
            raise ValueError(
                f"the rule {self.rule.label!r} looks at the visits of one agent, and a fleet would "
                "have to agree on whose: choose a rule that does not look at the data, such as "
                "bernoulli"
            )

    @property
    def one(self) -> PSRL:
        """What each of them is."""
        return PSRL(self.rule, self.objective, self.belief)

    @property
    def usual_label(self) -> str:
        """What the fleet is called where its user gives it no label."""
        shared = ", one draw" if self.draws == "shared" else ""
        return f"{super().usual_label}, fleet of {self.n}{shared}"

    def start(self, problem: Problem, streams: Streams) -> PSRLAgent:
        """Return agent 0, whose streams "1", "2", ... are the others."""
        check_room("the policies of a fleet", self.n, sizes_of(problem, self.label).n_states)
        first = PSRLAgent(self, problem, streams)
        first.join([str(j) for j in range(1, self.n)])
        return first
