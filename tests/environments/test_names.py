import pytest

from cpsrl.environments import environment


@pytest.mark.parametrize(
    ("name", "options", "label"),
    [
        ("riverswim", {}, "riverswim"),
        ("riverswim", {"n_states": 6, "variant": "osband"}, "riverswim"),
        ("riverswim", {"variant": "tsde"}, "riverswim (tsde)"),
        ("riverswim", {"n_states": 20, "variant": "tsde"}, "riverswim (tsde, n_states=20)"),
        ("riverswim", {"features": "thermometer"}, "riverswim (thermometer)"),
        (
            "riverswim",
            {"features": "projection", "feature_dimension": 4},
            "riverswim (projection, feature_dimension=4)",
        ),
        (
            "riverswim",
            {"features": "projection", "feature_dimension": 4, "feature_seed": 1},
            "riverswim (projection, feature_dimension=4, feature_seed=1)",
        ),
        ("gridworld", {"rows": 3, "columns": 4}, "gridworld (rows=3, columns=4)"),
        ("access-control", {"priorities": [1, 2, 4, 8]}, "access-control"),
    ],
)
def test_a_label_shows_what_differs_from_the_defaults(name, options, label):
    assert environment(name, **options).name == label


def test_a_wrong_name_gets_the_nearest():
    with pytest.raises(ValueError, match=r"unknown environment 'riversim'.*'riverswim'"):
        environment("riversim")


def test_a_wrong_option_gets_the_nearest():
    with pytest.raises(ValueError, match=r"unknown option 'n_state'.*riverswim.*'n_states'"):
        environment("riverswim", n_state=3)


def test_a_file_or_what_is_no_name_is_told_so():
    with pytest.raises(ValueError, match=r"is a file: cpsrl\.TabularMDP\.load\('my\.csv'\)"):
        environment("my.csv")
    for name in 3, ["riverswim"]:
        with pytest.raises(ValueError, match=r"name must be that of an environment.*not "):
            environment(name)
