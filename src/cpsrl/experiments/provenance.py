"""Where numbers come from: the versions and the machine that a run's bits depend on.

Curves and states are the same bit for bit for the same specification, the same versions of the
packages below and the same CPU family, and nothing more is promised: another library or processor
may round differently, and after the first different rounding a trajectory goes its own way. A run
is therefore only carried on where `Provenance` is the one it was begun with.
"""

import platform
from dataclasses import dataclass
from functools import cache
from importlib import metadata

PACKAGES = ("cpsrl", "numpy", "scipy", "numba", "llvmlite")


@dataclass(frozen=True)
class Provenance:
    """What a run's bits depend on: package versions, and the CPU family."""

    versions: dict[str, str]
    cpu: str

    def difference(self) -> str:
        """Return in words what this process differs in; empty when it differs in nothing."""
        here = provenance(tuple(self.versions))
        words = [
            f"{name} {then} (here {here.versions[name]})"
            for name, then in self.versions.items()
            if then != here.versions[name]
        ]
        if self.cpu != here.cpu:
            words.append(f"CPU {self.cpu} (here {here.cpu})")
        return ", ".join(words)


@cache
def provenance(packages: tuple[str, ...] = PACKAGES) -> Provenance:
    """Return the provenance of what this process computes with `packages`."""
    import llvmlite.binding

    cpu = f"{platform.machine()} {llvmlite.binding.get_host_cpu_name()}"
    found = {name: metadata.distributions(name=name) for name in sorted(packages)}
    return Provenance({k: next((d.version for d in v), "none") for k, v in found.items()}, cpu)
