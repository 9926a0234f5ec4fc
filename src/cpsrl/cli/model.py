"""Commands that take a model, an environment with its options or a file; and agents with theirs."""

import inspect
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from tyro.conf import Positional, arg

from cpsrl.agents import AGENTS
from cpsrl.environments import ENVIRONMENTS, WORLDS, environment
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.files import FILES
from cpsrl.registry import nearest

FILE_OPTIONS = {
    "normalise": "divide rows that do not quite sum to 1 by their sums",
    "missing_unavailable": "take actions without a line for unavailable ones",
}


def takes_model(command: Callable[..., None], arguments: Sequence[str]) -> Callable[..., None]:
    """Return `command(mdp, ...)` as a function of a model's name, its options and the rest.

    The options are those of the first environment, or file, among the command line `arguments` (the
    command's own name first), so that the parser checks them and `--help` shows them.
    """
    words = (word for word in arguments[1:] if not word.startswith("-"))
    models = (word for word in words if _is_file(word) or word in ENVIRONMENTS)
    name = next(models, "")
    known = ENVIRONMENTS.options(name) if name in ENVIRONMENTS else {}
    if _is_file(name):
        known = dict(list(inspect.signature(TabularMDP.load).parameters.items())[1:])

    own = list(inspect.signature(command).parameters.values())[1:]
    taken = {parameter.name for parameter in own}
    flags = {key: f"model_{key}" if key in taken else key for key in known}

    def call(model: str, **given: Any) -> None:
        options = {key: given.pop(flag) for key, flag in flags.items() if flag in given}
        chosen = {key: value for key, value in options.items() if value != known[key].default}
        if _is_file(model):
            mdp = TabularMDP.load(model, **chosen)
        elif model in ENVIRONMENTS:
            mdp = environment(model, **chosen)
        elif model in WORLDS:
            raise ValueError(
                f"{model} is not a table: agents with networks act in it, in an experiment "
                "(`cpsrl run`) or by cpsrl.simulate"
            )
        else:
            near = None if Path(model).suffix else nearest(model, ENVIRONMENTS.names())
            raise ValueError(
                f"no environment is called {model!r}{f' (did you mean {near!r}?)' if near else ''}"
                f", and a file must end in {', '.join(FILES)}; `cpsrl list environments` shows the "
                "names"
            )
        command(mdp, **given)

    hints = get_type_hints(command, include_extras=True)
    about = arg(
        metavar="MODEL",
        help="an environment's name or a file; with it, --help shows its options too",
    )
    first = inspect.Parameter("model", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [first.replace(annotation=Annotated[Positional[str], about])]
    for key, parameter in known.items():
        about_it = arg(help=FILE_OPTIONS.get(key, f"option of {name}"))
        hint = parameter.annotation
        hint = Annotated[hint, about_it]
        parameters.append(parameter.replace(name=flags[key], annotation=hint))
    parameters += [one.replace(annotation=hints.get(one.name, one.annotation)) for one in own]
    parameters[1:] = [one.replace(kind=one.KEYWORD_ONLY) for one in parameters[1:]]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__doc__ = command.__doc__
    return call


def takes_agents(
    command: Callable[..., None], arguments: Sequence[str], roles: dict[str, str]
) -> Callable[..., None]:
    """Return a command with the options of the agents among its `arguments` as options of its own.

    `roles` gives, for the option that names an agent, the parameter that takes its options as a
    dictionary. An option of the first one is called as it is, of another one with its role before
    it; its value is written as in a specification, where a text needs no quotes.
    """
    own = inspect.signature(command).parameters
    hints = get_type_hints(command, include_extras=True)
    kept = [one for one in own.values() if one.name not in roles.values()]
    flags: dict[str, tuple[str, str]] = {}
    added = []
    for number, (role, takes) in enumerate(roles.items()):
        name = _value_of(f"--{role}", arguments) or own[role].default
        for option in AGENTS.options(name) if name in AGENTS else ():
            flag = f"{role}_{option}" if number or option in own else option
            flags[flag] = (takes, option)
            about = arg(metavar="VALUE", help=f"option of {name}")
            hint = Annotated[str | None, about]
            kind = inspect.Parameter.KEYWORD_ONLY
            added.append(inspect.Parameter(flag, kind, default=None, annotation=hint))

    def call(mdp: TabularMDP, **given: Any) -> None:
        options: dict[str, dict[str, Any]] = {takes: {} for takes in roles.values()}
        for flag, (takes, option) in flags.items():
            if (text := given.pop(flag, None)) is not None:
                options[takes][option] = _as_written(text)
        command(mdp, **given, **options)

    parameters = [one.replace(annotation=hints.get(one.name, one.annotation)) for one in kept]
    rest = [one.replace(kind=one.KEYWORD_ONLY) for one in parameters[1:]]
    call.__signature__ = inspect.Signature([parameters[0], *rest, *added])  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in [*parameters, *added]}
    call.__doc__ = command.__doc__
    return call


def _value_of(option: str, arguments: Sequence[str]) -> str:
    """Return what a command line gives for an option, in either way of writing it."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == option or word.startswith(f"{option}="):
            return following if word == option else word.partition("=")[2]
    return ""


def _as_written(text: str) -> Any:
    """Return the value that a text is in TOML, or the text itself; .9 is a number as well."""
    written = f"0{text}" if re.match("[.][0-9]", text) else text
    try:
        return tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _is_file(word: str) -> bool:
    return Path(word).suffix in FILES
