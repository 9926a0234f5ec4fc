"""Long calls: interrupted at once, whole afterwards, and told of on a terminal."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from queue import SimpleQueue

import pytest

from cpsrl.support.interruptible import Abandoned, Threads, in_thread, once_a_process

HANGS = 60
"""Seconds after which something hangs; no test is about the time it takes."""

LONG = """
import os, signal, sys, threading, time
from types import SimpleNamespace
from cpsrl.support import interruptible
interruptible.QUIET_SECONDS = 0.0
model, ended = SimpleNamespace(n_states=1000), []

@interruptible.interruptible("planning")
def plan(mdp, seconds):
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            interruptible.stage("policy 3")
            time.sleep(0.01)
    finally:
        ended.append(seconds)
    return threading.current_thread() is threading.main_thread()
"""
INTERRUPTED = """
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    plan(model, 600)
except KeyboardInterrupt:
    print("interrupted", plan(model, 0.01), ended)
"""


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )


def interrupt(program, **environment):
    """Run `program` and interrupt it when it has printed a line; return its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=HANGS)
    finally:
        process.kill()
    return process.returncode, errors


def test_an_interrupted_call_ends_and_the_next_one_waits_until_it_has():
    done = run(LONG + INTERRUPTED)
    assert done.stdout.split("\n")[0] == "interrupted False [600, 0.01]", done.stderr


def test_small_models_and_other_threads_take_no_detour():
    done = run(LONG + "model.n_states = 5\nprint(plan(model, 0.01))")
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_is_told_what_takes_long_and_a_file_is_not(terminal):
    reading, writing = pty.openpty() if terminal else os.pipe()
    subprocess.run(
        [sys.executable, "-c", LONG + "plan(model, 0.5)"], stderr=writing, check=True, timeout=HANGS
    )
    os.close(writing)
    shown = b""
    with os.fdopen(reading, "rb", buffering=0) as file:
        try:
            while part := file.read(10_000):
                shown += part
        except OSError:  # how a terminal says that there is no more
            pass
    assert (b"cpsrl: planning, 1,000 states, policy 3, 0 s" in shown) == terminal
    assert shown.endswith(b"\r\x1b[K" if terminal else b"")


def test_errors_and_results_come_back():
    assert in_thread(lambda: 3, lambda: None) == 3
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 // 0, lambda: None)


def test_what_is_not_begun_is_cancelled_when_threads_are_closed():
    threads = Threads(1)
    first = threads.submit(time.sleep, 0.2)
    waiting = [threads.submit(int, "7") for _ in range(5)]
    time.sleep(0.05)
    threads.close()
    assert first.result(HANGS) is None
    assert all(future.cancelled() for future in waiting)
    threads = Threads(2)
    with pytest.raises(Abandoned):
        threads.submit(raise_abandoned).result(HANGS)
    assert threads.submit(int, "7").result(HANGS) == 7
    threads.close()


def raise_abandoned():
    raise Abandoned


SLOW_BELIEF = """
import time, numpy as np, cpsrl
mdp = cpsrl.environment("riverswim")

class Slow:
    def observe_many(self, *transitions): pass
    def state(self): return {}
    def restore(self, state): pass
    def sample(self, rng):
        print("sampling", flush=True)
        time.sleep(600)

class Believed(cpsrl.Belief):
    def start(self, problem): return Slow()

agent = cpsrl.TSDE(belief=Believed())
"""
EXPERIMENT = """
import dataclasses, sys, tempfile, cpsrl
from cpsrl.experiments import find_experiment
from cpsrl.support.progress import Progress

class Told(Progress):
    def advance(self, part, amount):
        print(part, flush=True)

experiment = dataclasses.replace(find_experiment("figure2-left"), steps=10**9)
with tempfile.TemporaryDirectory() as folder:
    cpsrl.run_experiment(experiment, folder, progress=Told())
"""
ENDLESS = {
    "simulate": SLOW_BELIEF + "cpsrl.simulate(agent, mdp, steps=10, seeds=2)",
    "experiment": EXPERIMENT,
}


@pytest.mark.parametrize("name", ["simulate", pytest.param("experiment", marks=pytest.mark.slow)])
def test_ctrl_c_ends_a_program_at_once_and_without_a_mess(name):
    code, errors = interrupt(ENDLESS[name])
    assert code == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1
    assert "Exception ignored" not in errors


def test_an_interrupted_command_ends_with_130_whatever_is_still_at_work():
    program = "import sys, cpsrl.cli.main as cli\n" + SLOW_BELIEF
    program += "cli.COMMANDS['list'] = ('main', 'slow')\n"
    program += "cli.slow = lambda: cpsrl.simulate(agent, mdp, steps=10, seeds=1)\n"
    program += "sys.exit(cli.main(['list']))"
    code, errors = interrupt(program)
    assert code == 130
    assert errors.strip() == "cpsrl: interrupted"  # nothing was stored


def test_a_call_that_is_begun_while_the_others_are_cancelled_is_not_waited_for():
    class Taken(SimpleQueue):
        """Its last call is taken by a thread as soon as somebody asks whether there is one."""

        def empty(self):
            found = super().empty()
            if not found:
                self.get_nowait()
            return found

    threads = Threads(0)
    threads._calls = Taken()
    threads.submit(int)
    closing = threading.Thread(target=threads.close, daemon=True)
    closing.start()
    closing.join(HANGS)
    assert not closing.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_child_has_threads_of_its_own():
    threads = once_a_process(lambda: Threads(1))
    assert threads() is threads()
    assert threads().submit(abs, -1).result() == 1
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(threads().submit(abs, -2).result(HANGS) != 2)
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
