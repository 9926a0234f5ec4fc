"""The page of an experiment in a browser: what it shows is what the store holds."""

import json
import re

import numpy as np
import pytest

from cpsrl.experiments import Entry, Experiment, load, run_experiment
from cpsrl.reports import report
from cpsrl.reports.summary import amount, cells, summary
from cpsrl.statistics import mean_band, quantile_band

HOSTILE = '</script><img src=x onerror=alert(1)> & "it\'s" <!--'
EXPERIMENT = Experiment(
    name="seen",
    description=f"What is seen {HOSTILE}",
    environments=(
        Entry("riverswim", {"n_states": 6}),
        Entry("riverswim", {"n_states": 4}, label=HOSTILE),
    ),
    agents=(
        Entry("continuing-psrl", grid={"gamma": [0.5, 0.9, 0.99]}),
        Entry("tsde", label=f"TSDE {HOSTILE}"),
        Entry("random"),
    ),
    steps=600,
    seeds=6,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("seen") / "r"
    run_experiment(EXPERIMENT, directory, command="cpsrl run seen.toml")
    report(directory, formats=["svg"])
    return directory


@pytest.fixture(scope="module")
def path(directory):
    return directory / "report/report.html"


@pytest.fixture(scope="module")
def here(directory):
    """The runs on the first environment."""
    runs = load(directory, states=False)
    return runs.select(environment=runs.environments[0])


def shown(value):
    """A number as the page shows it: five digits, thousands apart."""
    short = float(f"{value:.5g}")
    return f"{int(short):,}" if short.is_integer() else f"{short:,}"


def figure(page, kind, number=0):
    return page.locator(f"figure[data-kind={kind}][data-place='{number}']")


def tip_lines(chart):
    rows = chart.locator(".tip tr").all()
    return {
        row.locator("td").first.inner_text().strip(): row.locator(".value").inner_text()
        for row in rows
    }


def ticks(chart):
    return chart.locator("svg text[text-anchor=middle]:not(.name)").all_text_contents()


def choose(chart, value):
    chart.locator(f"label:has(input[value={value}])").click()


def point_at_the_end(page, chart):
    box = chart.locator("path.axis").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2)


def test_hostile_names_are_shown_as_they_are(open_page, path):
    page = open_page(path)
    assert f"TSDE {HOSTILE}" in page.locator(".legend").first.inner_text()
    assert HOSTILE in page.locator("nav").inner_text()
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("show", ["mean", "median"])
def test_hover_shows_the_numbers_of_the_store(open_page, path, here, show):
    page = open_page(path)
    chart = figure(page, "regret")
    choose(chart, show)
    chart.scroll_into_view_if_needed()
    point_at_the_end(page, chart)
    band = mean_band if show == "mean" else quantile_band
    bands = {agent: band(here.select(agent=agent).regret) for agent in here.agents}
    assert chart.locator(".tip strong").inner_text() == "step 600"
    assert tip_lines(chart) == {agent: shown(b.value[-1]) for agent, b in bands.items()}
    intervals = {f"[{shown(b.low[-1])}, {shown(b.high[-1])}]" for b in bands.values()}
    assert intervals == set(chart.locator(".tip td:last-child").all_inner_texts())


def test_single_runs_are_named_and_have_their_own_numbers(open_page, path, here):
    page = open_page(path)
    chart = figure(page, "regret")
    choose(chart, "runs")
    assert chart.locator("path.run").count() == len(here.agents)
    chart.scroll_into_view_if_needed()
    point_at_the_end(page, chart)
    ((name, value),) = tip_lines(chart).items()
    agent, _, run = name.rpartition(", run ")
    one = here.select(agent=agent)
    assert value == shown(one.regret[one.seeds.tolist().index(int(run)), -1])


def test_agents_are_switched_on_and_off_everywhere(open_page, path, here):
    page = open_page(path)
    chart, again = figure(page, "regret"), figure(page, "resamples", 1)
    assert chart.locator("path.curve").count() == len(here.agents)
    page.locator(".legend").first.get_by_label("Random").uncheck()
    names = [curve.get_attribute("data-name") for curve in chart.locator("path.curve").all()]
    assert names == [agent for agent in here.agents if agent != "Random"]
    assert again.locator("path.curve").count() == len(here.agents) - 1
    assert not page.locator(".legend").nth(1).get_by_label("Random").is_checked()
    page.get_by_role("button", name="None").first.click()
    assert "No agent is switched on" in chart.inner_text()
    page.get_by_role("button", name="All").first.click()
    assert chart.locator("path.curve").count() == len(here.agents)


def test_axes_become_logarithmic(open_page, path):
    page = open_page(path)
    chart = figure(page, "regret")
    assert ticks(chart) == [str(step) for step in range(0, 601, 100)]
    choose(chart, "log")
    assert {"10", "100"} <= set(ticks(chart))
    assert "0" not in ticks(chart)


def test_a_low_chart_of_some_decades_is_marked_by_their_powers(open_page, path):
    page = open_page(path)
    assert page.evaluate("decades([1.3, 2500], 3)") == [10, 100, 1000]
    assert page.evaluate("decades([1, 1e8], 4)") == [1, 100, 1e4, 1e6, 1e8]


def test_zoom_by_dragging_by_buttons_and_back(open_page, path):
    page = open_page(path)
    chart = figure(page, "regret")
    chart.scroll_into_view_if_needed()

    def steps():
        return list(map(int, ticks(chart)))

    whole, reset = steps(), chart.get_by_role("button", name="See all")
    assert reset.is_disabled()
    box = chart.locator("path.axis").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 200, steps=4)
    assert chart.locator("rect.zoom").count() == 1
    page.mouse.up()
    assert 250 <= min(steps()) < max(steps()) <= 460
    reset.click()
    assert steps() == whole
    chart.get_by_role("button", name="Zoom in").click()
    assert 150 <= min(steps()) < max(steps()) <= 450
    chart.get_by_role("button", name="Zoom out").click()
    assert steps() == whole


