"""The `cpsrl` command: one line for every subcommand."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from cpsrl.cli import experiments
from cpsrl.cli.model import takes_model
from cpsrl.cli.solve import solve
from cpsrl.cli.theory import bound, verify

MODEL_COMMANDS: dict[str, Callable[..., None]] = {"solve": solve, "bound": bound}

COMMANDS: dict[str, Callable[..., Any]] = {
    "run": experiments.run,
    "continue": experiments.continue_,
    "report": experiments.report,
    "reproduce": experiments.reproduce,
    "list": experiments.list_,
    "verify": verify,
    "compile": experiments.compile_,
}

DESCRIPTION = "Posterior sampling for environments that never reset."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    A user's mistake, a damaged file or a full disk is one line on standard error and exit code 2;
    an interruption leaves with 130, and what was computed is stored.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = sys.argv[1:] if arguments is None else arguments
    model_commands = {k: takes_model(f, arguments) for k, f in MODEL_COMMANDS.items()}
    try:
        tyro.extras.subcommand_cli_from_dict(
            model_commands | COMMANDS,
            prog="cpsrl",
            description=DESCRIPTION,
            args=arguments,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except (ValueError, OSError) as error:
        if os.environ.get("CPSRL_TRACEBACK"):
            raise
        text = getattr(error, "strerror", None) or str(error)
        if name := getattr(error, "filename", None):
            text = f"{name}: {text}"
        print("cpsrl:", *text.split(), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("cpsrl: interrupted; the same command again does what is missing", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
