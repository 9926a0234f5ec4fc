"""What an interactive session shows: names, reprs and errors."""

import subprocess
import sys

import numpy as np
import pytest

import cpsrl
from cpsrl.planning import classify, reward_averaging_time, sufficient_gamma
from cpsrl.reports.summary import cells
from cpsrl.simulation import Runs

RIVER = cpsrl.environment("riverswim")


def test_runs_say_what_they_are():
    tsde = cpsrl.simulate(cpsrl.TSDE(), RIVER, 500, seeds=3)
    mean = f"{tsde.regret[:, -1].mean():,.6g}"
    assert repr(tsde) == f"Runs(TSDE on riverswim: 3 runs to step 500, mean regret {mean})"
    both = Runs.join([tsde, cpsrl.simulate(cpsrl.RandomAgent(), RIVER, 500, seeds=1)])
    lines = repr(both).splitlines()
    assert lines[0] == "Runs("
    assert lines[1].strip() == f"TSDE on riverswim: 3 runs to step 500, mean regret {mean}"
    assert lines[2].strip().startswith("Random on riverswim: 1 run to step 500, mean regret ")
    assert "without a recorded step" in repr(tsde.at(np.array([7])))


def test_solutions_print_in_a_line_whatever_their_size():
    best = cpsrl.solve_average(RIVER)
    shown = repr(best)
    assert shown.startswith("AverageSolution(policy=[1 1 1 1 1 1], gain=[0.428622 0.428622 ")
    assert ", tol=1e-08, method='policy iteration', sweeps=" in shown
    large = cpsrl.environment("gridworld", rows=20, columns=20)
    for found in (
        cpsrl.solve_average(large),
        cpsrl.solve_discounted(large, 0.9),
        cpsrl.planning_gap(large, 0.9),
        classify(large),
        reward_averaging_time(RIVER, best.policy),
        sufficient_gamma(RIVER, points=5),
    ):
        assert repr(found).startswith(f"{type(found).__name__}(")
        assert len(repr(found)) < 350
        assert "\n" not in repr(found)


def test_live_agents_say_where_they_are():
    agent = cpsrl.start(cpsrl.TSDE(), cpsrl.Sizes(6, 2))
    assert repr(agent).startswith("PSRLAgent(TSDE in Sizes(n_states=6, n_actions=2")
    agent.act(0)
    agent.observe(0, 1, 0.5, 1)
    assert repr(agent).endswith("at step 2, 1 resamplings)")
    assert "Random in TabularMDP(riverswim" in repr(cpsrl.start(cpsrl.RandomAgent(), RIVER))


def test_results_say_what_they_hold(tmp_path):
    entries = [cpsrl.Entry("riverswim")], [cpsrl.Entry("random")]
    experiment = cpsrl.Experiment("tiny", *entries, steps=20, seeds=2)
    results = cpsrl.run_experiment(experiment, tmp_path / "here")
    assert repr(results) == (
        f"Results({tmp_path / 'here'}: Random on riverswim, 2 runs to step 20; load() gives them)"
    )


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_data_frame_package_is_named(package, monkeypatch):
    runs = cpsrl.simulate(cpsrl.RandomAgent(), RIVER, 10, seeds=1)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=f"{package} is not installed: `pip install"):
        getattr(runs, f"to_{package}")()


def test_without_gymnasium_play_says_how_to_get_it(monkeypatch):
    for name in ("gymnasium", "gymnasium.vector"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("cpsrl.gym")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'cpsrl\[gym\]'"):
        cpsrl.play(cpsrl.TSDE(), None, 10)


def test_a_model_is_not_a_results_directory(tmp_path):
    RIVER.save(tmp_path / "river.csv")
    with pytest.raises(ValueError, match=r"is a file, .*TabularMDP\.load reads a model"):
        cpsrl.load(tmp_path / "river.csv")


def test_runs_are_resumed_without_naming_their_seeds_again():
    whole = cpsrl.simulate(cpsrl.TSDE(), RIVER, 200, seeds=[3, 5], seed=11, record=100)
    half = cpsrl.simulate(cpsrl.TSDE(), RIVER, 100, seeds=[3, 5], seed=11, record=100)
    rest = cpsrl.simulate(cpsrl.TSDE(), RIVER, 100, resume=half.state, record=100)
    assert rest.seed == 11
    np.testing.assert_array_equal(rest.seeds, [3, 5])
    np.testing.assert_array_equal(rest.regret[:, -1], whole.regret[:, -1])
    with pytest.raises(ValueError, match="run 3 of seed 11, not of run 0 of seed 11"):
        cpsrl.simulate(cpsrl.TSDE(), RIVER, 100, seeds=2, resume=half.state)
    assert cpsrl.simulate(cpsrl.RandomAgent(), RIVER, 5).regret.shape[0] == 50


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Prior", "; it is called cpsrl.Dirichlet now"),
        ("diameter", "; it is cpsrl.planning.diameter"),
        ("OptimalAgent", "; it is cpsrl.agents.OptimalAgent"),
        ("FeatureSizes", "; it is cpsrl.mdp.FeatureSizes"),
        ("Runs", "; it is cpsrl.simulation.Runs"),
        ("np", ""),
        ("nothing_of_the_kind", ""),
    ],
)
def test_a_name_that_is_elsewhere_is_pointed_to(name, hint):
    with pytest.raises(AttributeError) as error:
        getattr(cpsrl, name)
    assert str(error.value) == f"module 'cpsrl' has no attribute {name!r}{hint}"


