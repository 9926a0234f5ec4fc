"""MDPs as tables in long form, one line per possible transition: `.csv` and `.parquet`.

    state, action, next_state, probability, reward [, noise] [, initial]

- Labels are text. If those of the states are exactly 0..S-1 they are the states' numbers; else they
  are names, numbered in the order in which they first appear under `state`. Actions likewise.
- `reward` is the mean reward of the state and action; where it differs between the lines of one
  state and action it is that of the transition, and their mean is taken.
- `noise`, optional: the standard deviation of the reward, the same on all lines of a state and
  action; or the word bernoulli on every line.
- `initial`, optional: the probability of starting in the state, the same on all its lines. Without
  it the process starts in the first state.

Every state needs every action, the probabilities of a state and action sum to one, and a
transition stands on one line only; one that has no line has probability 0. Spaces around labels do
not count. A table has no room for features, so an MDP with features is refused; its name becomes
that of the file. It is read as a dense model if that is small or at least a quarter non-zero, else
as a sparse one. Numbers are written with as many digits as bring back the same float.
"""

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse

from cpsrl.mdp.simulator import BERNOULLI, NO_NOISE
from cpsrl.registry import unknown
from cpsrl.types import Floats, Ints

LABELS = ("state", "action", "next_state")
NEEDED = (*LABELS, "probability", "reward")
COLUMNS = (*NEEDED, "noise", "initial")

ROW_SUM_TOLERANCE = 1e-8
DENSE_ENTRIES = 250_000
"""Number of entries up to which a table is read as a dense model, whatever its zeros."""


def write_csv(mdp: Any, file: IO[bytes]) -> None:
    """Write the table of `mdp` as comma-separated text."""
    from pyarrow import csv as arrow_csv

    table = _table_of(mdp)
    file.write((",".join(table.column_names) + "\n").encode())
    arrow_csv.write_csv(table, file, arrow_csv.WriteOptions(include_header=False))


def write_parquet(mdp: Any, file: IO[bytes]) -> None:
    """Write the table of `mdp` as Parquet."""
    from pyarrow import parquet

    parquet.write_table(_table_of(mdp), file)


def read_csv(path: Path) -> dict[str, Any]:
    """Return the arguments of the MDP of a `.csv` file."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        header = [column.strip() for column in next(csv.reader(file), [])]
    _check_columns(header)
    texts = (*LABELS, "noise")
    types = {column: pa.string() if column in texts else pa.float64() for column in header}
    try:
        table = arrow_csv.read_csv(
            path,
            # Arrow names the row of an error only without threads
            read_options=arrow_csv.ReadOptions(use_threads=False, skip_rows=1, column_names=header),
            convert_options=arrow_csv.ConvertOptions(column_types=types, null_values=[""]),
        )
    except pa.ArrowInvalid as error:
        raise ValueError(_csv_complaint(path, header, str(error))) from None
    return _arguments_of(_Table(table, lambda i: f"line {_line(path, i)}"), path.stem)


def read_parquet(path: Path) -> dict[str, Any]:
    """Return the arguments of the MDP of a `.parquet` file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"not a whole Parquet file: {error}") from None
    _check_columns(table.column_names)
    return _arguments_of(_Table(table, lambda i: f"row {i + 1}"), path.stem)


def _table_of(mdp: Any) -> Any:
    """Return the table of `mdp`, or say why it has none."""
    import pyarrow as pa

    if mdp.features is not None:
        raise ValueError("a table has no room for features; write a .npz file instead")
    matrix = mdp.csr
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    state, action = np.divmod(row, mdp.n_actions)
    columns = {
        "state": _label_column("state", mdp.state_names, state),
        "action": _label_column("action", mdp.action_names, action),
        "next_state": _label_column("state", mdp.state_names, matrix.indices),
        "probability": matrix.data,
        "reward": mdp.rewards.ravel()[row],
    }
    kind, deviation = mdp.noise_code
    if kind != NO_NOISE:
        bernoulli = kind == BERNOULLI
        columns["noise"] = ["bernoulli"] * len(row) if bernoulli else deviation.ravel()[row]
    if isinstance(mdp.initial, np.ndarray):
        columns["initial"] = mdp.initial[state]
    elif mdp.initial != 0:
        columns["initial"] = (state == mdp.initial).astype(np.float64)
    return pa.table(columns)


