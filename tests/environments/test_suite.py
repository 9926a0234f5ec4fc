"""The facts of the suite: certified, and as the documentation has them."""

import re
from pathlib import Path

import numpy as np
import pytest

import cpsrl
from cpsrl.environments.suite import CERTIFIED, SUITES, VERSION, facts, random_gain
from cpsrl.planning import gain_and_bias

SUITE = SUITES[VERSION]
PAGE = (Path(__file__).parents[2] / "docs" / "suite.md").read_text()
SLOW = {"taxi", "windy-catch"}
COLUMNS = ("n_states", "n_actions", "gain", "error", "random", "span", "tau", "diameter", "gamma")


def documented():
    """The numbers of the page, by problem and column: the ends of a range, or one number twice."""
    head = next(i for i, line in enumerate(PAGE.splitlines()) if line.startswith("| problem | S |"))
    found = {}
    for line in PAGE.splitlines()[head + 2 :]:
        if not line.startswith("|"):
            break
        label, *cells, _ = (cell.strip() for cell in line.strip("|").split("|"))
        ends = [tuple(map(float, cell.split(" to "))) for cell in cells]
        found[label] = {name: (end[0], end[-1]) for name, end in zip(COLUMNS, ends, strict=True)}
    return found


def test_the_page_has_every_problem_in_order():
    assert list(documented()) == [problem.label for problem in SUITE]


@pytest.mark.parametrize(
    "problem",
    [pytest.param(p, id=p.label, marks=[pytest.mark.slow] * (p.label in SLOW)) for p in SUITE],
)
def test_the_page_says_what_is_computed(problem):
    every, page = [facts(mdp) for mdp in problem.models()], documented()[problem.label]
    for name in COLUMNS:
        values = [getattr(one, name) for one in every]
        ends = np.array([min(values), max(values)])
        if name == "error":
            assert max(values) <= CERTIFIED
            assert page[name][1] <= CERTIFIED
        else:
            np.testing.assert_allclose(page[name], ends, rtol=6e-5, atol=1e-8, err_msg=name)


def test_every_problem_has_a_docstring_with_its_reference():
    for problem in SUITE:
        about = cpsrl.environments.ENVIRONMENTS[problem.name].__doc__
        (year,) = re.findall(r"\((\d{4})\)", problem.reference)
        first = re.match(r"\w+", problem.reference)[0]
        assert first in about, problem
        assert year in about, problem


def test_the_random_gain_starts_where_the_problem_does():
    mdp = cpsrl.TabularMDP(np.eye(2)[:, None], [[0.0], [1.0]], initial=1)
    assert random_gain(mdp) == 1.0
    spread = cpsrl.TabularMDP(np.eye(2)[:, None], [[0.0], [1.0]], initial=[0.25, 0.75])
    assert random_gain(spread) == pytest.approx(0.75)
    river = cpsrl.environment("riverswim")
    assert random_gain(river) == pytest.approx(gain_and_bias(river, np.full((6, 2), 0.5))[0][0])


def test_a_model_without_one_gain_has_no_place_in_the_suite():
    with pytest.raises(ValueError, match=r"the gain is 0.0 to 1.0 .* has one gain"):
        facts(cpsrl.TabularMDP(np.eye(2)[:, None], [[0.0], [1.0]]))