def test_parts_need_no_import_of_their_own():
    program = "import cpsrl; print(cpsrl.statistics.mean, cpsrl.paper.verify, cpsrl.reports.report)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.count("<function") == 3, done.stderr


def test_a_paired_difference_is_of_one_number_a_run():
    a = cpsrl.simulate(cpsrl.TSDE(), RIVER, 300, seeds=5)
    b = cpsrl.simulate(cpsrl.RandomAgent(), RIVER, 300, seeds=5)
    found = cpsrl.statistics.paired_difference(a.regret[:, -1], b.regret[:, -1])
    assert found.value == pytest.approx((a.regret[:, -1] - b.regret[:, -1]).mean())
    assert found.high < 0
    with pytest.raises(ValueError, match=r"take one point, such as runs\.regret\[:, -1\]"):
        cpsrl.statistics.paired_difference(a.regret, b.regret)


def both(steps=300, seeds=5):
    agents = cpsrl.TSDE(), cpsrl.RandomAgent()
    return Runs.join([cpsrl.simulate(agent, RIVER, steps, seeds=seeds) for agent in agents])


def row(first, *cells):
    """A row of a table as HTML."""
    return f'<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in cells)


def test_runs_show_themselves_with_the_numbers_of_statistics():
    runs = both()
    shown = runs._repr_html_()
    for agent in runs.agents:
        one = runs.select(agent=agent)
        mean = cpsrl.statistics.mean(one.regret[:, -1])
        interval = f"[{mean.low:,.6g}, {mean.high:,.6g}]"
        drawn = f"{one.resamples[:, -1].mean():,.6g}"
        rates = one.reward_rate[:, -1].mean(), one.share_of_optimum[:, -1].mean()
        shown_rates = f"{rates[0]:.4g}", f"{rates[1]:.1%}"
        cells = ("riverswim", agent, 5, f"{mean.value:,.6g}", interval, *shown_rates, drawn)
        assert row(*cells) in shown
    assert "without a recorded step" in runs.at(np.array([999]))._repr_html_()
    assert "<td>-</td>" in cpsrl.simulate(cpsrl.TSDE(), RIVER, 20, seeds=1)._repr_html_()


def test_models_and_solutions_show_themselves_small_and_escaped():
    assert row(1, "right", 0, "1 (0.6), 2 (0.35), 0 (0.05)") in RIVER._repr_html_()
    best = cpsrl.solve_average(RIVER)
    first = row(0, 1, f"{best.gain[0]:,.6g}", f"{best.bias[0]:,.6g}")
    assert first in best._repr_html_()
    assert "<small>error " in best._repr_html_()
    large = cpsrl.environment("gridworld", rows=40, columns=40)
    for thing in (large, cpsrl.solve_discounted(large, 0.9), cpsrl.planning_gap(RIVER, 0.5)):
        assert len(thing._repr_html_()) < 4000
    assert "... and 6,388 more." in large._repr_html_()
    names = ("<b>", "&")
    hostile = cpsrl.TabularMDP(
        np.full((2, 1, 2), 0.5), np.zeros((2, 1)), state_names=names, name="<i>"
    )
    shown = hostile._repr_html_()
    assert '<th scope="row">&lt;b&gt;</th>' in shown
    assert "TabularMDP(&lt;i&gt;:" in shown


