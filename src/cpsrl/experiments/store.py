"""The runs of a results directory: written whole or not at all, checked on reading.

    DIR/experiment.json          format, versions, machine, commands, how far the runs are to go
    DIR/spec.toml                the specification as run
    DIR/models/FILE              the models that it names as files
    DIR/lock                     held by the one process that may write
    DIR/runs/ENV/AGENT/GROUP.parquet      curves of a group of runs, from the first step on
    DIR/runs/ENV/AGENT/GROUP-STEP.json    where those runs stand, and the checksums of both others
    DIR/runs/ENV/AGENT/GROUP-STEP.npz     the arrays of that state

A file is written under a temporary name, flushed to the disk and renamed, so it is never there in
part. A group moves on in three such writes: arrays, then JSON, then curves. The last is the moment
of commitment: the JSON whose checksum of the curves is the right one is the state that counts, and
whatever else a crash left behind is removed by the next writer. One Parquet file per group is
replaced, never added to, so `DIR/**/*.parquet` holds every point exactly once at any moment.
"""

import re
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cpsrl.environments.pure import EXACT
from cpsrl.experiments.entry import Entry
from cpsrl.experiments.files import (
    from_parquet,
    read_json,
    to_parquet,
    write_file,
    write_json,
)
from cpsrl.simulation import Runs
from cpsrl.trees import DamagedError, pack, sha256, unpack

RESULTS_FORMAT = 2
PATIENCE = (0.0, 0.05, 0.2)
"""Seconds to wait before each attempt to read files that another process may be replacing."""


@dataclass(frozen=True)
class Group:
    """Runs of one agent on one environment that move on and are stored together."""

    environment: Entry
    agent: Entry
    runs: tuple[int, ...]
    stem: str
    """Path of the group's files below the directory, without their endings."""


def reached(runs: Runs | None) -> int:
    """Return how many steps runs that are stored with their state have taken."""
    return int(runs.state[0]["step"]) if runs is not None and runs.state else 0


@dataclass(frozen=True)
class Store:
    """The files of one results directory; `identity` marks every file as this experiment's."""

    directory: Path
    identity: str

    def write(self, group: Group, runs: Runs) -> None:
        """Make `runs` what the directory holds of `group`, durably and all at once."""
        assert runs.state is not None
        curves, (trees, arrays) = to_parquet(runs), pack(runs.state)
        head = self._marks(group) | {
            "step": reached(runs),
            "seed": runs.seed,
            "gain": runs.gain.tolist(),
            "curves": sha256(curves),
            "arrays": sha256(arrays),
            "state": trees,
        }
        if set(runs.reference) != {EXACT}:
            head["reference"] = list(runs.reference)
        base = self.directory / f"{group.stem}-{reached(runs):012d}"
        write_file(base.with_suffix(".npz"), arrays)
        write_json(base.with_suffix(".json"), head)
        write_file(self.directory / f"{group.stem}.parquet", curves)
        self.tidy(group, runs)

    def read(self, group: Group, states: bool = True) -> Runs | None:
        """Return what is stored of `group`, checked, or None; `states=False` leaves those out.

        A writer may be at work in the same directory: files that do not fit together are looked
        at again before they are called damaged.
        """
        for wait in PATIENCE:
            time.sleep(wait)
            try:
                return self._read(group, states)
            except (DamagedError, FileNotFoundError) as error:
                last = error
        if isinstance(last, FileNotFoundError):
            raise DamagedError(Path(last.filename), "it is missing")
        raise last

    def tidy(self, group: Group, runs: Runs | None) -> None:
        """Remove what crashes left of `group` beside `runs`, which is what it holds.

        Only the holder of the lock may call this.
        """
        current = f"{Path(group.stem).name}-{reached(runs):012d}"
        for path in self._states(group):
            if runs is None or path.stem != current:
                path.unlink(missing_ok=True)

    def remove(self, group: Group) -> None:
        """Remove everything stored of `group`: its curves first, so that no state outlives them."""
        (self.directory / f"{group.stem}.parquet").unlink(missing_ok=True)
        self.tidy(group, None)

    def check_strangers(self, groups: Sequence[Group]) -> None:
        """Raise if a Parquet file lies among the runs that is none of this experiment's."""
        ours = {self.directory / f"{group.stem}.parquet" for group in groups}
        for path in sorted((self.directory / "runs").rglob("*.parquet")):
            if path not in ours:
                raise DamagedError(path, "it is no part of this experiment; move it away")

    def _states(self, group: Group) -> list[Path]:
        stem = self.directory / group.stem
        pattern = re.compile(re.escape(stem.name) + r"-\d+\.(json|npz)")
        return sorted(path for path in stem.parent.glob("*") if pattern.fullmatch(path.name))

    def _marks(self, group: Group) -> dict[str, Any]:
        return {
            "format": RESULTS_FORMAT,
            "experiment": self.identity,
            "environment": group.environment.called,
            "agent": group.agent.called,
            "runs": list(group.runs),
        }

    def _read(self, group: Group, states: bool) -> Runs | None:
        path = self.directory / f"{group.stem}.parquet"
        if not path.exists():
            return None
        raw = path.read_bytes()
        heads = {p: read_json(p) for p in self._states(group) if p.suffix == ".json"}
        if not heads:
            raise DamagedError(path, "the file with its checksum, beside it, is missing")
        checksum = sha256(raw)
        fitting = [p for p, head in heads.items() if head.get("curves") == checksum]
        if not fitting:
            raise DamagedError(path, f"its checksum is not the one in {max(heads).name}")
        where, head, rows = fitting[-1], heads[fitting[-1]], len(group.runs)
        for key, value in self._marks(group).items():
            if head.get(key) != value:
                raise DamagedError(where, f"its {key} is {head.get(key)!r}, not {value!r}")
        kinds = {"step": int, "seed": int, "gain": list, "arrays": str, "state": list}
        for key, kind in kinds.items():
            if not isinstance(head.get(key), kind):
                raise DamagedError(where, f"its {key} is {head.get(key)!r}")
        if not len(head["gain"]) == len(head["state"]) == rows:
            raise DamagedError(where, f"it is not about {rows} runs")
        try:
            curves = from_parquet(raw, group.runs)
        except ValueError as error:
            raise DamagedError(path, str(error)) from None
        return Runs(
            **curves,
            seeds=np.asarray(group.runs, dtype=np.int64),
            agent=(group.agent.called,) * rows,
            environment=(group.environment.called,) * rows,
            gain=np.asarray(head["gain"], dtype=np.float64),
            seed=head["seed"],
            state=_state(where.with_suffix(".npz"), head) if states else None,
            reference=tuple(head.get("reference", (EXACT,) * rows)),
        )


def _state(path: Path, head: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the state that a head describes, with the arrays in the file at `path`."""
    data = path.read_bytes()
    if sha256(data) != head["arrays"]:
        raise DamagedError(path, "its checksum is not the one in the JSON beside it")
    try:
        state = unpack(head["state"], data)
        if any(one["step"] != head["step"] for one in state):
            raise ValueError(f"not all runs stand at step {head['step']}")
        return state
    except (ValueError, TypeError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DamagedError(path, f"it does not hold the arrays written ({error})") from None
