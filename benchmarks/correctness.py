"""Which planners are right on small, hard models: periodic, multichain, nearly decomposable.

The models have closed forms. Every method is asked for an error of at most 1e-8 and has 10 seconds
in a process of its own; an answer within 1e-7 is right.

    python benchmarks/correctness.py    # about three minutes
"""

import argparse
from dataclasses import dataclass

import numpy as np
import rich.box
from peers import TOL, Contestant, methods, ours
from rich.console import Console
from rich.table import Table

import cpsrl

GAMMA, LIMIT, AGREE = 0.999, 10.0, 10 * TOL
RARELY = 1e-6


@dataclass
class Known:
    """A model, its optimal policy `(S,)` and its optimal gain `(S,)`."""

    mdp: cpsrl.TabularMDP
    policy: list[int]
    gain: list[float]

    def truth(self, gamma: float | None) -> np.ndarray:
        """Return the optimal values or gains `(S,)`."""
        if gamma is None:
            return np.array(self.gain)
        states = np.arange(self.mdp.n_states)
        chain = self.mdp.dense[states, self.policy]
        return np.linalg.solve(
            np.eye(len(states)) - gamma * chain, self.mdp.rewards[states, self.policy]
        )


def periodic() -> Known:
    """A circle of four states, the last of which pays 1 for going on; best is to and fro."""
    P, r = np.zeros((4, 2, 4)), np.zeros((4, 2))
    for s in range(4):
        P[s, 0, (s + 1) % 4] = P[s, 1, (s - 1) % 4] = 1.0
    r[3, 0] = 1.0
    return Known(cpsrl.TabularMDP(P, r), [1, 0, 0, 0], [0.5] * 4)


def multichain() -> Known:
    """Two states that are never left, one that chooses among them, one that goes to either."""
    P, r = np.zeros((4, 2, 4)), np.zeros((4, 2))
    P[0, :, 0] = P[1, :, 1] = P[2, 0, 0] = P[2, 1, 1] = 1.0
    P[3, :, :2] = 0.5
    r[0], r[1] = 0.3, 0.7
    return Known(cpsrl.TabularMDP(P, r), [0, 0, 1, 0], [0.3, 0.7, 0.7, 0.5])


def nearly_decomposable() -> Known:
    """Two states, left once or twice in a million steps as one likes; the second pays 1."""
    P, r = np.zeros((2, 2, 2)), np.zeros((2, 2))
    for a, leave in enumerate((RARELY, 2 * RARELY)):
        P[0, a] = 1 - leave, leave
        P[1, a] = leave, 1 - leave
    r[1] = 1.0
    return Known(cpsrl.TabularMDP(P, r), [1, 0], [2 / 3] * 2)


MODELS = {
    "periodic": periodic(),
    "multichain": multichain(),
    "nearly decomposable": nearly_decomposable(),
}


def verdict(maker: object, known: Known, gamma: float | None) -> str:
    contestant = Contestant(maker, known.mdp, gamma)
    try:
        contestant.built(60.0)
        contestant.solve(LIMIT)
        distance = float(np.abs(contestant.answer(60.0) - known.truth(gamma)).max())
        return "right" if distance <= AGREE else f"wrong by {distance:.0e}"
    except TimeoutError:
        return f"no answer in {LIMIT:.0f} s"
    except ChildProcessError:
        return "crash"
    except RuntimeError as error:
        return "an error" if "Error" in str(error) else str(error)
    finally:
        contestant.close()


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    console = Console(width=110, highlight=False)
    for gamma in (None, GAMMA):
        for known in MODELS.values():
            ours(known.mdp, gamma)()()  # compile before the clock runs
        table = Table("", *MODELS, box=rich.box.SIMPLE, title_justify="left")
        table.title = "average reward" if gamma is None else f"gamma = {gamma:g}"
        first = next(iter(MODELS.values())).mdp
        for (peer, method), maker in ({("ours", ""): ours} | methods(first, gamma)).items():
            found = [verdict(maker, known, gamma) for known in MODELS.values()]
            table.add_row(f"{peer}, {method}".rstrip(", "), *found)
        console.print(table)


if __name__ == "__main__":
    main()
