"""The page of a film: it shows the run, with and without a script, and the slider does its work."""

import re

import numpy as np
import pytest

import cpsrl
from cpsrl.watching import Film, write_page
from cpsrl.watching.words import number, story

STEPS = 1500


@pytest.fixture(scope="module")
def films():
    river = cpsrl.environment("riverswim", variant="tsde")
    agents = cpsrl.ContinuingPSRL(0.99), cpsrl.TSDE()
    made = [Film(agent, river, STEPS, seed=2, run=1) for agent in agents]
    for film in made:
        film.advance(STEPS)
    return made


@pytest.fixture(scope="module")
def path(films, tmp_path_factory):
    return write_page(films, tmp_path_factory.mktemp("film") / "film.html")


def to(page, step):
    """Move the slider, as a hand would."""
    slider = page.locator("#step")
    slider.evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", str(step))


def test_the_numbers_shown_are_those_of_the_run(films, path, open_page):
    page = open_page(path)
    for step in (1, 377, STEPS):
        to(page, step)
        assert page.text_content("#now") == f"step {step:,} of 1,500"
        for i, film in enumerate(films):
            regret = film.regrets()[step - 1]
            assert page.locator(".legend .regret").nth(i).text_content() == number(regret)
            assert page.evaluate(f"films[{i}].regret[{step}]") == regret
            drawn = [first for first in film.begun if first <= step]
            here = page.text_content(f"#film{i} .here")
            state = film.path()[0][step]
            assert here.startswith(f"In state {state} after {step:,} step")
            ago = f"{step - drawn[-1]:,} step"
            assert f"Model {len(drawn):,}, drawn at step {drawn[-1]:,}, {ago}" in here
            assert page.locator(f"#film{i} .world .at").count() == 1
            look = [one for one in film.looks if one.step <= step][-1]
            shown = page.locator(f"#film{i} .world span").all_text_contents()
            assert shown == ["←→"[action] for action in look.policy]
            assert f"earns {number(look.earns)} a step" in here


def test_the_model_beside_the_truth_is_that_of_the_pseudo_episode(films, path, open_page):
    page = open_page(path)
    to(page, 900)
    for i, film in enumerate(films):
        look = [one for one in film.looks if one.step <= 900][-1]
        true = film.true_value(look.gamma)
        rows = page.locator(f"#film{i} .believed tbody tr").all_inner_texts()
        for state, row in enumerate(rows):
            cells = row.split("\t")
            assert float(cells[2].replace(",", "")) == pytest.approx(look.value[state], rel=1e-3)
            assert float(cells[3].replace(",", "")) == pytest.approx(true[state], rel=1e-3)
            shares = [float(cell.strip("%")) / 100 for cell in cells[4:]]
            np.testing.assert_allclose(shares, look.optimal[state], atol=0.008)
        assert f"drawn at step {look.step:,}," in page.text_content(f"#film{i} .model")


def test_the_posterior_is_that_of_the_state_and_action_chosen(films, path, open_page):
    page = open_page(path)
    to(page, 1200)
    page.select_option("#state", "4")
    page.select_option("#action", "1")
    film = films[1]
    states, actions, _ = film.path()
    at = np.flatnonzero((states[:1200] == 4) & (actions[:1200] == 1))
    assert page.text_content("#film1 .pair") == "right in 4"
    assert f"Done {len(at):,} times so far." in page.text_content("#film1 .posterior")
    look = [one for one in film.looks if one.step <= 1200][-1]
    rows = [r.split("\t") for r in page.locator("#film1 .posterior tbody tr").all_inner_texts()]
    assert [row[0] for row in rows] == ["reward", "to 3", "to 4", "to 5", "elsewhere"]
    assert float(rows[0][2]) == pytest.approx(look.rewards[0, 4, 1], rel=1e-3)
    places = [k for k, row in enumerate(film.successors[0]) if row == 9]
    for row, k, true in zip(rows[1:], places, ("10%", "60%", "30%"), strict=False):
        assert abs(float(row[2].strip("%")) / 100 - look.successors[0, k]) <= 0.008
        seen = np.mean(states[at + 1] == int(row[0].split()[1]))
        assert row[3] == f"{int(100 * seen + 0.5)}%"
        assert row[4] == true


