"""Durable agents as JSON over HTTP, for any program, and a page to watch one (`page.js`).

    POST /decide     {"id", "state"}, also {"stream", "actions", "proposed"} -> {"id", "action"}
    POST /outcome    {"id", "reward", "next_state"}     -> {"id"}
    POST /discard    {"id"}                             -> {"id"}
    POST /learn      {"rows": [{state, action, reward, next_state}, ...]} -> {"transitions", "new"}
    GET  /explain?state=..., also &stream=...           -> what `Explanation.to_dict` gives
    GET  /status, GET /rates, GET /openapi.json, GET /
    GET  /health     the server lives            GET /ready    its agents can be written to, or 503
    GET  /metrics    in Prometheus's text form

Where a folder is served (`cpsrl.live.agents`), those of an agent are at /agents/NAME/decide and so
on; POST /agents {"name", "agent", "states", "actions"}, also {"reward_range"}, makes one, GET
/agents lists them, DELETE /agents/NAME deletes one.

Clients choose the ids, so every request may be sent again. A wrong one gets 4xx with {"error"} and
changes nothing: 400 what is wrong, 401 the token, 403 a page of another origin or a token that may
not, 404 an unknown id or place, 408 a body that is late, 409 an id that was used for something
else, 413 too much, 415 not JSON, 421 another Host; and 503 where nothing can be written just now.
`cpsrl.live.access` says who may ask. A request is logged to `cpsrl.requests` as a line of JSON.
"""

import asyncio
import json
import logging
import math
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from cpsrl.documents import page
from cpsrl.live.access import Refused, Tokens, check_origin
from cpsrl.live.agents import Agents
from cpsrl.live.durable import DurableAgent
from cpsrl.live.events import Conflict, NotOpen, UnknownDecision
from cpsrl.live.explain import Stopped, most_draws
from cpsrl.live.metrics import exposition
from cpsrl.live.shared import Shared, apart_in
from cpsrl.live.totals import Rate
from cpsrl.mdp.problem import UNIT_RANGE, FeatureSizes

MOST_BYTES = 1 << 20
"""The largest request."""
THREADS = 40
"""How many requests are worked on at a time; explanations have a thread of their own."""
THREADS_OF_ONE = 4
"""How many of them are those of one agent, which would wait for each other anyway."""
OPTIONAL = ("stream", "actions", "proposed", "reward_range")
STATUS = {Refused: 0, UnknownDecision: 404, Conflict: 409, NotOpen: 503, FileNotFoundError: 404}
STATUS |= {Stopped: 503, FileExistsError: 409, ValueError: 400, OSError: 503, sqlite3.Error: 503}
"""What errors are answered with: the first line that fits."""
log = logging.getLogger("cpsrl.requests")


def read_json(body: bytes) -> dict[str, Any]:
    """Return the object in the body of a request, or refuse it."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    try:
        found = json.loads(body, parse_constant=refuse)
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refused(400, "the body must be a JSON object")
    return found


def _given(found: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the values of exactly these names; what is optional is None where it is left out."""
    for name in names:
        if name not in found and name not in OPTIONAL:
            raise Refused(400, f"{name!r} is missing")
    for name in found:
        if name not in names:
            raise Refused(400, f"{name!r} is unknown; there are {', '.join(names)}")
    return {name: found.get(name) for name in names}


def _decide(
    agent: DurableAgent, id: Any, state: Any, stream: Any, actions: Any, proposed: Any
) -> dict[str, Any]:
    if not isinstance(id, str):
        raise Refused(400, "id must be text of the client's choice")
    return vars(agent.decide(state, id, stream, actions, proposed))


def _outcome(agent: DurableAgent, id: Any, reward: Any, next_state: Any) -> dict[str, Any]:
    agent.outcome(id, reward, next_state)
    return {"id": id}


def _discard(agent: DurableAgent, id: Any) -> dict[str, Any]:
    agent.discard(id)
    return {"id": id}


def _learn(agent: DurableAgent, rows: Any) -> dict[str, Any]:
    if not isinstance(rows, list):
        raise Refused(400, "rows must be a list of transitions")
    return vars(agent.learn(rows))


def _explain(agent: DurableAgent, query: Any, stop: Any) -> dict[str, Any]:
    state, draws, labels = query.get("state"), query.get("draws"), agent.labels
    if state is None:
        raise Refused(400, "'state' is missing: /explain?state=...")
    if draws is not None and not re.fullmatch(r"[0-9]{1,5}", draws):
        raise Refused(400, "draws must be a whole number below 100,000")
    shown = labels.state_name(labels.read_state("state", state))
    n = None if draws is None else min(int(draws), most_draws(labels.n_states))
    return agent.explain(shown, n, query.get("stream"), stop).to_dict()


