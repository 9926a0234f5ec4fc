"""Commands that take a model, an environment with its options or a file; and agents with theirs."""

import inspect
import itertools
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from tyro.conf import Positional, arg

from cpsrl.agents import AGENTS
from cpsrl.environments import ENVIRONMENTS, WORLDS, environment, with_features
from cpsrl.experiments import Entry
from cpsrl.experiments.entry import make_agent
from cpsrl.mdp import TabularMDP
from cpsrl.mdp.files import FILES
from cpsrl.support.registry import nearest

FILE_OPTIONS = {
    "normalise": "divide rows that do not quite sum to 1 by their sums",
    "missing_unavailable": "take actions without a line for unavailable ones",
}
ATTACHED = {
    "features": "observations for agents with networks: thermometer, one-hot or projection",
    "feature_dimension": "how many numbers a projection has",
    "feature_seed": "of the projection",
}


def takes_model(command: Callable[..., None], arguments: Sequence[str]) -> Callable[..., None]:
    """Return `command(mdp, ...)` as a function of a model's name, its options and the rest.

    The options are those of the first environment, or file, among the command line `arguments` (the
    command's own name first), so that the parser checks them and `--help` shows them.
    """
    words = (word for word in arguments[1:] if not word.startswith("-"))
    models = (word for word in words if _is_file(word) or word in ENVIRONMENTS)
    name = next(models, "")
    known, about = _options_of(name)
    own = list(inspect.signature(command).parameters.values())[1:]
    taken = {parameter.name for parameter in own}
    flags = {key: f"model_{key}" if key in taken else key for key in known}

    def call(model: str, **given: Any) -> None:
        options = {key: given.pop(flag) for key, flag in flags.items() if flag in given}
        chosen = {key: value for key, value in options.items() if value != known[key].default}
        if _is_file(model):
            attached = {key: chosen.pop(key) for key in ATTACHED if key in chosen}
            mdp = with_features(TabularMDP.load(model, **chosen), **attached)
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
    first = inspect.Parameter("model", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    help_first = "an environment's name or a file; with it, --help shows its options too"
    hint: Any = Annotated[Positional[str], arg(metavar="MODEL", help=help_first)]
    parameters = [first.replace(annotation=hint)]
    for key, parameter in known.items():
        shown = "" if parameter.default is None else None  # None is not what a user would give
        sentence = arg(help=about.get(key, ""), help_behavior_hint=shown)
        hint = Annotated[parameter.annotation, sentence]
        parameters.append(parameter.replace(name=flags[key], annotation=hint))
    parameters += [one.replace(annotation=hints.get(one.name, one.annotation)) for one in own]
    return _signed(call, parameters, command)


def takes_agents(
    command: Callable[..., None], arguments: Sequence[str], roles: Sequence[str]
) -> Callable[..., None]:
    """Return a command with the options of the agents among its `arguments` as options of its own.

    `roles` are its options that name an agent or several; it takes the agents' own as `options`, a
    dictionary for every role. An option of the first role is called as it is, of another one with
    its role before it; its value is written as in a specification, where a text needs no quotes.
    """
    own = inspect.signature(command).parameters
    hints = get_type_hints(command, include_extras=True)
    kept = [one for one in own.values() if one.name != "options"]
    parameters = [one.replace(annotation=hints.get(one.name, one.annotation)) for one in kept]
    flags: dict[str, tuple[str, str]] = {}
    for number, role in enumerate(roles):
        for option, about in _of_agents(_values_of(f"--{role}", arguments) or own[role].default):
            flag = f"{role}_{option}" if number or option in own else option
            flags[flag] = (role, option)
            sentence = arg(metavar="VALUE", help=about, help_behavior_hint="")
            hint = Annotated[str | None, sentence]
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(flag, kind, default=None, annotation=hint))

    def call(mdp: TabularMDP, **given: Any) -> None:
        options: dict[str, dict[str, Any]] = {role: {} for role in roles}
        for flag, (role, option) in flags.items():
            if (text := given.pop(flag, None)) is not None:
                options[role][option] = _as_written(text)
        command(mdp, **given, options=options)

    return _signed(call, parameters, command)


def entry_of(words: str) -> Entry:
    """Return the agent that words such as "continuing-psrl gamma=.9" describe."""
    name, *settings = re.split(r"\s+(?=[\w.]+\s*=)", words.strip())
    options = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        options[key.strip()] = _as_written(text.strip())
    label = options.pop("label", None)
    if label is None and options:
        label = f"{make_agent(Entry(name, options)).label}"
    return Entry(name, options, label)


def _signed(
    call: Callable[..., None], parameters: list[inspect.Parameter], command: Callable[..., None]
) -> Callable[..., None]:
    """Return `call` with these parameters, all but the first by name, and what `command` says."""
    parameters[1:] = [one.replace(kind=one.KEYWORD_ONLY) for one in parameters[1:]]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    call.__doc__ = command.__doc__
    return call


def _options_of(name: str) -> tuple[dict[str, inspect.Parameter], dict[str, str]]:
    """Return the options of an environment or a file, and a sentence about each."""
    features = dict(list(inspect.signature(with_features).parameters.items())[1:])
    if name in ENVIRONMENTS:
        known = {key: p for key, p in ENVIRONMENTS.options(name).items() if not _is_table(p)}
        return known | features, sentences(ENVIRONMENTS[name]) | ATTACHED
    if _is_file(name):
        known = dict(list(inspect.signature(TabularMDP.load).parameters.items())[1:])
        return known | features, FILE_OPTIONS | ATTACHED
    return {}, {}


def _is_table(parameter: inspect.Parameter) -> bool:
    """Return whether an option is a table by name, which has no place on a command line."""
    kinds = (parameter.annotation, *get_args(parameter.annotation))
    return any(get_origin(kind) is dict for kind in kinds)


def _of_agents(names: str | Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the options of agents, each once, and a sentence about it."""
    found: dict[str, str] = {}
    several = [names] if isinstance(names, str) else names or ()
    for name in (word.split()[0] for word in several if word.strip()):
        if name in AGENTS:
            about = sentences(AGENTS[name])
            for option in AGENTS.options(name):
                found.setdefault(option, f"{about.get(option, 'an option')} ({name})")
    yield from found.items()


def sentences(factory: Any) -> dict[str, str]:
    """Return what the docstrings of a class or function say about its arguments, by name."""
    found: dict[str, str] = {}
    sources = [*reversed(getattr(factory, "__mro__", ())), *getattr(factory, "handed_on", ())]
    for source in (*sources, factory):
        _, _, arguments = (inspect.getdoc(source) or "").partition("Args:\n")
        for match in re.finditer(r"^ {4}([\w, ]+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE):
            about = " ".join(match[2].split())
            found |= dict.fromkeys(match[1].split(", "), about)
    return found


def _values_of(option: str, arguments: Sequence[str]) -> list[str]:
    """Return what a command line gives for an option, in either way of writing it."""
    for place, word in enumerate(arguments):
        if word == option:
            following = itertools.takewhile(
                lambda w: not w.startswith("--"), arguments[place + 1 :]
            )
            return list(following)
        if word.startswith(f"{option}="):
            return [word.partition("=")[2]]
    return []


def _as_written(text: str) -> Any:
    """Return the value that a text is in TOML, or the text itself; .9 is a number as well."""
    written = f"0{text}" if re.match("[.][0-9]", text) else text
    try:
        return tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _is_file(word: str) -> bool:
    return Path(word).suffix in FILES
