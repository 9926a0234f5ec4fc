"""Specifications: read, checked, expanded, written."""

import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpsrl
from cpsrl.agents import AGENTS
from cpsrl.agents.agent import Agent
from cpsrl.environments import environment
from cpsrl.experiments import Entry, Experiment, find_experiment, shipped
from cpsrl.experiments.entry import make_agent, make_environment
from cpsrl.objectives import Average
from cpsrl.resampling import Bernoulli

MINIMAL = """
name = "small"
steps = 100
[[environments]]
name = "riverswim"
[[agents]]
name = "tsde"
"""


def test_a_minimal_specification():
    experiment = Experiment.from_toml(MINIMAL)
    assert experiment.runs == tuple(range(50))
    assert [e.label for e in experiment.all_environments] == ["riverswim"]
    assert [e.label for e in experiment.all_agents] == ["TSDE"]


def test_a_grid_is_the_product_of_its_lists():
    text = MINIMAL.replace(
        'name = "tsde"',
        'name = "fixed-length-psrl"\nlabel = "{length}/{gamma}"\n'
        "grid.length = [10, 20]\ngrid.gamma = [0.9, 0.99, 0.5]",
    )
    labels = [e.label for e in Experiment.from_toml(text).all_agents]
    assert labels == ["10/0.9", "10/0.99", "10/0.5", "20/0.9", "20/0.99", "20/0.5"]


def test_entries_of_a_grid_that_would_share_a_label_get_the_values():
    text = MINIMAL.replace(
        'name = "tsde"',
        'name = "tsde"\n[[agents.grid.belief]]\ntransitions = 1.0\n'
        "[[agents.grid.belief]]\ntransitions = 0.5",
    )
    labels = [e.label for e in Experiment.from_toml(text).all_agents]
    assert labels == ["TSDE (belief = transitions = 1.0)", "TSDE (belief = transitions = 0.5)"]


def test_braces_in_a_label():
    found = Entry(
        "continuing-psrl", {"gamma": 0.9}, "{{gamma}} = {gamma}, {{{gamma}}}, } {"
    ).expand()
    assert [one.label for one in found] == ["{gamma} = 0.9, {0.9}, } {"]
    given = Experiment("x", ["riverswim"], [cpsrl.TSDE(label="{a} } {{")], 10)
    again = Experiment.from_toml(given.to_toml())
    assert [one.called for one in again.all_agents] == ["{a} } {{"]


def test_parts_of_an_agent_are_looked_up_by_name():
    rule = {"name": "bernoulli", "gamma": 0.9}
    agent = make_agent(Entry("psrl", {"rule": rule, "objective": "average"}))
    assert agent.rule == Bernoulli(0.9)
    assert agent.objective == Average()


def test_a_horizon_is_that_of_the_experiment():
    text = MINIMAL.replace('name = "tsde"', 'name = "continuing-psrl"\nschedule = "horizon"')
    assert Experiment.from_toml(text).all_agents[0].label == "Continuing PSRL, horizon T=100"


