"""MDPs as tables in long form, one line per possible transition: `.csv` and `.parquet`.

    state, action, next_state, probability, reward [, noise] [, initial] [, reward_low, reward_high]

- Labels are text. If those of the states are exactly 0..S-1 they are the states' numbers; else they
  are names, numbered in the order in which they first appear under `state`. Actions likewise.
- `probability` may be written in per cent, with the sign: 30%.
- `reward` is the mean reward of the state and action; where it differs between the lines of one
  state and action it is that of the transition, and kept as such.
- `noise`, optional: the standard deviation of the reward, the same on all lines of a state and
  action; or the word bernoulli on every line.
- `initial`, optional: the probability of starting in the state, the same on all its lines. Without
  it the process starts in the first state.
- `reward_low` and `reward_high`, optional: the range of mean rewards that agents assume, the same
  on all lines.

The probabilities of a state and action sum to one, and a transition stands on one line only; one
that has no line has probability 0. An action that is not available in a state has one line there,
on which `next_state`, `probability` and `reward` are empty; an action without any line is an error,
unless the reader is told that such actions are not available.

In a `.csv` the columns are separated by commas, semicolons or tabs. With the latter two, numbers
may have decimal commas. Spaces around labels and numbers do not count. A table has no room for
features, so an MDP with features is refused; its name becomes that of the file. It is read as a
dense model if that is small or at least a quarter non-zero, else as a sparse one. Numbers are
written with as many digits as bring back the same float. A `.parquet` that was written here has a
checksum of its columns among its metadata, so that a damaged file is refused.
"""

import csv
import hashlib
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy

from cpsrl.mdp.problem import Labels
from cpsrl.mdp.simulator import BERNOULLI, NO_NOISE
from cpsrl.support.checks import COPIES, check_unpacked, shown
from cpsrl.support.registry import unknown
from cpsrl.support.types import Floats, Ints

LABELS = ("state", "action", "next_state")
NEEDED = (*LABELS, "probability", "reward")
RANGE = ("reward_low", "reward_high")
NUMBERS = ("probability", "reward", "noise", "initial", *RANGE)
COLUMNS = (*LABELS, *NUMBERS)
SEPARATORS = ",;\t"
AS_UTF8 = 'save the file as UTF-8 (in Excel, "CSV UTF-8")'

PAIR_BYTES = 32
"""What a pair of a state and an action takes: its reward, its row and that of its stand-in."""
ROW_SUM_TOLERANCE = 1e-8
ROUNDED = 0.05
"""How far from one the sum of a row may be that is normalised: more is not a matter of rounding."""
NORMALISE = "normalise=True (--normalise) divides such rows by their sums"
CHECKSUM = b"cpsrl.sha256"
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

    table = _table_of(mdp)
    parquet.write_table(table.replace_schema_metadata({CHECKSUM: checksum(table)}), file)


def read_csv(path: Path, normalise: bool, missing_unavailable: bool) -> dict[str, Any]:
    """Return the arguments of the MDP of a `.csv` file."""
    table = csv_table(path, NEEDED, COLUMNS)
    return _arguments_of(table, path, normalise, missing_unavailable)


def read_parquet(path: Path, normalise: bool, missing_unavailable: bool) -> dict[str, Any]:
    """Return the arguments of the MDP of a `.parquet` file."""
    table = parquet_table(path, NEEDED, COLUMNS)
    written = (table.table.schema.metadata or {}).get(CHECKSUM)
    if written is None:
        warnings.warn(
            f"{path} has no checksum, so damage to it may pass unnoticed; saving the model again "
            "writes one",
            stacklevel=4,
        )
    elif written != checksum(table.table):
        raise ValueError(
            "its columns are not those that its checksum was made of: it is damaged, or was "
            "changed by a program that kept the schema's metadata (which a changed table is to be "
            "written without)"
        )
    return _arguments_of(table, path, normalise, missing_unavailable)


