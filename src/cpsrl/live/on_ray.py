"""The service of a folder of agents under Ray Serve, where one machine is not enough.

    serve run cpsrl.live.on_ray:application folder=/var/lib/cpsrl owners=4 token_file=tokens

Each agent has one owner, a replica that alone opens it: that of number CRC-32(name) modulo
`owners`. Requests come in anywhere and are handed to the owner by the agent's name. An owner that
dies is started again by Ray, on a node that has what `resources` asks for, and opens its agents
from their files; until then requests wait, at most PATIENCE seconds, and then get a 503. Clients
may send everything again, as ever.

What is promised is what one server promises: nothing acknowledged is lost, and nobody decides by an
agent that another one has open, as long as locks of files hold. They do on one machine's disk; on a
network's file system, ask its manual. A node that is cut off and alive keeps its agents: others get
503 until it is ended. The number of owners is fixed while they run. `/agents`, `/ready`, `/metrics`
and so on are those of the first owner; of owner K they are at `/owners/K/...`.
"""

import asyncio
import time
import zlib
from pathlib import Path
from typing import Any

from cpsrl.live.access import Tokens
from cpsrl.live.agents import Agents
from cpsrl.live.app import MOST_BYTES, Service

PATIENCE = 30.0
AGAIN_SECONDS = 0.2
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]


class Owner:
    """A replica: the service of the agents that are its own."""

    def __init__(self, folder: str, token: str | Path | None, names: tuple[str, ...]) -> None:
        self.service = Service(Agents(Path(folder)), Tokens(token), names)

    async def answer(self, scope: dict[str, Any], body: bytes) -> Answer:
        """Answer a request whose body is there."""
        sent: list[dict[str, Any]] = []
        there = [{"type": "http.request", "body": body}]

        async def receive() -> dict[str, Any]:
            while not there:  # whoever asks waits, as far as is known here
                await asyncio.sleep(3600)
            return there.pop()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.service({"type": "http", **scope}, receive, send)
        body = b"".join(message.get("body", b"") for message in sent)
        return sent[0]["status"], list(sent[0]["headers"]), body


class Ingress:
    """Hands every request to the owner of the agent that it names."""

    def __init__(self, *owners: Any) -> None:
        self.owners = owners

    async def __call__(self, request: Any) -> Any:
        """Answer a request, by another replica of its owner if one dies."""
        from ray.exceptions import RayError
        from starlette.responses import JSONResponse, Response

        number, path = self._owner(request.url.path)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return JSONResponse({"error": f"a request may have {MOST_BYTES} bytes"}, 413)
        kept = ("method", "query_string", "headers", "http_version", "scheme", "server", "client")
        scope = {key: request.scope[key] for key in kept if key in request.scope}
        scope |= {"path": path, "raw_path": path.encode(), "root_path": ""}
        end = time.monotonic() + PATIENCE
        while True:
            try:
                status, headers, answer = await self.owners[number].answer.remote(scope, body)
            except RayError as error:
                if time.monotonic() > end:
                    return JSONResponse({"error": f"its owner can't be asked: {error}"}, 503)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            response = Response(answer, status)
            response.raw_headers = headers
            return response

    def _owner(self, path: str) -> tuple[int, str]:
        """Return the number of the owner that answers for a path, and the path there."""
        parts = path.split("/")
        if parts[1] == "owners" and len(parts) > 3 and parts[2].isdecimal():
            return int(parts[2][:9]) % len(self.owners), "/" + "/".join(parts[3:])
        if parts[1] == "agents" and len(parts) > 2:
            return zlib.crc32(parts[2].encode()) % len(self.owners), path
        return 0, path


def application(given: dict[str, Any]) -> Any:
    """Return the application, for `serve run` or `ray.serve.run`.

    Args:
        given: `folder`; and perhaps `owners`, how many there are (2); `token_file`; `names`, host
            names by which clients may call, with commas between; `resources`, what a node must have
            to be an owner's, such as {"agents": 0.1}, where not all nodes see the folder.
    """
    from ray import serve

    token = Path(given["token_file"]) if "token_file" in given else None
    names = tuple(filter(None, str(given.get("names", "")).split(",")))
    actor = {"num_cpus": 0, "resources": dict(given.get("resources", {}))}
    owner: Any = serve.deployment(Owner)
    owners = [
        owner.options(name=f"owner-{i}", num_replicas=1, ray_actor_options=actor, **PROBED).bind(
            str(given["folder"]), token, names
        )
        for i in range(int(given.get("owners", 2)))
    ]
    ingress: Any = serve.deployment(Ingress)
    return ingress.options(ray_actor_options={"num_cpus": 0}).bind(*owners)


PROBED = {"health_check_period_s": 1.0, "health_check_timeout_s": 5.0, "max_ongoing_requests": 100}