def test_an_environment_per_run_is_drawn_from_the_run_and_the_root():
    entry = Entry("random", {"n_states": 4}, per_run="seed")
    models = [make_environment(entry, run, seed) for run, seed in [(0, 0), (1, 0), (0, 1), (1, 0)]]
    first, second, other_root, again = (mdp.rewards.tobytes() for mdp in models)
    assert second == again
    assert len({first, second, other_root}) == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 100", "step = 100", "unknown key 'step': did you mean 'steps'?"),
        ("steps = 100", "", "'steps' is missing"),
        ("steps = 100", "steps = 0", "steps must be a whole number of at least 1, not 0"),
        ("steps = 100", "steps = 100\nseeds = []", "and it is empty"),
        ("steps = 100", "steps = 100\nseeds = 10000000000", "seeds must be at most 1000000"),
        ("steps = 100", "steps = 100\nseeds = [1, 2.5]", "run must be a whole number.*not 2.5"),
        ("steps = 100", "steps = 100\nseeds = [1, 1]", "and 1 is repeated"),
        ("steps = 100", "steps = 100\nseeds = 2.5", "seeds must be a number or a list"),
        ("steps = 100", "steps = 100\nseed = -1", "seed must be a whole number of at least 0"),
        ("steps = 100", 'steps = 100\nrecord = "log10"', "did you mean 'log'?"),
        ("steps = 100", "steps = 100\nrecord = [0, 5]", "count from 1"),
        ('name = "small"', 'name = "../up"', "names a folder"),
        ('"tsde"', '"tdse"', r"agent 1 \(tdse\): unknown agent 'tdse': did you mean 'tsde'?"),
        ('"riverswim"', '"riverswin"', "environment 1 .*: did you mean 'riverswim'?"),
        ('"riverswim"', '"riverswim"\nvariant = "tsd"', "did you mean 'tsde'?"),
        ('"riverswim"', '"riverswim"\nvariants = "tsde"', "did you mean 'variant'?"),
        ('"tsde"', '"continuing-psrl"\ngama = 0.9', "unknown option 'gama'.*'gamma'?"),
        ('"tsde"', '"continuing-psrl"\ngamma = 1.5', "agent 1 .*gamma must be a number in"),
        ('"tsde"', '"continuing-psrl"\ngamma = "x"', "agent 1 .*gamma must be a number"),
        ('"tsde"', '"continuing-psrl"\ngrid.gamma = 0.9', "grid.gamma must be a list"),
        ('"tsde"', '"continuing-psrl"\ngrid = 0.9', "grid must be a table"),
        ('"tsde"', '"continuing-psrl"\ngamma = 0.9\ngrid.gamma = [0.9]', "both among the options"),
        ('"tsde"', '"continuing-psrl"\nschedule = "lambda t: 0.9"', "unknown schedule"),
        ('"tsde"', '"psrl"\nrule = "bernouli"', "unknown rule 'bernouli'.*'bernoulli'?"),
        ('"tsde"', '"psrl"\nrule = {gamma = 0.9}', "rule needs a name, one of bernoulli"),
        ('"tsde"', '"psrl"\nrule = ["never", "tsde"]', "agent 1 .*rule must be a name or a table"),
        ('"tsde"', '"psrl"\nrule = 0.99', "rule must be a name or a table, not 0.99"),
        ('"tsde"', '"psrl"\nobjective = 3', "objective must be a name or a table, not 3"),
        ('"tsde"', '"tsde"\nbelief = 3', "belief must be a name or a table, not 3"),
        ('"tsde"', '"tsde"\nbelief.rewards = 1', "belief.rewards must be a name or a table, not 1"),
        (
            '"tsde"',
            '"tsde"\nbelief.transitions = nan',
            "belief.transitions must be a number",
        ),
        ('"tsde"', '"tsde"\nbelief.since = 2024-01-01', "belief.since must be text.*date objects"),
        (
            '"riverswim"',
            '"riverswim"\nfeatures = 3',
            "features must be one of .*, not 3",
        ),
        ('"tsde"', '"tsde"\nlabel = "{gamma}"', "unknown option 'gamma' in the label"),
        ('"tsde"', '"tsde"\nlabel = "{}"', "where a brace itself is written twice"),
        ('"tsde"', '"tsde"\n[[agents]]\nname = "tsde"', "2 agents are called 'TSDE'"),
        ('"tsde"', '"tsde"\nper_run = "seed"', "per_run is for environments"),
        ('"riverswim"', '"riverswim"\nper_run = "seed"', "unknown option 'seed'"),
        ('name = "tsde"', 'label = "x"', "agent 1 has no name"),
        ("[[agents]]", "[agents]", "agents must be a list of tables"),
        ("steps = 100", "steps = ", "is not TOML"),
        ('"tsde"', '"tsde"\ngamma = .9', "0.9, not .9"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_nearest_right_name(old, new, message):
    with pytest.raises(ValueError, match=f"(?s)spec.toml.*{message}"):
        Experiment.from_toml(MINIMAL.replace(old, new), "spec.toml")


def test_python_objects_that_fit_into_no_file_are_refused():
    with pytest.raises(ValueError, match=r"agent 1 .*schedule must be text.*function objects"):
        Experiment(
            "x", (Entry("riverswim"),), (Entry("continuing-psrl", {"schedule": lambda t: 0.9}),), 10
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agents": Entry("tsde")}, "agents must be a list of entries"),
        ({"agents": "tsde"}, "agents must be a list of entries"),
        ({"agents": [5]}, "agent 1: an agent is a name or an object of a registered class"),
        ({"environments": [5]}, "environment 1: an environment is a name or a TabularMDP, not 5"),
        ({"agents": [Entry("tsde", "x")]}, r"agent 1 \(tsde\): options must be a table, not 'x'"),
        ({"agents": [Entry("tsde", {3: 4})]}, r"agent 1 \(tsde\): options: a key must be text"),
        ({"agents": [Entry("tsde", {"label": "x"})]}, "'label' is a part of the entry itself"),
        ({"agents": [Entry("tsde", grid={"belief": {1.0}})]}, "grid.belief must be.*set objects"),
        (
            {"agents": [Entry("tsde", grid={"belief": None})]},
            "grid.belief must be.*NoneType objects",
        ),
        ({"seeds": 2.5}, "seeds must be a number or a list of run numbers: 2.5"),
        ({"seeds": iter([1, 2])}, "seeds must be text, a number.*iterator objects"),
        ({"description": "\ud800"}, "description must be text that UTF-8 can hold"),
    ],
)
def test_what_no_file_can_hold_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(Experiment.from_toml(MINIMAL), **change)


