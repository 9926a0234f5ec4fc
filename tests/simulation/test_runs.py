"""Curves as a table: which steps, which rows."""

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.simulation import Runs, record_steps

RIVER = cpsrl.environment("riverswim")


def test_which_steps_are_recorded():
    assert list(record_steps(10, 35)) == [10, 20, 30, 35]
    assert list(record_steps(10, 20, first=36)) == [40, 50, 55]
    assert list(record_steps([3, 3, 900, 1], 35)) == [1, 3]
    assert list(record_steps([3, 40, 41], 5, first=37)) == [40, 41]
    assert list(record_steps([], 7)) == []
    assert len(record_steps(None, 100_000)) == 200
    assert list(record_steps(None, 3)) == [1, 2, 3]
    assert list(record_steps("log", 1)) == [1]


def test_the_log_grid_is_anchored_at_step_one_whatever_the_end():
    short, long = record_steps("log", 1000), record_steps("log", 100_000)
    assert np.array_equal(short, long[long <= 1000])
    later = record_steps("log", 99_000, first=1001)
    assert np.array_equal(later, long[long > 1000])
    ratios = long[1:] / long[:-1]
    assert (ratios[long[:-1] > 100] < 1.1).all()


def test_select_and_join():
    tsde = cpsrl.simulate(cpsrl.TSDE(), RIVER, 50, 2, trajectory=True)
    psrl = cpsrl.simulate(cpsrl.ContinuingPSRL(), RIVER, 50, [4, 9, 1])
    runs = Runs.join([tsde, psrl])
    assert runs.agents == ("TSDE", "Continuing PSRL, gamma=0.99")
    assert runs.environments == ("riverswim",)
    assert list(runs.seeds) == [0, 1, 4, 9, 1]
    assert runs.trajectory is None
    picked = runs.select(agent="Continuing PSRL, gamma=0.99")
    assert np.array_equal(picked.regret, psrl.regret)
    assert picked.state[1]["reward_sum"] == psrl.state[1]["reward_sum"]
    assert len(runs.select(environment="riverswim").seeds) == 5
    with pytest.raises(ValueError, match="did you mean 'TSDE'"):
        runs.select(agent="TSDF")
    with pytest.raises(ValueError, match="different steps"):
        Runs.join([tsde, cpsrl.simulate(cpsrl.TSDE(), RIVER, 60, 2)])
    with pytest.raises(ValueError, match="different root seeds"):
        Runs.join([tsde, cpsrl.simulate(cpsrl.TSDE(), RIVER, 50, 2, seed=1)])


def test_later_points_follow_the_earlier_ones():
    whole = cpsrl.simulate(cpsrl.TSDE(), RIVER, 50, 2, record=[10, 20, 45])
    first = cpsrl.simulate(cpsrl.TSDE(), RIVER, 30, 2, record=[10, 20, 45])
    later = cpsrl.simulate(cpsrl.TSDE(), RIVER, 20, 2, record=[10, 20, 45], resume=first.state)
    joined = first.then(later)
    for name in ("times", "regret", "resamples", "seeds", "gain"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name)), name
    assert equal(joined.state, later.state)
    with pytest.raises(ValueError, match="those of other runs"):
        first.then(cpsrl.simulate(cpsrl.TSDE(), RIVER, 20, 3))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_long_form(library):
    pytest.importorskip(library)
    runs = cpsrl.simulate(cpsrl.TSDE(), RIVER, 30, [2, 5], record=10)
    table = getattr(runs, f"to_{library}")()
    where = ["environment", "agent", "seed", "step"]
    assert list(table.columns) == [*where, "regret", "resamples", "reward_rate", "share_of_optimum"]
    assert list(table["seed"]) == [2, 2, 2, 5, 5, 5]
    assert list(table["step"]) == [10, 20, 30] * 2
    assert list(table["regret"]) == list(runs.regret.ravel())
    assert set(table["agent"]) == {"TSDE"}
