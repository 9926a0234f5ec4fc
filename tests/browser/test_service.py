"""The page of a served agent in a browser: what it shows is what the agent says."""

import json
import threading
import time

import pytest

import cpsrl
from browser.conftest import LIMIT

uvicorn = pytest.importorskip("uvicorn")

LABELS = (["at the left bank", "in the river", "at the right bank"], ["left", "right"])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A function that serves an agent and returns its address."""
    from cpsrl.live.service import app

    servers = []

    def serve(agent):
        server = uvicorn.Server(uvicorn.Config(app(agent), port=0, log_level="error"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"

    yield serve
    for server, thread in servers:
        server.should_exit = True
        thread.join()


def lived(path, states):
    """An agent that has seen something; `states` are what it can be shown."""
    spec = cpsrl.ContinuingPSRL(0.9)
    agent = cpsrl.open(path, spec, LABELS, durability="group")
    for t in range(60):
        decision = agent.decide(states[t % 3])
        agent.outcome(decision.id, t % 7 / 7, states[(t + 1) % 3])
    agent.decide(states[0])
    return agent


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    with lived(tmp_path_factory.mktemp("served") / "agent.db", LABELS[0]) as agent:
        yield agent


@pytest.fixture(scope="module")
def address(served, agent):
    return served(agent)


@pytest.fixture
def visit(chromium):
    """A function that opens an address; the page must have logged no error at the end."""
    contexts, faults = [], []

    def said(message):
        if message.type in ("error", "warning"):
            faults.append(message.text)

    def visited(address, width=1280, dark=False):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        context.set_default_timeout(LIMIT)
        contexts.append(context)
        page = context.new_page()
        page.on("console", said)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(address)
        page.locator("#belief tbody tr").first.wait_for()
        return page

    yield visited
    for context in contexts:
        context.close()
    assert not faults


def test_it_shows_what_the_agent_says_and_follows_it(visit, address, agent):
    page = visit(address)
    facts = page.locator("#facts div").all_inner_texts()
    assert "61\ndecisions" in facts
    assert "1\nwaiting" in facts
    assert page.locator("#curve path.curve").count() == 1
    assert page.locator("#curve path.stroke").count() == len(agent.totals.marks)
    page.locator("#state").select_option("in the river")
    said = agent.explain("in the river", 199)
    cells = [[f"{one.probability:.3f}", str(one.visits)] for one in said.actions]
    page.get_by_text(cells[0][0]).wait_for()
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#belief tbody tr").all()]
    assert [[row[1], row[3]] for row in rows] == cells
    agent.discard(agent.pending()[0])
    page.get_by_text("discarded").locator("xpath=../b[text()='1']").wait_for()
    agent.decide("in the river")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_sticks_out_and_letters_can_be_read(visit, address, width, dark):
    page = visit(address, width, dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for text in page.locator("#curve svg text").all():
        assert text.bounding_box()["height"] > 9


def test_what_networks_are_shown_is_typed_in(visit, served, tmp_path):
    pytest.importorskip("jax")
    spec = cpsrl.BootstrappedDQN(0.9, members=2, hidden=(4,), batch=2, capacity=20)
    with cpsrl.open(tmp_path / "agent.db", spec, (3, ["left", "right"])) as agent:
        agent.decide([0, 1, 0])
        page = visit(served(agent))
        field = page.locator("input#state")
        assert json.loads(field.input_value()) == [0, 0, 0]
        field.fill("[1, 2, 3]")
        field.press("Enter")
        said = agent.explain([1, 2, 3], 199).actions[0].value
        page.get_by_text(f"{said.median:.4g} [").wait_for()
