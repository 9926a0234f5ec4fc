"""The words say what the numbers are."""

import numpy as np
import pytest

import cpsrl
from cpsrl.planning import sufficient_gamma
from cpsrl.watching import Film
from cpsrl.watching.words import number, policy_words, story, symbols


def told(agent, steps=600, **options):
    film = Film(agent, cpsrl.environment("riverswim", **options), steps)
    film.advance(steps)
    return film, story(film)


def test_a_gamma_that_is_too_small_is_said_with_its_price():
    film, said = told(cpsrl.ContinuingPSRL(0.99), variant="tsde")
    gap = cpsrl.planning_gap(film.mdp, 0.99)
    enough = sufficient_gamma(film.mdp).gamma
    assert said[-1] == (
        "gamma = 0.99 is too small here. An agent that knew the model would choose a policy that "
        f"earns 0.2 a step where {film.gain:.4g} can be had (in state 0 it takes left, the best "
        f"policy right). However much it learns, it loses {gap.gap:.4g} a step. Every gamma above "
        f"{enough:.6g} would do."
    )
    assert "is large enough here" in told(cpsrl.ContinuingPSRL(0.99), 50)[1][-1]
    assert not any("gamma =" in line for line in told(cpsrl.TSDE(), 50)[1])


def test_waits_and_the_most_costly_pseudo_episode_are_those_of_the_run():
    film, said = told(cpsrl.DSPSRL())
    assert said[0] == f"Regret after 600 steps: {film.regret:,.1f}."
    assert said[1] == "Its rule: Resample at steps 1, 2, 4, 8, ..."
    assert said[2] == (
        "10 pseudo-episodes so far, the last from step 512 on; the longest lasted 256 steps."
    )
    losses, ends = film.losses(), [*film.begun[1:], 601]
    costs = [losses[a - 1 : b - 1].sum() for a, b in zip(film.begun, ends, strict=True)]
    k = int(np.argmax(costs))
    first, last = film.begun[k], ends[k] - 1
    assert f"steps {first:,} to {last:,}, cost {number(costs[k])}, or " in said[4]
    assert f"a best action in {np.mean(losses == 0):.0%} of the steps" in said[3]


def test_an_agent_without_models_is_told_as_such():
    assert told(cpsrl.RandomAgent(), 20)[1][1] == "It draws no models: it has no pseudo-episodes."


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("left", "right"), ["←", "→"]),
        (("wait", "repair"), ["w", "r"]),
        (("go", "give"), ["0", "1"]),
        (None, ["0", "1"]),
    ],
)
def test_actions_have_a_character_each(names, wanted):
    mdp = cpsrl.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), action_names=names)
    assert symbols(mdp) == wanted


def test_a_policy_in_words():
    river = cpsrl.environment("riverswim")
    assert policy_words(river, np.ones(6, np.int64)) == "right in every state"
    assert policy_words(river, np.array([0, 1, 1, 1, 1, 1])) == "right, but left in 0"
    assert policy_words(river, np.array([0, 1, 0, 1, 1, 1])) == "right, but left in 0, 2"
