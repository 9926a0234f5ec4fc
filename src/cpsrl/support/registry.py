"""Names for things that are chosen by name: environments, rules, agents, claims.

A registry maps a name to a factory (a class or a function). An unknown name or option is an error
that gives the nearest right one. A name that is not there is looked for in the plugins that are
installed (see `cpsrl.support.plugins`) before it is called unknown.
"""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from itertools import islice
from typing import Any, Generic, TypeVar

from cpsrl.support.plugins import load_plugins, package_being_loaded, package_of

T = TypeVar("T")
Factory = TypeVar("Factory", bound=Callable[..., Any])
MOST_WORDS, MOST_LETTERS = 500, 200
"""What is compared with a wrong name: a service is asked for wrong ones, and others wait."""


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Return the entry of `words` that begins with `word` or is most like it; None if none is."""
    if len(word) > MOST_LETTERS:
        return None
    lower = {one.lower(): one for one in islice(words, MOST_WORDS)}
    begins = [one for one in lower if one.startswith(word.lower())] if len(word) > 2 else []
    close = begins or difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.4)
    return lower[close[0]] if close else None


def unknown(kind: str, word: str, words: Iterable[str], place: str = "") -> ValueError:
    """Return the error for a `word` that is not among `words`, with the nearest right one."""
    words = list(words)
    where = f" in {place}" if place else ""
    near = nearest(word, words)
    hint = f": did you mean {near!r}?" if near else ""
    return ValueError(f"unknown {kind} {word!r}{where}{hint} (known: {', '.join(words) or 'none'})")


def with_options(
    function: Callable[..., T], parameters: Iterable[inspect.Parameter], doc: str
) -> Callable[..., T]:
    """Return `function` as one that takes these parameters by name, with a docstring."""
    taken = [one.replace(kind=one.KEYWORD_ONLY) for one in parameters]
    function.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    function.__doc__ = doc
    return function


class Registry(Generic[T]):
    """Factories of one kind of thing, by name.

    Args:
        kind: what they make, in a word.
        base: the class of what they make, or several; None if it may be anything.
        also: modules that enter some, imported when a name is looked up that is not there.
        prefixes: how names that nobody enters begin, and what finds the factory of one.
    """

    def __init__(
        self,
        kind: str,
        base: Any = None,
        also: Iterable[str] = (),
        prefixes: Mapping[str, Callable[[str], Callable[..., T]]] | None = None,
    ) -> None:
        self.kind = kind
        self.base = base
        self._of = base[0] if isinstance(base, tuple) else base
        self._factories: dict[str, Callable[..., T]] = {}
        self._also, self._prefixes = tuple(also), dict(prefixes or {})
        self._packages: dict[str, str] = {}
        REGISTRIES.setdefault(kind, []).append(self)

    def __repr__(self) -> str:
        return f"Registry({self.kind}: {', '.join(self._factories)})"

    def add(self, name: str) -> Callable[[Factory], Factory]:
        """Return a decorator that enters a factory under `name`.

        A factory is a class derived from the registry's base, or a function that makes what is.
        What a script or notebook has entered, it may enter again when it is run again.
        """

        def enter(factory: Factory) -> Factory:
            self._check(name, factory)
            there = self._factories.get(name, factory)
            if there is not factory and not _defined_again(there, factory):
                whose = self.package(name)
                where = f": the package {whose} has one of that name" if whose else ""
                raise ValueError(f"{self.kind} {name!r} is registered twice{where}")
            self._factories[name] = factory
            self._packages[name] = package_being_loaded()
            return factory

        return enter

    def _check(self, name: str, factory: Any) -> None:
        base = self.base
        if isinstance(factory, type):
            fits = base is None or issubclass(factory, base)
            found = f"the class {factory.__name__}"
        else:
            fits = callable(factory) and not (base and isinstance(factory, base))
            found = f"the object {factory!r}"
        if not fits:
            wanted = f"a class derived from {self._of.__name__} or " if base else "a class or "
            raise ValueError(
                f"{self.kind} {name!r} must be {wanted}a function that returns one, not {found}"
            )

    def names(self) -> list[str]:
        """Return the names in the order in which they were entered."""
        for module in self._also:
            import_module(module)
        return list(self._factories)

    def name_of(self, factory: object) -> str | None:
        """Return the name that a factory was entered under, or None."""
        return next((name for name in self.names() if self._factories[name] is factory), None)

    def _prefix(self, name: object) -> str | None:
        return next((one for one in self._prefixes if str(name).startswith(one)), None)

    def __contains__(self, name: object) -> bool:
        if self._prefix(name):
            return True
        if isinstance(name, str) and name not in self._factories and name not in self.names():
            load_plugins()
        return name in self._factories

    def __getitem__(self, name: str) -> Callable[..., T]:
        if prefix := self._prefix(name):
            return self._prefixes[prefix](name)
        if name not in self:
            raise unknown(self.kind, name, self._factories)
        return self._factories[name]

    def options(self, name: str) -> dict[str, inspect.Parameter]:
        """Return the options that the factory called `name` takes."""
        return dict(inspect.signature(self[name]).parameters)

    def make(self, name: str, **options: Any) -> T:
        """Return what the factory called `name` makes of `options`."""
        factory, known = self[name], self.options(name)
        if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            for option in options:
                if option not in known:
                    raise unknown("option", option, known, f"{self.kind} {name!r}")
            for option, parameter in known.items():
                if parameter.default is parameter.empty and option not in options:
                    raise ValueError(f"{self.kind} {name!r} needs the option {option!r}")
        made = factory(**options)
        if self.base is not None and not isinstance(made, self.base):
            raise ValueError(
                f"{self.kind} {name!r} must be of {self._of.__name__}, and its function returned "
                f"{made!r}"
            )
        return made

    def summary(self, name: str) -> str:
        """Return the first line of the docstring of the factory called `name`."""
        return (inspect.getdoc(self[name]) or "").partition("\n")[0]

    def package(self, name: str) -> str:
        """Return the installed package that `name` comes from; empty for a user's own."""
        factory = self[name]
        return self._packages.get(name) or package_of(getattr(factory, "__module__", ""))


REGISTRIES: dict[str, list[Registry[Any]]] = {}
"""All registries, by the kind of what they make; each enters itself."""


def _defined_again(before: Any, now: Any) -> bool:
    """Return whether both are the same definition in a script or notebook, run twice."""
    places = [(getattr(f, "__module__", ""), getattr(f, "__qualname__", "")) for f in (before, now)]
    return places[0] == places[1] and places[0][0] == "__main__" and "<lambda>" not in places[0][1]
