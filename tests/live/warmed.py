"""Imported by the process that others are forked from: loads what they would each load again."""

from importlib.util import find_spec

from live import driver

for kind in ("coin", "tsde"):
    driver.twin(kind, 200)
if find_spec("starlette") and find_spec("uvicorn"):
    import uvicorn.protocols.http.h11_impl  # noqa: F401