def checksum(table: Any) -> bytes:
    """Return the SHA-256 of the names, kinds and values of a table's columns."""
    import pyarrow as pa

    digest = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        values, words = column.combine_chunks(), None
        kind = "<f8" if pa.types.is_floating(values.type) else "<i8"
        if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
            coded = values.dictionary_encode()
            values, words = coded.indices, coded.dictionary.to_pylist()
        digest.update(repr((name, kind, words, len(values))).encode())
        digest.update(values.is_null().to_numpy(zero_copy_only=False).tobytes())
        digest.update(values.fill_null(0).to_numpy().astype(kind).tobytes())
    return digest.hexdigest().encode()


def csv_table(path: Path, needed: Sequence[str], known: Sequence[str]) -> "Table":
    """Return the table of a `.csv` file, whose columns are read as text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        first = file.readline()
    if "\0" in first:
        raise ValueError(f"this is no UTF-8 text, but perhaps UTF-16; {AS_UTF8}")
    if not first.strip():
        raise ValueError(
            f"its first line is empty, and has to name the columns: {','.join(needed)}"
        )
    separator = max(SEPARATORS, key=first.count)
    header = [column.strip() for column in next(csv.reader([first], delimiter=separator), [])]
    _check_columns(header, needed, known)
    try:
        table = arrow_csv.read_csv(
            path,
            # Arrow names the row of an error only without threads
            read_options=arrow_csv.ReadOptions(use_threads=False, skip_rows=1, column_names=header),
            parse_options=arrow_csv.ParseOptions(delimiter=separator),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid as error:
        complaint = _csv_complaint(path, str(error), separator)
        if "invalid UTF8" in complaint:
            complaint += f"; {AS_UTF8}"
        raise ValueError(complaint) from None
    lines = Table(table, lambda i: f"line {_line(path, i)}")
    return lines if separator == "," else lines.with_decimal_points()


def parquet_table(path: Path, needed: Sequence[str], known: Sequence[str]) -> "Table":
    """Return the table of a `.parquet` file."""
    import pyarrow as pa
    from pyarrow import compute, parquet

    try:
        named = parquet.read_schema(path).names
        file = parquet.ParquetFile(path, read_dictionary=[one for one in LABELS if one in named])
        rows = float(file.metadata.num_rows)
        check_unpacked(path, 8 * COPIES * rows * file.metadata.num_columns)
        table = file.read()
        coded = [one for one in table.columns if pa.types.is_dictionary(one.type)]
        words = [compute.max(compute.binary_length(c.dictionary)) for t in coded for c in t.chunks]
        check_unpacked(path, COPIES * rows * max([word.as_py() or 0 for word in words], default=0))
    except (pa.ArrowException, OSError, LookupError) as error:
        raise ValueError(f"not a whole Parquet file: {error}") from None
    _check_columns(table.column_names, needed, known)
    return Table(table, lambda i: f"row {i + 1}")


def _table_of(mdp: Any) -> Any:
    """Return the table of `mdp`, or say why it has none."""
    import pyarrow as pa

    if mdp.features is not None:
        raise ValueError("a table has no room for features; write a .npz file instead")
    matrix, shown = mdp.csr, np.ones(mdp.rewards.size, np.bool_)
    if mdp.available is not None:
        shown = mdp.available.ravel()
    pairs = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    kept = np.flatnonzero(shown[pairs])
    empty = np.flatnonzero(~shown)
    order = np.argsort(np.concatenate([pairs[kept], empty]), kind="stable")
    row = np.concatenate([pairs[kept], empty])[order]
    entry = np.concatenate([kept, np.zeros(len(empty), np.int64)])[order]
    blank = order >= len(kept)
    state, action = np.divmod(row, mdp.n_actions)
    each = mdp.transition_rewards
    columns = {
        "state": _label_column("state", mdp.state_names, state),
        "action": _label_column("action", mdp.action_names, action),
        "next_state": _label_column("state", mdp.state_names, matrix.indices[entry], blank),
        "probability": pa.array(matrix.data[entry], mask=blank),
        "reward": pa.array(mdp.rewards.ravel()[row] if each is None else each[entry], mask=blank),
    }
    kind, deviation = mdp.noise_code
    if kind == BERNOULLI:
        columns["noise"] = ["bernoulli"] * len(row)
    elif kind != NO_NOISE:
        columns["noise"] = deviation.ravel()[row]
    if isinstance(mdp.initial, np.ndarray):
        columns["initial"] = mdp.initial[state]
    elif mdp.initial != 0:
        columns["initial"] = (state == mdp.initial).astype(np.float64)
    if mdp.declares_range:
        columns |= {k: np.full(len(row), v) for k, v in zip(RANGE, mdp.reward_range, strict=True)}
    return pa.table(columns)


def _label_column(what: str, names: tuple[str, ...] | None, index: Ints, blank: Any = None) -> Any:
    import pyarrow as pa

    places = pa.array(index, mask=blank)
    if names is None:
        return places
    for name in names:
        if not name or name != name.strip() or "\n" in name or "\r" in name:
            raise ValueError(
                f"the {what} name {name!r} can't stand in a table (it is empty, begins or ends "
                "with a space, or has a line break); write a .npz file instead"
            )
    check_no_numbers(what, names, "a table")
    return pa.array(names).take(places)


def check_no_numbers(what: str, names: Sequence[str], place: str) -> None:
    """Raise a ValueError if a file would have `names` for the numbers of states or actions."""
    if names and _are_numbers(names):
        raise ValueError(
            f"in {place} the {what} names {names[0]!r}, ... would be taken for the {what}s' "
            "numbers; write a .npz file instead"
        )


def _are_numbers(labels: Sequence[str]) -> bool:
    return set(labels) == {str(i) for i in range(len(labels))}


def _csv_complaint(path: Path, message: str, separator: str) -> str:
    """Return Arrow's `message` with its row as a line of the file."""
    found = re.search(r"(?:column #\d+: )?Row #(\d+): (.*)", message, re.DOTALL)
    if not found:
        return message
    row, rest = found.groups()
    counts = re.match(r"Expected (\d+) columns, got (\d+)", rest)
    if counts and int(counts[2]) > int(counts[1]) and separator == ",":
        rest += " (numbers with decimal commas need semicolons between the columns)"
    return f"line {_line(path, int(row) - 2)}: {rest}"


