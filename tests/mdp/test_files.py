import os
import zipfile
from errno import EROFS
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from cpsrl import TabularMDP
from cpsrl.environments import environment
from cpsrl.mdp.files import write_mdp
from cpsrl.support.atomic import whole_file

TABLES = (".csv", ".parquet")

GOOD = """\
state,action,next_state,probability,reward
idle,wait,idle,1,0
idle,start,busy,1,-0.5

busy,wait,idle,0.25,1
busy,wait,busy,0.75,1
busy,start,busy,1,0
"""


def same(first, second):
    """Whether two MDPs are equal bit for bit, apart from their names and how they are stored."""
    assert (first.csr != second.csr).nnz == 0
    for field in ("rewards", "transition_rewards", "available"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    assert (first.reward_range, first.declares_range) == (
        second.reward_range,
        second.declares_range,
    )
    np.testing.assert_array_equal(first.noise, second.noise)
    np.testing.assert_array_equal(first.initial, second.initial)
    assert first.state_names == second.state_names
    assert first.action_names == second.action_names
    if first.features is None:
        assert second.features is None
    else:
        np.testing.assert_array_equal(first.features, second.features)


def with_line(number, text):
    lines = GOOD.splitlines()
    lines[number - 1] = text
    return "\n".join(lines) + "\n"


@st.composite
def mdps(draw):
    n_states, n_actions = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    transitions = rng.dirichlet(np.full(n_states, 0.3), size=(n_states, n_actions))
    rewards = rng.normal(size=(n_states, n_actions)) * 10.0 ** rng.integers(-300, 300)
    noise = draw(st.sampled_from([0.0, 0.3, "per pair"]))
    initial = draw(st.integers(0, n_states - 1))
    if n_states > 1 and draw(st.booleans()):
        initial = rng.dirichlet(np.ones(n_states))
    if draw(st.booleans()):
        rewards = rng.normal(size=(n_states, n_actions, n_states))
    available = rng.random((n_states, n_actions)) < draw(st.sampled_from([0.5, 1.0]))
    available[np.arange(n_states), rng.integers(0, n_actions, n_states)] = True
    far = float(np.abs(rewards).max())
    text = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=5)
    names = st.lists(text, min_size=n_states, max_size=n_states, unique=True)
    return TabularMDP(
        transitions,
        rewards,
        available=available,
        reward_range=(-far, 2 * far) if far < 1e99 and draw(st.booleans()) else None,
        noise=rng.random((n_states, n_actions)) if noise == "per pair" else noise,
        initial=initial,
        state_names=draw(st.none() | names.filter(lambda kept: not kept[0].isdecimal())),
        action_names=draw(st.none() | st.just(["left", "right, then", '"up"'][:n_actions])),
    )


@pytest.mark.parametrize("suffix", [".npz", *TABLES])
@settings(max_examples=50, deadline=None)
@given(mdp=mdps())
def test_round_trips_are_exact(mdp, suffix, tmp_path_factory):
    path = tmp_path_factory.mktemp("mdp") / f"it{suffix}"
    write_mdp(mdp, path)
    same(TabularMDP.load(path), mdp)


def test_npz_keeps_everything(tmp_path):
    for options in ({"features": "thermometer"}, {"variant": "tsde"}):
        mdp = environment("riverswim", **options)
        write_mdp(mdp, tmp_path / "river.npz")
        back = TabularMDP.load(tmp_path / "river.npz")
        same(back, mdp)
        assert back.name == mdp.name
        assert not back.is_sparse
    grid = environment("gridworld", rows=3, columns=3)
    write_mdp(grid, tmp_path / "grid.npz")
    assert TabularMDP.load(tmp_path / "grid.npz").is_sparse


def test_an_npz_of_plain_arrays_is_enough(tmp_path):
    river = environment("riverswim")
    np.savez(tmp_path / "river.npz", transitions=river.dense, rewards=river.rewards)
    same(TabularMDP.load(tmp_path / "river.npz"), TabularMDP(river.dense, river.rewards))


@pytest.mark.parametrize("suffix", TABLES)
def test_bernoulli_rewards_and_a_start_in_the_middle(suffix, tmp_path):
    mdp = TabularMDP([[[0, 1]], [[1, 0]]], [[0.25], [1]], noise="bernoulli", initial=1)
    write_mdp(mdp, tmp_path / f"mdp{suffix}")
    same(TabularMDP.load(tmp_path / f"mdp{suffix}"), mdp)


