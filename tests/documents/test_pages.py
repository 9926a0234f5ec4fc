"""One file without a network, whatever the names in it are, one table, one look for an agent."""

import io
import json
import re
from html.parser import HTMLParser
from importlib import import_module

import numpy as np
import pytest
from jinja2 import UndefinedError
from rich.console import Console

from cpsrl.documents import COLOURS, DASHES, Cell, Table, as_json, page, rounded, slots, source

pages = import_module("cpsrl.documents.page")  # `documents.page` is the function of that name
HOSTILE = "</script><script>alert(1)</script><!-- \" ' & <b onclick=x> \u2028\u2029 {{ 7 * 7 }}"
BODY = """{% extends "documents/page.html" %}
{% block body %}<p title="{{ text }}">{{ text }}</p>{% endblock %}"""


@pytest.fixture
def own(monkeypatch):
    """A template that is not the package's: `page(own, ...)`."""

    def found(path):
        return BODY if path == "own.html" else source(path)

    monkeypatch.setattr(pages, "source", found)
    pages._templates.cache_clear()
    yield "own.html"
    pages._templates.cache_clear()


class Tags(HTMLParser):
    """The start tags of a document, and the text inside script elements."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts.append(data)


def test_hostile_texts_stay_texts(own):
    found = Tags(page(own, HOSTILE, data={HOSTILE: [HOSTILE]}, text=HOSTILE))
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert "b" not in {tag for tag, _ in found.tags}
    assert dict(found.tags)["p"] == {"title": HOSTILE}
    assert json.loads(found.scripts[0]) == {HOSTILE: [HOSTILE]}
    assert not set(found.scripts[0]) & set("<>&\u2028\u2029")


def test_a_page_may_ask_for_nothing(own):
    text = page(own, "x", text="x")
    policy = next(a["content"] for t, a in Tags(text).tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"https?:|//", policy)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|url\(|@import|<link|src=", text)


def test_a_template_that_misses_a_variable_is_an_error(own):
    with pytest.raises(UndefinedError, match="'text' is undefined"):
        page(own, "x")


@pytest.mark.parametrize("text", ["</script><b>", "<!--", "<SCRIPT", "&lt;", "\u2028\u2029", "'\""])
def test_json_in_a_script_has_no_character_that_ends_it(text):
    made = as_json({text: text})
    assert not set(made) & set("<>&\u2028\u2029")
    assert json.loads(made) == {text: text}


def test_json_has_no_nan():
    with pytest.raises(ValueError):
        as_json(float("nan"))


TABLE = Table(
    ("a|b", "n"),
    [("<b>", 1234.5), (Cell("x", below="small", title='"t"', kind="best", link="#y"), -0.0)],
    title="<i>",
    note="&",
    total=20,
)


def test_a_table_is_the_same_in_markdown_a_notebook_and_a_terminal():
    head = "| a\\|b | n |\n| --- | ---: |\n"
    assert TABLE.markdown() == head + "| &lt;b&gt; | 1,234.5 |\n| x | 0 |\n"
    shown = TABLE._repr_html_()
    assert '<tr><th scope="row">&lt;b&gt;</th><td>1,234.5</td></tr>' in shown
    assert '<th scope="row" class="best" title="&#34;t&#34;"><a href="#y">x</a>' in shown
    assert "<small>small</small>" in shown
    assert "<b>&lt;i&gt;</b>" in shown
    assert "... and 8 more. &amp;" in shown
    assert on_terminal(TABLE, 80) == ["a|b         n", "<b>   1,234.5", "x           0"]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (30, ["name          one   two", "a long name     1    22", "b               3     4"]),
        (20, ["name", "   one   two", "a long name", "     1    22", "b", "     3     4"]),
        (
            8,
            [
                *("name", "   one", "a long", "name", "     1", "b", "     3", ""),
                *("name", "   two", "a long", "name", "    22", "b", "     4"),
            ],
        ),
    ],
)
def test_a_table_keeps_every_number_with_its_name_on_a_narrow_terminal(width, lines):
    table = Table(("name", "one", "two"), [("a long name", 1, 22), ("b", 3, 4)])
    assert on_terminal(table, width) == lines


def test_columns_that_do_not_fit_come_below_with_the_names():
    table = Table(("a", "one", "two"), [("x", 1, 2)])
    assert on_terminal(table, 9) == ["a   one", "x     1", "", "a   two", "x     2"]


def on_terminal(table, width):
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_numbers_are_rounded_to_digits_and_nan_is_none():
    values = np.array([[123456.7, 0.00123456], [np.nan, 5.0]])
    assert rounded(values) == [[123460, 0.0012346], [None, 5]]
    assert json.dumps(rounded(np.array([2.0, np.inf]))) == "[2, null]"


def test_slots_differ_and_an_agent_keeps_its_own_in_any_company():
    every = slots([str(i) for i in range(66)])
    assert len({(COLOURS[i % 11], DASHES[i % 6]) for i in every.values()}) == 66
    assert len(slots([str(i) for i in range(100)])) == 100
    left = ["Continuing PSRL, horizon", "Continuing PSRL, gamma=0.99", "TSDE", "DS-PSRL"]
    found = slots(left)
    assert list(found) == left
    assert found == slots(left[::-1])
    assert (found["TSDE"], found["DS-PSRL"]) == (1, 2)
    assert found["Continuing PSRL, gamma=0.99"] == 0
    for company in (["Random"], ["UCRL2", "a"], ["Random", "IMED-RL", "b"], []):
        assert slots([*company, "TSDE"])["TSDE"] == 1
        assert slots([*company, "Continuing PSRL, gamma=0.9"])["Continuing PSRL, gamma=0.9"] == 0


def test_up_to_eleven_agents_have_colours_of_their_own():
    rng = np.random.default_rng(0)
    for _ in range(200):
        some = [f"agent {rng.integers(1000)} {i}" for i in range(5)]
        found = slots([*some, "TSDE", "Random"])
        assert {slot % 11 for slot in found.values()} == set(range(7))
        found = slots([*some, *(f"{label} too" for label in some), "TSDE"])
        assert {slot % 11 for slot in found.values()} == set(range(11))


def test_the_style_sheet_has_the_colours_of_the_figures():
    light = re.findall(r"--c(\d+): (#\w+);", source("documents/page.css"))
    assert {int(i): colour for i, colour in reversed(light)} == {
        i: "#000" if colour == "#000000" else colour.lower() for i, colour in enumerate(COLOURS)
    }
    assert len(light) == 2 * len(COLOURS)
