"""Commands whose first argument names a model: an environment with its options, or a file."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from tyro.conf import Positional, arg

from cpsrl.environments import ENVIRONMENTS, environment
from cpsrl.mdp import TabularMDP
from cpsrl.registry import nearest

FILES = (".npz", ".csv", ".parquet")


def takes_model(command: Callable[..., None], arguments: Sequence[str]) -> Callable[..., None]:
    """Return `command(mdp, ...)` as a function of a model's name, its options and the rest.

    The options are those of the first environment among the command line `arguments` (the command's
    own name first), unless a file comes before it, so that the parser checks them and `--help`
    shows them.
    """
    models = (word for word in arguments[1:] if word in ENVIRONMENTS or _is_file(word))
    name = next(models, "")
    known = ENVIRONMENTS.options(name) if name in ENVIRONMENTS else {}

    def call(model: str, **given: Any) -> None:
        options = {key: given.pop(key) for key in known if key in given}
        chosen = {key: value for key, value in options.items() if value != known[key].default}
        if model in ENVIRONMENTS:
            mdp = environment(model, **chosen)
        elif _is_file(model):
            mdp = TabularMDP.load(model)
        else:
            near = nearest(model, ENVIRONMENTS.names())
            raise ValueError(
                f"no environment is called {model!r}{f' (did you mean {near!r}?)' if near else ''}"
                f", and a file must end in {', '.join(FILES)}; `cpsrl list environments` shows the "
                "names"
            )
        command(mdp, **given)

    hints = get_type_hints(command, include_extras=True)
    about = arg(metavar="MODEL", help="an environment's name or a file")
    own = list(inspect.signature(command).parameters.values())[1:]
    first = inspect.Parameter("model", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [first.replace(annotation=Annotated[Positional[str], about])]
    for parameter in [*known.values(), *own]:
        hint = hints.get(parameter.name, parameter.annotation)
        if parameter.name in known:
            hint = Annotated[hint, arg(help=f"option of {name}")]
        parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hint))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__doc__ = command.__doc__
    return call


def _is_file(word: str) -> bool:
    return Path(word).suffix in FILES
