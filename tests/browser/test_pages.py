"""What holds for every page: it runs its own script, no other, and asks for nothing."""

import pytest

from cpsrl.pages import escaped, page

HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=document.title='b'>"
SHOW = """
const data = JSON.parse(document.getElementById("data").textContent);
document.getElementById("out").textContent = data[0];
"""


def test_a_page_opens_from_disk_and_shows_a_hostile_text_as_it_is(open_page, tmp_path):
    path = tmp_path / "x.html"
    body = f'<p id="in" title="{escaped(HOSTILE)}">{escaped(HOSTILE)}</p><p id="out"></p>'
    path.write_text(page(HOSTILE, body, script=SHOW, data=[HOSTILE]), encoding="utf-8")
    shown = open_page(path)
    assert shown.title() == HOSTILE
    assert shown.text_content("#in") == shown.text_content("#out") == HOSTILE
    assert shown.get_attribute("#in", "title") == HOSTILE
    assert shown.locator("html.js").count() == 1


@pytest.mark.parametrize(
    "fault",
    ["<script>document.title = 'broken'</script>", "<img src='https://example.org/x.png'>"],
    ids=["script", "request"],
)
def test_a_foreign_script_or_request_is_refused_by_the_page_itself(chromium, tmp_path, fault):
    path = tmp_path / "x.html"
    path.write_text(page("x", fault), encoding="utf-8")
    shown, said, asked = chromium.new_page(), [], []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("requestfinished", lambda request: asked.append(request.url))
    shown.goto(path.as_uri())
    assert shown.title() == "x"
    assert any("Content Security Policy" in text for text in said)
    assert asked == [path.as_uri()]
    shown.close()