def test_what_python_has_beside_toml_is_kept_as_toml_gives_it_back():
    given_ = Experiment(
        "x",
        [Entry("riverswim", {"n_states": np.int64(4)}, grid={"variant": np.array(["osband"])})],
        iter([Entry("continuing-psrl", grid={"gamma": np.linspace(0.5, 0.9, 2)})]),
        steps=np.int64(100),
        seeds=range(2, 5),
        seed=np.uint8(1),
        record=np.arange(1, 4),
    )
    written = Experiment(
        "x",
        (Entry("riverswim", {"n_states": 4}, grid={"variant": ["osband"]}),),
        (Entry("continuing-psrl", grid={"gamma": [0.5, 0.9]}),),
        steps=100,
        seeds=(2, 3, 4),
        seed=1,
        record=(1, 2, 3),
    )
    assert given_ == written
    assert given_.to_toml() == written.to_toml()
    assert Experiment.from_toml(given_.to_toml()) == given_


class Picky(Agent):
    """An agent that wants features."""

    label = "Picky"

    def check(self, problem):
        if problem.features is None:
            raise ValueError("there are no features")


@pytest.fixture
def picky(monkeypatch):
    monkeypatch.setitem(AGENTS._factories, "picky", Picky)


@pytest.mark.usefixtures("picky")
def test_every_agent_is_checked_against_every_environment():
    seen = Entry("random", {"n_states": 3, "features": "one-hot"}, per_run="seed")
    agents = (Entry("tsde"), Entry("picky"))
    assert len(Experiment("x", (seen,), agents, 10).all_agents) == 2
    with pytest.raises(ValueError, match="Picky on riverswim: there are no features"):
        Experiment("x", (seen, Entry("riverswim")), agents, 10)


@pytest.mark.usefixtures("picky")
def test_the_environment_of_the_first_run_stands_for_all(monkeypatch):
    checked = []
    monkeypatch.setattr(Picky, "check", lambda self, problem: checked.append(problem.rewards))
    entry = Entry("random", {"n_states": 3}, per_run="seed")
    Experiment("x", (entry,), (Entry("picky"),), 10, seeds=(7, 8), seed=2)
    np.testing.assert_array_equal(checked, [make_environment(entry, 7, 2).rewards])


def test_networks_can_have_a_schedule():
    rule = {"name": "bernoulli", "schedule": "doubling"}
    seen = Entry("riverswim", {"features": "one-hot"})
    experiment = Experiment("x", (seen,), (Entry("bootstrapped-dqn", {"rule": rule}),), 10)
    assert experiment.all_agents[0].label == "Bootstrapped DQN, doubling"


values = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=["Cs"])),
    ),
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), values))
def test_toml_values_read_back_as_they_were_written(table):
    import tomllib

    from cpsrl.experiments.values import toml_lines

    assert tomllib.loads("\n".join(toml_lines(table))) == table


whole = st.integers(1, 1000)
gammas = st.floats(0, 1, exclude_max=True)


def of_numpy(kind, dtype):
    return st.one_of(kind, kind.map(dtype))


def listed(kind, dtype):
    """Lists of `kind` in every form that Python has for them."""
    lists = st.lists(kind, min_size=1, max_size=4, unique=True)
    forms = (list, tuple, lambda x: np.array(x, dtype), lambda x: [dtype(y) for y in x])
    return st.builds(lambda form, x: form(x), st.sampled_from(forms), lists)


