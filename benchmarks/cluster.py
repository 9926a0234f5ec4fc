"""An experiment of 20,000 runs on threads of this machine and on Ray with two nodes on it.

The runs of two agents on RiverSwim go in groups, task by task. Given: seconds of each way and their
ratio, how many tasks there were, how long the median one took, how many bytes (pickled) the curves
and the state of a whole group are, the peak memory of the process that drives them, the processor
time that it spends on a task (with Ray it hands out, receives and stores; with threads it takes the
steps, too), and whether the curves are the same bits. The cluster is started before the clock is.

Last, 1,280 tasks of one step of one run, 64 under way at a time: how many a second are performed,
and what one costs the process that drives them, which is what limits a large cluster.

    python benchmarks/cluster.py
    python benchmarks/cluster.py --quick    # 2,000 runs
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import rich.box
from rich.console import Console
from rich.table import Table

RUNS, STEPS = 20_000, 2_000

DRIVE = f"""
import json, pickle, resource, sys, time
from dataclasses import replace
from cpsrl.experiments import Entry, Execution, Experiment, run_experiment
from cpsrl.experiments import run

backend, directory, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
agents = (Entry("continuing-psrl"), Entry("tsde"))
experiment = Experiment("many", (Entry("riverswim"),), agents, {STEPS}, runs // 2)
if backend == "ray":
    from ray.cluster_utils import Cluster
    args = {{"num_cpus": 1, "include_dashboard": False}}
    cluster = Cluster(initialize_head=True, connect=True, head_node_args=args)
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
few = Experiment("few", (Entry("riverswim"),), agents, 100, 4)
run_experiment(few, directory + "-few", Execution(backend))  # workers start and compile
began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tasks, largest = [], []
receive = run._Driver._receive
def counted(self, future):
    tasks.append(time.monotonic() - self.active[future][1])
    if not largest or len(future.result().seeds) >= len(largest[0].seeds):
        largest[:] = [future.result()]
    return receive(self, future)
run._Driver._receive = counted
start, busy = time.perf_counter(), time.process_time()
run_experiment(experiment, directory, Execution(backend))
seconds, own = time.perf_counter() - start, time.process_time() - busy
curves, state = replace(largest[0], state=None), largest[0].state
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

rivers = tuple(Entry("riverswim", {{"n_states": n}}) for n in range(6, 14))
tiny = Experiment("tiny", rivers, agents, 20, 4)
run.TASK_SECONDS, run.LEAST_STEPS = 0.0, 1
n, start, busy = len(tasks), time.perf_counter(), time.process_time()
run_experiment(tiny, directory + "-tiny", Execution(backend, jobs=64))
tiny_seconds, tiny_busy = time.perf_counter() - start, time.process_time() - busy
print(json.dumps({{
    "seconds": seconds,
    "tasks": n,
    "task": sorted(tasks[:n])[n // 2],
    "own": own / n * 1e3,
    "curves": len(pickle.dumps(curves)) / 2**10,
    "state": len(pickle.dumps(state)) / 2**10,
    "before": began / 2**10,
    "peak": peak / 2**10,
    "rate": (len(tasks) - n) / tiny_seconds,
    "busy": tiny_busy / (len(tasks) - n) * 1e3,
}}))
"""

MEASURED = {
    "seconds": ("seconds", 1),
    "ratio": ("ratio", 2),
    "tasks": ("tasks", 0),
    "task": ("seconds of the median task", 2),
    "own": ("this process's milliseconds of a task", 1),
    "curves": ("KiB of a group's curves", 0),
    "state": ("KiB of its state", 0),
    "before": ("MiB of the driver before", 0),
    "peak": ("MiB of the driver at its peak", 0),
    "rate": ("tiny tasks a second", 0),
    "busy": ("this process's milliseconds of one", 2),
}
"""What is shown, and with how many decimals."""


def curves(directory: Path) -> str:
    """Return a hash of all curves."""
    whole = hashlib.sha256()
    for path in sorted(directory.rglob("*.parquet")):
        whole.update(path.read_bytes())
    return whole.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 runs")
    runs = RUNS // 10 if parser.parse_args().quick else RUNS
    found, hashes = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for backend in ("local", "ray"):
            directory = Path(folder) / backend
            command = [sys.executable, "-c", DRIVE, backend, str(directory), str(runs)]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found[backend] = json.loads(printed.splitlines()[-1])
            hashes[backend] = curves(directory)
    table = Table(box=rich.box.SIMPLE, title=f"{runs:,} runs of {STEPS:,} steps")
    for row in found.values():
        row["ratio"] = row["seconds"] / found["local"]["seconds"]
    table.add_column("")
    for backend in found:
        table.add_column(backend, justify="right")
    for key, (name, digits) in MEASURED.items():
        table.add_row(name, *(f"{row[key]:,.{digits}f}" for row in found.values()))
    Console().print(table)
    print("the curves are", "the same bits" if len(set(hashes.values())) == 1 else "DIFFERENT")


if __name__ == "__main__":
    main()
