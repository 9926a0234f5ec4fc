"""The `cpsrl` command: one line for every subcommand."""

import ast
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import cpsrl
from cpsrl.cli.output import plain_speech, wrapped
from cpsrl.support.interruptible import interrupted
from cpsrl.support.registry import unknown

COMMANDS = {
    "solve": ("solve", "solve"),
    "bound": ("theory", "bound"),
    "watch": ("watch", "watch"),
    "compare": ("experiments", "compare"),
    "run": ("experiments", "run"),
    "continue": ("experiments", "continue_"),
    "report": ("experiments", "report"),
    "reproduce": ("experiments", "reproduce"),
    "list": ("listing", "list_"),
    "suite": ("suite", "suite"),
    "verify": ("theory", "verify"),
    "agent": ("agent", "agent"),
    "learn": ("agent", "learn"),
    "serve": ("agent", "serve"),
    "compile": ("compile", "compile_"),
}
"""The module of every command, and its function. What is not asked for is not imported."""

RESUMED = ("compare", "run", "continue", "reproduce", "suite")
"""What these have computed is stored, and not computed again."""
MODEL_COMMANDS = ("solve", "bound", "watch", "compare")
AGENT_COMMANDS = {"watch": ("agent", "against"), "compare": ("agents",)}
"""Whose options that name agents bring the options of these agents."""

DESCRIPTION = (
    "Posterior sampling for environments that never reset. `cpsrl --version` gives the version."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    A user's mistake, a damaged file or a full disk is one line on standard error and exit code 2;
    an interruption leaves with 130, and what was computed is stored.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = sys.argv[1:] if arguments is None else arguments
    if list(arguments) == ["--version"]:
        print(f"cpsrl {cpsrl.__version__}")
        return 0
    with plain_speech():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        import tyro

        from cpsrl.cli.values import registry

        program, description = "cpsrl", DESCRIPTION
        if arguments[0:1] == ["agent"] and len(arguments) > 1:
            from cpsrl.cli import agent

            commands, program, arguments = agent.COMMANDS, "cpsrl agent", arguments[1:]
            description = "Durable agents: agents that live in a file (docs/live.md)."
        else:
            commands = {name: _command(name, arguments) for name in COMMANDS}
        first = next(iter(arguments), "-")
        if not first.startswith("-") and first not in commands:
            raise unknown("command", first, commands)
        with registry, wrapped() if {"-h", "--help"} & set(arguments) else nullcontext():
            tyro.extras.subcommand_cli_from_dict(
                commands,
                prog=program,
                description=description,
                args=arguments,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; Python's own flush is not to complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError, MemoryError) as error:
        if os.environ.get("CPSRL_TRACEBACK"):
            raise
        text = getattr(error, "strerror", None) or str(error) or "there is not enough memory"
        if name := getattr(error, "filename", None):
            text = f"{name}: {text}"
        print("cpsrl:", *text.split(), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        again = "; the same command again does what is missing"
        stored = arguments[0:1] and arguments[0] in RESUMED
        print(f"cpsrl: interrupted{again if stored else ''}", file=sys.stderr)
        return interrupted(130)
    return 0


def _command(name: str, arguments: Sequence[str]) -> Callable[..., Any]:
    """Return the function of a command; of one that is not asked for, its docstring alone."""
    module, function = COMMANDS[name]
    if name in arguments[:1]:
        asked: Callable[..., Any] = getattr(import_module(f"cpsrl.cli.{module}"), function)
        if name not in MODEL_COMMANDS:
            return asked
        from cpsrl.cli.model import takes_agents, takes_model

        if name in AGENT_COMMANDS:
            asked = takes_agents(asked, arguments, AGENT_COMMANDS[name])
        return takes_model(asked, arguments)

    def command() -> None:
        pass

    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text("utf-8"))
    defined = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    command.__doc__ = next(ast.get_docstring(node) for node in defined if node.name == function)
    return command


if __name__ == "__main__":
    sys.exit(main())
