"""`cpsrl compile`: everything that Numba compiles, ahead of time and in two processes.

Kernels for small models (dense, sampled and planned for inside the loop) and for large ones
(sparse) have next to nothing in common, and Numba compiles one function at a time.
"""

import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpsrl.mdp import TabularMDP

LARGE = "from cpsrl.cli.compile import compile_for_large_models as fill; fill()"


def compile_() -> None:
    """Fill the kernel cache, so that later commands start at once: for clusters and CI.

    For example, `cpsrl compile` while an image is built.
    """
    from cpsrl._private.compile import KERNEL_CACHE
    from cpsrl.cli.output import show

    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", LARGE], stderr=subprocess.PIPE, text=True
    ) as other:
        try:
            _compile_for_small_models()
            _, errors = other.communicate()
        except BaseException:
            other.terminate()
            raise
    if other.returncode:
        raise RuntimeError(f"the kernels for large models could not be compiled: {errors}")
    show(f"kernels are compiled in {KERNEL_CACHE} ({time.perf_counter() - began:.1f} s)")


def _compile_for_small_models() -> None:
    from cpsrl.environments import environment
    from cpsrl.paper.from_prior import Prior, runs_from_prior
    from cpsrl.planning import solve_discounted
    from cpsrl.resampling import Bernoulli

    mdp = environment("riverswim")
    _simulate(mdp)
    solve_discounted(mdp, 0.9)
    runs_from_prior(Prior(2, 2, cap=10.0), Bernoulli(gamma=0.5), steps=2, runs=1)


def compile_for_large_models() -> None:
    """Compile what models with many states need, sparse ones and dense ones."""
    from cpsrl.environments import environment
    from cpsrl.planning import solve_average, solve_discounted

    sparse, dense = (
        environment("gridworld", rows=40, columns=40),
        environment("random", n_states=120),
    )
    _simulate(sparse)
    solve_discounted(sparse, 0.9)
    solve_average(dense)
    solve_discounted(dense, 0.9)


def _simulate(mdp: "TabularMDP") -> None:
    """Take two steps with every agent that has tables."""
    from cpsrl.agents import AGENTS
    from cpsrl.simulation import simulate

    for name in AGENTS.names():
        agent = AGENTS.make(name)
        if not agent.packages:
            simulate(agent, mdp, steps=2, seeds=1)