def test_results_and_reports_show_themselves(tmp_path):
    entries = [cpsrl.Entry("riverswim")], [cpsrl.Entry("random", label="<u>")]
    experiment = cpsrl.Experiment("tiny", *entries, steps=20, seeds=2)
    results = cpsrl.run_experiment(experiment, tmp_path / "here")
    assert row("riverswim", "&lt;u&gt;") in results._repr_html_()
    assert "2 runs to step 20" in results._repr_html_()
    report = cpsrl.reports.report(tmp_path / "here", formats=())
    mean = cells(report.rows[0])[1]
    assert float(mean) == pytest.approx(results.load().regret[:, -1].mean(), abs=0.1)
    assert row("riverswim", "&lt;u&gt;", mean) in report._repr_html_()


def test_a_plot_has_a_line_of_the_means_of_each_agent():
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    runs = both()
    ax = runs.plot()
    assert ax.figure.number in plt.get_fignums()  # a notebook shows it
    plt.close(ax.figure)
    for agent, line in zip(runs.agents, ax.get_lines(), strict=True):
        means = runs.select(agent=agent).regret.mean(axis=0)
        np.testing.assert_allclose(line.get_ydata(), means)
    assert ax.get_title(loc="left") == "riverswim: mean of 5 runs, 95% bands"
    own = Figure().add_subplot()
    assert runs.plot(own, logarithmic=True) is own
    assert own.get_xscale() == "log"
    tiny = cpsrl.environment("riverswim", n_states=3)
    elsewhere = Runs.join([runs, cpsrl.simulate(cpsrl.TSDE(), tiny, 300, seeds=5)])
    with pytest.raises(ValueError, match=r"on one environment, and here are riverswim, riverswim "):
        elsewhere.plot()


def test_a_model_is_drawn_with_its_probabilities_names_and_rewards():
    import matplotlib.pyplot as plt

    ax = RIVER.plot()
    assert ax.figure.number in plt.get_fignums()
    np.testing.assert_allclose(ax.images[0].get_array(), RIVER.csr.toarray())
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[:3] == ["0, left", "0, right", "1, left"]
    (right,) = ax.child_axes
    assert [label.get_text() for label in right.get_yticklabels()] == ["0.005", *["0"] * 10, "1"]
    plt.close(ax.figure)
    available = np.array([[True, False], [True, True]])
    some = cpsrl.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), available=available)
    own = plt.Figure().add_subplot()
    assert some.plot(own) is own
    assert own.images[0].get_array().shape == (3, 2)
    large = cpsrl.environment("gridworld", rows=60, columns=60).plot(plt.Figure().add_subplot())
    assert (
        len(large.lines[0].get_xdata())
        == cpsrl.environment("gridworld", rows=60, columns=60).csr.nnz
    )


def test_what_was_played_is_a_curve_of_rewards_a_step_and_a_data_frame():
    from matplotlib.figure import Figure

    gymnasium = pytest.importorskip("gymnasium")
    import cpsrl.gym

    env = gymnasium.make_vec("cpsrl/RiverSwim-v0", num_envs=3)
    played = cpsrl.play(cpsrl.agents.RandomAgent(), env, 60, record=20)
    ax = played.plot(Figure().add_subplot())
    a_step = np.diff(played.rewards, prepend=0.0, axis=1).mean(axis=0) / 20
    np.testing.assert_allclose(ax.lines[0].get_ydata(), a_step)
    frame = pytest.importorskip("pandas") and played.to_pandas()
    assert list(frame.columns) == ["row", "step", "rewards", "resamples", "ends"]
    np.testing.assert_array_equal(frame.rewards.to_numpy().reshape(3, 3), played.rewards)
    np.testing.assert_array_equal(frame.step, [20, 40, 60] * 3)


def test_a_comparison_is_a_data_frame_of_the_paired_differences(monkeypatch):
    pytest.importorskip("pandas")
    runs = both()
    frame = runs.compare()
    ours, theirs = (runs.select(agent=agent).regret[:, -1] for agent in runs.agents)
    (found,) = cpsrl.statistics.comparisons({"a": ours, "b": theirs})
    assert list(frame.columns) == [
        *("environment", "first", "second", "difference", "low", "high", "p", "runs")
    ]
    (row,) = frame.itertuples(index=False)
    wanted = found.difference.value, found.difference.low, found.difference.high, found.p
    assert row == ("riverswim", "TSDE", "Random", *wanted, 5)
    assert row.difference == pytest.approx((ours - theirs).mean())
    with pytest.raises(ValueError, match="no two agents with the same runs"):
        runs.select(agent="TSDE").compare()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="pandas is not installed: `pip install"):
        runs.compare()
