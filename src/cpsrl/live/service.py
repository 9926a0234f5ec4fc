"""A durable agent as JSON over HTTP, for any program, and a page to watch it (`page.js`).

    POST /decide     {"id", "state"}, also {"stream"}   -> {"id", "action"}
    POST /outcome    {"id", "reward", "next_state"}     -> {"id"}
    POST /discard    {"id"}                             -> {"id"}
    POST /learn      {"rows": [{state, action, reward, next_state}, ...]} -> {"transitions", "new"}
    GET  /explain?state=..., also &stream=...           -> what `Explanation.to_dict` gives
    GET  /status, GET /rates, GET /health, GET /openapi.json, GET /

Clients choose the ids, so every request may be sent again. A wrong one gets 4xx with {"error"} and
changes nothing: 400 what is wrong, 401 the token, 404 an unknown id or place, 409 an id that was
used for something else, 403 a page of another origin, 413 too much, 415 not JSON, 421 another Host.

What a web page that the user happens to visit could do is kept out: a request must name this host
(by an address, as localhost, or by a name that was allowed), which a page that has been rebound to
this address cannot; it must carry JSON by its content type, which a form cannot; browsers say where
a request comes from, and that of another origin is refused; and no answer allows one. On an address
that others can reach, every request needs the token, as a bearer or as the password of basic
authentication, which is what browsers ask for.
"""

import base64
import binascii
import hmac
import importlib.util
import ipaddress
import json
import math
import re
import sqlite3
from collections.abc import Callable, Sequence
from importlib import metadata
from socket import AF_INET6, IPPROTO_TCP, TCP_NODELAY, create_server, has_dualstack_ipv6
from typing import Any

from cpsrl.checks import checked_whole
from cpsrl.live.durable import Conflict, DurableAgent, UnknownDecision
from cpsrl.live.tally import Rate
from cpsrl.pages import page
from cpsrl.pages.page import source
from cpsrl.sizes import FeatureSizes

STREAM = "stream"
MOST_BYTES = 1 << 20
"""The largest request."""


class Refused(Exception):
    """A request that gets `status` and a complaint."""

    def __init__(self, status: int, complaint: str) -> None:
        super().__init__(complaint)
        self.status = status


def needed_token(host: str, token: str | None) -> str | None:
    """Return the token, or raise a ValueError if `host` can be reached by others without one."""
    if token is not None and not re.fullmatch(r"[!-~]{8,}", token):
        raise ValueError("the token must be at least 8 letters, digits or signs, without spaces")
    if token is None and not _is_loopback(host):
        raise ValueError(
            f"others can reach {host}: put a token into a file and give --token-file, or into the "
            "environment variable CPSRL_TOKEN"
        )
    return token


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