@pytest.mark.parametrize("suffix", TABLES)
def test_a_large_table_is_read_as_a_sparse_model(suffix, tmp_path):
    mdp = environment("gridworld", rows=100, columns=100)
    write_mdp(mdp, tmp_path / f"grid{suffix}")
    back = TabularMDP.load(tmp_path / f"grid{suffix}")
    assert back.is_sparse
    assert back.name == "grid"
    same(back, mdp)


def test_names_are_numbered_as_they_appear(tmp_path):
    (tmp_path / "machine.csv").write_text(GOOD)
    mdp = TabularMDP.load(tmp_path / "machine.csv")
    assert mdp.state_names == ("idle", "busy")
    assert mdp.action_names == ("wait", "start")
    np.testing.assert_array_equal(mdp.dense, [[[1, 0], [0, 1]], [[0.25, 0.75], [0, 1]]])
    np.testing.assert_array_equal(mdp.rewards, [[0, -0.5], [1, 0]])
    assert mdp.name == "machine"


def test_columns_in_any_order_spaces_windows_lines_and_a_byte_order_mark(tmp_path):
    lines = [line.split(",") for line in GOOD.split("\n")]
    turned = "\r\n".join(" , ".join(reversed(line)) for line in lines)
    (tmp_path / "machine.csv").write_bytes(b"\xef\xbb\xbf" + turned.encode())
    (tmp_path / "plain.csv").write_text(GOOD)
    same(TabularMDP.load(tmp_path / "machine.csv"), TabularMDP.load(tmp_path / "plain.csv"))


def test_whole_numbers_from_zero_are_indices_in_any_order(tmp_path):
    header = "state,action,next_state,probability,reward\n"
    (tmp_path / "two.csv").write_text(header + "1,0,0,1,5\n0,0,1,1,7\n")
    mdp = TabularMDP.load(tmp_path / "two.csv")
    assert mdp.state_names is None
    np.testing.assert_array_equal(mdp.rewards, [[7], [5]])
    (tmp_path / "two.csv").write_text(header + "2,0,1,1,5\n1,0,2,1,7\n")
    mdp = TabularMDP.load(tmp_path / "two.csv")
    assert mdp.state_names == ("2", "1")
    np.testing.assert_array_equal(mdp.rewards, [[5], [7]])


def test_a_reward_of_each_transition_is_kept(tmp_path):
    text = with_line(5, "busy,wait,idle,0.25,4").replace(
        "busy,wait,busy,0.75,1", "busy,wait,busy,0.75,8"
    )
    (tmp_path / "machine.csv").write_text(text)
    mdp = TabularMDP.load(tmp_path / "machine.csv")
    assert mdp.rewards[1, 0] == 0.25 * 4 + 0.75 * 8
    np.testing.assert_array_equal(mdp.transition_rewards, [0, -0.5, 4, 8, 0])
    world = mdp.simulator(seed=0)
    world.state = 1
    assert {world.step(0)[0] for _ in range(50) if not setattr(world, "state", 1)} == {4, 8}


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace(",", ";"),
        GOOD.replace(",", "\t"),
        GOOD.replace(",", ";").replace(".", ","),
        GOOD.replace(",", "\t").replace(".", ","),
        GOOD.replace(",", " ; ").replace(".", ","),
        GOOD.replace("0.25", "25%").replace("0.75", "75 %"),
        GOOD.replace(",", ";")
        .replace("0.25", "25,0%")
        .replace("0.75", "75%")
        .replace("-0.5", "-,5"),
    ],
)
def test_other_separators_decimal_commas_and_per_cent_are_recognised(text, tmp_path):
    (tmp_path / "other.csv").write_text(text)
    (tmp_path / "machine.csv").write_text(GOOD)
    same(TabularMDP.load(tmp_path / "other.csv"), TabularMDP.load(tmp_path / "machine.csv"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD.replace("0.25", "0,25"), "line 5: Expected 5 columns, got 6.*need semicolons"),
        (GOOD.replace("0.25", '"0,25"'), "line 5: probability is '0,25'; .*with a decimal point"),
        (
            GOOD.replace(",", ";").replace("0.25", "0,25"),
            r"line 5: probability is '0,25' and has a comma, .* a point \(line 6\)",
        ),
        (GOOD.replace("0.25", "25").replace("0.75", "75"), "line 5: probability is 25.0.*per cent"),
        (GOOD.replace("-0.5", "-50%"), "line 3: reward is '-50%'; it must be a finite number"),
        (GOOD.replace("0.75", "0.7499999"), "sum to 0.9999999, not 1; normalise=True"),
        (GOOD.replace("0.75", "0.5"), "sum to 0.75, not 1$"),
    ],
)
def test_what_is_not_recognised_gets_the_right_advice(text, complaint, tmp_path):
    (tmp_path / "machine.csv").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        TabularMDP.load(tmp_path / "machine.csv")


