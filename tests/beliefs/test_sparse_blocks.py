"""Large sparse models are drawn in blocks of rows: of the same law, with any number of threads."""

import numpy as np
import pytest

import cpsrl
from cpsrl.beliefs import sparse
from cpsrl.planning import parallel
from cpsrl.support.interruptible import Threads

S, A = 12, 2


@pytest.fixture
def belief():
    """One that has seen the first state lead to the second five times."""
    cell = np.full(S * A, 1 / S)
    known = cpsrl.Dirichlet().start(cpsrl.Sizes(S, A)).arrays.rewards
    live = sparse.SparseDirichlet(S, cell, None, known)
    zeros, ones = np.zeros(5, np.int64), np.ones(5, np.int64)
    live.observe_many(zeros, zeros, np.zeros(5), ones)
    return live


@pytest.mark.parametrize("rows", [1, 7, S * A])
def test_blocks_have_the_posterior_mean(belief, monkeypatch, rows):
    monkeypatch.setattr(sparse, "BLOCK_ROWS", rows)
    rng, draws = np.random.default_rng(5), 4_000
    mean = sum(belief.sample(rng).csr.toarray() for _ in range(draws)) / draws
    wanted = belief.mean().csr.toarray()
    # a cell's variance is m (1 - m) / (1 + the row's parameters), and those of the first row are 6
    error = np.sqrt(wanted * (1 - wanted) / 2 / draws)
    assert np.abs((mean - wanted) / error).max() < 5


def test_any_number_of_threads_draws_the_same(belief, monkeypatch):
    monkeypatch.setattr(sparse, "BLOCK_ROWS", 5)
    found = []
    for number in (1, 2, 5):
        threads = Threads(number)
        monkeypatch.setattr(parallel, "_threads", lambda threads=threads: threads)
        drawn = belief.sample(3)
        threads.close()
        found.append((drawn.csr.indptr, drawn.csr.indices, drawn.csr.data, drawn.rewards))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_blocks_do_not_share_their_noise(belief, monkeypatch):
    monkeypatch.setattr(sparse, "BLOCK_ROWS", A)
    rows = belief.sample(3).csr.toarray()[2:]
    assert len(np.unique(rows.max(axis=1))) > 0.9 * len(rows)


def test_one_block_draws_from_the_generator_it_is_given(belief):
    one, two = np.random.default_rng(4), np.random.default_rng(4)
    with sparse.words_of(two) as words:
        ends, states, shares = sparse.sample_rows(belief.arrays, S, (-1, -1), words, 0, S * A)
    drawn = belief.sample(one).csr
    np.testing.assert_array_equal(drawn.indptr[1:], ends)
    np.testing.assert_array_equal(drawn.indices, states)
    np.testing.assert_array_equal(drawn.data, shares)


def test_a_model_keeps_a_frozen_matrix_without_a_copy(belief):
    drawn = belief.sample(1)
    again = cpsrl.TabularMDP(drawn.csr, drawn.rewards)
    assert np.shares_memory(again.csr.data, drawn.csr.data)
    loose = drawn.csr.copy()
    assert not np.shares_memory(cpsrl.TabularMDP(loose, drawn.rewards).csr.data, loose.data)


def test_a_block_of_few_rows_has_room_for_all_successors_of_each():
    n = 1_000
    rewards = cpsrl.NormalGamma().arrays(cpsrl.Sizes(n, A))
    live = sparse.SparseDirichlet(n, np.ones(n * A), None, rewards)
    with sparse.words_of(np.random.default_rng(6)) as words:
        ends, states, shares = sparse.sample_rows(live.arrays, n, (-1, -1), words, 0, 5)
    np.testing.assert_array_equal(ends, n * np.arange(1, 6))
    np.testing.assert_array_equal(np.sort(states.reshape(5, n)), np.tile(np.arange(n), (5, 1)))
    np.testing.assert_allclose(shares.reshape(5, n).sum(axis=1), 1.0)
