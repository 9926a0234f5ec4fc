from itertools import product

import numpy as np
import pytest

from cpsrl.environments import environment
from cpsrl.environments.pictures import picture_of
from cpsrl.planning import solve_average


def test_the_model_by_tossing_every_server_s_coin():
    servers, pay, p = 3, (1, 5), 0.2
    mdp = environment("access-control", servers=servers, priorities=pay, free_probability=p)
    transitions = np.zeros((8, 2, 8))
    rewards = np.zeros((8, 2))
    for free, kind, action in product(range(servers + 1), range(2), range(2)):
        taken = action == 1 and free > 0
        s, busy = free * 2 + kind, servers - free + taken
        rewards[s, action] = pay[kind] * taken
        for coins in product((0, 1), repeat=busy):
            chance = np.prod([p if coin else 1 - p for coin in coins])
            now_free = servers - busy + sum(coins)
            transitions[s, action, [now_free * 2, now_free * 2 + 1]] += chance / 2
    np.testing.assert_allclose(mdp.dense, transitions, atol=1e-15)
    np.testing.assert_array_equal(mdp.rewards, rewards)


def test_starts_with_all_servers_free_and_any_customer():
    mdp = environment("access-control")
    np.testing.assert_array_equal(mdp.initial[:40], 0)
    np.testing.assert_array_equal(mdp.initial[40:], 0.25)
    assert mdp.state_names[40] == "10 free, priority 1"


def test_the_documented_gain_and_a_policy_that_favours_high_priorities():
    best = solve_average(environment("access-control"))
    np.testing.assert_allclose(best.gain, 2.7476419506, atol=1e-9)
    accepts = best.policy.reshape(11, 4)[1:]
    assert (np.diff(accepts, axis=1) >= 0).all()
    assert (np.diff(accepts, axis=0) >= 0).all()
    assert accepts[:, 3].all()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"priorities": ()}, "priorities must be a list of numbers"),
        ({"priorities": "1248"}, "priorities must be a list of numbers"),
        ({"priorities": (1, "two")}, r"priorities\[1\] must be a finite number .*, not 'two'"),
        ({"priorities": (1, 1)}, "priorities must differ"),
        ({"free_probability": 1.5}, r"free_probability must be a number in \[0, 1\], not 1.5"),
        ({"servers": 0}, "servers must be a whole number of at least 1, not 0"),
    ],
)
def test_wrong_options_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        environment("access-control", **options)


@pytest.mark.parametrize("priorities", [(1, 2, 5), (1, 2, 4, 8), (3,)])
def test_a_picture_has_a_row_for_every_number_of_free_servers(priorities):
    mdp = environment("access-control", servers=2, priorities=priorities)
    *rows, words = picture_of(mdp).text(len(priorities)).split("\n")
    assert [len(row.split()) for row in rows] == [len(priorities)] * 3
    assert rows[1].startswith("@")
    assert words == f"state 1 free, priority {priorities[0]}"
