"""Figures draw into the axes they are given, can be read, and carry their origin."""

import itertools
import subprocess
import sys
from dataclasses import replace

import matplotlib.image
import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from cpsrl import statistics
from cpsrl.documents import figures
from cpsrl.reports.sweeps import Sweep

ORIGIN = {"command": "cpsrl run x.toml", "versions": "numpy 2.0"}


@pytest.fixture
def ax():
    with figures.style():
        _, (ax,) = figures.panels(1)
        yield ax


def texts(ax):
    return {text.get_text(): text for text in ax.texts}


@pytest.mark.parametrize("logarithmic", [False, True])
def test_every_agent_has_a_curve_a_band_and_a_label(ax, runs, logarithmic):
    figures.regret_curves(ax, runs, logarithmic=logarithmic)
    looks = figures.look(runs.agents)
    assert set(runs.agents) <= set(texts(ax))
    assert len(ax.collections) == len(runs.agents)
    for agent in runs.agents:
        (line,) = (line for line in ax.lines if line.get_color() == looks[agent]["color"])
        np.testing.assert_allclose(line.get_ydata(), runs.select(agent=agent).regret.mean(axis=0))


@pytest.mark.parametrize("logarithmic", [False, True])
def test_labels_do_not_overlap(ax, runs, logarithmic):
    figures.regret_curves(ax, runs, logarithmic=logarithmic)
    ax.figure.draw_without_rendering()
    # Of an annotation's own extent, its line to the curve would be a part.
    boxes = [Text.get_window_extent(texts(ax)[agent]) for agent in runs.agents]
    for one, other in itertools.combinations(boxes, 2):
        assert not (one.y0 < other.y1 and other.y0 < one.y1)


def test_regret_that_is_never_positive_has_no_place_on_a_logarithmic_axis(ax, make_runs):
    runs = make_runs({"good": (-1, 0.5), "bad": (1, 0.5)})
    figures.regret_curves(ax, runs, logarithmic=True)
    assert "good" not in texts(ax)
    assert ax.get_ylim()[0] > 0


@pytest.mark.parametrize("logarithmic", [False, True])
def test_axes_go_hardly_further_than_the_runs(ax, make_runs, logarithmic):
    runs = make_runs({"one": (3, 1)}, seeds=2)
    runs = replace(runs, regret=runs.times * np.array([[1.0], [3.0]]))
    assert statistics.mean_band(runs.regret).high.max() > 2 * runs.regret.max()
    figures.regret_curves(ax, runs, logarithmic)
    assert runs.regret.max() < ax.get_ylim()[1] <= 1.5 * runs.regret.max()


def test_final_regrets_have_a_row_for_every_agent_and_a_dot_for_every_run(ax, runs):
    figures.final_regrets(ax, runs)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(runs.agents)
    dots = [line for line in ax.lines if len(line.get_xdata()) == 20]
    shown = np.sort(np.concatenate([line.get_xdata() for line in dots]))
    np.testing.assert_array_equal(shown, np.sort(runs.regret[:, -1]))


def test_no_dot_of_the_final_regrets_is_at_the_edge(ax, runs):
    figures.final_regrets(ax, runs)
    places = ax.xaxis.get_transform().transform
    low, high = places(np.array(ax.get_xlim()))
    dots = places(np.array([runs.regret[:, -1].min(), runs.regret[:, -1].max()]))
    air = 0.03 * (high - low)
    assert low + air < dots[0]
    assert dots[1] < high - air


def sweep_of(option, lines, levels=None):
    means = statistics.Interval
    return Sweep(
        option,
        {
            name: [(v, who, means(y, y / 2, 2 * y)) for v, who, y in line]
            for name, line in lines.items()
        },
        {name: means(y, y / 2, 2 * y) for name, y in (levels or {}).items()},
    )


def test_regret_against_gamma_is_spaced_by_its_horizon(ax):
    points = [(0.9, "a", 3.0), (0.99, "b", 2.0), (0.999, "c", 1.0)]
    looks = figures.look(["a", "b", "c", "TSDE"])
    figures.regret_against(ax, sweep_of("gamma", {"psrl": points}, {"TSDE": 5.0}), 100, looks)
    curve, *marks = ax.lines[:4]
    np.testing.assert_allclose(curve.get_xdata(), [10, 100, 1000])
    np.testing.assert_allclose(curve.get_ydata(), [3, 2, 1])
    assert [mark.get_color() for mark in marks] == [looks[agent]["color"] for agent in "abc"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [".9", ".99", ".999"]
    assert ax.lines[-1].get_color() == looks["TSDE"]["color"]
    assert "TSDE" in texts(ax)


def test_regret_against_an_option_has_marks_to_read_it_by(ax):
    points = [(0.9, "a", 2000.0), (0.99, "b", 900.0)]
    figures.regret_against(ax, sweep_of("gamma", {"psrl": points}), 100, figures.look(["a", "b"]))
    low, high = ax.get_ylim()
    shown = [tick.get_text() for tick in ax.get_yticklabels()]
    inside = [t for t, at in zip(shown, ax.get_yticks(), strict=True) if low <= at <= high]
    assert inside == ["500", "1k", "2k", "5k"]


def test_regret_against_an_option_of_environments_has_a_line_for_every_agent(ax):
    lines = {"TSDE": [(6, "six", 1.0), (20, "twenty", 4.0)], "random": [(6, "six", 3.0)]}
    looks = figures.look(["TSDE", "random"])
    figures.regret_against(ax, sweep_of("n_states", lines), 100, looks)
    assert ax.get_xscale() == "linear"
    assert ax.lines[0].get_color() == ax.lines[1].get_color() == looks["TSDE"]["color"]
    assert set(lines) <= set(texts(ax))


def test_looks_are_distinct():
    looks = figures.look([str(i) for i in range(40)])
    assert len({(look["color"], str(look["linestyle"])) for look in looks.values()}) == 40


def test_spread_keeps_the_order_and_the_gap_and_moves_no_more_than_it_must():
    placed = figures._spread(np.array([0.5, 0.5, 0.1, 0.52]), gap=0.1)
    np.testing.assert_allclose(placed, [0.406667, 0.506667, 0.1, 0.606667], atol=1e-5)
    assert figures._spread(np.array([0.99, 1.0]), gap=0.1).max() <= 1
    assert figures._spread(np.array([0.0, 0.01]), gap=0.1).min() >= 0


def test_files_carry_their_origin_and_are_the_same_every_time(runs, tmp_path):
    def drawn(folder):
        with figures.style():
            figure, (ax,) = figures.panels(1)
            figures.regret_curves(ax, runs)
            return figures.save(figure, folder / "regret", ORIGIN)

    first, second = drawn(tmp_path / "a"), drawn(tmp_path / "b")
    assert [path.suffix for path in first] == [".png", ".pdf", ".svg"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert "cpsrl run x.toml" in Image.open(first[0]).text["Description"]
    assert b"cpsrl run x.toml" in first[1].read_bytes()
    assert "cpsrl run x.toml; versions: numpy 2.0" in first[2].read_text()
    assert matplotlib.image.imread(first[0]).shape[0] > 400


def test_another_format_is_refused(ax, tmp_path):
    with pytest.raises(ValueError, match="written as png, pdf, svg, not 'jpg'"):
        figures.save(ax.figure, tmp_path / "x", ORIGIN, ["png", "jpg"])
    assert not list(tmp_path.iterdir())


def test_drawing_leaves_no_global_state():
    program = "import cpsrl.reports, sys; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
