"""What `simulate` does for somebody who waits: several agents, Ctrl-C, progress, what it costs."""

import _thread
import os
import pty
import signal
import subprocess
import sys

import numpy as np
import pytest

import cpsrl
from contracts.test_agents import equal
from cpsrl.agents import UCRL2, Fleet
from cpsrl.simulation import Runs
from cpsrl.support import progress as shown
from cpsrl.support.progress import Progress

RIVER = cpsrl.environment("riverswim")
CHANGING = cpsrl.environment("changing", every=70)


class Interrupting(Progress):
    """Sends Ctrl-C once so many steps are done."""

    def __init__(self, steps):
        self.left = steps

    def advance(self, part, amount):
        self.left -= amount
        if self.left < 0 < self.left + amount:
            _thread.interrupt_main(signal.SIGINT)


def test_several_agents_are_what_each_is_alone():
    agents = [cpsrl.TSDE(), cpsrl.DSPSRL()]
    both = cpsrl.simulate(agents, RIVER, 300, 3, record=7)
    each = [cpsrl.simulate(agent, RIVER, 300, 3, record=7) for agent in agents]
    joined = each[0] + each[1]
    assert both.agents == joined.agents == ("TSDE", "DS-PSRL")
    np.testing.assert_array_equal(both.regret, joined.regret)
    on = cpsrl.simulate(agents, RIVER, 100, resume=both.state)
    alone = cpsrl.simulate(agents[1], RIVER, 100, resume=each[1].state)
    np.testing.assert_array_equal(on.select("DS-PSRL").regret, alone.regret)


def test_two_agents_of_one_name_are_told_so():
    with pytest.raises(ValueError, match="2 agents are called 'TSDE': give each a label"):
        cpsrl.simulate([cpsrl.TSDE(), cpsrl.TSDE()], RIVER, 10, 1)
    with pytest.raises(ValueError, match="there is no agent in the list"):
        cpsrl.simulate([], RIVER, 10, 1)


def test_a_run_is_joined_once():
    runs = cpsrl.simulate(cpsrl.TSDE(), RIVER, 20, 2)
    more = cpsrl.simulate(cpsrl.TSDE(), RIVER, 20, [2, 3])
    assert (runs + more).seeds.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="run 0 of TSDE on riverswim occurs 2 times"):
        runs + runs
    with pytest.raises(TypeError):
        runs + 1
    with pytest.raises(ValueError, match=r"runs\.at\(times\)"):
        runs + cpsrl.simulate(cpsrl.DSPSRL(), RIVER, 21, 2)


@pytest.mark.parametrize(
    ("agent", "mdp"),
    [
        (cpsrl.ContinuingPSRL(), RIVER),
        (cpsrl.TSDE(), RIVER),
        (cpsrl.RandomAgent(), RIVER),
        (cpsrl.agents.IMEDRL(), RIVER),
        (Fleet(3, rule=cpsrl.Bernoulli(0.9)), RIVER),
        (UCRL2(), RIVER),
        (cpsrl.ContinuingPSRL(), CHANGING),
    ],
    ids=lambda one: getattr(one, "label", one.name if hasattr(one, "name") else "world"),
)
def test_one_run_that_is_interrupted_goes_on_from_where_it_stopped(agent, mdp, capsys):
    steps = 10**7
    with_path = {} if isinstance(agent, Fleet) else {"trajectory": True, "resample_times": True}
    runs = cpsrl.simulate(
        agent, mdp, steps, 1, record=10, progress=Interrupting(5_000), **with_path
    )
    last, stands = int(runs.times[-1]), runs.state[0]["step"]
    assert 5_000 <= stands < steps
    assert last == stands // 10 * 10
    assert runs.notes == (f"interrupted: {runs.agents[0]} has 1 of 1 runs, to step {last:,}",)
    assert runs.notes[0] in repr(runs)
    assert runs.notes[0] in capsys.readouterr().err
    whole = cpsrl.simulate(agent, mdp, stands + 500, 1, record=10, **with_path)
    later = cpsrl.simulate(agent, mdp, 500, record=10, resume=runs.state)
    kept = whole.times <= stands
    np.testing.assert_array_equal(runs.regret, whole.regret[:, kept])
    np.testing.assert_array_equal(runs.resamples, whole.resamples[:, kept])
    np.testing.assert_array_equal(later.regret, whole.regret[:, ~kept])
    assert equal(list(later.state), list(whole.state))
    if with_path:
        cut = {k: v[: stands + (k == "states")] for k, v in whole.trajectory[0].items()}
        assert equal(runs.trajectory[0], cut)
        times = whole.resample_times[0]
        np.testing.assert_array_equal(runs.resample_times[0], times[times <= stands])


