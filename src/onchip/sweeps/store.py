"""The store of sweeps: one SQLite file for all points of all studies, robust against kills and restarts."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from math import isclose, isfinite
from pathlib import Path
from typing import Any, Final, Self

from onchip.answer.document import as_written
from onchip.api.phases import phase
from onchip.errors import InputError, InternalError, OutputError
from onchip.formats.files import GREATEST_FILE_BYTES, SQLITE, canonical_sha256, too_large, write_file
from onchip.sweeps.point import FIGURES, Expression, Number, PointAnswer, PointFigures, PointStatus, SweepPoint
from onchip.sweeps.stored_row import RowFormat, ShownStore, StoredRow, columns_of, exported

NOT_HASHED: Final = (
    "__main__.py",
    "audits",
    "backends",
    "cli.py",
    "commands",
    "data",
    "formats",
    "reports",
    "simulate",
    "sweeps",
    "verify",
)
"""Parts of onchip that decide no answer: they read, check, show or store. What they read has hashes of its own."""
SOURCES: Final = (".py", ".cpp", ".hpp")
COMPILED: Final = (".so", ".pyd")
PREFIX: Final = "sha256:"


@cache
def method_version() -> str:
    """Return the hash of the installed methods: another version may answer the same question differently."""
    return version_of(Path(__file__).parent.parent)


def version_of(package: Path) -> str:
    """Return the hash of the methods in a package: names and contents of their sources, in the order of the names.

    Raises InternalError if a name of NOT_HASHED is missing.
    """
    found = sha256()
    for path in sources_of(package):
        found.update(f"{path.relative_to(package).as_posix()}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return f"{PREFIX}{found.hexdigest()}"


def sources_of(package: Path) -> Iterator[Path]:
    """Yield the hashed files. The compiled library is one of them if the C++ sources are not installed.

    Raises InternalError if a name of NOT_HASHED is missing.
    """
    for name in NOT_HASHED:
        if not (package / name).exists():
            raise InternalError(f"{name!r} of NOT_HASHED does not exist in onchip", place="sweeps.method_version")
    paths = sorted(path for path in package.rglob("*") if path.relative_to(package).parts[0] not in NOT_HASHED)
    has_sources = any(path.suffix in SOURCES[1:] for path in paths)
    suffixes = SOURCES if has_sources else (*SOURCES, *COMPILED)
    yield from (path for path in paths if path.suffix in suffixes and "CMakeFiles" not in path.parts and path.is_file())


APPLICATION_ID: Final = 0x6F6E6370
"""Marker in the header of the file that identifies a store of onchip."""
STORE_VERSION: Final = 1

TABLES: Final = """
CREATE TABLE machines (
    sha256 TEXT PRIMARY KEY, name TEXT NOT NULL, yaml TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE points (
    key TEXT PRIMARY KEY,
    verb TEXT NOT NULL, network TEXT NOT NULL, network_sha256 TEXT NOT NULL, machine_sha256 TEXT NOT NULL,
    sram_bytes INTEGER, objective TEXT NOT NULL, options TEXT NOT NULL, method_version TEXT NOT NULL,
    status TEXT NOT NULL, objective_value NUMERIC, lower_bound NUMERIC, unit TEXT NOT NULL,
    traffic_bytes INTEGER, non_compulsory_bytes INTEGER, peak_bytes INTEGER, arena_bytes INTEGER,
    latency_cycles INTEGER, energy_pj REAL, seconds REAL NOT NULL, reason TEXT, settled_by TEXT
);
CREATE TABLE answers (
    key TEXT PRIMARY KEY, document BLOB NOT NULL
);
CREATE TABLE studies (
    sha256 TEXT PRIMARY KEY, name TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE study_points (
    study TEXT NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL, network TEXT NOT NULL, accelerator TEXT NOT NULL,
    parameters TEXT NOT NULL, costs TEXT NOT NULL,
    PRIMARY KEY (study, number)
) WITHOUT ROWID;
"""
ANSWERED: Final = ("status", "objective_value", "lower_bound", "unit", *FIGURES, "seconds", "reason", "settled_by")
"""Columns of `points` that an answer fills."""
INSERT_POINT: Final = f"INSERT OR REPLACE INTO points VALUES ({', '.join('?' * 22)})"
SELECT_ROWS: Final = f"""
SELECT study AS study_sha256, studies.name AS study, number, study_points.key, verb, study_points.network, accelerator,
    objective, options, parameters, costs, network_sha256, machine_sha256, sram_bytes, {", ".join(ANSWERED)}
FROM study_points JOIN studies ON studies.sha256 = study JOIN points ON points.key = study_points.key
ORDER BY studies.name, study, number
"""


def is_store(path: Path) -> bool:
    """Return True if a file is an SQLite database; False for an unreadable file. Does not read from pipes."""
    try:
        with path.open("rb") as file:
            return path.is_file() and file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


PRIMARY_CODE = 0xFF
"""Mask for the kind of an error in SQLite's error code."""
CANNOT_WRITE = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
    }
)
"""Errors of the disk, or of other programs that use the file; all others are in the store itself."""
EXPECTED = "a store that `onchip sweep --store` made"


