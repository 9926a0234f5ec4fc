"""The experiments that come with the package, one TOML file each."""

from pathlib import Path

from cpsrl.experiments.spec import Experiment
from cpsrl.registry import unknown

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "_specifications", _PACKAGE.parents[1] / "experiments")
"""Where an installed package has them, and where a checkout has them."""


def shipped() -> dict[str, Path]:
    """Return the specification files by name."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    return {path.stem: path for path in sorted(folder.glob("*.toml"))} if folder else {}


def find_experiment(spec: str) -> Experiment:
    """Return the experiment that `spec` names: a TOML file, or one that comes with the package."""
    if spec in (known := shipped()):
        return Experiment.read(known[spec])
    if spec.endswith(".toml") or Path(spec).exists():
        return Experiment.read(spec)
    raise unknown("experiment", spec, known)
