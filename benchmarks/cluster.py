"""An experiment of 20,000 runs on threads of this machine and on Ray with two nodes on it.

The runs of two agents on RiverSwim go in groups, task by task. Given: seconds of each way and their
ratio, how many tasks there were and how long they took, the peak memory of the process that drives
them, and whether the curves are the same bits. The cluster is started before the clock is.

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
import json, resource, sys, time
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
tasks = []
receive = run._Driver._receive
def counted(self, future):
    tasks.append(time.monotonic() - self.active[future][1])
    return receive(self, future)
run._Driver._receive = counted
start = time.perf_counter()
run_experiment(experiment, directory, Execution(backend))
print(json.dumps({{
    "seconds": time.perf_counter() - start,
    "tasks": len(tasks),
    "task": sorted(tasks)[len(tasks) // 2],
    "before": began / 2**10,
    "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
}}))
"""


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
    for name in ("", "seconds", "ratio", "tasks", "a task, s", "driver before, MiB", "at its peak"):
        table.add_column(name, justify="right" if name else "left")
    for backend, row in found.items():
        ratio = row["seconds"] / found["local"]["seconds"]
        table.add_row(
            *(backend, f"{row['seconds']:.1f}", f"{ratio:.2f}", f"{row['tasks']}"),
            *(f"{row['task']:.2f}", f"{row['before']:.0f}", f"{row['peak']:.0f}"),
        )
    Console().print(table)
    print("the curves are", "the same bits" if len(set(hashes.values())) == 1 else "DIFFERENT")


if __name__ == "__main__":
    main()
