"""Agents in a file of their own, and what they are made of as trees."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import cpsrl
from contracts.test_agents import equal
from cpsrl.agents import AGENTS
from cpsrl.agents.checkpoint import recipe_in
from cpsrl.agents.codec import from_tree, settings_of, to_tree
from cpsrl.support.serialise import DamagedError, sealed, unsealed

NAMES = [name for name in AGENTS.names() if all(map(find_spec, AGENTS.make(name).packages))]


@pytest.mark.parametrize("name", NAMES)
def test_every_agent_goes_on_from_its_file(tmp_path, name):
    spec = AGENTS.make(name)
    spec = replace(spec, batch=4, capacity=20) if spec.packages else spec
    mdp = cpsrl.environment("riverswim", features="one-hot")
    agent, world = cpsrl.start(spec, mdp, seed=1), mdp.simulator(seed=1)
    for _ in range(40):
        state = world.state
        action = agent.act(state)
        agent.observe(state, action, *world.step(action))
    agent.act(world.state)
    agent.save(tmp_path / "agent")
    again = cpsrl.resume(tmp_path / "agent")
    assert equal(again.state(), agent.state())
    for state in np.random.default_rng(1).integers(6, size=50).tolist():
        assert again.act(state) == agent.act(state)
        again.observe(state, 1, 0.5, 0)
        agent.observe(state, 1, 0.5, 0)


def test_parts_come_back_as_they_were():
    support = scipy.sparse.csr_array(np.ones((6, 3)))
    for belief in (
        cpsrl.Dirichlet(np.ones((3, 2, 3))),
        cpsrl.Dirichlet(support=support, rewards=cpsrl.KnownRewards([[0, 1], [1, 0], [1, 1.5]])),
        cpsrl.beliefs.Truncated(3.0, cpsrl.Dirichlet(0.5)),
    ):
        spec = cpsrl.PSRL(cpsrl.TSDEStops(), cpsrl.Average(), belief, label="mine")
        again = from_tree(unsealed(*sealed(to_tree(spec))))
        assert settings_of(again) == settings_of(spec)
        assert again.label == "mine"


def test_a_function_is_no_part_of_a_file_and_must_be_given_again(tmp_path):
    spec = cpsrl.ContinuingPSRL(schedule=lambda t: 0.9)
    agent = cpsrl.start(spec, cpsrl.Sizes(3, 2))
    agent.act(1)
    agent.save(tmp_path / "agent")
    with pytest.raises(ValueError, match=r"give the agent as well: agent\.rule\.schedule is"):
        cpsrl.resume(tmp_path / "agent")
    assert equal(cpsrl.resume(tmp_path / "agent", spec).state(), agent.state())


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "agent"
    path.write_text("something else\n")
    with pytest.raises(DamagedError, match="not a saved agent"):
        cpsrl.resume(path)
    cpsrl.start(cpsrl.TSDE(), cpsrl.Sizes(3, 2)).save(path)
    path.write_bytes(path.read_bytes().replace(b"cpsrl agent 1", b"cpsrl agent 2"))
    with pytest.raises(ValueError, match="format '2', and this version of cpsrl reads format 1"):
        cpsrl.resume(path)
    with pytest.raises(ValueError, match="not registered here: import the module"):
        from_tree({"$part": ["rule", "nobody's"]})


EARLIER = Path(__file__).parent / "written_by_0_2"
RIVER = cpsrl.environment("riverswim")
KNOWN = cpsrl.Dirichlet(np.ones((6, 2, 6)), rewards=cpsrl.KnownRewards(RIVER.rewards))
WRITTEN = {
    "tsde": lambda: cpsrl.TSDE(),
    "parts": lambda: cpsrl.PSRL(
        cpsrl.TSDEStops(), cpsrl.Average(), cpsrl.beliefs.Truncated(3.0, KNOWN)
    ),
    "fleet": lambda: cpsrl.agents.Fleet(2),
    "function": lambda: cpsrl.ContinuingPSRL(schedule=lambda t: 0.9),
    "dqn": lambda: replace(
        cpsrl.networks.BootstrappedDQN(),
        belief=cpsrl.networks.Members(2, hidden=(3,)),
        batch=2,
        capacity=8,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_agents_of_the_release_before_go_on(tmp_path, name):
    if name == "dqn":
        pytest.importorskip("jax")
    spec = WRITTEN[name]()
    given = spec if name == "function" else None
    agent = cpsrl.resume(EARLIER / f"{name}.cpsrl", given)
    assert settings_of(agent.spec) == settings_of(spec)
    assert agent.step == 21
    for state in (0, 1, 2):
        agent.observe(state, agent.act(state), 0.5, state + 1)
    agent.save(tmp_path / "agent")
    trees = []
    for path in (EARLIER / f"{name}.cpsrl", tmp_path / "agent"):
        checksum, text, arrays = path.read_bytes().split(b"\n", 3)[1:]
        trees.append(unsealed(text.decode(), arrays, checksum.decode()))
    if given is None:
        before, after = (settings_of(from_tree(tree["agent"])) for tree in trees)
        assert before == after
    np.testing.assert_equal(trees[0]["problem"], trees[1]["problem"])


def test_only_parts_of_agents_are_made_from_a_tree():
    with pytest.raises(ValueError, match="the backend 'ray' is not registered here"):
        from_tree({"$part": ["backend", "ray"]})
    with pytest.raises(ValueError, match="not that of an agent but of"):
        recipe_in(to_tree(cpsrl.Average()))


def test_equal_agents_have_equal_settings():
    same = (cpsrl.TSDE(), cpsrl.TSDE(label="mine"), cpsrl.PSRL(cpsrl.TSDEStops(), cpsrl.Average()))
    assert all(settings_of(one) == settings_of(same[0]) for one in same)
    assert settings_of(cpsrl.TSDE(belief=KNOWN)) != settings_of(same[0])
