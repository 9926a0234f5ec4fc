"""Names for things that are chosen by name: environments, rules, agents, claims.

A registry maps a name to a factory (a class or a function). An unknown name or option is an error
that gives the nearest right one.
"""

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Factory = TypeVar("Factory", bound=Callable[..., Any])


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Return the entry of `words` that is most like `word`, or None when none is like it."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.4)
    return close[0] if close else None


def unknown(kind: str, word: str, words: Iterable[str], place: str = "") -> ValueError:
    """Return the error for a `word` that is not among `words`, with the nearest right one."""
    words = list(words)
    where = f" in {place}" if place else ""
    near = nearest(word, words)
    hint = f"did you mean {near!r}? " if near else ""
    return ValueError(
        f"unknown {kind} {word!r}{where}: {hint}(known: {', '.join(words) or 'none'})"
    )


class Registry(Generic[T]):
    """Factories of one kind of thing, by name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._factories: dict[str, Callable[..., T]] = {}

    def add(self, name: str) -> Callable[[Factory], Factory]:
        """Return a decorator that enters a factory under `name`."""

        def enter(factory: Factory) -> Factory:
            if name in self._factories:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._factories[name] = factory
            return factory

        return enter

    def names(self) -> list[str]:
        """Return the names in the order in which they were entered."""
        return list(self._factories)

    def __contains__(self, name: object) -> bool:
        return name in self._factories

    def __getitem__(self, name: str) -> Callable[..., T]:
        if name not in self._factories:
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
        return factory(**options)

    def summary(self, name: str) -> str:
        """Return the first line of the docstring of the factory called `name`."""
        return (inspect.getdoc(self[name]) or "").partition("\n")[0]
