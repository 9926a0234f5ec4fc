#!/bin/sh
# Run cpsrl with the kernels that were compiled beforehand. Numba writes where it reads, so they are
# copied to where the service may write.
home=$(dirname "$0")
mkdir -p "$CPSRL_CACHE_DIR" && cp -R -p "$home/cache/." "$CPSRL_CACHE_DIR"
exec "$home/venv/bin/cpsrl" "$@"
