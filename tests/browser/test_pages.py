"""What holds for every page: it runs its own script, no other, and asks for nothing."""

from importlib import import_module

import pytest

from cpsrl.documents import page, source

pages = import_module("cpsrl.documents.page")  # `documents.page` is the function of that name
HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=document.title='b'>"
OWN = {
    "own.html": """{% extends "documents/page.html" %}{% block body %}
<p id="in" title="{{ text }}">{{ text }}</p><p id="out"></p>{% endblock %}""",
    "own.js": """
const data = JSON.parse(document.getElementById("data").textContent);
document.getElementById("out").textContent = data[0];
""",
}


@pytest.fixture
def made(monkeypatch, tmp_path):
    """A page of its own template and script, and where it is."""
    monkeypatch.setattr(pages, "source", lambda path: OWN.get(path) or source(path))
    pages._templates.cache_clear()
    path = tmp_path / "x.html"
    text = page("own.html", HOSTILE, scripts=["own.js"], data=[HOSTILE], text=HOSTILE)
    path.write_text(text, encoding="utf-8")
    yield path
    pages._templates.cache_clear()


def test_a_page_opens_from_disk_and_shows_a_hostile_text_as_it_is(open_page, made):
    shown = open_page(made)
    assert shown.title() == HOSTILE
    assert shown.text_content("#in") == shown.text_content("#out") == HOSTILE
    assert shown.get_attribute("#in", "title") == HOSTILE


@pytest.mark.parametrize(
    "fault",
    ["<script>document.title = 'broken'</script>", "<img src='https://example.org/x.png'>"],
    ids=["script", "request"],
)
def test_a_foreign_script_or_request_is_refused_by_the_page_itself(chromium, made, fault):
    made.write_text(made.read_text().replace("</body>", f"{fault}</body>"))
    shown, said, asked = chromium.new_page(), [], []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("requestfinished", lambda request: asked.append(request.url))
    shown.goto(made.as_uri())
    assert shown.title() == HOSTILE
    assert any("Content Security Policy" in text for text in said)
    assert asked == [made.as_uri()]
    shown.close()