def test_keys_and_buttons_move_through_time(films, path, open_page):
    page = open_page(path)
    to(page, 100)
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    assert page.text_content("#now").startswith("step 101 ")
    page.keyboard.press("Shift+ArrowLeft")
    assert page.text_content("#now").startswith("step 1 ")
    page.locator("#step").focus()
    page.keyboard.press("ArrowRight")
    assert page.text_content("#now").startswith("step 2 ")
    both = sorted({first for film in films for first in film.begun})
    page.click("#next")
    following = next(first for first in both if first > 2)
    assert page.text_content("#now").startswith(f"step {following} ")
    page.click("#back")
    assert page.text_content("#now").startswith("step 2 ")
    page.select_option("#speed", "10")  # two minutes to the end, however slow this machine is
    page.click("#play")
    page.locator("#now:not(:has-text('step 2 '))").wait_for()
    page.click("#play")
    assert page.text_content("#play") == "play"
    stopped = page.text_content("#now")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.text_content("#now") == stopped
    to(page, STEPS - 1)
    page.click("#play")
    page.locator("#play:text-is('play')").wait_for()
    assert page.text_content("#now").startswith("step 1,500 ")


def test_without_a_script_figures_words_and_numbers_are_there(films, path, open_page):
    page = open_page(path, javascript=False)
    assert page.locator("noscript img").count() == 3
    for picture in page.locator("noscript img").all():
        assert picture.is_visible()
    assert not page.locator("#step").is_visible()
    text = page.locator("main").inner_text()
    for film in films:
        assert number(film.regret) in text
        for sentence in story(film):
            assert sentence in text
    assert "gamma = 0.99 is too small here" in text
    table = page.locator("table").inner_text()
    assert re.search(rf"^1,500\t{films[0].path()[0][-1]}\t{len(films[0].begun)}\t", table, re.M)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_sticks_out_at_any_width(path, open_page, width, dark):
    page = open_page(path, width=width, dark=dark)
    for step in (0, 700):
        to(page, step)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(255, 255, 255)") is not dark
    for cell in (".believed thead tr:last-child th:nth-child(2)", ".believed td:nth-child(2)"):
        align = page.locator(cell).first.evaluate("node => getComputedStyle(node).textAlign")
        assert align == "left"


def test_names_are_shown_as_they_are(open_page, tmp_path):
    hostile = "<img src=x onerror=alert(1)>"
    mdp = cpsrl.TabularMDP(
        [[[0, 1], [1, 0]], [[1, 0], [0, 1]]],
        [[0.0, 0.1], [0.5, 0.2]],
        state_names=(hostile, "b&b"),
        action_names=("</script>", "go"),
        name=hostile,
        noise=0.5,
    )
    film = Film(cpsrl.TSDE(label=hostile), mdp, 300)
    page = open_page(write_page([film], tmp_path / "x.html"))
    assert page.locator("img").count() == 0
    assert page.text_content("h1") == f"{hostile}: {hostile}"
    assert page.locator(".believed tbody th").all_text_contents() == [hostile, "b&b"]
    assert page.evaluate("films[0].regret[300]") == film.regret


def test_agents_without_models_and_twenty_states_and_the_size(open_page, tmp_path):
    grid = cpsrl.environment("gridworld", rows=4, columns=5)
    films = [Film(agent, grid, 5000) for agent in (cpsrl.TSDE(), cpsrl.RandomAgent())]
    path = write_page(films, tmp_path / "x.html")
    page = open_page(path)
    assert page.locator("#film1 .world span").count() == 20
    assert "It draws no models" in page.text_content("#film1")
    assert (
        page.locator("#film0 .world .at")
        .evaluate("e => e.style.gridArea")
        .startswith(f"{films[0].state // 5 + 1} / {films[0].state % 5 + 1}")
    )
    assert path.stat().st_size < 1_500_000