def test_of_many_runs_those_that_are_done_are_returned():
    runs = cpsrl.simulate(
        UCRL2(), RIVER, 2_000, 40, threads=1, progress=Interrupting(21_000), record=500
    )
    n = len(runs.seeds)
    assert 10 <= n < 40
    assert runs.times.tolist() == [500, 1000, 1500, 2000]
    assert runs.notes == (f"interrupted: UCRL2 has {n} of 40 runs, to step 2,000",)
    rest = cpsrl.simulate(UCRL2(), RIVER, 2_000, range(n, n + 2), record=500)
    whole = cpsrl.simulate(UCRL2(), RIVER, 2_000, n + 2, record=500)
    np.testing.assert_array_equal((runs + rest).regret, whole.regret)
    on = cpsrl.simulate(UCRL2(), RIVER, 10, resume=runs.state)
    assert len(on.seeds) == n


def test_of_every_agent_the_runs_that_came_farthest_are_kept():
    agents = [cpsrl.TSDE(), UCRL2(), cpsrl.DSPSRL()]
    runs = cpsrl.simulate(agents, RIVER, 50_000, 2, threads=2, progress=Interrupting(110_000))
    assert runs.agents == ("TSDE", "UCRL2")
    assert len(runs.times) == 200
    first, second = (runs.select(label) for label in runs.agents)
    whole = [cpsrl.simulate(agent, RIVER, 50_000, 2) for agent in agents[:2]]
    np.testing.assert_array_equal(first.regret, whole[0].regret)
    assert equal(list(first.state), list(whole[0].state))
    last = int(second.times[-1])
    assert 1 <= len(second.times) < 200
    there = whole[1].at(second.times)
    np.testing.assert_array_equal(second.regret, there.regret[second.seeds])
    assert f"to step {last:,}, mean regret {second.regret[:, -1].mean():,.6g}" in repr(runs)
    assert runs.notes[0].startswith(
        f"interrupted: UCRL2 has {len(second.seeds)} of 2 runs, to step {last:,}"
    )
    assert runs.notes[0].endswith("; there are no runs of DS-PSRL")


def test_of_an_agent_that_recorded_nothing_there_is_a_note():
    agents, steps = [cpsrl.RandomAgent(), UCRL2()], 10**7
    until = {"record": [steps], "progress": Interrupting(steps + 1)}
    runs = cpsrl.simulate(agents, RIVER, steps, 1, **until)
    assert runs.agents == ("Random",)
    assert runs.state[0]["step"] == steps
    assert runs.notes == ("interrupted: there are no runs of UCRL2",)


@pytest.mark.parametrize("n", [1, 3])
def test_interrupted_in_a_callback_it_goes_on_from_where_it_stopped(n):
    agents, seen = [cpsrl.TSDE(), cpsrl.DSPSRL()], []

    def interrupting(part):
        seen.append(part)
        if len(seen) == 7:
            signal.raise_signal(signal.SIGINT)

    runs = cpsrl.simulate(agents, RIVER, 250, n, record=50, on_record=interrupting)
    whole = [cpsrl.simulate(agent, RIVER, 250, n, record=50) for agent in agents]
    first, second = (runs.select(agent.label) for agent in agents)
    np.testing.assert_array_equal(first.regret, whole[0].regret)
    np.testing.assert_array_equal(second.regret, whole[1].regret[:, :2])
    assert runs.notes == (f"interrupted: DS-PSRL has {n} of {n} runs, to step 100",)
    later = cpsrl.simulate(agents[1], RIVER, 150, record=50, resume=second.state)
    np.testing.assert_array_equal(later.regret, whole[1].regret[:, 2:])


def test_interrupted_between_two_callbacks_nothing_is_lost():
    agent, seen, steps = UCRL2(), [], 10**7
    how = {"record": 5_000, "on_record": seen.append, "progress": Interrupting(6_000)}
    runs = cpsrl.simulate(agent, RIVER, steps, 1, **how)
    last, stands = int(runs.times[-1]), runs.state[0]["step"]
    assert seen[0].times.tolist() == [5_000]
    assert last == stands // 5_000 * 5_000 < steps
    whole = cpsrl.simulate(agent, RIVER, stands + 500, 1, record=5_000)
    np.testing.assert_array_equal(runs.regret, whole.at(runs.times).regret)
    later = cpsrl.simulate(agent, RIVER, 500, record=5_000, resume=runs.state)
    assert equal(list(later.state), list(whole.state))


def test_nothing_recorded_is_an_interruption():
    with pytest.raises(KeyboardInterrupt):
        cpsrl.simulate(cpsrl.TSDE(), RIVER, 10**8, 1, record=[10**8], progress=Interrupting(10_000))


def test_the_farthest_is_the_largest_rectangle():
    from cpsrl.simulation.runs import farthest

    assert farthest(np.array([100, 100, 100, 60, 0])) == 100
    assert farthest(np.array([50, 48, 0])) == 48
    assert farthest(np.array([0, 0])) == 0


