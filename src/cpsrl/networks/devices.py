"""Where compiled networks run: the choice of layout, in one place.

On CPUs every run has a single-threaded process of its own (see `cpsrl.networks.workers`). On an
accelerator, runs are a batch axis of one compiled call, WIDTH of them on every device that JAX has
there, in one process that holds all devices. The width is fixed, and what is missing is filled with
copies that nobody looks at: arithmetic differs between widths, and a run is to be the same alone
and among others, on one device and on several.
"""

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Any

from cpsrl.checks import checked_word

DEVICES = ("auto", "cpu", "cpu-batch", "gpu", "cuda", "rocm", "tpu")
"""What can be asked for: "auto", an accelerator if JAX has one; "cpu", processes; "cpu-batch", what
is done on accelerators, done on the host's devices; or a platform of JAX."""
WIDTH = 32
"""Runs that one device takes at once."""


@dataclass(frozen=True)
class Layout:
    """How runs are laid out: each in a process of its own, or as a batch on all `devices`."""

    platform: str | None = "cpu"
    """JAX's; None leaves it to JAX"""
    together: bool = False


ALONE = Layout()


def layout_of(device: str) -> Layout:
    """Return the layout for what was asked for."""
    if checked_word("device", device, DEVICES) == "auto":
        return _found()
    return ALONE if device == "cpu" else Layout(device.removesuffix("-batch"), True)


def described(device: str) -> str:
    """Return what numbers depend on beside the processor; empty where runs are processes."""
    layout = layout_of(device)
    return f"{_devices(layout)[0]}, batches of {WIDTH}" if layout.together else ""


@cache
def _found() -> Layout:
    """Return the layout for what JAX has. A build of it for CPUs alone has no plugins to ask."""
    if not any(map(importlib.util.find_spec, ("jax_plugins", "libtpu"))):
        return ALONE
    layout = Layout(None, True)
    return ALONE if _devices(layout)[1] == "cpu" else layout


@cache
def _devices(layout: Layout) -> Any:
    """Return the kind of device and the platform that a worker of this layout has."""
    from cpsrl.networks.workers import worker

    with worker(layout) as process:
        return process.call("devices")[:2]
