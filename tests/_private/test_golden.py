"""The variates of every stream, written down, so that a change in NumPy or Numba is seen.

`python tests/_private/test_golden.py` writes the file anew.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from cpsrl._private import variates
from cpsrl._private.compile import jit
from cpsrl.seeding import STREAMS, Streams, stream

FILE = Path(__file__).with_name("golden.json")
SEED, RUN, N = 20261118, 3, 5
SHAPES = {"gamma of .1": 0.1, "gamma of 2.5": 2.5}


@jit
def drawn(words, shapes, out):
    for i in range(out.shape[1]):
        out[0, i] = variates.uniform(words)
        out[1, i] = variates.standard_normal(words)
        out[2, i] = variates.standard_exponential(words)
        for k in range(len(shapes)):
            out[3 + k, i] = variates.standard_gamma(words, shapes[k])


def from_words(name):
    out = np.empty((3 + len(SHAPES), N))
    with Streams(SEED, RUN).words(name) as (words,):
        drawn(words, np.array(list(SHAPES.values())), out)
    return out


def from_numpy(name):
    rng, out = stream(SEED, RUN, name), np.empty((3 + len(SHAPES), N))
    for i in range(N):
        out[:3, i] = rng.random(), rng.standard_normal(), rng.standard_exponential()
        out[3:, i] = [rng.standard_gamma(shape) for shape in SHAPES.values()]
    return out


def written(name):
    rows = ("uniform", "normal", "exponential", *SHAPES)
    values = from_numpy(name)
    return {row: [float(x).hex() for x in values[k]] for k, row in enumerate(rows)}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("drawn_by", [from_words, from_numpy])
def test_a_stream_gives_the_variates_that_were_written_down(name, drawn_by):
    golden = json.loads(FILE.read_text())[name]
    expected = [[float.fromhex(x) for x in row] for row in golden.values()]
    assert np.array_equal(drawn_by(name), expected)


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: written(name) for name in STREAMS}, indent=1) + "\n")
