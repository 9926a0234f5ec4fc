"""`cpsrl compare` takes options of agents, and every option has its sentence in --help."""

import inspect

import pytest

from cpsrl.agents import AGENTS
from cpsrl.cli.main import main
from cpsrl.cli.model import entry_of, sentences
from cpsrl.environments import ENVIRONMENTS, WORLDS
from cpsrl.experiments import open_results

QUICK = ("--steps", "60", "--seeds", "1")


def agents_of(directory):
    return [
        (entry.name, dict(entry.options)) for entry in open_results(directory).experiment.agents
    ]


def test_options_go_to_the_agents_that_have_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    some = ("--agents", "tsde", "continuing-psrl gamma=.9", "fixed-length-psrl")
    assert main(["compare", "riverswim", *QUICK, *some, "--gamma", ".5", "--length", "7"]) == 0
    assert agents_of("results/compare-riverswim") == [
        ("tsde", {}),
        ("continuing-psrl", {"gamma": 0.9}),
        ("fixed-length-psrl", {"gamma": 0.5, "length": 7}),
    ]
    assert "Continuing PSRL, gamma=0.9" in capsys.readouterr().out
    assert main(["compare", "riverswim", "--agents", "tsde gama=.9"]) == 2
    assert "unknown option 'gama' in agent 'tsde'" in capsys.readouterr().err


def test_an_agent_in_words():
    entry = entry_of("psrl rule={name='bernoulli',gamma=.9} objective=average label=mine")
    assert (entry.name, entry.label) == ("psrl", "mine")
    assert entry.options["objective"] == "average"
    assert entry_of("tsde").options == {}


@pytest.mark.parametrize("command", ["compare --agents", "watch --agent"])
def test_help_has_a_sentence_for_every_option(command, capsys):
    command, role = command.split()
    with pytest.raises(SystemExit):
        main([command, "riverswim", role, "continuing-psrl", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "option of" not in said
    assert "the length of the river" in said
    assert "the discount factor (.99 unless there is a schedule)" in said


@pytest.mark.parametrize(
    "registry", [ENVIRONMENTS, WORLDS, AGENTS], ids=["tables", "worlds", "agents"]
)
def test_every_option_has_its_sentence(registry):
    lacking = {
        name: set(inspect.signature(registry[name]).parameters) - set(sentences(registry[name]))
        for name in registry.names()
        if registry.package(name) == "cpsrl"
    }
    assert not {name: options for name, options in lacking.items() if options}
