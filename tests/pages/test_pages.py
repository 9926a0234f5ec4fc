"""One file without a network, whatever the names in it are, and one look for an agent."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from cpsrl.pages import COLOURS, DASHES, as_json, escaped, page, rounded, slots
from cpsrl.pages.page import source

HOSTILE = "</script><script>alert(1)</script><!-- \" ' & <b onclick=x>"


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


def test_hostile_texts_stay_texts():
    body = f'<p title="{escaped(HOSTILE)}">{escaped(HOSTILE)}</p>'
    found = Tags(page(HOSTILE, body, script="run();", data={HOSTILE: [HOSTILE]}))
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert "b" not in {tag for tag, _ in found.tags}
    assert dict(found.tags)["p"] == {"title": HOSTILE}
    assert json.loads(found.scripts[0]) == {HOSTILE: [HOSTILE]}


def test_a_page_may_ask_for_nothing():
    text = page("x", "<p>x</p>")
    policy = next(a["content"] for t, a in Tags(text).tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"https?:|//", policy)
    assert not re.search(r"https?://|url\(|@import|<link|src=", text)


def test_json_has_no_nan_and_no_angle_bracket():
    assert "<" not in as_json(["<!--", "</script>"])
    with pytest.raises(ValueError):
        as_json(float("nan"))


def test_numbers_are_rounded_to_digits_and_nan_is_none():
    values = np.array([[123456.7, 0.00123456], [np.nan, 5.0]])
    assert rounded(values) == [[123460, 0.0012346], [None, 5]]
    assert json.dumps(rounded(np.array([2.0, np.inf]))) == "[2, null]"


def test_slots_differ_and_an_agent_keeps_its_own_in_any_company():
    assert (
        len({(COLOURS[i % 7], DASHES[i % 6]) for i in slots(list(map(str, range(40)))).values()})
        == 40
    )
    left = slots(["Continuing PSRL, horizon", "Continuing PSRL, gamma=0.99", "TSDE", "DS-PSRL"])
    assert left == {
        "Continuing PSRL, horizon": 0,
        "Continuing PSRL, gamma=0.99": 3,
        "TSDE": 1,
        "DS-PSRL": 2,
    }
    assert slots(["UCRL2", "Random", "TSDE"]) == {"UCRL2": 0, "Random": 6, "TSDE": 1}


def test_the_style_sheet_has_the_colours_of_the_figures():
    light = re.findall(r"--c(\d): (#\w+);", source("page.css"))
    assert {int(i): colour for i, colour in reversed(light)} == {
        i: "#000" if colour == "#000000" else colour.lower() for i, colour in enumerate(COLOURS)
    }
    assert len(light) == 2 * len(COLOURS)
