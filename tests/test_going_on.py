"""Every way of going on, in a process of its own that has imported nothing else."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

import cpsrl
from cpsrl.agents import codec
from cpsrl.support import registry
from cpsrl.support.registry import REGISTRIES, Registry

SPECS = {"tabular": cpsrl.PSRL(cpsrl.TSDEStops(), cpsrl.Average(), cpsrl.Dirichlet(0.5))}
if find_spec("jax"):
    SPECS["networks"] = cpsrl.BootstrappedDQN(hidden=(4,), batch=4, capacity=20)
WAYS = {
    "resume": "cpsrl.resume('agent')",
    "open": "cpsrl.open('agent.db').agent",
    "view": "import_module('cpsrl.live.durable').view('agent.db').agent",
}
EXPERIMENTS = {
    "load": "runs = cpsrl.load('results')",
    "open_results": (
        "from cpsrl.experiments import open_results; runs = open_results('results').load()"
    ),
    "continue": (
        "from cpsrl.experiments import continue_experiment\n"
        "runs = continue_experiment('results', 20).load()"
    ),
    "command": (
        "from cpsrl.cli.main import main\n"
        "try: main(['continue', 'results', '--steps', '20'])\n"
        "except SystemExit as end: assert not end.code\n"
        "import cpsrl; runs = cpsrl.load('results')"
    ),
}


def alone(program, folder):
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def mdp():
    return cpsrl.environment("riverswim", features="one-hot")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", SPECS)
def test_an_agent_goes_on(kind, way, mdp, tmp_path):
    durable = cpsrl.open(tmp_path / "agent.db", SPECS[kind], mdp, seed=1)
    agent = cpsrl.start(SPECS[kind], durable.labels.sizes, seed=1)
    shown = mdp.features if kind == "networks" else range(6)
    for state in (0, 1, 2, 3, 2, 1):
        agent.observe(shown[state], agent.act(shown[state]), 0.5, shown[state])
        durable.observe(state, durable.act(state), 0.5, state)
    agent.save(tmp_path / "agent")
    durable.close()
    state = repr(2 if kind == "tabular" else mdp.features[2].tolist())
    importing = "from importlib import import_module\nimport cpsrl"
    told = alone(f"{importing}\nprint(int({WAYS[way]}.act({state})))", tmp_path)
    assert int(told) == agent.act(shown[2])


@pytest.mark.parametrize("way", EXPERIMENTS)
def test_an_experiment_goes_on(way, mdp, tmp_path):
    experiment = cpsrl.Experiment(
        "on", [cpsrl.Entry(mdp)], [cpsrl.Entry(spec) for spec in SPECS.values()], 20, 1
    )
    cpsrl.run_experiment(experiment, tmp_path / "results")
    program = f"import cpsrl\n{EXPERIMENTS[way]}\nprint(len(runs.agents), runs.times[-1])"
    steps = 40 if way in ("continue", "command") else 20
    assert alone(program, tmp_path) == f"{len(SPECS)} {steps}"


def test_a_model_is_read(mdp, tmp_path):
    mdp.save(tmp_path / "river.npz")
    assert alone("import cpsrl; print(cpsrl.TabularMDP.load('river.npz'))", tmp_path)


def test_the_parts_of_a_file_are_those_of_the_folders_above_as_well():
    """Which are imported when names are looked up, and enter registries of their own then."""
    program = (
        "from cpsrl.agents.codec import from_tree\n"
        "print(type(from_tree({'$part': ['network belief', 'members']})).__name__)"
    )
    if find_spec("jax"):
        assert alone(program, ".") == "Members"


def test_a_registry_may_be_made_while_a_part_is_looked_up(monkeypatch):
    class Growing(Registry):
        def names(self):
            Registry("rule")
            return super().names()

    monkeypatch.setattr(registry, "REGISTRIES", {k: list(v) for k, v in REGISTRIES.items()})
    monkeypatch.setattr(codec, "REGISTRIES", registry.REGISTRIES)
    Growing("rule")
    rule = cpsrl.FixedLength(7)
    assert codec.from_tree(codec.to_tree(rule)) == rule
    with pytest.raises(ValueError, match="the rule 'nobody' is not registered here"):
        codec.from_tree({"$part": ["rule", "nobody"]})
    with pytest.raises(ValueError, match="the thing 'psrl' is not registered here"):
        codec.from_tree({"$part": ["thing", "psrl"]})
