"""Where compiled networks run: the choice of a layout for the device asked for.

On CPUs every run has a single-threaded process of its own (see `cpsrl.networks.workers`). On an
accelerator, runs are a batch axis of one compiled call, WIDTH of them on every device that JAX has
there, in one process that holds all devices. The width is fixed, and a smaller batch is filled up
with copies whose results are dropped: rounding differs between widths, and a run must be the same
alone and among others, on one device and on several.
"""

import importlib.util
from functools import cache
from typing import Any

from cpsrl.networks.workers import ALONE, Layout, worker
from cpsrl.support.checks import checked_word

DEVICES = ("auto", "cpu", "cpu-batch", "gpu", "cuda", "rocm", "tpu")
"""The names of devices: "auto", an accelerator if JAX has one; "cpu", a process for every run;
"cpu-batch", a batch as on accelerators, on the host's devices; or a platform of JAX."""
WIDTH = 32
"""The number of runs in the batch of one device."""


def layout_of(device: str) -> Layout:
    """Return the layout of runs for a name in `DEVICES`."""
    if checked_word("device", device, DEVICES) == "auto":
        return _found()
    return ALONE if device == "cpu" else Layout(device.removesuffix("-batch"), True)


def described(device: str) -> str:
    """Return the devices that results depend on, or "" where each run has a process of its own."""
    layout = layout_of(device)
    return f"{_devices(layout)[0]}, batches of {WIDTH}" if layout.together else ""


@cache
def _found() -> Layout:
    """Return the layout for the devices that JAX finds; a build for CPUs alone has no plugins."""
    if not any(map(importlib.util.find_spec, ("jax_plugins", "libtpu"))):
        return ALONE
    layout = Layout(None, True)
    return ALONE if _devices(layout)[1] == "cpu" else layout


@cache
def _devices(layout: Layout) -> Any:
    """Return the kind of device and the platform that a worker of this layout has."""
    with worker(layout) as process:
        return process.call("devices")[:2]
