"""The server under the service: bounds on connections and on time, and a clean end.

Whoever can open connections can leave them half open. At most `most_connections()` are open: one
more closes the one that has kept us waiting longest for a whole request. A request must be there
within REQUEST_SECONDS of the connection, or of the answer before. So a flood costs the idle their
connections, which clients open again, and not those who ask.

SIGTERM and SIGINT end the server within about STOP_SECONDS: no new connections, what is being
answered is answered, the rest is cut off. A stop that was asked for is a success.
"""

import importlib.util
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import AF_INET6, IPPROTO_TCP, TCP_NODELAY, create_server, has_dualstack_ipv6
from typing import Any, ClassVar

from cpsrl.live.access import needed_tokens
from cpsrl.live.agents import Agents, descriptors
from cpsrl.live.app import Service, app
from cpsrl.live.durable import DurableAgent
from cpsrl.support.checks import checked_whole

__all__ = ["app", "serve"]

MOST_CONNECTIONS = 1000
REQUEST_SECONDS = 10.0
MOST_HEAD = 1 << 16
"""How many bytes the head of a request may have, and what its body is framed by."""
MOST_PIPELINED = 100
"""How many requests may wait for the answer to one before them, on one connection."""
STOP_SECONDS = 1
BACKLOG = 100
"""How many connections asyncio accepts at once, before one of them can be closed."""
SWITCH_SECONDS = 0.0005
"""How long a thread computes before another one may: a decision waits so long, not 5 ms, each time
that it comes back from the disk while something is explained."""


def most_connections() -> int:
    """Return how many connections may be open: a quarter of the descriptors, at most."""
    return min(MOST_CONNECTIONS, descriptors() // 4)


def serve(
    agent: DurableAgent | Agents,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | Path | None = None,
    names: Sequence[str] = (),
) -> None:
    """Serve an agent, or those of a folder, until the process is stopped.

    Args:
        agent: the agent, or `Agents(folder)`; it is closed at the end.
        host: the address to listen at.
        port: the port; 0 takes a free one.
        token: the token that clients must show, or a file of them (`cpsrl.live.access.Tokens`).
        names: host names by which clients may call, besides localhost and addresses.
    """
    tokens, port = needed_tokens(host, token), checked_whole("port", port, 0, 65535)
    for package in ("starlette", "uvicorn", "httptools"):
        if importlib.util.find_spec(package) is None:
            raise ValueError(
                "the service needs Starlette, uvicorn and httptools, and there is no "
                f"{package} here: pip install 'cpsrl[serve]'"
            )
    import sys

    import uvicorn

    agents = agent if isinstance(agent, Agents) else Agents(agent=agent)
    service = Service(agents, tokens, names)
    config = uvicorn.Config(
        service,
        http=_bounded(most_connections()),
        ws="none",
        log_config=None,  # its own would close the handlers that the program has
        log_level="critical",  # a client's mistake is not worth a line; those of ours are logged
        access_log=False,
        server_header=False,
        lifespan="off",
        backlog=BACKLOG,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    six: Any = {"family": AF_INET6, "dualstack_ipv6": has_dualstack_ipv6()} if ":" in host else {}
    before = sys.getswitchinterval()
    # It listens, so that whoever reads the address can call at once.
    with create_server((host, port), backlog=BACKLOG, **six) as socket:
        # Or an answer's body waits 40 ms for the client to acknowledge its head: asyncio does this
        # only for sockets that name TCP as their protocol. Connections inherit it.
        socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        address = f"[{host}]" if ":" in host else host
        url = f"http://{address}:{socket.getsockname()[1]}/"
        print(f"{agents} is served at {url}", flush=True)
        sys.setswitchinterval(min(before, SWITCH_SECONDS))
        try:
            _stoppable(uvicorn.Server)(config, service).run(sockets=[socket])
        finally:
            sys.setswitchinterval(before)
            agents.close()


def _stoppable(server: Any) -> Any:
    """Return uvicorn's server that ends what is being explained when it stops.

    It does not raise the signal again that has stopped it.
    """

    class Stoppable(server):  # type: ignore[misc]
        def __init__(self, config: Any, service: Service) -> None:
            super().__init__(config)
            self.service = service

        async def shutdown(self, sockets: Any = None) -> None:
            self.service.shared.stop()
            await super().shutdown(sockets)

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            asked = [signal.SIGINT, signal.SIGTERM]
            if threading.current_thread() is not threading.main_thread():
                asked.clear()
            before = {one: signal.signal(one, self.handle_exit) for one in asked}
            try:
                yield
            finally:
                for one, handler in before.items():
                    signal.signal(one, handler)

    return Stoppable


def _bounded(most: int) -> Any:
    """Return uvicorn's protocol with at most so many connections, and a time for requests."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Bounded(HttpToolsProtocol):  # type: ignore[misc]
        unasked: ClassVar[dict[Any, None]] = {}
        """The connections that have asked nothing whole yet, the oldest first."""
        deadline: Any = None
        head = 0
        """How many bytes of the request have come that are not of its body."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.await_request()
            if len(self.connections) > most:
                next(iter(self.unasked)).drop()

        def connection_lost(self, error: Exception | None) -> None:
            self.settle()
            super().connection_lost(error)

        def data_received(self, data: bytes) -> None:
            self.head += len(data)
            super().data_received(data)
            if self.head > MOST_HEAD or len(self.pipeline) > MOST_PIPELINED:
                self.drop()

        def on_body(self, body: bytes) -> None:
            self.head -= len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self.head = 0
            if not self.cycle.response_complete:  # else what has come late of a refused request
                self.settle()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            asked = not self.cycle.response_complete and not self.cycle.more_body  # pipelined
            if not asked and not self.transport.is_closing():
                self.await_request()

        def await_request(self) -> None:
            self.settle()
            self.unasked[self] = None
            self.deadline = self.loop.call_later(REQUEST_SECONDS, self.drop)

        def settle(self) -> None:
            self.unasked.pop(self, None)
            if self.deadline is not None:
                self.deadline.cancel()

        def drop(self) -> None:
            self.settle()
            self.connections.discard(self)
            self.transport.abort()

    return Bounded
