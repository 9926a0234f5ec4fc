"""What the paper's theory says of any MDP and agent: bounds, and the parts of the regret."""

from typing import Any

from cpsrl.support.renamed import moved
from cpsrl.theory.bounds import (
    Bound,
    confidence_ratio,
    confidence_width,
    expected_pseudo_episodes,
    high_probability_length,
    horizon_gamma,
    theorem_4_1,
    theorem_4_2,
    useful_from,
)
from cpsrl.theory.regret import Decomposition, decompose

__all__ = [
    "Bound",
    "Decomposition",
    "confidence_ratio",
    "confidence_width",
    "decompose",
    "expected_pseudo_episodes",
    "high_probability_length",
    "horizon_gamma",
    "theorem_4_1",
    "theorem_4_2",
    "useful_from",
]


def __getattr__(name: str) -> Any:
    return moved(__name__, name)