@dataclass(slots=True)
class Store:
    """An open store, with one writer, who holds its lock, or any number of readers, without a lock."""

    path: Path
    database: sqlite3.Connection
    lock: StoreLock | None = None

    @classmethod
    def for_writing(cls, path: Path) -> Self:
        """Open or create a store.

        Raises InputError for a file that is no store of this version, or that another process writes, OutputError if it
        cannot be written.
        """
        if path.is_dir() or not path.parent.is_dir():
            what = "the store is a directory" if path.is_dir() else f"there is no directory {str(path.parent)!r}"
            raise InputError(what, file=str(path), expected="a file that can be made")
        lock = StoreLock.of(path)
        try:
            with _errors_of(path):
                database = sqlite3.connect(path, isolation_level=None)
                database.row_factory = sqlite3.Row
                _make_tables(database, path)
                database.execute("PRAGMA synchronous = NORMAL")
            return cls(path, database, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def for_reading(cls, path: Path) -> Self:
        """Open an existing store, possibly while it is written.

        Raises InputError for a file that is no store of this version.

        SQLite writes auxiliary files while reading, unless the folder is not writable: then a store without a writer is
        opened as immutable.
        """
        if not path.is_file():
            raise InputError("there is no such store", file=str(path), expected=EXPECTED)
        place = path.resolve()
        is_at_rest = not place.with_name(f"{place.name}-wal").exists() and not os.access(place.parent, os.W_OK)
        mode = "mode=ro&immutable=1" if is_at_rest else "mode=ro"
        with _errors_of(path):
            database = sqlite3.connect(f"{place.as_uri()}?{mode}", uri=True, isolation_level=None)
            database.row_factory = sqlite3.Row
            _ensure_version(database, path)
        return cls(path, database)

    def close(self) -> None:
        """Close the store, and release its lock."""
        with suppress(sqlite3.Error):
            self.database.close()
        if self.lock is not None:
            self.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_study(self, name: str, points: Sequence[SweepPoint]) -> str:
        """Store the points of a study, with the names and costs that it gives them, and return its hash."""
        rows = [
            (number, one.key, one.network, one.accelerator, json_of(one.parameters), json_of(one.costs))
            for number, one in enumerate(points)
        ]
        study = canonical_sha256([name, rows], InputError)
        machines = {one.machine.sha256: one.machine for one in points}
        with self._at_once():
            self.database.execute("INSERT OR IGNORE INTO studies VALUES (?, ?)", (study, name))
            self.database.executemany(
                "INSERT OR IGNORE INTO study_points VALUES (?, ?, ?, ?, ?, ?, ?)", ((study, *row) for row in rows)
            )
            self.database.executemany(
                "INSERT OR IGNORE INTO machines VALUES (?, ?, ?)",
                ((one.sha256, one.name, one.yaml) for one in machines.values()),
            )
        return study

    def known(self, keys: Iterable[str]) -> dict[str, PointAnswer]:
        """Return the stored answers by key, without their documents."""
        wanted = set(keys)
        with _errors_of(self.path), _errors_of_rows(self.path):
            rows = self.database.execute(f"SELECT key, {', '.join(ANSWERED)} FROM points")
            return {row["key"]: _answer_of(row) for row in rows if row["key"] in wanted}

    def put(self, answers: Mapping[str, PointAnswer], points: Mapping[str, SweepPoint]) -> None:
        """Store answers in one transaction; raises OutputError if the disk is full."""
        with self._at_once():
            self.database.executemany(
                INSERT_POINT, (columns_of_point(points[key], one) for key, one in answers.items())
            )
            self.database.executemany(
                "INSERT OR REPLACE INTO answers VALUES (?, ?)",
                ((key, one.document) for key, one in answers.items() if one.document is not None),
            )

    def rows(self) -> Iterator[StoredRow]:
        """Yield every answered point of every study, in the studies' order."""
        with _errors_of(self.path), _errors_of_rows(self.path):
            for row in self.database.execute(SELECT_ROWS):
                objects: dict[str, Any] = {name: object_of(row[name]) for name in ("options", "parameters", "costs")}
                others = {name: row[name] for name in row.keys() if name not in (*objects, *ANSWERED)}  # noqa: SIM118
                yield StoredRow(**others, **objects, answer=_answer_of(row))

    @property
    def planned(self) -> int:
        """Return the number of points of all studies, computed or not."""
        with _errors_of(self.path):
            return int(self.database.execute("SELECT count(*) FROM study_points").fetchone()[0])

    def document(self, key: str) -> bytes | None:
        """Return the answer file of a point or of the one that settles it; raises InputError for a damaged one."""
        packed = self.packed_document(key)
        return None if packed is None else _unpacked(packed, self.path)

    def packed_document(self, key: str) -> bytes | None:
        """Return the answer file of a point in its compressed form."""
        with _errors_of(self.path):
            row = self.database.execute(
                "SELECT document FROM answers WHERE key = coalesce((SELECT settled_by FROM points WHERE key = ?), ?)",
                (key, key),
            ).fetchone()
        return None if row is None else bytes(row[0])

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Run the context in one transaction."""
        with _errors_of(self.path):
            self.database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self.database.execute("ROLLBACK")
                raise
            self.database.execute("COMMIT")


def _unpacked(packed: bytes, path: Path) -> bytes:
    """Return a decompressed document; raises InputError for an invalid or too large one."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(packed, GREATEST_FILE_BYTES)
    except zlib.error as error:
        raise InputError(f"an answer cannot be unpacked ({error})", file=str(path), expected=EXPECTED) from None
    if unpacking.unconsumed_tail:
        raise too_large(GREATEST_FILE_BYTES).in_file(str(path))
    return content


@contextmanager
def _errors_of_rows(path: Path) -> Iterator[None]:
    """Convert errors of malformed rows to InputError."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise InputError(
            f"the store is not sound: a row cannot be read ({error})", file=str(path), expected=EXPECTED
        ) from None


def _make_tables(database: sqlite3.Connection, path: Path) -> None:
    """Create the tables of an empty file, in one transaction; raises InputError for another file."""
    if database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] or _pragma(database, "user_version"):
        _ensure_version(database, path)
        return
    database.execute("PRAGMA journal_mode = WAL")
    database.executescript(
        f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; {TABLES}"
        f"PRAGMA user_version = {STORE_VERSION}; COMMIT;"
    )


def _ensure_version(database: sqlite3.Connection, path: Path) -> None:
    application, version = _pragma(database, "application_id"), _pragma(database, "user_version")
    if application != APPLICATION_ID:
        raise InputError("the file is a database of another program", file=str(path), expected=EXPECTED)
    if version != STORE_VERSION:
        age = "a newer" if version > STORE_VERSION else "an older"
        what = f"the file is a store of {age} version, {version}"
        raise InputError(what, file=str(path), place="user_version", expected=str(STORE_VERSION))


def _pragma(database: sqlite3.Connection, name: str) -> int:
    return int(database.execute(f"PRAGMA {name}").fetchone()[0])


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Convert errors of SQLite to InputError or OutputError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE
        if code in CANNOT_WRITE:
            raise OutputError(
                f"the store cannot be used ({error})", file=str(path), expected="a store with room"
            ) from None
        what = "it cannot be read" if code == sqlite3.SQLITE_CANTOPEN else "the store is not sound"
        raise InputError(f"{what} ({error})", file=str(path), expected=EXPECTED) from None


@dataclass(slots=True)
class StoreLock:
    """A lock file next to the store, held by one process at a time."""

    path: Path
    descriptor: int

    @classmethod
    def of(cls, store: Path) -> Self:
        """Lock a store for this process.

        Raises InputError if another process writes the store, OutputError if the lock file cannot be created.
        """
        path = store.with_name(f"{store.name}-lock")
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                what = f"the lock of the store cannot be made ({error.strerror})"
                raise OutputError(what, file=str(store), expected="a folder that can be written") from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                what = "another sweep writes it"
                raise InputError(what, file=str(store), expected="a store that no other process writes") from None
            if _is_at(descriptor, path):
                return cls(path, descriptor)
            os.close(descriptor)  # its owner has deleted it meanwhile

    def release(self) -> None:
        """Delete the lock file, and release the lock."""
        with suppress(OSError):
            self.path.unlink()
        os.close(self.descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _answer_of(row: sqlite3.Row) -> PointAnswer:
    """Return the answer in a row; raises ValueError for invalid values."""
    value, bound = _number(row["objective_value"]), _number(row["lower_bound"])
    if value is not None and bound is not None and bound > value and not isclose(bound, value):
        raise ValueError(f"its lower bound, {bound}, is above its objective, {value}")
    figures = PointFigures(**{name: _number(row[name]) for name in FIGURES})  # type: ignore[arg-type]
    seconds, texts = float(_number(row["seconds"]) or 0), {name: row[name] for name in ("reason", "settled_by")}
    return PointAnswer(PointStatus(row["status"]), value, bound, row["unit"], figures, seconds, **texts)


def columns_of_point(point: SweepPoint, answer: PointAnswer) -> tuple[object, ...]:
    """Return a point and its answer as the columns of `points`."""
    asked = point.key, str(point.verb), point.network, point.network_sha256, point.machine.sha256, point.sram_bytes
    figures = (getattr(answer.figures, name) for name in FIGURES)
    values = (None if one is None else as_written(one) for one in (answer.objective_value, answer.lower_bound))
    found = str(answer.status), *values, answer.unit, *figures, answer.seconds, answer.reason, answer.settled_by
    return (*asked, point.objective, json_of(point.options), method_version(), *found)


def _number(value: object) -> Number | None:
    if value is None or (isinstance(value, int | float) and isfinite(value)):
        return value
    raise ValueError(f"{value!r} is no number")


def json_of(value: object) -> str:
    """Return a value as JSON for a column."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def object_of(text: str) -> dict[str, Any]:
    """Return the object in a JSON column; raises ValueError for anything else."""
    found = json.loads(text, parse_constant=_number)
    if not isinstance(found, dict):
        raise ValueError(f"{text[:40]!r} is no object")
    return found


@phase("reading")
def rows_of_store(store: Path, query: str | None = None) -> tuple[StoredRow, ...]:
    """Return the rows of a store that match the query, all rows without one.

    Raises InputError for an unreadable store.
    """
    asked = None if query is None else query_of(query)
    with Store.for_reading(store) as opened:
        rows = tuple(opened.rows())
    if asked is None:
        return rows
    records = [row.record for row in rows]
    columns = columns_of(records)
    try:
        asked.ensure_names_are(frozenset(columns))
        missing = dict.fromkeys(columns)
        return tuple(row for row, record in zip(rows, records, strict=True) if asked.holds({**missing, **record}))
    except InputError as error:
        error.place = "`query`"
        raise


def shown_store(store: Path) -> ShownStore:
    """Return a store as its page shows it; raises InputError for an unreadable store."""
    with Store.for_reading(store) as opened:
        return ShownStore(store.name, tuple(opened.rows()), opened.planned)


def answer_file(store: Path, key: str) -> bytes:
    """Return the answer file of a point, by its key or a prefix; raises InputError for an unknown or ambiguous key."""
    with Store.for_reading(store) as opened:
        keys = sorted({row.key for row in opened.rows() if row.key.startswith(key)})
        if len(keys) != 1:
            what = f"{len(keys)} points have a key that begins with {key!r}"
            raise InputError(what, file=str(store), place="`answer`", expected="one, from the column `key`")
        document = opened.document(keys[0])
    if document is None:
        raise InputError(f"point {key!r} has no answer", file=str(store), place="`answer`", expected="one that has")
    return document


def query_of(text: str) -> Expression:
    """Return the expression of a query; raises InputError that names the option."""
    try:
        return Expression(text)
    except InputError as error:
        error.place = "`query`"
        raise


def export_rows(rows: tuple[StoredRow, ...], file_format: RowFormat, output: Path) -> None:
    """Write rows as a file; raises OutputError if it cannot be written, UsageError if a package is missing."""
    write_file(output, exported([row.record for row in rows], file_format))