def _line(path: Path, i: int) -> int:
    """Return the line on which transition `i` stands: Arrow does not count empty lines."""
    with open(path, "rb") as file:
        written = (number for number, text in enumerate(file, 1) if text.strip(b"\r\n"))
        return next(islice(written, i + 1, None))


def _check_columns(columns: list[str], needed: Sequence[str], known: Sequence[str]) -> None:
    for column in columns:
        if column not in known:
            if column.lower() in ("cost", "costs"):
                raise ValueError(
                    f"unknown column {column!r}: did you mean 'reward', which is the cost with its "
                    "sign turned round?"
                )
            raise unknown("column", column, known)
        if columns.count(column) > 1:
            raise ValueError(f"the column {column!r} appears twice")
    for column in [*needed, *(RANGE if set(RANGE) & set(columns) else ())]:
        if column not in columns:
            raise ValueError(f"the column {column!r} is missing (found: {', '.join(columns)})")


@dataclass(frozen=True)
class Table:
    """A table as it was read, and the way to say where one of its lines is."""

    table: Any
    place: Callable[[int], str]

    def __contains__(self, column: str) -> bool:
        return column in self.table.column_names

    def error(self, i: Any, complaint: str) -> ValueError:
        """Return the error for a complaint about line `i`."""
        return ValueError(f"{self.place(int(i))}: {complaint}")

    def is_number(self, column: str) -> bool:
        """Return whether a column holds floats."""
        import pyarrow as pa

        return bool(pa.types.is_floating(self.table[column].type))

    def text(self, column: str) -> Any:
        """Return a column as text without spaces around it, null for what is empty; floats stay."""
        import pyarrow as pa
        from pyarrow import compute

        written = self.table[column]
        if pa.types.is_floating(written.type):
            return written.combine_chunks()
        try:
            words = compute.utf8_trim_whitespace(written.cast(pa.string()))
            broken = compute.fill_null(compute.match_substring(words, "\0"), False)
        except pa.ArrowException as error:
            raise ValueError(f"{column} must be text: {error}") from None
        if compute.any(broken).as_py():
            i = compute.index(broken, True).as_py()
            raise self.error(i, f"{column} has a NUL character in it")
        return compute.if_else(compute.equal(words, ""), None, words).combine_chunks()

    def is_blank(self, column: str) -> Any:
        """Return for each line whether nothing is written there, `(n,)`."""
        return self.text(column).is_null().to_numpy(zero_copy_only=False)

    def only(self, kept: Any) -> "Table":
        """Return the lines with these numbers."""
        return Table(self.table.take(kept), lambda i: self.place(int(kept[i])))

    def with_decimal_points(self) -> "Table":
        """Return the table with decimal points for commas; raise if numbers have both."""
        from pyarrow import compute

        table, pointed = self.table, None
        texts = {column: self.text(column) for column in NUMBERS if column in self}
        for text in texts.values():
            points = compute.fill_null(compute.match_substring(text, "."), False)
            if pointed is None and compute.any(points).as_py():
                pointed = compute.index(points, True).as_py()
        for column, text in texts.items():
            commas = compute.fill_null(compute.match_substring(text, ","), False)
            if not compute.any(commas).as_py():
                continue
            if pointed is not None:
                i = compute.index(commas, True).as_py()
                raise self.error(
                    i,
                    f"{column} is {shown(text[i].as_py())} and has a comma, but there are numbers "
                    f"with a point ({self.place(pointed)}): write all of them in one way",
                )
            place = table.column_names.index(column)
            table = table.set_column(place, column, compute.replace_substring(text, ",", "."))
        return Table(table, self.place)

    def labels(self, column: str) -> tuple[Ints, tuple[str, ...]]:
        """Return the code of each line `(n,)` and the words that the codes stand for."""
        if self.is_number(column):
            kind = self.table[column].type
            raise ValueError(f"{column} must be text or whole numbers, not {kind}")
        coded = self._full(column).dictionary_encode()
        return coded.indices.to_numpy().astype(np.int64), tuple(coded.dictionary.to_pylist())

    def numbers(self, column: str, least: float = -np.inf, most: float = np.inf) -> Floats:
        """Return the number on each line `(n,)`, finite and in [least, most]."""
        import pyarrow as pa
        from pyarrow import compute

        text = self._full(column)
        bounds = "" if least == -np.inf else f" in [{least:g}, {most:g}]"
        wanted = f"it must be a finite number{bounds}"
        values = text
        if not self.is_number(column):
            shares = compute.ends_with(text, "%") if column == "probability" else None
            digits = text if shares is None else compute.utf8_rtrim(text, "% ")
            try:
                values = digits.cast(pa.float64())
            except pa.ArrowException:
                i = next(i for i, word in enumerate(digits) if not _is_number(word))
                comma = "," in text[i].as_py() and ", with a decimal point"
                raise self.error(
                    i, f"{column} is {shown(text[i].as_py())}; {wanted}{comma or ''}"
                ) from None
            if shares is not None:
                values = compute.if_else(shares, compute.divide(values, 100.0), values)
        found = np.asarray(values.cast(pa.float64()), dtype=np.float64)
        wrong = ~(np.isfinite(found) & (found >= least) & (found <= most))
        if wrong.any():
            i = int(np.argmax(wrong))
            cent = "; per cent are written with the sign" if column == "probability" else ""
            raise self.error(i, f"{column} is {found[i]}; {wanted}{cent}")
        return found

    def _full(self, column: str) -> Any:
        text = self.text(column)
        if text.null_count:
            i = np.argmax(text.is_null().to_numpy(zero_copy_only=False))
            raise self.error(i, f"{column} is empty")
        return text


