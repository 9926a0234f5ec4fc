"""Where numbers come from: the versions and the machine that a run's bits depend on.

Curves and states are the same bit for bit for the same specification, the same versions of the
packages below and the same CPU family, and nothing more is promised: another library or processor
may round differently, and after the first different rounding a trajectory goes its own way. A run
is therefore only carried on where `Origin` is the one it was begun with.
"""

import os
import platform
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from typing import Any

PACKAGES = ("cpsrl", "numpy", "scipy", "numba", "llvmlite")


@dataclass(frozen=True)
class Origin:
    """What a run's bits depend on: package versions, and the CPU family."""

    versions: tuple[tuple[str, str], ...]
    cpu: str

    def as_dict(self) -> dict[str, Any]:
        """Return the origin as JSON holds it."""
        return {**asdict(self), "versions": dict(self.versions)}

    @staticmethod
    def from_dict(content: Any) -> "Origin":
        """Return the origin that `as_dict` wrote."""
        return Origin(tuple(sorted(content["versions"].items())), str(content["cpu"]))

    def difference(self, other: "Origin") -> str:
        """Return in words what differs between this origin and `other`; empty when nothing does."""
        mine, theirs = dict(self.versions), dict(other.versions)
        words = [
            f"{name} {mine.get(name, 'none')} (here {theirs.get(name, 'none')})"
            for name in sorted({*mine, *theirs})
            if mine.get(name) != theirs.get(name)
        ]
        if self.cpu != other.cpu:
            words.append(f"CPU {self.cpu} (here {other.cpu})")
        return ", ".join(words)


@cache
def origin(packages: tuple[str, ...] = PACKAGES) -> Origin:
    """Return the origin of what this process computes with `packages`."""
    import llvmlite.binding

    cpu = f"{platform.machine()} {llvmlite.binding.get_host_cpu_name()}"
    return Origin(tuple(sorted((name, _version(name)) for name in packages)), cpu)


def machine() -> dict[str, Any]:
    """Return what else is worth knowing about this machine."""
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
