import ast
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from cpsrl.support.serialise import sealed, unsealed


def test_threads_never_parse_the_heads_of_arrays_at_once(monkeypatch):
    stored, inside, parse = sealed({"a": np.arange(3.0)}), threading.Lock(), ast.literal_eval
    parsed = []

    def alone(text):
        assert inside.acquire(blocking=False), "another thread is parsing"
        time.sleep(0.02)
        parsed.append(text)
        inside.release()
        return parse(text)

    monkeypatch.setattr(ast, "literal_eval", alone)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: unsealed(*stored), range(8)):
            assert found["a"].tolist() == [0.0, 1.0, 2.0]
    assert len(parsed) == 8