def _rates(agent: DurableAgent) -> dict[str, Any]:
    """Return what the page draws."""
    labels = agent.labels
    states = [] if labels.n_states is None else map(labels.state_name, labels.kept[0][:1000])
    shown = labels.sizes if labels.n_states is None else None

    def known(rate: Rate) -> dict[str, Any]:
        return {k: None if math.isnan(v) else v for k, v in rate._asdict().items()}

    return {
        "rates": [known(rate) for rate in agent.rates()],
        "marks": [mark._asdict() for mark in agent.totals.marks],
        "states": [str(state) for state in states],
        "features": shown.n_features if isinstance(shown, FeatureSizes) else None,
    }


class Change(NamedTuple):
    """A request that changes an agent: what it does, and the JSON types of its fields."""

    work: Callable[..., dict[str, Any]]
    summary: str
    fields: dict[str, str]


CHANGES = {
    "decide": Change(
        _decide,
        "Decide in a state, perhaps among the actions that are allowed this time.",
        {"id": "string", "state": "", "stream": "string", "actions": "array", "proposed": ""},
    ),
    "outcome": Change(
        _outcome,
        "Tell how a decision went.",
        {"id": "string", "reward": "number", "next_state": ""},
    ),
    "discard": Change(_discard, "End a decision that will have no outcome.", {"id": "string"}),
    "learn": Change(_learn, "Learn from transitions of the past, once.", {"rows": "array"}),
}
LOOKS: dict[str, tuple[Callable[..., dict[str, Any]], str]] = {
    "explain": (_explain, "What the agent believes about a state."),
    "status": (DurableAgent.status, "Where the agent stands."),
    "rates": (_rates, "The reward rate over time, and the last resamplings."),
}
SERVER = {
    "health": "Whether the server lives.",
    "ready": "Whether its agents can be written to.",
    "metrics": "Counts and seconds in Prometheus's text form.",
}
PLACES = {"", "openapi.json", "agents", "agent", *CHANGES, *LOOKS, *SERVER}
NEW = {"name": "string", "agent": "string", "states": "", "actions": "", "reward_range": "array"}


