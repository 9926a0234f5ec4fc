"""The paper's statements as numbers and as claims that can be checked."""

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
from cpsrl.theory.claims import CLAIMS, verify
from cpsrl.theory.counterexamples import COUNTEREXAMPLES, counterexample
from cpsrl.theory.regret import Decomposition, decompose
from cpsrl.theory.verdicts import Finding

__all__ = [
    "CLAIMS",
    "COUNTEREXAMPLES",
    "Bound",
    "Decomposition",
    "Finding",
    "confidence_ratio",
    "confidence_width",
    "counterexample",
    "decompose",
    "expected_pseudo_episodes",
    "high_probability_length",
    "horizon_gamma",
    "theorem_4_1",
    "theorem_4_2",
    "useful_from",
    "verify",
]
