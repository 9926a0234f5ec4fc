"""What docs/watching.md says that a student will see is seen."""

from pathlib import Path

import pytest

import cpsrl
from cpsrl.watching import Film
from cpsrl.watching.film import DRAWS, FEW_PAIRS, MOST_LOOKS, MOST_STEPS
from cpsrl.watching.terminal import NARROW
from cpsrl.watching.words import number, story

PAGE = Path(__file__).parents[2] / "docs" / "watching.md"


@pytest.fixture(scope="module")
def page():
    return " ".join(PAGE.read_text(encoding="utf-8").split())


def told(agent, steps, **options):
    film = Film(agent, cpsrl.environment("riverswim", **options), steps)
    film.advance(steps)
    return film, " ".join(story(film))


def test_the_limits_are_those_of_the_code(page):
    assert f"at most {MOST_STEPS:,} steps" in page
    assert f"by {DRAWS} draws (39 where there are more than {FEW_PAIRS} pairs)" in page
    assert f"at most {MOST_LOOKS} pseudo-episodes" in page
    assert f"fewer than {NARROW} columns" in page


def test_a_coin_is_enough_and_ds_psrl_is_late(page):
    coin, said = told(cpsrl.ContinuingPSRL(0.9), 5000)
    assert "It took a best action in 98% of the steps, and in every one from step 1,324 on." in said
    assert "98% of the 5,000 steps, and in every one from step 1,324 on" in page
    assert ", cost 24.12, or" in said
    assert "most costly pseudo-episode loses 24.12" in page
    assert sum(1024 <= step <= 2047 for step in coin.begun) > 90
    late, said = told(cpsrl.DSPSRL(), 5000)
    assert "steps 1,024 to 2,047, cost 437.2, or" in said
    assert f"cost 437.2 of a regret of {number(late.regret)}" in page
    for agent, mean in (
        (cpsrl.ContinuingPSRL(0.9), "119.8"),
        (cpsrl.TSDE(), "88.2"),
        (cpsrl.DSPSRL(), "807.3"),
    ):
        regret = cpsrl.simulate(agent, coin.mdp, 5000, seeds=50).regret[:, -1]
        assert f"{regret.mean():.1f}" == mean
        assert mean in page


def test_gamma_99_never_swims(page):
    film, said = told(cpsrl.ContinuingPSRL(0.99), 20_000, variant="tsde")
    for words in ("0.2 a step where 0.2229 can be had", "0.02294", "0.993474"):
        assert words in said
        assert words.replace("0.", ".") in page
    regrets = film.regrets()
    slope = (regrets[-1] - regrets[9_999]) / 10_000
    assert slope == pytest.approx(film.gap().gap, rel=0.05)
    assert (film.path()[0][10_000:] == 0).mean() > 0.98
    swimmer, _ = told(cpsrl.TSDE(), 20_000, variant="tsde")
    assert (swimmer.path()[0][10_000:] >= 3).mean() > 0.5