def off_by_a_little(suffix, folder):
    path = folder / f"off{suffix}"
    if suffix == ".npz":
        rows = np.array([[[1, 0], [0, 1]], [[0.25, 0.7499999], [0, 1]]])
        np.savez(path, transitions=rows, rewards=np.zeros((2, 2)))
    else:
        write_mdp(TabularMDP([[[1, 0], [0, 1]], [[0.25, 0.75], [0, 1]]], np.zeros((2, 2))), path)
        import pyarrow.csv
        import pyarrow.parquet

        read, write = {
            ".csv": (pyarrow.csv.read_csv, pyarrow.csv.write_csv),
            ".parquet": (pyarrow.parquet.read_table, pyarrow.parquet.write_table),
        }[suffix]
        table = read(path)
        place = table.column_names.index("probability")
        changed = [0.7499999 if p == 0.75 else float(p) for p in table["probability"].to_pylist()]
        table = table.set_column(place, "probability", [changed])
        write(table.replace_schema_metadata(None), path)
    return path


@pytest.mark.parametrize("suffix", [".npz", *TABLES])
def test_rows_are_normalised_on_request(suffix, tmp_path):
    path = off_by_a_little(suffix, tmp_path)
    with pytest.raises(ValueError, match=r"sum to 0\.9999999"):
        TabularMDP.load(path)
    with pytest.warns(UserWarning, match=r"1 of 4 rows were normalised; the largest .* 1e-07"):
        mdp = TabularMDP.load(path, normalise=True)
    np.testing.assert_allclose(mdp.dense[1, 0], np.array([0.25, 0.7499999]) / 0.9999999, rtol=1e-15)
    np.testing.assert_array_equal(mdp.dense[0], [[1, 0], [0, 1]])


@pytest.mark.parametrize("suffix", [".npz", *TABLES])
def test_what_is_no_rounding_is_not_normalised(suffix, tmp_path):
    path = tmp_path / f"mdp{suffix}"
    if suffix == ".npz":
        np.savez(path, transitions=np.full((2, 1, 2), 0.4), rewards=np.zeros((2, 1)))
    else:
        import pyarrow as pa
        from pyarrow import csv, parquet

        labels = {"state": [0, 1], "action": [0, 0], "next_state": [0, 1]}
        table = pa.table(labels | {"probability": [0.8, 0.8], "reward": [0.0, 0.0]})
        {".csv": csv.write_csv, ".parquet": parquet.write_table}[suffix](table, path)
    with pytest.raises(ValueError, match=r"0\.8"):
        TabularMDP.load(path, normalise=True)


PARTLY = """state,action,next_state,probability,reward
idle,wait,idle,1,0
idle,start,busy,1,-0.5
busy,wait,idle,0.25,1
busy,wait,busy,0.75,2
busy,start,,,
"""


