"""Small MDPs on which a statement of the paper fails, or is as tight as it can be.

`dive`: two states. 'steady' goes to either state with probability 1/2, for the reward r > 2/3 at
the top and 0 at the bottom. 'dive' goes from the top to the bottom for the reward 1; at the
bottom it is the same as 'steady'. Only 'steady' is gain-optimal: lambda = r/2, h = (r/2, -r/2)
and P h = 0, so that tau_* = r/2 while span(h) = r. A dive loses 3r/2 - 1, but is discounted
optimal for gamma < 2/r - 2:

    V* = (2 - gamma, gamma) / ((2 + gamma)(1 - gamma)),   span(V*) = 2 / (2 + gamma) > r = 2 tau_*,
    V*(top) - lambda / (1 - gamma) > r/2 = tau_*.

With r = .7 both contradict the paper, Lemma 3.3 and eq. 5, at every gamma < 6/7; for any gamma < 1
some r > 2/3 does. As r falls to 2/3 the two left sides rise to 6 / (2 + gamma) and 4 / (2 + gamma)
times tau_*: 3 and 2 at gamma = 0.

`wait`: 'steady' as before with r = 1, so tau_* = 1/2, and at the bottom one can wait for 1/2 - e,
e = .001. Waiting is discounted optimal for gamma < 1 - 2e, where V*(top) exceeds lambda / (1 -
gamma) by (1 - e gamma / (1 - gamma)) / (2 - gamma) > tau_* (gamma > 0), which rises to 2 / (2 -
gamma) times tau_* as e falls to 0: 2 at gamma = 1.

`steep`: from the top, 'steady' gives .7 and leads to the middle, where one stays for .35 a step;
a dive gives 1 and leads to the bottom, where one can wait for .349. From the low state one climbs
to the middle for 0. tau_* = .35, but span(V*) = 1 - .001 gamma / (1 - gamma) > 2 tau_* for gamma
< 300/301. With .7 lowered to 2/3 and the wait's loss to 0, span(V*) rises to 3 tau_* at every
gamma.

`idle`: 'idle' pays 1/2 in both states; 'go' pays 1 from left to right and 0 back. Idling for ever
is average-optimal with reward averaging time 0, but V*(left) = lambda / (1 - gamma) + 1/2 at
every gamma. So tau_* has to be that of a bias-optimal policy (here 1/2): for an average-optimal
policy as such, no multiple of its reward averaging time bounds the upper side of Lemma 3.3.
"""

from importlib import resources

import numpy as np

from cpsrl.mdp import TabularMDP
from cpsrl.support.registry import unknown

COUNTEREXAMPLES = ("dive", "wait", "steep", "idle")
"""Their names."""


def path(name: str) -> str:
    """Return the file of the counterexample called `name`, for `cpsrl solve` or to copy."""
    if name not in COUNTEREXAMPLES:
        raise unknown("counterexample", name, COUNTEREXAMPLES)
    return str(resources.files(__package__) / f"{name}.csv")


def counterexample(name: str) -> TabularMDP:
    """Return the counterexample called `name`."""
    return TabularMDP.load(path(name))


def dive(reward: float = 0.7) -> TabularMDP:
    """Return the two-state family `dive`; `reward` is that of 'steady' at the top."""
    transitions = np.full((2, 2, 2), 0.5)
    transitions[0, 1] = 0.0, 1.0
    return TabularMDP(transitions, [[reward, 1.0], [0.0, 0.0]])