def _label_column(what: str, names: tuple[str, ...] | None, index: Ints) -> Any:
    import pyarrow as pa

    if names is None:
        return pa.array(index)
    for name in names:
        if not name or name != name.strip() or "\n" in name or "\r" in name:
            raise ValueError(
                f"the {what} name {name!r} can't stand in a table (it is empty, begins or ends "
                "with a space, or has a line break); write a .npz file instead"
            )
    if _are_numbers(names):
        raise ValueError(
            f"in a table the {what} names {names[0]!r}, ... would be taken for the {what}s' "
            "numbers; write a .npz file instead"
        )
    return pa.array(names).take(pa.array(index))


def _are_numbers(labels: Sequence[str]) -> bool:
    return set(labels) == {str(i) for i in range(len(labels))}


def _csv_complaint(path: Path, header: list[str], message: str) -> str:
    """Return Arrow's `message` with its row as a line of the file and its column by name."""
    found = re.search(r"(?:column #(\d+): )?Row #(\d+): (.*)", message, re.DOTALL)
    if not found:
        return message
    column, row, rest = found.groups()
    field = f", {header[int(column)]}" if column else ""
    return f"line {_line(path, int(row) - 2)}{field}: {rest}"


def _line(path: Path, i: int) -> int:
    """Return the line on which transition `i` stands: Arrow does not count empty lines."""
    with open(path, "rb") as file:
        written = (number for number, text in enumerate(file, 1) if text.strip(b"\r\n"))
        return next(islice(written, i + 1, None))


def _check_columns(columns: list[str]) -> None:
    for column in columns:
        if column not in COLUMNS:
            raise unknown("column", column, COLUMNS)
        if columns.count(column) > 1:
            raise ValueError(f"the column {column!r} appears twice")
    for column in NEEDED:
        if column not in columns:
            raise ValueError(f"the column {column!r} is missing (found: {', '.join(columns)})")


@dataclass(frozen=True)
class _Table:
    """A table as it was read, and the way to say where one of its lines is."""

    table: Any
    place: Callable[[int], str]

    def __contains__(self, column: str) -> bool:
        return column in self.table.column_names

    def error(self, i: Any, complaint: str) -> ValueError:
        return ValueError(f"{self.place(int(i))}: {complaint}")

    def is_number(self, column: str) -> bool:
        import pyarrow as pa

        return bool(pa.types.is_floating(self.table[column].type))

    def labels(self, column: str) -> tuple[Ints, tuple[str, ...]]:
        """Return the code of each line `(n,)` and the words that the codes stand for."""
        import pyarrow as pa
        from pyarrow import compute

        values = self._full(column)
        if self.is_number(column):
            raise ValueError(f"{column} must be text or whole numbers, not {values.type}")
        try:
            text = compute.utf8_trim_whitespace(values.cast(pa.string()))
        except pa.ArrowException as error:
            raise ValueError(f"{column} must be text: {error}") from None
        coded = text.combine_chunks().dictionary_encode()
        codes, words = coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist()
        if "" in words:
            raise self.error(np.argmax(codes == words.index("")), f"{column} is empty")
        return codes, tuple(words)

    def numbers(self, column: str, least: float = -np.inf, most: float = np.inf) -> Floats:
        """Return the number on each line `(n,)`, finite and in [least, most]."""
        import pyarrow as pa
        from pyarrow import compute

        written = self._full(column)
        try:
            if not self.is_number(column):
                written = compute.utf8_trim_whitespace(written.cast(pa.string()))
            values = np.asarray(written.cast(pa.float64()), dtype=np.float64)
        except pa.ArrowException as error:
            raise ValueError(f"{column} must be numbers: {error}") from None
        wrong = ~(np.isfinite(values) & (values >= least) & (values <= most))
        if wrong.any():
            i = np.argmax(wrong)
            bounds = "" if least == -np.inf else f" in [{least:g}, {most:g}]"
            raise self.error(i, f"{column} is {values[i]}; it must be a finite number{bounds}")
        return values

    def _full(self, column: str) -> Any:
        values = self.table[column]
        if values.null_count:
            raise self.error(np.argmax(values.is_null().to_numpy()), f"{column} is missing")
        return values


