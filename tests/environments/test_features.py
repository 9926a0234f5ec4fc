import numpy as np
import pytest

from cpsrl.environments import environment


def test_thermometer_counts_the_states_up_to_this_one():
    features = environment("riverswim", n_states=4, features="thermometer").features
    np.testing.assert_array_equal(
        features, [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    )


def test_one_hot_is_the_identity():
    features = environment("riverswim", n_states=4, features="one-hot").features
    np.testing.assert_array_equal(features, np.eye(4))


def test_projection_is_seeded_and_nearly_orthonormal():
    def features(seed):
        options = {"feature_dimension": 20_000, "feature_seed": seed}
        return environment("riverswim", features="projection", **options).features

    assert features(0).shape == (6, 20_000)
    np.testing.assert_allclose(features(0) @ features(0).T, np.eye(6), atol=0.05)
    np.testing.assert_array_equal(features(0), features(0))
    assert not np.array_equal(features(0), features(1))


def test_without_features_there_are_none():
    assert environment("riverswim").features is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"features": "one_hot"}, "unknown features 'one_hot'.*'one-hot'"),
        ({"features": 3}, "features must be one of thermometer, one-hot, projection, not 3"),
        ({"features": ["one-hot"]}, r"features must be one of .*, not \['one-hot'\]"),
        ({"variant": 3}, "variant must be one of osband, tsde, .*, not 3"),
        ({"features": "projection"}, "feature_dimension must be a whole number of at least 1"),
        (
            {"features": "one-hot", "feature_dimension": 3},
            "feature_dimension can be set only with features='projection'",
        ),
        (
            {"features": "thermometer", "feature_seed": 3},
            "feature_seed can be set only with features='projection'",
        ),
        ({"feature_dimension": 3}, "can be set only with features='projection'"),
    ],
)
def test_wrong_options_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        environment("riverswim", **options)