def has_token(header: str, token: str) -> bool:
    """Return whether an Authorization header shows the token."""
    kind, _, shown = header.partition(" ")
    if kind.lower() == "basic":
        try:
            shown = base64.b64decode(shown, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(shown.encode(), token.encode())


def read_json(body: bytes) -> dict[str, Any]:
    """Return the object in the body of a request, or refuse it."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    try:
        found = json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refused(400, "the body must be a JSON object")
    return found


def _given(found: dict[str, Any], *names: str) -> list[Any]:
    """Return the values of exactly these names; a stream may be left out, and is then None."""
    for name in names:
        if name not in found and name != STREAM:
            raise Refused(400, f"{name!r} is missing")
    for name in found:
        if name not in names:
            raise Refused(400, f"{name!r} is unknown; there are {', '.join(names)}")
    return [found.get(name) for name in names]


def _decide(agent: DurableAgent, found: dict[str, Any]) -> dict[str, Any]:
    id, state, stream = _given(found, "id", "state", STREAM)
    if not isinstance(id, str):
        raise Refused(400, "id must be text of the client's choice")
    return vars(agent.decide(state, id, stream))


def _outcome(agent: DurableAgent, found: dict[str, Any]) -> dict[str, Any]:
    id, reward, next_state = _given(found, "id", "reward", "next_state")
    agent.outcome(id, reward, next_state)
    return {"id": id}


def _discard(agent: DurableAgent, found: dict[str, Any]) -> dict[str, Any]:
    (id,) = _given(found, "id")
    agent.discard(id)
    return {"id": id}


def _learn(agent: DurableAgent, found: dict[str, Any]) -> dict[str, Any]:
    (rows,) = _given(found, "rows")
    if not isinstance(rows, list):
        raise Refused(400, "rows must be a list of transitions")
    return vars(agent.learn(rows))


def _explain(agent: DurableAgent, query: Any) -> dict[str, Any]:
    state, draws = query.get("state"), query.get("draws")
    if state is None:
        raise Refused(400, "'state' is missing: /explain?state=...")
    if draws is not None and not re.fullmatch(r"[0-9]{1,5}", draws):
        raise Refused(400, "draws must be a whole number below 100,000")
    labels = agent.labels
    shown = labels.state_name(labels.read_state("state", state))
    stream = query.get(STREAM)
    return agent.explain(shown, None if draws is None else int(draws), stream).to_dict()


def _rates(agent: DurableAgent, query: Any) -> dict[str, Any]:
    """Return what the page draws."""
    labels = agent.labels
    states = labels.states or range(labels.n_states or 0)
    shown = labels.sizes if labels.n_states is None else None

    def known(rate: Rate) -> dict[str, Any]:
        return {k: None if math.isnan(v) else v for k, v in rate._asdict().items()}

    return {
        "rates": [known(rate) for rate in agent.rates()],
        "marks": [mark._asdict() for mark in agent.tally.marks],
        "states": [str(state) for state in states[:1000]],
        "features": shown.n_features if isinstance(shown, FeatureSizes) else None,
    }


CHANGES: dict[str, tuple[Callable[..., dict[str, Any]], str, dict[str, str]]] = {
    "decide": (_decide, "Decide in a state.", {"id": "string", "state": "", STREAM: "string"}),
    "outcome": (
        _outcome,
        "Tell how a decision went.",
        {"id": "string", "reward": "number", "next_state": ""},
    ),
    "discard": (_discard, "End a decision that will have no outcome.", {"id": "string"}),
    "learn": (_learn, "Learn from transitions of the past, once.", {"rows": "array"}),
}
LOOKS: dict[str, tuple[Callable[..., dict[str, Any]], str]] = {
    "explain": (_explain, "What the agent believes about a state."),
    "status": (lambda agent, query: agent.status(), "Where the agent stands."),
    "rates": (_rates, "The reward rate over time, and the last resamplings."),
    "health": (lambda agent, query: {"ok": not agent.closed}, "Whether the agent is at work."),
}


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description."""
    answers = {
        "200": {"description": "done"},
        "4XX": {"description": "what is wrong is in `error`, and nothing has changed"},
    }
    paths: dict[str, Any] = {}
    for name, (_, summary, fields) in CHANGES.items():
        properties = {key: {"type": kind} if kind else {} for key, kind in fields.items()}
        required = [key for key in fields if key != STREAM]
        schema = {"type": "object", "properties": properties, "required": required}
        content = {"application/json": {"schema": schema | {"additionalProperties": False}}}
        body = {"required": True, "content": content}
        paths[f"/{name}"] = {
            "post": {"summary": summary, "requestBody": body, "responses": answers}
        }
    for name, (_, summary) in LOOKS.items():
        paths[f"/{name}"] = {"get": {"summary": summary, "responses": answers}}
    paths["/explain"]["get"]["parameters"] = [
        {"name": name, "in": "query", "required": name == "state", "schema": {"type": kind}}
        for name, kind in {"state": "string", "draws": "integer", STREAM: "string"}.items()
    ]
    return {
        "openapi": "3.1.0",
        "info": {"title": "A cpsrl agent", "version": metadata.version("cpsrl")},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


def app(agent: DurableAgent, token: str | None = None, names: Sequence[str] = ()) -> Any:
    """Return the service as an ASGI application."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    script, style, body = (f"page.{kind}" for kind in ("js", "css", "html"))
    shown = page(
        "cpsrl agent",
        source(body, "cpsrl.live"),
        style=source("chart.css") + source(style, "cpsrl.live"),
        script=source("chart.js") + source(script, "cpsrl.live"),
        asks=True,
    )

    def check(request: Request) -> None:
        if token is not None and not has_token(request.headers.get("authorization", ""), token):
            raise Refused(401, "show the token")
        if not allowed_host(request.headers.get("host", ""), names):
            raise Refused(421, "this is another host")
        # A link to the page itself may be followed from anywhere.
        come_from = request.headers.get("sec-fetch-site", "none")
        if come_from not in ("none", "same-origin") and request.url.path != "/":
            raise Refused(403, "a page of another origin may not ask")

    async def body_of(request: Request) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(415, "the content type must be application/json")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                raise Refused(413, f"a request may have {MOST_BYTES} bytes")
        return body

    def refusal(status: int, complaint: str) -> Response:
        headers = {"WWW-Authenticate": 'Basic realm="cpsrl"'} if status == 401 else None
        return JSONResponse({"error": complaint}, status, headers)

    def answering(work: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            try:
                check(request)
                found = await work(request)
                return found if isinstance(found, Response) else JSONResponse(found)
            except Refused as error:
                return refusal(error.status, str(error))
            except UnknownDecision as error:
                return refusal(404, str(error))
            except Conflict as error:
                return refusal(409, str(error))
            except ValueError as error:
                return refusal(503 if agent.closed else 400, str(error))
            except (OSError, sqlite3.Error) as error:
                return refusal(503, str(error))

        return answer

    def change(handler: Callable[..., Any]) -> Callable[[Request], Any]:
        async def work(request: Request) -> Any:
            found = read_json(await body_of(request))
            return await run_in_threadpool(handler, agent, found)

        return answering(work)

    def look(handler: Callable[..., Any]) -> Callable[[Request], Any]:
        async def work(request: Request) -> Any:
            return await run_in_threadpool(handler, agent, request.query_params)

        return answering(work)

    async def show(request: Request) -> Any:
        # The rest of the policy is in the page, where this has no effect.
        return HTMLResponse(shown, headers={"Content-Security-Policy": "frame-ancestors 'none'"})

    async def describe(request: Request) -> Any:
        return openapi()

    async def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        try:
            check(request)
        except Refused as refused:
            return refusal(refused.status, str(refused))
        return refusal(error.status_code, error.detail)

    posts = [Route(f"/{k}", change(f), methods=["POST"]) for k, (f, *_) in CHANGES.items()]
    gets = [Route(f"/{k}", look(f), methods=["GET"]) for k, (f, _) in LOOKS.items()]
    fixed = [
        Route("/", answering(show), methods=["GET"]),
        Route("/openapi.json", answering(describe), methods=["GET"]),
    ]
    return Starlette(routes=[*posts, *gets, *fixed], exception_handlers={HTTPException: failed})


def serve(
    agent: DurableAgent,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    names: Sequence[str] = (),
) -> None:
    """Serve `agent` until the process is stopped."""
    token, port = needed_token(host, token), checked_whole("port", port, 0, 65535)
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise ValueError(
                f"the service needs Starlette and uvicorn, and there is no {package} here: "
                "pip install 'cpsrl[serve]'"
            )
    import uvicorn

    config = uvicorn.Config(
        app(agent, token, names),
        log_config=None,  # its own would close the handlers that the program has
        log_level="warning",
        server_header=False,
        lifespan="off",
    )
    six: Any = {"family": AF_INET6, "dualstack_ipv6": has_dualstack_ipv6()} if ":" in host else {}
    # It listens, so that whoever reads the address can call at once.
    with create_server((host, port), backlog=config.backlog, **six) as socket:
        # Or an answer's body waits 40 ms for the client to acknowledge its head: asyncio does this
        # only for sockets that name TCP as their protocol. Connections inherit it.
        socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        address = f"[{host}]" if ":" in host else host
        url = f"http://{address}:{socket.getsockname()[1]}/"
        print(f"{agent.label} in {agent.path} is served at {url}", flush=True)
        uvicorn.Server(config).run(sockets=[socket])