def openapi(folder: bool = False) -> dict[str, Any]:
    """Return the OpenAPI description, of the service of one agent or of a folder."""
    answers = {
        "200": {"description": "done"},
        "4XX": {"description": "what is wrong is in `error`, and nothing has changed"},
    }
    name = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    prefix, more = ("/agents/{name}", {"parameters": name}) if folder else ("", {})

    def post(summary: str, fields: dict[str, str]) -> dict[str, Any]:
        properties = {key: {"type": kind} if kind else {} for key, kind in fields.items()}
        required = [key for key in fields if key not in OPTIONAL]
        schema = {"type": "object", "properties": properties, "required": required}
        content = {"application/json": {"schema": schema | {"additionalProperties": False}}}
        body = {"required": True, "content": content}
        return {"post": {"summary": summary, "requestBody": body, "responses": answers}}

    def get(summary: str) -> dict[str, Any]:
        return {"get": {"summary": summary, "responses": answers}}

    paths: dict[str, Any] = {f"/{place}": get(summary) for place, summary in SERVER.items()}
    for place, one in CHANGES.items():
        paths[f"{prefix}/{place}"] = post(one.summary, one.fields) | more
    for place, (_, summary) in LOOKS.items():
        paths[f"{prefix}/{place}"] = get(summary) | more
    paths[f"{prefix}/explain"]["get"]["parameters"] = [
        {"name": name, "in": "query", "required": name == "state", "schema": {"type": kind}}
        for name, kind in {"state": "string", "draws": "integer", "stream": "string"}.items()
    ]
    if folder:
        paths["/agents"] = get("The names of the agents.") | post("Make an agent.", NEW)
        paths[prefix] = {"delete": {"summary": "Delete an agent.", "responses": answers}} | more
    return {
        "openapi": "3.1.0",
        "info": {"title": "cpsrl agents", "version": metadata.version("cpsrl")},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


class Service:
    """The service as an ASGI application."""

    def __init__(self, agents: Agents, tokens: Tokens, names: Sequence[str] = ()) -> None:
        self.agents, self.tokens, self.names = agents, tokens, names
        self.shared, self.threads = Shared(), ThreadPoolExecutor(THREADS, "cpsrl-requests")
        self.page = page(
            "live/page.html",
            "cpsrl agent",
            styles=("documents/chart.css", "live/page.css"),
            scripts=("documents/chart.js", "live/page.js"),
            asks=True,
        )
        self.turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.requests: Counter[tuple[str, int]] = Counter()
        """How many requests there were, by place and status."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, count it and log it; a client that hangs up is no error."""
        from starlette.requests import ClientDisconnect, Request
        from starlette.responses import JSONResponse

        if scope["type"] != "http":
            return
        request, begun = Request(scope, receive), time.perf_counter()
        name, place = self._place(request.url.path)
        try:
            response = await self._answer(request, name, place)
        except Exception as error:
            status = next((STATUS[kind] for kind in STATUS if isinstance(error, kind)), 500)
            status = getattr(error, "status", status)
            if isinstance(error, ClientDisconnect):
                status = 499
            elif status == 500:
                logging.getLogger("cpsrl").exception("%s could not be answered", request.url.path)
            shown = {"error": str(error) if status != 500 else "the service failed: see its log"}
            headers = {"WWW-Authenticate": 'Basic realm="cpsrl"'} if status == 401 else None
            response = JSONResponse(shown, status, headers)
        except asyncio.CancelledError:  # the server is stopping
            response = JSONResponse({"error": "the server stops"}, 503)
        self.requests[place if place in PLACES else "other", response.status_code] += 1
        if response.status_code != 499:
            await response(scope, receive, send)
        if log.isEnabledFor(logging.INFO):
            line = {"at": time.time(), "method": request.method, "agent": name, "place": place}
            line |= {"status": response.status_code, "seconds": time.perf_counter() - begun}
            log.info(json.dumps(line))

    def _place(self, path: str) -> tuple[str, str]:
        """Return the name of the agent, "" without one, and what is asked of it."""
        parts = path.removeprefix("/").split("/")
        if self.agents.folder is not None and parts[0] == "agents" and len(parts) in (2, 3):
            return parts[1], parts[2] if len(parts) == 3 else "agent"
        return "", path.removeprefix("/")

    async def _answer(self, request: Any, name: str, place: str) -> Any:
        """Return the answer to a request, or raise."""
        from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse

        method, apart = request.method, partial(apart_in, self.threads)
        if place != "health":  # which a supervisor asks, and which tells nothing
            shown = request.headers.get("authorization", "")
            self.tokens.check(shown, method != "GET", name or None)
        check_origin(request.headers, self.names, link=place == "")
        folder = self.agents.folder is not None
        methods = self._methods(place, bool(name) or not folder)
        if method not in methods:
            raise Refused(405 if methods else 404, "Method Not Allowed" if methods else "Not Found")
        if place == "health":
            return JSONResponse({"ok": True})
        if place == "ready":
            why_not = await apart(self.agents.why_not)
            return JSONResponse({"ok": not why_not, "error": why_not}, 503 if why_not else 200)
        if place == "metrics":
            text = await apart(exposition, self.agents, self.requests)
            return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
        if place == "openapi.json":
            return JSONResponse(openapi(folder))
        if place == "":  # the rest of the policy is in the page, where this has no effect
            frames = {"Content-Security-Policy": "frame-ancestors 'none'"}
            return HTMLResponse(self.page, headers=frames)
        if place == "agents" and method == "GET":
            return JSONResponse({"agents": await apart(self.agents.names)})
        if place == "agent":
            await apart(self.agents.delete, name)
            return JSONResponse({"name": name})
        if method == "POST":
            body = await _body(request)
            return JSONResponse(await self._in_turn(name, self._change, place, body))
        if place == "explain":
            key = name, str(sorted(request.query_params.items()))

            def work(stop: Any) -> Any:
                run = self.agents.run
                return run(name, lambda agent: _explain(agent, request.query_params, stop))

            return JSONResponse(await self.shared.answer(key, work, request.is_disconnected))
        look, _ = LOOKS[place]
        return JSONResponse(await self._in_turn(name, self.agents.run, look))

    async def _in_turn(self, name: str, work: Callable[..., Any], *given: Any) -> Any:
        """Return what `work(name, *given)` returns; who asks for other agents has threads left."""
        turn = self.turns.setdefault(name, asyncio.Semaphore(THREADS_OF_ONE))
        async with turn:
            return await apart_in(self.threads, work, name, *given)

    def _methods(self, place: str, of_agent: bool) -> tuple[str, ...]:
        """Return the methods that a place has."""
        if place in ("openapi.json", *SERVER) or (of_agent and place in ("", *LOOKS)):
            return ("GET",)
        if place == "agents" and self.agents.folder is not None:
            return "GET", "POST"
        if place == "agent" and of_agent and self.agents.folder is not None:
            return ("DELETE",)
        return ("POST",) if of_agent and place in CHANGES else ()

    def _change(self, name: str, place: str, body: bytes) -> dict[str, Any]:
        """Do what a POST asks for, in a thread."""
        try:
            found = read_json(body)
            if place == "agents":
                new = _given(found, tuple(NEW))
                problem = (new["states"], new["actions"], new["reward_range"] or UNIT_RANGE)
                self.agents.make(str(new["name"]), new["agent"], problem)
                return {"name": new["name"]}
            work, _, fields = CHANGES[place]
            given = _given(found, tuple(fields))
            return self.agents.run(name, lambda agent: work(agent, **given))
        except RecursionError:
            raise Refused(400, "the body is nested too deeply") from None


def app(agent: DurableAgent, token: str | None = None, names: Sequence[str] = ()) -> Service:
    """Return the service of one agent."""
    return Service(Agents(agent=agent), Tokens(token), names)


async def _body(request: Any) -> bytes:
    """Return the body of a request that says that it is JSON, or refuse it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "the content type must be application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise Refused(413, f"a request may have {MOST_BYTES} bytes")
    return body