def _is_number(word: Any) -> bool:
    import pyarrow as pa

    try:
        return word.cast(pa.float64()) is not None
    except pa.ArrowException:
        return False


@dataclass(frozen=True)
class _Rows:
    """The lines of a table in the order of their rows s*A + a and next states."""

    table: Table
    n_states: int
    labels: Labels
    order: Ints
    """Which line of the table each one is, `(n,)`."""
    successor: Ints
    """Next states, `(n,)`."""
    indptr: Ints
    """Where each row begins, and the end, `(S*A + 1,)`."""
    available: Any
    """Whether each row has lines, `(S*A,)`."""

    @property
    def starts(self) -> Ints:
        """Where each of the rows that have lines begins."""
        return self.indptr[:-1][self.available]

    def constant(self, column: str, most: float = np.inf, per_state: bool = False) -> Floats:
        """Return a column that is the same on all lines of a row (or of a state), once for each."""
        row = np.flatnonzero(self.available)
        if per_state:
            row = row[np.unique(row // self.labels.n_actions, return_index=True)[1]]
        values, starts = self.table.numbers(column, 0.0, most)[self.order], self.indptr[row]
        low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        if (low != high).any():
            i = np.argmax(low != high)
            pair, state = self.labels.pair(row[i]), int(row[i]) // self.labels.n_actions
            where = self.labels.state(state) if per_state else pair
            complaint = f"{column} is not the same on all lines of {where}"
            raise self.table.error(self.order[starts[i]], complaint)
        return np.asarray(low)

    def spread(self, values: Floats) -> Floats:
        """Return `(S, A)`: the values of the rows that have lines, and 0 for the others."""
        whole = np.zeros(len(self.available))
        whole[self.available] = values
        return whole.reshape(self.n_states, -1)


def numbered(words: tuple[str, ...]) -> tuple[Ints, tuple[str, ...] | None]:
    """Return the number of each word, and the names in that order unless they are numbers."""
    if _are_numbers(words):
        return np.array([int(word) for word in words]), None
    return np.arange(len(words)), words


def check_pairs(path: Path, n_states: int, n_actions: int) -> None:
    """Raise a ValueError if there is no room for all pairs of a file; say if they are many.

    Each action of one state is one of all states, so a short file may have very many pairs.
    """
    check_unpacked(path, COPIES * PAIR_BYTES * float(n_states) * n_actions)


def _rows_of(table: Table, path: Path, missing_unavailable: bool) -> _Rows:
    """Return the lines in order, once every state has every action and no transition is double."""
    state_codes, state_words = table.labels("state")
    action_codes, action_words = table.labels("action")
    state_numbers, state_names = numbered(state_words)
    action_numbers, action_names = numbered(action_words)
    n_states, n_actions = len(state_words), len(action_words)
    check_pairs(path, n_states, n_actions)
    all_rows = state_numbers[state_codes] * n_actions + action_numbers[action_codes]

    blank = np.logical_and.reduce([table.is_blank(c) for c in NEEDED if c not in LABELS[:2]])
    kept = np.flatnonzero(~blank)
    table, row = table.only(kept), all_rows[kept]
    if not kept.size:
        raise ValueError("there is no transition in it")
    next_codes, next_words = table.labels("next_state")
    number_of = dict(zip(state_words, state_numbers, strict=True))
    for code, word in enumerate(next_words):
        if word not in number_of:
            i = np.argmax(next_codes == code)
            raise table.error(i, f"next_state {shown(word)} has no line of its own as a state")
    successor = np.array([number_of[word] for word in next_words])[next_codes]
    order = np.lexsort((successor, row))
    row, successor = row[order], successor[order]
    counts = np.bincount(row, minlength=n_states * n_actions)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    labels = Labels(state_names, action_names, n_actions)
    rows = _Rows(table, n_states, labels, order, successor, indptr, counts > 0)

    said = np.zeros(n_states * n_actions, np.bool_)
    said[all_rows[blank]] = True
    if (said & rows.available).any():
        pair = rows.labels.pair(np.argmax(said & rows.available))
        raise ValueError(
            f"{pair}: there is a line that says it is not available, and one with a transition"
        )
    missing = np.flatnonzero(~said & ~rows.available)
    if missing.size and not missing_unavailable:
        raise ValueError(
            f"there is no line for {rows.labels.pair(missing[0])}. If it is not available there, "
            "say so: with a line on which next_state, probability and reward are empty, or for "
            "all such pairs with missing_unavailable=True (--missing-unavailable)"
        )
    without = ~rows.available.reshape(n_states, n_actions).any(axis=1)
    if without.any():
        raise ValueError(f"{rows.labels.state(int(np.argmax(without)))} has no available action")
    double = (np.diff(row) == 0) & (np.diff(successor) == 0)
    if double.any():
        i = np.argmax(double) + 1
        complaint = f"a second line for the same next_state of {rows.labels.pair(row[i])}"
        raise table.error(order[i], complaint)
    return rows


def _noise_of(table: Table, rows: _Rows) -> Any:
    """Return "bernoulli", one standard deviation, or those of all states and actions `(S, A)`."""
    if not table.is_number("noise") and table.labels("noise")[1] == ("bernoulli",):
        return "bernoulli"
    deviation = rows.constant("noise")
    if (deviation == deviation[0]).all():
        return float(deviation[0])
    return rows.spread(deviation)


def wrong_sum(sums: Floats, normalise: bool) -> tuple[int, str] | None:
    """Return the first row whose probabilities do not sum to 1, and what is wrong; else None."""
    wrong = np.abs(sums - 1.0) > (ROUNDED if normalise else ROW_SUM_TOLERANCE)
    if not wrong.any():
        return None
    i = int(np.argmax(wrong))
    advice = "" if abs(sums[i] - 1.0) > ROUNDED else f"; {NORMALISE}"
    return i, f"sum to {float(sums[i])!r}, not 1{advice}"


def dense_if_small(matrix: Any) -> Any:
    """Return transitions `(S*A, S)` as an array `(S, A, S)` if small or at least a quarter full."""
    n_rows, n_states = matrix.shape
    if n_rows * n_states <= max(DENSE_ENTRIES, 4 * matrix.nnz):
        return matrix.toarray().reshape(n_states, -1, n_states)
    return matrix


def _range_of(table: Table) -> tuple[float, ...] | None:
    """Return the range of rewards that all lines give, or None where none does."""
    if RANGE[0] not in table:
        return None
    bounds = [table.numbers(column) for column in RANGE]
    for column, values in zip(RANGE, bounds, strict=True):
        if (values != values[0]).any():
            raise table.error(np.argmax(values != values[0]), f"{column} is not as on other lines")
    return tuple(values[0].item() for values in bounds)


def _arguments_of(
    table: Table, path: Path, normalise: bool, missing_unavailable: bool
) -> dict[str, Any]:
    """Return the arguments of the MDP of a table."""
    if table.table.num_rows == 0:
        raise ValueError("there is no transition in it")
    rows = _rows_of(table, path, missing_unavailable)
    table, starts = rows.table, rows.starts

    probability = table.numbers("probability", 0.0, 1.0)[rows.order]
    sums = np.add.reduceat(probability, starts)
    if wrong := wrong_sum(sums, normalise):
        i, said = wrong
        pair = rows.labels.pair(np.flatnonzero(rows.available)[i])
        raise table.error(rows.order[starts[i]], f"the probabilities of {pair} {said}")

    reward = table.numbers("reward")[rows.order]
    low, high = np.minimum.reduceat(reward, starts), np.maximum.reduceat(reward, starts)
    shape = (len(rows.available), rows.n_states)
    rewards: Any = rows.spread(low)
    if (low < high).any():
        rewards = scipy.sparse.csr_array((reward, rows.successor, rows.indptr), shape=shape)

    noise: Any = 0.0
    if "noise" in table:
        noise = _noise_of(table, rows)
    initial: Any = 0
    if "initial" in table:
        chances = rows.constant("initial", 1.0, per_state=True)
        certain = np.max(chances) == np.sum(chances) == 1.0
        initial = int(np.argmax(chances)) if certain else chances

    matrix = scipy.sparse.csr_array((probability, rows.successor, rows.indptr), shape=shape)
    available = rows.available.reshape(rows.n_states, -1)
    return {
        "transitions": dense_if_small(matrix),
        "rewards": rewards,
        "available": None if available.all() else available,
        "noise": noise,
        "initial": initial,
        "state_names": rows.labels.states,
        "action_names": rows.labels.actions,
        "reward_range": _range_of(table),
        "name": path.stem,
    }