PROGRAM = """
import cpsrl
from cpsrl.support import progress

class Right:
    def act(self, state): return 1
    def observe(self, *transition): pass

class Left(Right):
    def act(self, state): return 0

progress.QUIET_SECONDS = 0.0
cpsrl.simulate([Left(), Right()], cpsrl.environment("riverswim"), {steps}, seeds=1{more})
"""


def said(program, terminal):
    """Return what a program writes to standard error."""
    reading, writing = pty.openpty() if terminal else os.pipe()
    environment = os.environ | {"COLUMNS": "120", "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", program], stderr=writing, check=True, env=environment)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as file:
        found = b""
        try:
            while chunk := file.read(65536):
                found += chunk
        except OSError:
            pass
    return found.decode()


def test_progress_is_shown_on_a_terminal_and_off_by_an_argument():
    shown = said(PROGRAM.format(steps=3_000, more=""), True)
    assert "Left and Right in riverswim: 1 run of 3,000 steps each" in shown
    assert "100%" in shown
    assert "%" not in said(PROGRAM.format(steps=3_000, more=", progress=False"), True)


def test_progress_is_lines_elsewhere_and_defaults_are_announced():
    shown = said(PROGRAM.replace("{steps}, ", "").format(more=""), False).splitlines()
    (first,) = [line for line in shown if "riverswim" in line]
    begun, cost = first.split(": 1 run ")
    assert begun == "cpsrl: Left and Right in riverswim"
    assert cost == "of 100,000 steps each (steps=100_000 by default)"
    assert "steps in" in shown[-1]


def test_a_notebook_has_one_line_that_changes(monkeypatch):
    lines = []

    class Handle:
        def update(self, words, raw):
            lines.append(words["text/plain"])

    def display(words, raw, display_id):
        lines.append(words["text/plain"])
        return Handle()

    module = type(sys)("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    shell = type("Shell", (), {"kernel": True})()
    ipython = type(sys)("IPython")
    ipython.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(shown, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(shown.Notebook, "every", 0.0)
    cpsrl.simulate(UCRL2(), RIVER, 20_000, 2)
    assert lines[0].startswith("UCRL2 in riverswim: 2 runs of 20,000 steps")
    assert lines[-1].startswith(("UCRL2: done", "4")) or "steps in" in lines[-1]


def test_the_reward_rate_is_that_of_the_rewards():
    runs = cpsrl.simulate(cpsrl.TSDE(), RIVER, 400, 3, record=100, trajectory=True)
    paid = np.array([np.cumsum(path["rewards"])[99::100] for path in runs.trajectory])
    np.testing.assert_allclose(runs.reward_rate, paid / runs.times, rtol=1e-12)
    np.testing.assert_allclose(runs.share_of_optimum, runs.reward_rate / runs.gain[0])
    changing = cpsrl.simulate(cpsrl.TSDE(), CHANGING, 400, 1)
    assert np.isnan(changing.reward_rate).all()
    assert "against the optimal gain of each step's model" in repr(changing)


def test_runs_are_what_join_takes():
    with pytest.raises(ValueError, match="no runs to join"):
        Runs.join([])


def test_each_recorded_step_is_reported_with_its_runs_as_soon_as_it_is_taken():
    agents, seen = [cpsrl.TSDE(), cpsrl.DSPSRL()], []
    usual = cpsrl.simulate(agents, RIVER, 250, 3, record=60)
    found = cpsrl.simulate(agents, RIVER, 250, 3, record=60, on_record=seen.append)
    np.testing.assert_array_equal(found.regret, usual.regret)
    np.testing.assert_array_equal(found.times, usual.times)
    assert [(part.agents, *part.times) for part in seen[4:6]] == [
        (("TSDE",), 250),
        (("DS-PSRL",), 60),
    ]
    for agent, parts in zip(agents, (seen[:5], seen[5:]), strict=True):
        curves = np.concatenate([part.regret for part in parts], axis=1)
        np.testing.assert_array_equal(curves, usual.select(agent.label).regret)
    on = [cpsrl.simulate(agents, RIVER, 50, resume=runs.state).regret for runs in (found, usual)]
    np.testing.assert_array_equal(*on)
    for step in (100, 250):
        how = {"record": np.array([step]), "on_record": seen.append}
        exact = cpsrl.simulate(agents[0], RIVER, 250, 3, **how)
        assert exact.times.tolist() == [step]
        assert exact.state[0]["step"] == usual.state[0]["step"]


def test_what_a_callback_raises_ends_the_simulation():
    def fail(runs):
        raise RuntimeError(f"at step {runs.times[0]}")

    with pytest.raises(RuntimeError, match="at step 60"):
        cpsrl.simulate(cpsrl.TSDE(), RIVER, 250, 3, record=60, on_record=fail)
    with pytest.raises(ValueError, match="on_record goes with none of resample_times"):
        cpsrl.simulate(cpsrl.TSDE(), RIVER, 250, 3, resample_times=True, on_record=fail)
