"""Who may ask: hosts, origins and tokens.

What a web page that the user happens to visit could do is kept out. A request must name this host:
by an address, as localhost, or by a name that was allowed, which a page that has been rebound to
this address cannot. It must carry JSON by its content type, which a form cannot. Browsers say where
a request comes from, by Sec-Fetch-Site or by Origin, and that of another origin is refused.
"""

import base64
import binascii
import hmac
import ipaddress
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

RIGHTS = ("read", "write")


class Refused(Exception):
    """A request that gets `status` and a complaint."""

    def __init__(self, status: int, complaint: str) -> None:
        super().__init__(complaint)
        self.status = status


class Right(NamedTuple):
    """What a token allows: to "read", or to "write" as well, one agent or, with None, all."""

    token: bytes
    right: str
    agent: str | None


class Tokens:
    """The tokens of a server: one that allows everything, or those of a file, one a line.

        TOKEN                   everything
        read TOKEN              to look
        write TOKEN             to look and to change
        read TOKEN NAME         the same for one agent of a folder
        # ...                   a remark

    The file is read again when it has changed, so a token is replaced by editing it; while it says
    something wrong, the tokens before stay. Without tokens everything is allowed.
    """

    def __init__(self, source: str | Path | None) -> None:
        self.path = source if isinstance(source, Path) else None
        self._read_at: Any = None
        self._rights: list[Right] = []
        if self.path is not None:
            self._look()
        elif source is not None:
            self._rights = rights_in(str(source))

    def __bool__(self) -> bool:
        return bool(self._rights)

    def check(self, header: str, write: bool, agent: str | None) -> None:
        """Refuse an Authorization header that does not show a token for this."""
        if self.path is not None:
            with suppress(OSError, ValueError):  # it is being written
                self._look()
        if not self._rights:
            return
        shown = shown_token(header).encode()
        # All of them, so that the time it takes does not tell which.
        met = [one for one in self._rights if hmac.compare_digest(shown, one.token)]
        if not met:
            raise Refused(401, "show the token")
        met = [one for one in met if one.agent in (None, agent)]
        if not any(one.right == "write" or not write for one in met):
            raise Refused(403, f"this token may not {RIGHTS[write]} {agent or 'here'}")

    def _look(self) -> None:
        assert self.path is not None
        found = os.stat(self.path)
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp != self._read_at:
            rights = rights_in(self.path.read_text())
            if not rights:
                raise ValueError(f"{self.path} has no token in it")
            self._rights, self._read_at = rights, stamp


def rights_in(text: str) -> list[Right]:
    """Return what the lines of a token file allow, or raise a ValueError."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        right, *rest = words if words[0] in RIGHTS and len(words) > 1 else ("write", *words)
        if len(rest) > 2 or not re.fullmatch(r"[!-~]{8,}", rest[0]):
            raise ValueError(
                f"line {number}: the token must be at least 8 letters, digits or signs, without "
                "spaces; a line is TOKEN, or read or write, TOKEN, and perhaps an agent's name"
            )
        found.append(Right(rest[0].encode(), right, rest[1] if len(rest) > 1 else None))
    return found


def needed_tokens(host: str, source: str | Path | None) -> Tokens:
    """Return the tokens, or raise a ValueError if `host` can be reached by others without one."""
    tokens = Tokens(source)
    if not tokens and not _is_loopback(host):
        raise ValueError(
            f"others can reach {host}: put a token into a file and give --token-file, or into the "
            "environment variable CPSRL_TOKEN"
        )
    return tokens


def check_origin(headers: Any, names: Sequence[str], link: bool) -> None:
    """Refuse a request for another host, or by a page of another origin, unless it is a `link`."""
    host = headers.get("host", "")
    if not allowed_host(host, names):
        raise Refused(421, "the Host header names another host")
    origin = headers.get("origin", "")
    foreign = origin and origin.partition("://")[2].lower() != host.lower()
    if not link and (
        foreign or headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    ):
        raise Refused(403, "a page of another origin may not ask")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_host(header: str, names: Sequence[str]) -> bool:
    """Return whether a Host header names this host: localhost, an address, or one of `names`."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(:\d+)?", header)
    if not found:
        return False
    name = found[1].strip("[]").lower()
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name in [one.lower() for one in names]
    return True


def shown_token(header: str) -> str:
    """Return the token that an Authorization header shows, as a bearer or as a password."""
    kind, _, shown = header.partition(" ")
    if kind.lower() == "basic":
        try:
            return base64.b64decode(shown, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return shown if kind.lower() == "bearer" else ""