priors = st.fixed_dictionaries(
    {},
    optional={
        "transitions": of_numpy(st.floats(0.1, 10), np.float64),
        "rewards": st.sampled_from(["known", {"name": "normal-gamma", "mu0": np.float32(0.1)}]),
    },
)


@settings(deadline=None, max_examples=60)
@given(
    gamma=listed(gammas, np.float64),
    n_states=st.one_of(listed(st.integers(2, 9), np.int64), st.just(range(2, 5))),
    prior=st.one_of(priors, priors.map(MappingProxyType)),
    steps=of_numpy(whole, np.int64),
    seeds=st.one_of(of_numpy(whole, np.int32), listed(whole, np.int64), st.just(range(3))),
    seed=of_numpy(st.integers(0, 2**40), np.uint64),
    record=st.one_of(st.none(), st.just("log"), of_numpy(whole, np.int64), listed(whole, np.int64)),
    description=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_every_experiment_reads_back_as_it_was_given(gamma, n_states, prior, **rest):
    river = Entry("riverswim", grid={"n_states": n_states})
    coin = Entry("continuing-psrl", {"belief": prior}, "{gamma}", {"gamma": gamma})
    experiment = Experiment("x", [river], [coin], **rest)
    again = Experiment.from_toml(experiment.to_toml())
    assert again == experiment
    assert repr(again) == repr(experiment)
    assert again.to_toml() == experiment.to_toml()


def test_a_specification_reads_back_as_it_was_written():
    experiment = replace(
        find_experiment("factorial"),
        seeds=(3, 1),
        seed=2**70,
        record=(1, 50),
        description='a "b"\t',
    )
    again = Experiment.from_toml(experiment.to_toml())
    assert again == experiment
    assert again.to_toml() == experiment.to_toml()


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_experiment_is_valid_and_described(name):
    experiment = find_experiment(name)
    assert experiment.name == name
    assert experiment.description
    assert Experiment.from_toml(experiment.to_toml()) == experiment


def test_the_factorial_crosses_every_rule_of_the_literature_with_both_objectives():
    from cpsrl.resampling import RULES

    cells = {
        (make_agent(e).rule, type(make_agent(e).objective))
        for e in find_experiment("factorial").all_agents
    }
    rules = {rule for rule, _ in cells}
    assert len(cells) == 2 * len(rules)
    ours = {"discoveries"}  # that of the agent to start with, which the suite measures
    assert {type(rule) for rule in rules} == {RULES[n] for n in RULES.names() if n not in ours}


def test_an_unknown_experiment_gets_the_nearest_name():
    with pytest.raises(ValueError, match=r"did you mean 'figure2-left'\?"):
        find_experiment("figure-2-left")


def test_a_missing_file_is_named():
    with pytest.raises(ValueError, match=r"no-such\.toml: No such file"):
        find_experiment("no-such.toml")


def test_the_documented_specification_is_valid_and_the_example_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs/experiments.md").read_text()
    specification, *_ = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    environment("riverswim").save("machine.csv")
    assert len(Experiment.from_toml(specification).all_agents) == 3
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(example, {})
    assert (tmp_path / "results/two-gammas/experiment.json").exists()


PARTS = Path(__file__).parent / "parts_by_0_2.toml"


def test_objects_are_written_as_the_release_before_wrote_them():
    networks = cpsrl.networks
    rewards = cpsrl.KnownRewards([[0, 1], [1, 0], [1, 0.5]])
    belief = cpsrl.Dirichlet(np.ones((3, 2, 3)), rewards=rewards)
    agents = (
        cpsrl.ContinuingPSRL(gamma=0.9, belief=belief, label="gamma .9"),
        cpsrl.PSRL(cpsrl.FixedLength(50), cpsrl.Average(), cpsrl.beliefs.Truncated(3.0)),
        cpsrl.agents.Fleet(2, rule=cpsrl.Bernoulli(schedule="doubling")),
        networks.ValueSampling(belief=networks.Members(2, hidden=(3,)), batch=2),
        Entry("psrl", {"rule": "never", "objective": {"name": "discounted", "gamma": 0.5}}),
    )
    place = Entry("riverswim", {"n_states": 3, "features": "one-hot"})
    experiment = Experiment("parts", (place,), agents, 100, 2)
    assert experiment.to_toml() == PARTS.read_text()
    assert Experiment.read(PARTS) == experiment