def test_a_file_says_which_actions_are_not_available(tmp_path):
    (tmp_path / "machine.csv").write_text(PARTLY)
    mdp = TabularMDP.load(tmp_path / "machine.csv")
    np.testing.assert_array_equal(mdp.available, [[True, True], [True, False]])
    assert mdp.action_names == ("wait", "start")
    (tmp_path / "shorter.csv").write_text(PARTLY.replace("busy,start,,,\n", ""))
    with pytest.raises(ValueError, match="no line for state 'busy' under action 'start'"):
        TabularMDP.load(tmp_path / "shorter.csv")
    same(TabularMDP.load(tmp_path / "shorter.csv", missing_unavailable=True), mdp)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("busy,start,,1,", "line 6: next_state is empty"),
        (
            "busy,start,,,\nbusy,start,idle,1,0",
            "'busy' under action 'start': .* not available, and",
        ),
        ("busy,start,,,\nlost,start,,,", "state 'lost' has no available action"),
    ],
)
def test_a_line_says_clearly_that_an_action_is_not_available(line, complaint, tmp_path):
    (tmp_path / "machine.csv").write_text(PARTLY.replace("busy,start,,,", line))
    with pytest.raises(ValueError, match=complaint):
        TabularMDP.load(tmp_path / "machine.csv", missing_unavailable=True)


def test_zero_rows_of_an_npz_may_be_unavailable_actions(tmp_path):
    rows = np.array([[[1.0, 0], [0, 1]], [[0.5, 0.5], [0, 0]]])
    np.savez(tmp_path / "mdp.npz", transitions=rows, rewards=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"sum to 0\.0"):
        TabularMDP.load(tmp_path / "mdp.npz")
    mdp = TabularMDP.load(tmp_path / "mdp.npz", missing_unavailable=True)
    np.testing.assert_array_equal(mdp.available, [[True, True], [True, False]])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "its first line is empty, and has to name the columns: state,action,"),
        (with_line(1, "state;action;next_state;probability;reward"), "line 2: Expected 5 columns"),
        (with_line(1, "state,action,next_state,probability"), "column 'reward' is missing"),
        (
            with_line(1, "state,action,next_state,probabilty,reward"),
            "unknown column 'probabilty': did you mean 'probability'",
        ),
        (with_line(1, "state,action,state,probability,reward"), "'state' appears twice"),
        (GOOD.splitlines()[0] + "\n", "there is no transition in it"),
        (with_line(5, "busy,wait,idle,0.25"), "line 5: Expected 5 columns, got 4"),
        (
            with_line(5, "busy,wait,idle,a quarter,1"),
            "line 5: probability is 'a quarter'; it must be",
        ),
        (with_line(5, "busy,wait,idle,,1"), "line 5: probability is empty"),
        (with_line(5, "busy,,idle,0.25,1"), "line 5: action is empty"),
        (with_line(5, "busy,wait,idle,-0.25,1"), r"line 5: probability is -0.25.*\[0, 1\]"),
        (with_line(5, "busy,wait,idle,0.25,nan"), "line 5: reward is nan"),
        (with_line(5, "busy,wait,idle,0.25,inf"), "line 5: reward is inf"),
        (with_line(5, "busy,wait,id\0le,0.25,1"), "line 5: next_state has a NUL"),
        (with_line(5, "busy,wait,gone,0.25,1"), "line 5: next_state 'gone' has no line"),
        (
            with_line(5, "busy,wait,idle,0.35,1"),
            "line 5: the probabilities of state 'busy' under action 'wait' sum to 1.1",
        ),
        (
            with_line(5, "busy,wait,busy,0.25,1"),
            "line 6: a second line for the same next_state of state 'busy' under action 'wait'",
        ),
        (
            with_line(7, "busy,wait,busy,0.75,1"),
            "there is no line for state 'busy' under action 'start'",
        ),
    ],
)
def test_a_malformed_csv_names_the_place(text, complaint, tmp_path):
    (tmp_path / "machine.csv").write_text(text)
    with pytest.raises(ValueError, match=f"machine.csv: .*{complaint}"):
        TabularMDP.load(tmp_path / "machine.csv")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le"])
def test_a_csv_that_is_not_utf8_is_refused_with_advice(encoding, tmp_path):
    (tmp_path / "machine.csv").write_bytes(GOOD.replace("idle", "\xff").encode(encoding))
    with pytest.raises(ValueError, match=r"machine.csv: .*save the file as UTF-8") as told:
        TabularMDP.load(tmp_path / "machine.csv")
    assert str(told.value).count("machine.csv") == 1


