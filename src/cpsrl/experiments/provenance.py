"""Where numbers come from: the versions and the machine that a run's bits depend on.

Curves and states are the same bit for bit for the same specification, the same versions of the
packages below and the same CPU family, and nothing more is promised: another library or processor,
or an accelerator for networks, may round differently, and after the first different rounding a
trajectory goes its own way. A run is therefore only carried on where `Provenance` is the one it was
begun with, unless somebody accepts another one; the results say from which step on.
"""

import platform
from dataclasses import dataclass
from functools import cache
from importlib import metadata

DEVICE = "device"
PACKAGES = ("cpsrl", "numpy", "scipy", "numba", "llvmlite")


@dataclass(frozen=True)
class Provenance:
    """What a run's bits depend on: package versions, and the CPU family."""

    versions: dict[str, str]
    cpu: str

    def difference(self, device: str = "") -> str:
        """Return in words what this process differs in; empty when it differs in nothing.

        `device` is what networks are computed with here (see `provenance`).
        """
        return self.against(provenance(tuple(set(self.versions) - {DEVICE}), device), "here")

    def against(self, other: "Provenance", where: str) -> str:
        """Return in words what `other`, which is that of `where`, differs in."""
        then, there = self.versions.get(DEVICE, ""), other.versions.get(DEVICE, "")
        if then != there:
            return f"networks on {then or 'the processor'} ({where} {there or 'the processor'})"
        words = [
            f"{name} {version} ({where} {other.versions[name]})"
            for name, version in self.versions.items()
            if version != other.versions.get(name, version)
        ]
        if self.cpu != other.cpu:
            words.append(f"CPU {self.cpu} ({where} {other.cpu})")
        return ", ".join(words)


@cache
def provenance(packages: tuple[str, ...] = PACKAGES, device: str = "") -> Provenance:
    """Return the provenance of what this process computes with `packages`.

    `device` describes the accelerator that networks are computed with; empty if by the processor.
    """
    import llvmlite.binding

    cpu = f"{platform.machine()} {llvmlite.binding.get_host_cpu_name()}"
    found = {name: metadata.distributions(name=name) for name in sorted(packages)}
    versions = {k: next((d.version for d in v), "none") for k, v in found.items()}
    return Provenance(versions | ({DEVICE: device} if device else {}), cpu)
