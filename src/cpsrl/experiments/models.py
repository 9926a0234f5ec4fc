"""Models of one's own: files that travel with the specification that names them.

In a specification `file = "machine.csv"` is a model beside the TOML file. Its content is kept from
then on and goes wherever the experiment goes: to the workers of a cluster, and into the results
directory, where `models/machine.csv` is checked by its hash whenever the directory is opened.
"""

import re
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cpsrl.experiments.values import slug
from cpsrl.mdp import TabularMDP
from cpsrl.support.serialise import DamagedError, sha256

FOLDER = "models"
"""Where the files are below a results directory."""


@dataclass(frozen=True, repr=False)
class ModelFile:
    """The name and the content of a file with a model."""

    name: str
    content: bytes

    def __repr__(self) -> str:
        return f"ModelFile({self.name!r}, sha256={self.sha256!r})"

    def __str__(self) -> str:
        return self.name

    @cached_property
    def sha256(self) -> str:
        """The hash of the content."""
        return sha256(self.content)

    @property
    def place(self) -> str:
        """Where it is below a results directory, as a specification says it."""
        return f"{FOLDER}/{self.name}"

    @staticmethod
    def read(path: Path, expected: Any = None) -> "ModelFile":
        """Read a file; raise if its hash is not the one `expected`, where one is."""
        try:
            name = re.sub(r'[\\:*?"<>|]', "-", path.name)  # which not every system can have
            found = ModelFile(name, path.read_bytes())
        except OSError as error:
            if expected is None:
                raise ValueError(f"cannot read the model {path}: {error.strerror}") from None
            reason = "it is missing" if isinstance(error, FileNotFoundError) else error.strerror
            raise DamagedError(path, f"{reason}, and runs were made in that model") from None
        if expected is not None and found.sha256 != expected:
            raise DamagedError(
                path, "it is not the model of this specification: its sha256 is another"
            )
        return found

    @staticmethod
    def of(mdp: TabularMDP) -> "ModelFile":
        """Return a model as the file that keeps everything of it."""
        with tempfile.TemporaryDirectory() as folder:
            mdp.save(path := Path(folder) / f"{slug(mdp.name) or 'model'}.npz")
            return ModelFile(path.name, path.read_bytes())

    def load(self, **options: Any) -> TabularMDP:
        """Return the model, read with `options` of `TabularMDP.load`."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self.name
            path.write_bytes(self.content)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    mdp = TabularMDP.load(path, **options)
                except ValueError as error:
                    raise ValueError(str(error).replace(str(path), self.name)) from None
        for warning in caught:
            words = str(warning.message).replace(str(path), self.name)
            warnings.warn(words, warning.category, stacklevel=2)
        return mdp


def named_apart(files: Iterable[ModelFile]) -> dict[ModelFile, ModelFile]:
    """Return the files by what they were, renamed where several different ones share a name."""
    named: dict[str, ModelFile] = {}
    found: dict[ModelFile, ModelFile] = {}
    for file in files:
        path, number = Path(file.name), 1
        one = file
        while named.setdefault(one.name, one) != one:
            number += 1
            one = replace(file, name=f"{path.stem}-{number}{path.suffix}")
        found[file] = one
    return found