@pytest.mark.parametrize(
    ("column", "values", "complaint"),
    [
        ("noise", "1 1 1 2 1", "line 5: noise is not the same on all lines of state 'busy'"),
        ("noise", "1 1 1 loud 1", "line 6: noise is 'loud'; it must be a finite number"),
        ("noise", "1 1 1 -1 1", "line 6: noise is -1.0"),
        ("reward_low", "0 0 0 0 0", "column 'reward_high' is missing"),
        ("reward_low,reward_high", "0,1 0,1 0,2 0,1 0,1", "line 5: reward_high is not as on other"),
        ("reward_low,reward_high", "0,1 0,1 0,1 0,1 0,1", r"reward_range is \(0, 1\), but"),
        ("initial", "1 0 0 0 0", "line 2: initial is not the same on all lines of state 'idle'"),
        ("initial", "0.5 0.5 0.6 0.6 0.6", "initial must be .*sum to 1"),
        ("initial", "1 1 0.5 0.5 0.5", "initial must be .*sum to 1"),
    ],
)
def test_malformed_optional_columns(column, values, complaint, tmp_path):
    header, *lines = GOOD.splitlines()
    extra = iter(values.split())
    text = "\n".join(
        [f"{header},{column}", *(f"{line},{next(extra)}" if line else "" for line in lines)]
    )
    (tmp_path / "machine.csv").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        TabularMDP.load(tmp_path / "machine.csv")


def test_parquet_takes_whole_numbers_and_names_the_row(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    columns = {
        "state": [0, 1],
        "action": ["go", "go"],
        "next_state": [1, 0],
        "probability": [1, 1],
        "reward": [0.5, 1.0],
    }
    path = tmp_path / "mdp.parquet"
    parquet.write_table(pa.table(columns), path)
    with pytest.warns(UserWarning, match=r"mdp\.parquet has no checksum"):
        found = TabularMDP.load(path)
    np.testing.assert_array_equal(found.dense[:, 0], [[0, 1], [1, 0]])
    parquet.write_table(pa.table(columns | {"reward": [0.5, None]}), path)
    with pytest.raises(ValueError, match="row 2: reward is empty"):
        TabularMDP.load(path)
    parquet.write_table(pa.table(columns | {"state": [0.0, 1.0]}), path)
    with pytest.raises(ValueError, match="state must be text or whole numbers, not double"):
        TabularMDP.load(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="not a whole Parquet file"):
        TabularMDP.load(path)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rewards": None}, "field 'rewards' is missing"),
        ({"transitions": None}, "field 'transitions' is missing"),
        ({"reward": np.zeros(2)}, "unknown field 'reward': did you mean 'rewards'"),
        ({"rewards": np.array([["a", "b"]])}, "field 'rewards' must be numbers"),
        ({"state_names": np.zeros(2)}, "field 'state_names' must be text"),
        ({"state_names": np.array(["a"])}, "state_names must be 2 different names"),
        ({"features": np.array([[None, 1]], dtype=object)}, "field 'features': .*allow_pickle"),
        ({"transitions": np.ones((2, 1, 2))}, "state 0 under action 0 sum to 2.0"),
        ({"initial": np.array(2)}, "initial state 2 is not in 0..1"),
    ],
)
def test_a_malformed_npz_names_the_field(changes, complaint, tmp_path):
    fields = {"transitions": np.eye(2)[:, None], "rewards": np.zeros((2, 1))} | changes
    kept = {field: array for field, array in fields.items() if array is not None}
    np.savez(tmp_path / "mdp.npz", **kept)
    with pytest.raises(ValueError, match=f"mdp.npz: .*{complaint}"):
        TabularMDP.load(tmp_path / "mdp.npz")


@pytest.mark.parametrize(
    ("indices", "indptr"), [([0, 7], [0, 1, 2]), ([0, -1], [0, 1, 2]), ([0, 1], [0, 1, 9])]
)
def test_sparse_indices_out_of_range_are_refused(indices, indptr, tmp_path):
    np.savez(
        tmp_path / "mdp.npz",
        rewards=np.zeros((2, 1)),
        transitions_data=np.ones(2),
        transitions_indices=np.array(indices),
        transitions_indptr=np.array(indptr),
    )
    with pytest.raises(ValueError, match="transitions_indices"):
        TabularMDP.load(tmp_path / "mdp.npz")


