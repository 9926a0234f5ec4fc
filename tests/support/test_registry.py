import difflib

import pytest

from cpsrl.support.registry import Registry, nearest


@pytest.fixture
def shapes():
    registry = Registry("shape")

    @registry.add("circle")
    def circle(radius: float = 1.0):
        """A circle around the origin.

        More about circles.
        """
        return ("circle", radius)

    @registry.add("square")
    def square(side):
        return ("square", side)

    @registry.add("anything")
    def anything(**options):
        return options

    return registry


def test_makes_what_is_asked_for(shapes):
    assert shapes.make("circle") == ("circle", 1.0)
    assert shapes.make("circle", radius=3) == ("circle", 3)
    assert shapes["square"](2) == ("square", 2)
    assert shapes.make("anything", colour="red") == {"colour": "red"}


def test_lists_names_in_order_options_and_summaries(shapes):
    assert shapes.names() == ["circle", "square", "anything"]
    assert "circle" in shapes
    assert "cube" not in shapes
    assert list(shapes.options("circle")) == ["radius"]
    assert shapes.summary("circle") == "A circle around the origin."
    assert shapes.summary("square") == ""


def test_a_wrong_name_gets_the_nearest(shapes):
    for use in (lambda: shapes.make("cirle"), lambda: shapes["cirle"]):
        with pytest.raises(
            ValueError, match=r"unknown shape 'cirle': did you mean 'circle'\? .*square"
        ):
            use()


def test_a_name_like_no_other_gets_the_list(shapes):
    with pytest.raises(
        ValueError, match=r"^unknown shape 'xyz' \(known: circle, square, anything\)"
    ):
        shapes.make("xyz")


def test_a_wrong_option_gets_the_nearest(shapes):
    with pytest.raises(
        ValueError, match=r"unknown option 'radios' in shape 'circle': did you mean 'radius'\?"
    ):
        shapes.make("circle", radios=2)


def test_a_missing_option_is_named(shapes):
    with pytest.raises(ValueError, match="shape 'square' needs the option 'side'"):
        shapes.make("square")


def test_a_name_is_registered_once(shapes):
    with pytest.raises(ValueError, match="shape 'circle' is registered twice"):
        shapes.add("circle")(lambda: None)


def test_an_empty_registry_says_that_it_knows_none():
    with pytest.raises(ValueError, match=r"^unknown claim 'x' \(known: none\)"):
        Registry("claim")["x"]


def test_of_many_words_and_long_ones_no_nearest_is_looked_for(monkeypatch):
    compared = []
    matches = difflib.get_close_matches
    monkeypatch.setattr(
        difflib, "get_close_matches", lambda word, words, **more: compared.extend(words) or []
    )
    assert nearest("x" * 1_000_000, ["x"]) is None
    assert not compared
    assert nearest("state-7x", (f"state-{i}" for i in range(20_000))) is None
    assert len(compared) == 500
    monkeypatch.setattr(difflib, "get_close_matches", matches)
    assert nearest("state-7x", (f"state-{i}" for i in range(20_000))) == "state-7"


def test_the_nearest_word():
    assert nearest("gama", ["gamma", "gain"]) == "gamma"
    assert nearest("zzz", ["gamma", "gain"]) is None
    assert nearest("TSDE", ["random", "tsde"]) == "tsde"
    assert nearest("lemma-3.3", ["lemma-5.3", "lemma-3.3-lower"]) == "lemma-3.3-lower"
