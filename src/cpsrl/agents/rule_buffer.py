"""Asking a rule that is known in advance, some way ahead."""

import math
from typing import Any

import numpy as np

from cpsrl.resampling import Arrays, Rule, rule_arrays
from cpsrl.seeding import Streams
from cpsrl.support.types import Bools, Floats

AHEAD = 2048
"""Rules are asked for so many steps at a time, from step 1 on."""
NO_COINS = np.zeros(0, np.bool_)


class RuleBuffer:
    """A rule that is known in advance, asked for AHEAD steps at a time.

    Stretches begin at the steps 1, 1 + AHEAD, ... whoever asks and however far, so that where a run
    is split makes no difference. `before` says where the rule's stream stood before each stretch: a
    run that is taken up in the middle of a stretch asks for it again.
    """

    def __init__(self, rule: Rule, streams: Streams) -> None:
        self.rule, self.streams = rule, streams
        self.first = 0
        self.before: list[Any] = []
        self.resample: Bools = NO_COINS
        self.gamma: Floats | float = math.nan

    def steps(self, first: int, n: int) -> Arrays:
        """Return what the rule's `arrays` gives for the steps first, ..., first + n - 1."""
        if not self.first <= first <= first + n <= self.first + len(self.resample):
            self._extend(first, first + n)
        part = slice(first - self.first, first - self.first + n)
        gamma = self.gamma if isinstance(self.gamma, float) else self.gamma[part]
        return self.resample[part], gamma

    def step(self, t: int) -> tuple[bool, float]:
        """Return whether step t resamples, and its gamma."""
        if not self.first <= t < self.first + len(self.resample):
            self._extend(t, t + 1)
        gamma, place = self.gamma, t - self.first
        own = gamma if isinstance(gamma, float) else gamma.item(place)
        return self.resample.item(place), own

    def stream_before(self, step: int) -> Any:
        """Return where the rule's stream stood before the stretch of `step`."""
        end = self.first + len(self.resample)
        if not len(self.resample) or step == end:
            return self.streams.state()["rule"]
        return self.before[(step - self.first) // AHEAD]

    def _extend(self, first: int, end: int) -> None:
        assert first >= self.first, "a rule is not asked for steps that are long past"
        begin, rng = first - (first - 1) % AHEAD, self.streams.rule
        parts, reached = [], begin
        if len(self.resample):
            reached = self.first + len(self.resample)
            parts.append(self.steps(begin, reached - begin))
            del self.before[: (begin - self.first) // AHEAD]
        for stretch in range(reached, end, AHEAD):
            self.before.append(rng.bit_generator.state)
            parts.append(rule_arrays(self.rule, stretch, AHEAD, rng))
        self.first = begin
        self.resample = np.concatenate([resample for resample, _ in parts])
        self.gamma = parts[-1][1]
        if len({str(gamma) for _, gamma in parts}) > 1 or not isinstance(self.gamma, float):
            self.gamma = np.concatenate([np.broadcast_to(g, r.shape) for r, g in parts])