def test_a_damaged_npz_is_refused(tmp_path):
    path = tmp_path / "river.npz"
    write_mdp(environment("riverswim"), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a whole"):
        TabularMDP.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("rewards.npy", b"no array")
    with pytest.raises(ValueError, match="field 'rewards'"):
        TabularMDP.load(path)


@pytest.mark.parametrize("suffix", TABLES)
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"features": np.eye(2)}, "no room for features"),
        ({"state_names": ["1", "0"]}, "taken for the states' numbers"),
        ({"state_names": ["a", " b"]}, "the state name ' b' can't stand"),
        ({"action_names": [""]}, "the action name '' can't stand"),
    ],
)
def test_what_a_table_can_t_hold_is_refused_not_dropped(options, complaint, suffix, tmp_path):
    mdp = TabularMDP(np.eye(2)[:, None], np.zeros((2, 1)), **options)
    with pytest.raises(ValueError, match=complaint):
        write_mdp(mdp, tmp_path / f"mdp{suffix}")
    assert os.listdir(tmp_path) == []
    write_mdp(mdp, tmp_path / "mdp.npz")
    same(TabularMDP.load(tmp_path / "mdp.npz"), mdp)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "notes"
    path.write_bytes(b"old")

    def fail():
        with whole_file(path) as file:
            file.write(b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["notes"]


def test_a_place_that_cannot_be_written_is_named_as_it_was_given(tmp_path):
    path = tmp_path / "nowhere" / "mdp.npz"
    with pytest.raises(FileNotFoundError, match=rf"cannot write {path}: No such file") as told:
        TabularMDP([[[1.0]]], [[0.0]]).save(path)
    assert ".tmp" not in str(told.value)
    with pytest.raises(IsADirectoryError, match="it is a folder"), whole_file(Path("/")):
        pass


def test_where_nothing_can_be_written_the_file_is_named_and_not_its_temporary(
    tmp_path, monkeypatch
):
    def refuse(*_, **__):
        raise OSError(EROFS, "Read-only file system", "temporary")

    monkeypatch.setattr("cpsrl.support.atomic.open", refuse, raising=False)
    monkeypatch.setattr(Path, "unlink", refuse)
    path = tmp_path / "notes"
    with pytest.raises(OSError, match=f"cannot write {path}: Read-only") as told, whole_file(path):
        pass
    assert "temporary" not in str(told.value)


def test_wrong_paths(tmp_path):
    with pytest.raises(ValueError, match=r"\.npz, \.csv, \.parquet or \.drn, not '\.xlsx'"):
        TabularMDP.load(tmp_path / "mdp.xlsx")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        TabularMDP.load(tmp_path / "mdp.csv")


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet", ".drn"])
def test_a_pipe_or_a_folder_is_neither_waited_for_nor_replaced(suffix, tmp_path):
    pipe, folder = tmp_path / f"pipe{suffix}", tmp_path / f"folder{suffix}"
    os.mkfifo(pipe)
    folder.mkdir()
    for place in (pipe, folder):
        with pytest.raises(ValueError, match=f"{place} is not a file but a folder, a pipe"):
            TabularMDP.load(place)
    with pytest.raises(OSError, match=f"cannot write {pipe}: it is a pipe or a device"):
        TabularMDP([[[1.0]]], [[0.0]]).save(pipe)
    assert pipe.is_fifo()
    assert len(list(tmp_path.iterdir())) == 2


def test_load_and_save_are_these(tmp_path):
    river = environment("riverswim")
    river.save(tmp_path / "river.parquet")
    same(TabularMDP.load(tmp_path / "river.parquet"), river)


def flipped(path, bits):
    """The model that each copy of a file with one bit changed is read as; None if it is refused."""
    whole, damaged = path.read_bytes(), path.with_name(f"damaged{path.suffix}")
    for bit in bits:
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(content)
        try:
            yield TabularMDP.load(damaged)
        except ValueError:
            yield None


@pytest.mark.filterwarnings("ignore:.*has no checksum")
@pytest.mark.parametrize("bits", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_parquet_with_one_changed_bit_is_refused_or_is_the_same_model(bits, tmp_path):
    mdp = environment("access-control", servers=2)
    path = tmp_path / "mdp.parquet"
    mdp.save(path)
    size = 8 * path.stat().st_size
    chosen = np.random.default_rng(0).choice(size, min(bits, size), replace=False)
    read = [found for found in flipped(path, chosen.tolist()) if found is not None]
    assert 0 < len(read) < len(chosen) / 2
    for found in read:
        same(found, mdp)


def test_a_changed_parquet_that_kept_its_checksum_is_refused(tmp_path):
    from pyarrow import parquet

    path = tmp_path / "river.parquet"
    environment("riverswim").save(path)
    table = parquet.read_table(path)
    assert table.schema.metadata.keys() == {b"cpsrl.sha256"}
    parquet.write_table(table.slice(0, len(table) - 1), path)
    with pytest.raises(ValueError, match=r"river\.parquet: its columns are not those"):
        TabularMDP.load(path)


def test_a_sparse_npz_is_read_without_making_it_dense(tmp_path):
    n = 100_000
    mdp = TabularMDP(scipy.sparse.eye_array(n, format="csr"), np.zeros((n, 1)))
    write_mdp(mdp, tmp_path / "large.npz")
    same(TabularMDP.load(tmp_path / "large.npz"), mdp)


def test_what_is_given_for_unavailable_actions_is_not_normalised(tmp_path):
    transitions = np.full((2, 2, 2), 0.5)
    transitions[0, 1], transitions[1, 1] = (3, 9), (0.5, 0.501)
    available = np.array([[1, 0], [1, 1]])
    fields = {"transitions": transitions, "rewards": np.zeros((2, 2)), "available": available}
    np.savez(tmp_path / "m.npz", **fields)
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        assert TabularMDP.load(tmp_path / "m.npz", normalise=True).available[0, 1] == 0
    np.savez(tmp_path / "none.npz", transitions=1.0, rewards=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="transitions"):
        TabularMDP.load(tmp_path / "none.npz", normalise=True)


def test_means_of_transition_rewards_that_cancel_may_be_rounded():
    transitions, each = [[[0.3, 0.7]], [[0.5, 0.5]]], [0.7, -0.3, 0.1, -0.1]
    TabularMDP(transitions, [[1e-17], [1e-17]], transition_rewards=each)
    with pytest.raises(ValueError, match="means"):
        TabularMDP(transitions, [[1e-3], [0]], transition_rewards=each)


def test_a_table_that_unpacks_to_more_than_there_is_room_for_is_refused(tmp_path, monkeypatch):
    path, n = tmp_path / "mdp.parquet", 200_000
    columns = {"state": np.zeros(n, int), "action": np.zeros(n, int)}
    columns |= {"next_state": np.arange(n), "probability": np.ones(n) / n, "reward": np.zeros(n)}
    parquet.write_table(pa.table(columns), path)
    monkeypatch.setattr("cpsrl.support.checks._memory", lambda: 1e6)
    with pytest.raises(ValueError, match=r"mdp.parquet: .*unpacks to 0.0 GiB"):
        TabularMDP.load(path)
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), ["x" * 10_000])
    parquet.write_table(pa.table(columns | {"state": words}), path)
    monkeypatch.setattr("cpsrl.support.checks._memory", lambda: 1e9)
    with pytest.raises(ValueError, match=r"unpacks to 5\.6 GiB"):
        TabularMDP.load(path)


@pytest.mark.parametrize("suffix", [".csv", ".drn"])
def test_a_short_file_of_very_many_pairs_is_refused_before_they_take_room(
    suffix, tmp_path, monkeypatch
):
    path, n = tmp_path / f"mdp{suffix}", 1_000
    lines = ["state,action,next_state,probability,reward"]
    lines += [f"{s},go{s},{s},1,0" for s in range(n)]
    if suffix == ".drn":
        lines = ["@type: MDP", "@reward_models", "r", "@nr_states", str(n), "@model"]
        lines += [f"state {s} [0]\naction go{s} [0]\n{s} : 1" for s in range(n)]
    path.write_text("\n".join(lines))
    monkeypatch.setattr("cpsrl.support.checks._memory", lambda: 5e7)
    with pytest.raises(ValueError, match=r"unpacks to 0\.1 GiB, and there are 0\.0 GiB here"):
        TabularMDP.load(path, missing_unavailable=True)
    monkeypatch.setattr("cpsrl.support.checks._memory", lambda: 1e9)
    assert TabularMDP.load(path, missing_unavailable=True).n_actions == n