def test_everything_is_reached_by_the_keyboard(open_page, path, here):
    page = open_page(path)
    chart = figure(page, "regret")
    chart.locator("input[value=linear]").focus()
    page.keyboard.press("ArrowRight")
    assert chart.locator("input[value=symlog]").is_checked()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("End")
    assert chart.locator(".tip strong").inner_text() == "step 600"
    assert tip_lines(chart)["Random"] == shown(here.select(agent="Random").regret[:, -1].mean())
    page.keyboard.press("ArrowLeft")
    assert chart.locator(".tip strong").inner_text() == f"step {here.times[-2]}"
    page.keyboard.press("+")
    assert not chart.get_by_role("button", name="See all").is_disabled()
    page.keyboard.press("0")
    assert chart.get_by_role("button", name="See all").is_disabled()
    page.keyboard.press("Escape")
    assert chart.locator(".tip").is_hidden()
    outline = chart.locator(".canvas").evaluate("node => getComputedStyle(node).outlineStyle")
    assert outline == "solid"


def test_tables_have_the_numbers_of_the_summary(open_page, path, here):
    page = open_page(path, javascript=False)
    for row in summary(here):
        name = page.get_by_text(row.agent, exact=True)
        line = page.locator("#e0 table.numbers tr").filter(has=name)
        assert tuple(line.locator("th, td").all_inner_texts()) == cells(row)
    (pairs,) = here.comparisons().values()
    heads = page.locator("#e0 table.matrix tbody th").all_inner_texts()
    order = [re.sub(r"^\d+ ", "", head) for head in heads]
    means = [here.select(agent=agent).regret[:, -1].mean() for agent in order]
    assert means == sorted(means)
    for pair in pairs:
        row, column = order.index(pair.first), order.index(pair.second)
        cell = page.locator("#e0 table.matrix tbody tr").nth(row).locator("td").nth(column)
        assert amount(pair.difference.value, "+") in cell.inner_text()
        mark = "" if pair.p > 0.05 else "▼" if pair.difference.value < 0 else "▲"
        assert cell.inner_text().strip("+-0123456789,. p=<≤\n") == mark
        assert cell.get_attribute("class") == {"": None, "▼": "good", "▲": "bad"}[mark]


def test_every_run_has_a_dot_with_its_final_regret(open_page, path, here):
    page = open_page(path)
    titles = figure(page, "finals").locator("circle.dot title").all_text_contents()
    rows = zip(here.agent, here.seeds, here.regret[:, -1], strict=True)
    assert set(titles) == {f"{agent}, run {run}: {shown(v)}" for agent, run, v in rows}


def test_regret_against_the_options_that_vary(open_page, path, directory):
    page = open_page(path)
    chart = page.locator("figure[data-kind=sweep]")
    data = json.loads(page.text_content("#data"))
    assert [sweep["option"] for sweep in data["sweeps"]] == ["gamma"] * 2 + ["n_states"]
    runs = load(directory, states=False)
    for number, place in enumerate(runs.environments):
        gammas = [f"Continuing PSRL, gamma={g}" for g in (0.5, 0.9, 0.99)]
        finals = [runs.select(a, place).regret[:, -1].mean() for a in gammas]
        assert data["sweeps"][number]["lines"][0]["y"] == [float(f"{v:.5g}") for v in finals]
        assert chart.nth(number).locator("circle").count() == 3
    assert page.locator("#across circle").count() == 2 * 5


def test_resamplings_are_those_of_the_store(open_page, path, here):
    page = open_page(path)
    chart = figure(page, "resamples")
    chart.locator(".canvas").focus()
    page.keyboard.press("End")
    expected = {a: shown(here.select(agent=a).resamples[:, -1].mean()) for a in here.agents}
    assert tip_lines(chart) == expected


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_without_javascript_the_figures_are_there(open_page, path, width, dark):
    page = open_page(path, width=width, dark=dark, javascript=False)
    for one in page.locator("figure.chart").all():
        if one.get_attribute("data-kind") != "small":
            picture = one.locator("noscript img")
            assert picture.is_visible()
            assert picture.evaluate("node => node.naturalWidth") > 300
        assert not one.locator(".canvas").is_visible()
    assert not page.get_by_role("button").first.is_visible()
    assert f"TSDE {HOSTILE}" in page.locator("table.numbers").first.inner_text()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_the_screen_and_text_has_contrast(open_page, path, width, dark):
    page = open_page(path, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    ink, paper = (np.array(re.findall(r"\d+", colour)[:3], float).mean() for colour in colours)
    assert (ink > paper) == dark
    assert abs(ink - paper) > 150
    assert page.locator("img").count() == 0


def test_the_command_is_copied(open_page, path):
    page = open_page(path, permissions=["clipboard-read", "clipboard-write"])
    page.locator("button[data-copy=command]").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "cpsrl run seen.toml"
    made = page.locator("#made").inner_text()
    assert 'name = "seen"' in made
    assert "numpy" in made
    assert "Python" in made


def test_printed_it_has_figures_and_no_controls(open_page, path):
    page = open_page(path, dark=True)
    page.emulate_media(media="print", color_scheme="dark")
    assert figure(page, "regret").locator("path.curve").first.is_visible()
    assert not page.locator("nav").is_visible()
    assert not page.get_by_role("button", name="Zoom in").first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