@dataclass(frozen=True)
class _Rows:
    """The lines of a table in the order of their rows s*A + a and next states."""

    table: _Table
    n_states: int
    n_actions: int
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None
    order: Ints
    """Which line of the table each one is, `(n,)`."""
    successor: Ints
    """Next states, `(n,)`."""
    indptr: Ints
    """Where each row begins, and the end, `(S*A + 1,)`."""

    def pair(self, row: Any) -> str:
        """Return the state and the action of a row in words."""
        s, a = divmod(int(row), self.n_actions)
        state = self.state_names[s] if self.state_names else s
        action = self.action_names[a] if self.action_names else a
        return f"state {state!r} and action {action!r}"

    def constant(self, column: str, most: float = np.inf, per_state: bool = False) -> Floats:
        """Return a column that is the same on all lines of a row (or of a state), once for each."""
        step = self.n_actions if per_state else 1
        values, starts = self.table.numbers(column, 0.0, most)[self.order], self.indptr[:-1:step]
        low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        if (low != high).any():
            i = np.argmax(low != high)
            complaint = f"{column} is not the same on all lines of {self.pair(i * step)}"
            raise self.table.error(self.order[starts[i]], complaint)
        return np.asarray(low)


def _numbered(words: tuple[str, ...]) -> tuple[Ints, tuple[str, ...] | None]:
    """Return the number of each word, and the names in that order unless they are numbers."""
    if _are_numbers(words):
        return np.array([int(word) for word in words]), None
    return np.arange(len(words)), words


def _rows_of(table: _Table) -> _Rows:
    """Return the lines in order, once every state has every action and no transition is double."""
    state_codes, state_words = table.labels("state")
    action_codes, action_words = table.labels("action")
    next_codes, next_words = table.labels("next_state")
    state_numbers, state_names = _numbered(state_words)
    action_numbers, action_names = _numbered(action_words)
    number_of = dict(zip(state_words, state_numbers, strict=True))
    for code, word in enumerate(next_words):
        if word not in number_of:
            i = np.argmax(next_codes == code)
            raise table.error(i, f"next_state {word!r} has no line of its own as a state")
    n_states, n_actions = len(state_words), len(action_words)
    row = state_numbers[state_codes] * n_actions + action_numbers[action_codes]
    successor = np.array([number_of[word] for word in next_words])[next_codes]
    order = np.lexsort((successor, row))
    row, successor = row[order], successor[order]
    counts = np.bincount(row, minlength=n_states * n_actions)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    rows = _Rows(table, n_states, n_actions, state_names, action_names, order, successor, indptr)
    if not counts.all():
        raise ValueError(f"there is no line for {rows.pair(np.argmin(counts))}")
    double = (np.diff(row) == 0) & (np.diff(successor) == 0)
    if double.any():
        i = np.argmax(double) + 1
        complaint = f"a second line for the same next_state of {rows.pair(row[i])}"
        raise table.error(order[i], complaint)
    return rows


def _noise_of(table: _Table, rows: _Rows) -> Any:
    """Return "bernoulli", one standard deviation, or those of all states and actions `(S, A)`."""
    if not table.is_number("noise") and table.labels("noise")[1] == ("bernoulli",):
        return "bernoulli"
    deviation = rows.constant("noise")
    if (deviation == deviation[0]).all():
        return float(deviation[0])
    return deviation.reshape(rows.n_states, rows.n_actions)


def _arguments_of(table: _Table, name: str) -> dict[str, Any]:
    """Return the arguments of the MDP of a table."""
    if table.table.num_rows == 0:
        raise ValueError("there is no transition in it")
    rows = _rows_of(table)
    shape, starts = (rows.n_states, rows.n_actions), rows.indptr[:-1]

    probability = table.numbers("probability", 0.0, 1.0)[rows.order]
    sums = np.add.reduceat(probability, starts)
    wrong = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
    if wrong.any():
        i = np.argmax(wrong)
        complaint = f"the probabilities of {rows.pair(i)} sum to {float(sums[i])!r}, not 1"
        raise table.error(rows.order[starts[i]], complaint)

    reward = table.numbers("reward")[rows.order]
    low, high = np.minimum.reduceat(reward, starts), np.maximum.reduceat(reward, starts)
    mean = np.where(low == high, low, np.add.reduceat(probability * reward, starts))

    noise: Any = 0.0
    if "noise" in table:
        noise = _noise_of(table, rows)
    initial: Any = 0
    if "initial" in table:
        chances = rows.constant("initial", 1.0, per_state=True)
        initial = int(np.argmax(chances)) if np.max(chances) == 1.0 else chances

    transitions: Any = scipy.sparse.csr_array(
        (probability, rows.successor, rows.indptr), shape=(len(starts), rows.n_states)
    )
    if len(starts) * rows.n_states <= max(DENSE_ENTRIES, 4 * len(probability)):
        transitions = transitions.toarray().reshape(*shape, rows.n_states)
    return {
        "transitions": transitions,
        "rewards": mean.reshape(shape),
        "noise": noise,
        "initial": initial,
        "state_names": rows.state_names,
        "action_names": rows.action_names,
        "name": name,
    }
