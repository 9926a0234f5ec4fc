"""Checks return plain numbers, or say what would be right."""

import math

import numpy as np
import pytest
import scipy.sparse

import cpsrl
from cpsrl.support.checks import (
    WrongTypeError,
    checked_gamma,
    checked_index,
    checked_number,
    checked_positive,
    checked_whole,
    checked_word,
    shown,
)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_become_ints(value):
    assert type(checked_whole("n", value)) is int
    assert type(checked_index("n", value, 4)) is int


@pytest.mark.parametrize("value", [3, 0.5, np.float32(0.5), np.int8(1)])
def test_numbers_become_floats(value):
    assert type(checked_number("x", value)) is float
    assert type(checked_positive("x", value)) is float


@pytest.mark.parametrize("value", [-1, 1.0, True, np.True_, None, "3", [3], math.nan])
def test_what_is_not_whole_is_refused(value):
    with pytest.raises(ValueError, match="n must be a whole number of at least 0, not"):
        checked_whole("n", value)
    with pytest.raises(ValueError, match=r"n must be a whole number in 0\.\.3, not"):
        checked_index("n", value, 4)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e101, 10**400, True, None, "3", 1j, [3.0]])
def test_what_is_not_a_number_is_refused(value):
    with pytest.raises(ValueError, match="x must be a finite number"):
        checked_number("x", value)
    with pytest.raises(ValueError, match="x must be a positive number"):
        checked_positive("x", value)
    with pytest.raises(ValueError, match=r"x must be a number in \[0, 1\], not"):
        checked_number("x", value, 0, 1)


def test_a_number_that_is_too_large_is_told_the_largest():
    with pytest.raises(ValueError, match=r"x must be a number in \[0, 1e\+100\], not 1e\+101"):
        checked_number("x", 1e101, 0.0)
    with pytest.raises(ValueError, match=r"x must be a number in \(0, 1e\+100\), not 1e\+100"):
        checked_number("x", 1e100, 0.0, open=True)
    with pytest.raises(ValueError, match="x must be a number above 0, not -1"):
        checked_number("x", -1, 0.0, open=True)


@pytest.mark.parametrize("value", [1.0, -0.1, math.nan, True, "a", None])
def test_a_gamma_is_in_its_range(value):
    assert checked_gamma(np.int64(0)) == 0
    with pytest.raises(ValueError, match=r"gamma of step 7 must be a number in \[0, 1\), not"):
        checked_gamma(value, 7)


def test_a_whole_number_has_an_end_unless_it_is_a_seed():
    for value in (2**63, 10**400, 10**5000):
        with pytest.raises(ValueError, match="n must be at most 9223372036854775807, not"):
            checked_whole("n", value)
        assert checked_whole("seed", value, most=None) == value
    with pytest.raises(ValueError, match="not one of 400 digits"):
        checked_number("x", 10**400)


def test_a_class_is_not_an_object_of_it():
    river = cpsrl.environment("riverswim")
    for use in (
        lambda: cpsrl.simulate(cpsrl.TSDE, river, 10, 1),
        lambda: cpsrl.start(cpsrl.TSDE, river),
        lambda: cpsrl.PSRL(cpsrl.Never),
        lambda: cpsrl.PSRL(belief=cpsrl.Dirichlet),
        lambda: cpsrl.PSRL(objective=cpsrl.Average),
        lambda: cpsrl.Dirichlet(rewards=cpsrl.NormalGamma),
        lambda: cpsrl.solve_average(cpsrl.TabularMDP),
    ):
        with pytest.raises(
            ValueError, match=r"not the (class|function) (\w+): did you mean \2\(\)\?"
        ):
            use()


HUGE = 10**6
BEYOND = [
    ("riverswim", {"n_states": HUGE}),
    ("replacement", {"n_states": HUGE}),
    ("queue", {"capacity": HUGE}),
    ("inventory", {"capacity": HUGE}),
    ("random", {"n_states": HUGE}),
    ("gridworld", {"rows": 20 * HUGE}),
]


