"""What is in deploy/, as far as it can be tried without Docker, systemd as process 1, and nginx."""

import fnmatch
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import cpsrl

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {
    *("FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK"),
    *("STOPSIGNAL", "ENTRYPOINT", "CMD"),
}


def instructions():
    """The instructions of the Dockerfile, as (word, rest)."""
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    kept = [line for line in lines if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in kept)]


def ignored(place):
    """Whether the build leaves a file out: the last pattern that fits says it."""
    found = False
    for line in (DEPLOY / "Dockerfile.dockerignore").read_text().split():
        pattern = line.removeprefix("!").removeprefix("**/")
        parts = [place, *map(str, Path(place).parents), *Path(place).parts]
        if any(fnmatch.fnmatch(part, pattern) for part in parts if part != "."):
            found = not line.startswith("!")
    return found


def test_the_image_is_built_of_what_is_there_and_runs_without_rights():
    found = instructions()
    assert {word for word, _ in found} <= INSTRUCTIONS
    for word, rest in found:
        if word == "COPY" and not rest.startswith("--from"):
            for place in rest.split()[:-1]:
                assert (ROOT / place).exists()
                assert not ignored(place)
        if word in ("ENTRYPOINT", "CMD"):
            assert json.loads(rest)
    assert ignored("tests/test_deploy.py")
    assert ignored("src/cpsrl/__pycache__")
    assert [rest for word, rest in found if word == "USER"] == ["10001"]
    stages = [i for i, (word, _) in enumerate(found) if word == "FROM"]
    settings = [" ".join(rest for word, rest in part if word == "ENV")
                for part in (found[: stages[1]], found[stages[1] :])]  # fmt: skip
    for name in ("NUMBA_CPU_NAME=generic", 'NUMBA_CPU_FEATURES=""'):
        assert all(name in one for one in settings), "kernels are for the processor that runs them"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_the_unit_is_one(tmp_path):
    unit = (DEPLOY / "cpsrl.service").read_text()
    unit = unit.replace("/opt/cpsrl/venv/bin/cpsrl", sys.executable).replace(
        "User=cpsrl", "User=root"
    )
    (tmp_path / "cpsrl.service").write_text(unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "cpsrl.service"], capture_output=True, text=True
    )
    about = [line for line in done.stderr.splitlines() if "cpsrl" in line]
    assert about == []


def test_the_proxy_has_the_bounds_of_the_service():
    from cpsrl.live import app, service

    text = re.sub(r"#.*", "", (DEPLOY / "nginx.conf").read_text())
    assert text.count("{") == text.count("}")
    for line in filter(None, map(str.strip, text.splitlines())):
        assert line.endswith((";", "{", "}")), line
    seconds = f"{service.REQUEST_SECONDS:g}s"
    assert f"client_header_timeout {seconds}" in text
    assert f"client_body_timeout {seconds}" in text
    assert app.MOST_BYTES == 1 << 20
    assert "client_max_body_size 1m" in text


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="it takes another user's rights")
def test_it_is_served_without_rights_from_a_root_that_is_read_only(tmp_path):
    """Kernels that were compiled beforehand are found, and nobody waits for a compiler."""
    home, agents, cache = tmp_path / "opt", tmp_path / "agents", tmp_path / "cache"
    venv.create(home / "venv", system_site_packages=True, symlinks=True)
    (home / "venv/bin/cpsrl").write_text(f'#!/bin/sh\nexec {sys.executable} -m cpsrl "$@"\n')
    (home / "venv/bin/cpsrl").chmod(0o755)
    shutil.copy(DEPLOY / "start.sh", home)
    settings = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    settings["PYTHONPATH"] = os.pathsep.join(sys.path)
    compiled = settings | {"CPSRL_CACHE_DIR": str(home / "cache")}
    command = [sys.executable, DEPLOY / "warm.py", "continuing-psrl"]
    subprocess.run(command, env=compiled, check=True)
    for folder in (agents, cache):
        folder.mkdir()
        os.chown(folder, 65534, 65534)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    (agents / "tokens").write_text("write 0123456789\n")
    start = f"{home}/start.sh serve {agents} --port 0 --token-file {agents}/tokens"
    base = Path(sys.base_prefix)
    closed = [one for one in base.parents if not one.stat().st_mode & 1]  # a home, perhaps
    inside = " && ".join(
        [
            "mount --rbind / /mnt",
            *(f"mount -t tmpfs -o mode=755 none /mnt{one}" for one in closed[-1:]),
            *(f"mkdir -p /mnt{base} && mount -o bind {base} /mnt{base}" for _ in closed[-1:]),
            *(f"mount -o bind {folder} /mnt{folder}" for folder in (agents, cache)),
            "mount -o remount,bind,ro /mnt",
            f"exec chroot --userspec=65534:65534 /mnt {start}",
        ]
    )
    server = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", inside],
        env=settings | {"CPSRL_CACHE_DIR": str(cache), "HOME": "/nonexistent"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        line = server.stdout.readline()
        assert "is served at" in line, server.stderr.read()
        connection = http.client.HTTPConnection(
            "127.0.0.1", int(line.rpartition(":")[2].strip("/\n"))
        )

        def ask(place, body):
            headers = {"Content-Type": "application/json", "Authorization": "Bearer 0123456789"}
            connection.request("POST", place, json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        connection.request("GET", "/health")
        assert connection.getresponse().read() == b'{"ok":true}'
        new = {"name": "shop", "agent": "continuing-psrl", "states": 5, "actions": 2}
        assert ask("/agents", new)[0] == 200
        assert ask("/agents/shop/decide", {"id": "1", "state": 0})[0] == 200
        assert ask("/agents/shop/outcome", {"id": "1", "reward": 1, "next_state": 1})[0] == 200
    finally:
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=20)
    assert server.returncode == 0
    assert "compiling" not in said
    assert (agents / "shop.db").stat().st_uid == 65534
    with cpsrl.live.view(agents / "shop.db") as agent:
        assert agent.totals.counts["outcomes"] == 1
