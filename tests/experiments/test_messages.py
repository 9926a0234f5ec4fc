"""What a new user gets wrong is answered with what would be right, where it is said."""

import gymnasium
import pytest

import cpsrl
import cpsrl.gym
from cpsrl.cli.main import main
from cpsrl.environments.suite import SUITES, VERSION
from cpsrl.experiments import Entry, Experiment, continue_experiment, run_experiment

RIVER = cpsrl.environment("riverswim")


class OneArgument:
    def predict(self, observation):
        return 0, None


MISTAKES = {
    "gamma 1": (lambda: cpsrl.ContinuingPSRL(gamma=1), r"the average reward: Average\(\)"),
    "gamma 1, planner": (lambda: cpsrl.solve_discounted(RIVER, 1.0), r"solve_average\(mdp\)"),
    "1e4": (lambda: cpsrl.simulate(cpsrl.TSDE(), RIVER, 1e4), "did you mean 10_000?"),
    "seeds": (lambda: cpsrl.simulate(cpsrl.TSDE(), RIVER, 9, [1, 2, 1]), "and 1 is repeated"),
    "seeds of an experiment": (
        lambda: Experiment("a", ["riverswim"], ["tsde"], 10, seeds=[4, 4, 5, 5]),
        "and 4, 5 is repeated",
    ),
    "text": (lambda: cpsrl.simulate("tsde", RIVER, 10), r"'tsde': did you mean TSDE\(\)\?"),
    "nearly": (lambda: cpsrl.start("ds-prsl", RIVER), r"did you mean DSPSRL\(\)\?"),
    "play a model": (lambda: cpsrl.play(cpsrl.TSDE(), RIVER, 10), r"cpsrl.simulate\(agent, mdp"),
    "simulate Gymnasium": (
        lambda: cpsrl.simulate(cpsrl.TSDE(), gymnasium.make("CartPole-v1"), 10),
        r"cpsrl.play\(agent, env, steps\) acts in it",
    ),
    "a table for vectors": (
        lambda: cpsrl.play(cpsrl.TSDE(), cpsrl.gym.Continuing(gymnasium.make("CartPole-v1")), 10),
        r"for vectors .* such as cpsrl.BootstrappedDQN\(\)",
    ),
    "a network for states": (
        lambda: cpsrl.play(cpsrl.DQN(), cpsrl.gym.Continuing(gymnasium.make("Taxi-v4")), 10),
        r"for numbered states .* such as cpsrl.TSDE\(\)",
    ),
    "features": (lambda: cpsrl.simulate(cpsrl.DQN(), RIVER, 10), "--features one-hot"),
    "a file by name": (
        lambda: Experiment("a", ["plant.csv"], ["tsde"], 10),
        "a specification says file = 'plant.csv' in place of name = 'plant.csv'",
    ),
    "a class": (
        lambda: Experiment("a", ["riverswim"], [cpsrl.TSDE], 10),
        r"not the class TSDE: did you mean TSDE\(\)\?",
    ),
    "a text for a list": (
        lambda: Experiment("a", ["riverswim"], "tsde", 10),
        r"agents must be a list of entries, such as \['tsde'\], not 'tsde'",
    ),
    "predict": (lambda: cpsrl.simulate(OneArgument(), RIVER, 10), "episode_start=.* unexpected"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_answer_says_what_would_be_right(mistake):
    make, answer = MISTAKES[mistake]
    with pytest.raises(ValueError, match=answer):
        make()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ContinuingPsrl", "ContinuingPSRL"),
        ("make", "environment"),
        ("simulat", "simulate"),
        ("tsde", "TSDE"),
    ],
)
def test_names_of_the_package(name, meant):
    with pytest.raises(AttributeError, match=f"did you mean cpsrl.{meant}\\?"):
        getattr(cpsrl, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing_like_it'$"):
        cpsrl.nothing_like_it  # noqa: B018


@pytest.fixture
def river(tmp_path):
    directory = tmp_path / "r"
    run_experiment(Experiment("river", ["riverswim"], ["random"], 50, 4), directory)
    return directory


def test_damage_is_said_with_a_remedy_that_works(river, tmp_path, capsys):
    (tmp_path / "river.toml").write_text(
        Experiment("river", ["riverswim"], ["random"], 50, 4).to_toml()
    )
    again = ["run", str(tmp_path / "river.toml"), "--out", str(river)]
    broken = next(river.rglob("*.checkpoint"))
    broken.write_bytes(broken.read_bytes()[:100])
    assert main(["report", str(river)]) == 2
    assert f"`cpsrl continue {river} --repair` computes it anew" in capsys.readouterr().err
    assert main(["continue", str(river), "--repair"]) == 0
    assert main(["report", str(river), "--formats", "png"]) == 0
    header = river / "experiment.json"
    header.write_text(header.read_text()[:-20])
    capsys.readouterr()
    assert main(["report", str(river)]) == 2
    said = capsys.readouterr().err
    assert "--repair` makes it anew" in said
    assert "--anew" in said
    assert main([*again, "--repair"]) == 0
    header.write_text("{}")
    assert main([*again, "--anew"]) == 0


def test_runs_that_were_not_asked_for_stay_and_this_is_said(river):
    with pytest.warns(UserWarning, match="has 4 runs, 2 more than were asked for"):
        results = run_experiment(Experiment("river", ["riverswim"], ["random"], 50, 2), river)
    assert len(results.load().seeds) == 4
    with pytest.warns(UserWarning, match="has 4 runs, 1 more than were asked for"):
        continue_experiment(river, seeds=3)


def test_a_column_of_costs(tmp_path):
    path = tmp_path / "machine.csv"
    path.write_text("state,action,next_state,probability,cost\na,x,a,1,2\n")
    with pytest.raises(ValueError, match=r"'cost': did you mean 'reward', .* sign turned round"):
        cpsrl.TabularMDP.load(path)


def test_an_added_agent_alone_is_computed(tmp_path, capsys, monkeypatch):
    """One to an experiment of ten, in `run`, `compare` and `suite`."""
    monkeypatch.chdir(tmp_path)
    ten = [Entry("differential-q", {"alpha": 0.1 + 0.01 * k}, f"q {k}") for k in range(10)]
    experiment = Experiment("ten", ["riverswim"], ten, 200, 2)
    run_experiment(experiment, tmp_path / "r")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "r/runs").rglob("*.*")}
    more = Experiment("ten", ["riverswim"], [*ten, "random"], 200, 2)
    assert run_experiment(more, tmp_path / "r").load().agents[-1] == "Random"
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "r/runs").rglob("*.*")}
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2 * 2

    (tmp_path / "machine.csv").write_text(
        "state,action,next_state,probability,reward\na,x,b,1,2\nb,x,a,1,0\n"
    )
    for command in (["compare", "machine.csv", "--steps", "60"], ["suite", "--steps", "20"]):
        how = ["--seeds", "1", "--agents", "random"]
        assert main([*command, *how]) == 0
        capsys.readouterr()
        assert main([*command, *how, "differential-q alpha=.2", "optimal"]) == 0
        problems = len(SUITES[VERSION]) if command[0] == "suite" else 1
        steps = 2 * problems * int(command[-1])
        assert f"{steps} steps to take, 3 agents" in capsys.readouterr().err
    assert main(["suite", "--steps", "30", "--seeds", "1", "--agents", "random"]) == 2
    assert "--anew" in capsys.readouterr().err
    assert main(["suite", "--steps", "30", "--seeds", "1", "--agents", "random", "--anew"]) == 0