@pytest.mark.parametrize(("name", "options"), BEYOND)
def test_a_model_that_can_not_fit_is_refused_before_it_is_made(name, options):
    with pytest.raises(ValueError, match=r"the transitions would be .* GiB, and there are"):
        cpsrl.environment(name, **options)
    for option in options:
        with pytest.raises(ValueError, match=f"{option} must be at most"):
            cpsrl.environment(name, **{option: 10**400})


def test_a_dense_form_that_can_not_fit_is_refused():
    n = 200_000
    mdp = cpsrl.TabularMDP(scipy.sparse.eye_array(n, format="csr"), np.zeros((n, 1)))
    with pytest.raises(ValueError, match="the dense transitions would be"):
        _ = mdp.dense


@pytest.mark.parametrize(
    "use",
    [
        lambda: cpsrl.TabularMDP([[[10**400]]], [[0]]),
        lambda: cpsrl.TabularMDP([[[1]]], [[10**400]]),
        lambda: cpsrl.TabularMDP([[[1]]], [[0]], noise=10**400),
        lambda: cpsrl.TabularMDP([[[1]]], [[0]], initial=[10**400]),
        lambda: cpsrl.TabularMDP([[[1]]], [[0]], features=[[10**400]]),
        lambda: cpsrl.environment("random", noise=10**400),
        lambda: cpsrl.Dirichlet(transitions=10**400),
        lambda: cpsrl.simulate(cpsrl.TSDE(), cpsrl.environment("riverswim"), 10**400),
        lambda: cpsrl.simulate(cpsrl.TSDE(), cpsrl.environment("riverswim"), 10, 10**400),
        lambda: cpsrl.simulate(cpsrl.TSDE(), cpsrl.environment("riverswim"), 10, [10**400]),
        lambda: cpsrl.theory.bounds.theorem_4_1(6, 2, 10**400, 0.9, 1.0),
        lambda: cpsrl.theory.bounds.theorem_4_1(6, 2, 100, 0.9, 10**400),
        lambda: cpsrl.statistics.mean([10**400]),
        lambda: cpsrl.statistics.growth_exponent([1, 10**400], [[1, 2]]),
    ],
)
def test_a_number_beyond_all_measure_is_an_error_like_any_other(use):
    with pytest.raises(ValueError):
        use()


def test_a_seed_may_be_as_large_as_it_likes():
    river = cpsrl.environment("riverswim")
    runs = cpsrl.simulate(cpsrl.TSDE(), river, 20, 1, seed=10**400)
    more = cpsrl.simulate(cpsrl.TSDE(), river, 20, resume=runs.state)
    assert more.times[-1] == 40


@pytest.mark.parametrize(
    ("check", "wrong_type", "wrong_value"),
    [
        (lambda x: checked_whole("n", x), 1.5, -1),
        (lambda x: checked_index("n", x, 4), "2", 4),
        (lambda x: checked_number("x", x, 0, 1), "0.5", 2.0),
        (lambda x: checked_positive("x", x), None, 0.0),
        (lambda x: checked_gamma(x), True, 1.0),
        (lambda x: checked_word("kind", x, ("rule", "belief")), 3, "bleief"),
    ],
)
def test_a_wrong_type_is_a_type_error_and_a_wrong_value_is_none(check, wrong_type, wrong_value):
    with pytest.raises(WrongTypeError) as error:
        check(wrong_type)
    assert isinstance(error.value, TypeError)
    assert isinstance(error.value, ValueError)
    with pytest.raises(ValueError) as error:
        check(wrong_value)
    assert not isinstance(error.value, TypeError)


def test_of_a_long_value_an_error_has_the_beginning():
    for value in ("7" * 5_000, ["7"] * 5_000):
        with pytest.raises(
            WrongTypeError, match=r"x must be .*, not \W+7.*\.\.\. \([0-9,]+ char"
        ) as caught:
            checked_number("x", value)
        assert len(str(caught.value)) < 400
    assert shown("7" * 50) == repr("7" * 50)
