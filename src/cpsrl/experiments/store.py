"""The runs of a results directory: written whole or not at all, checked on reading.

    DIR/experiment.json    specification, format, versions, commands, how far the runs are to go
    DIR/spec.toml          the specification, to be read
    DIR/models/FILE        the models that it names as files
    DIR/lock               held by the one process that may write
    DIR/runs/ENV/AGENT/GROUP.checkpoint    curves of a group of runs, and where those runs stand
    DIR/runs/ENV/AGENT/GROUP.parquet       its curves, for everybody's tools
    DIR/aside/ENV/AGENT/...                runs of what the specification has no more

A file is written under a temporary name, flushed to the disk and renamed, so it is never there in
part. A checkpoint is all there is to know of a group in one sealed file: whoever reads it while
another process writes finds the one before or the one after. The Parquet file is written after it
and never read here; one that a crash left behind, or damage changed, is written again by the next
writer. It is replaced, never added to: `DIR/runs/**/*.parquet` holds every point exactly once at
any moment.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from cpsrl.experiments.entry import Entry
from cpsrl.experiments.files import to_parquet, write_file
from cpsrl.experiments.provenance import Provenance
from cpsrl.simulation import Runs
from cpsrl.support.serialise import (
    MISREAD,
    DamagedError,
    checked_file,
    sealed,
    sha256,
    unsealed,
)

RESULTS_FORMAT = 3


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What is stored of a group: its curves from the first step on, and where its runs stand."""

    step: int
    """How many steps every run has taken."""
    runs: Runs
    versions: tuple[tuple[int, Provenance], ...]
    """What computed the runs, each from the step after the number before it."""


@dataclass(frozen=True)
class Group:
    """Runs of one agent on one environment that move on and are stored together."""

    environment: Entry
    agent: Entry
    runs: tuple[int, ...]
    path: Path
    """Of its two files, without their endings."""
    identity: str
    """Marks its checkpoint as that of this agent in this environment under this seed."""

    @property
    def checkpoint(self) -> Path:
        """The file that counts."""
        return self.path.with_suffix(".checkpoint")

    def write(self, checkpoint: Checkpoint) -> None:
        """Make `checkpoint` what is stored of the group, durably and all at once."""
        runs, curves = checkpoint.runs, to_parquet(checkpoint.runs)
        head = self._marks() | {
            "called": [self.environment.called, self.agent.called],
            "step": checkpoint.step,
            "versions": [[step, asdict(there)] for step, there in checkpoint.versions],
            "seed": runs.seed,
            "gain": runs.gain,
            "reference": runs.reference,
            "times": runs.times,
            "regret": runs.regret,
            "resamples": runs.resamples,
            "parquet": sha256(curves),
        }
        write_file(self.checkpoint, _part(head) + _part(runs.state))
        write_file(self.path.with_suffix(".parquet"), curves)

    def read(self, states: bool = True) -> Checkpoint | None:
        """Return what is stored of the group, checked, or None.

        Args:
            states: where the runs stand, too, which takes longer where that is much.
        """
        try:
            with open(checked_file(self.checkpoint), "rb") as file:
                head = _next(file)
                state = tuple(_next(file)) if states else None
                if states and file.read(1):
                    raise ValueError("there is more in it than was written")
            return self._checked(head, state)
        except FileNotFoundError:
            return None
        except (ValueError, *MISREAD) as error:
            raise DamagedError(self.checkpoint, f"not what was written: {error}") from None

    def mend(self) -> None:
        """Write the Parquet file again where it is not the one that belongs to the checkpoint.

        The holder of the lock alone may, and has read the group before.
        """
        if not self.checkpoint.exists():
            return
        with open(self.checkpoint, "rb") as file:
            head = _next(file)
        curves = self.path.with_suffix(".parquet")
        sound = curves.exists() and sha256(curves.read_bytes()) == head["parquet"]
        called = [self.environment.called, self.agent.called]
        if (not sound or head["called"] != called) and (found := self.read()) is not None:
            self.write(found)

    def remove(self) -> None:
        """Remove what is stored of the group."""
        for ending in (".parquet", ".checkpoint"):
            self.path.with_suffix(ending).unlink(missing_ok=True)

    def _marks(self) -> dict[str, Any]:
        return {"format": RESULTS_FORMAT, "experiment": self.identity, "runs": list(self.runs)}

    def _checked(self, head: dict[str, Any], state: Any) -> Checkpoint:
        """Return what the parts of a file say, or raise an error."""
        for key, value in self._marks().items():
            if head[key] != value:
                raise ValueError(f"its {key} is {head[key]!r}, not {value!r}")
        step, rows, shape = head["step"], len(self.runs), (len(self.runs), len(head["times"]))
        if not head["regret"].shape == head["resamples"].shape == shape or not isinstance(
            step, int
        ):
            raise ValueError(f"it is not about {rows} runs")
        if not len(head["gain"]) == len(head["reference"]) == rows:
            raise ValueError(f"it is not about {rows} runs")
        if state is not None and [one["step"] for one in state] != [step] * rows:
            raise ValueError(f"not all of {rows} runs stand at step {step}")
        runs = Runs(
            **{key: head[key] for key in ("times", "regret", "resamples", "gain", "seed")},
            seeds=np.asarray(self.runs, dtype=np.int64),
            agent=(self.agent.called,) * rows,
            environment=(self.environment.called,) * rows,
            at_end=state,
            reference=tuple(head["reference"]),
        )
        there = tuple((int(since), Provenance(**one)) for since, one in head["versions"])
        return Checkpoint(step, runs, there)


def stored_files(directory: Path) -> list[Path]:
    """Return the files of all groups in a results directory."""
    every = sorted((directory / "runs").rglob("*"))
    return [path for path in every if path.suffix in (".checkpoint", ".parquet")]


def check_strangers(directory: Path, groups: Sequence[Group]) -> None:
    """Raise if a file among the runs belongs to none of these groups."""
    ours = {group.checkpoint for group in groups}
    for path in stored_files(directory):
        if path.with_suffix(".checkpoint") not in ours:
            raise DamagedError(path, "this experiment did not write it; move it elsewhere")


def _part(tree: Any) -> bytes:
    """Return a tree as a part of a file: a line with its checksum and lengths, JSON, arrays."""
    text, arrays, checksum = sealed(tree)
    return f"{checksum} {len(text)} {len(arrays)}\n{text}".encode() + arrays


def _next(file: IO[bytes]) -> Any:
    """Return the tree that is the next part of a file."""
    words = file.readline(200).split()
    rest = os.fstat(file.fileno()).st_size - file.tell()
    if len(words) != 3 or not 0 <= (length := int(words[1])) <= length + int(words[2]) <= rest:
        raise ValueError("it is not the file that was written")
    return unsealed(file.read(length).decode(), file.read(int(words[2])), words[0].decode())
