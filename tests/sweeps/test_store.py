"""The store of points, also if it is damaged."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from onchip.errors import InputError, OnchipError
from onchip.sweeps.point import PointAnswer, PointFigures, PointStatus
from onchip.sweeps.store import Store
from support.swept_points import at_once, point_of

# The store: rows are complete, unique, written by one process at a time, and not confused with other files


POINTS = tuple(point_of(key, {"size": at, "kind": "x"}) for at, key in enumerate("abc"))
BY_KEY = {point.key: point for point in POINTS}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "points.db"


def test_what_is_put_in_is_there(path: Path) -> None:
    big = PointAnswer(PointStatus.FEASIBLE, 2**70, 7, "fJ x cycles", PointFigures(energy_pj=0.5), 2.0)
    failed = PointAnswer(PointStatus.FAILED, reason="it broke")
    settled = replace(at_once(POINTS[0]), document=None, settled_by="a")
    with Store.for_writing(path) as store:
        store.add_study("first", POINTS)
        store.put({"a": at_once(POINTS[0]), "b": failed}, BY_KEY)
        store.put({"c": settled}, BY_KEY)
        assert store.known(["a", "b", "c", "d"]) == {
            "a": replace(at_once(POINTS[0]), document=None),
            "b": failed,
            "c": settled,
        }
        store.put({"b": big}, BY_KEY)
    with Store.for_reading(path) as store:
        rows = list(store.rows())
        assert [row.record["size"] for row in rows] == [0, 1, 2]
        assert rows[1].answer == replace(big, objective_value=float(2**70))
        assert (store.document("a"), store.document("b"), store.document("c")) == (b"a", None, b"a")
        assert store.planned == 3


def test_a_study_that_is_asked_again_is_one_study(path: Path) -> None:
    with Store.for_writing(path) as store:
        store.put({key: at_once(point) for key, point in BY_KEY.items()}, BY_KEY)
        assert store.add_study("first", POINTS) == store.add_study("first", POINTS)
        store.add_study("second", POINTS[:1])
        assert [(row.study, row.key) for row in store.rows()] == [
            ("first", "a"), ("first", "b"), ("first", "c"), ("second", "a"),
        ]  # fmt: skip


def test_two_writers_are_one_too_many_and_the_second_loses_nothing(path: Path) -> None:
    with Store.for_writing(path) as store:
        store.add_study("first", POINTS)
        with pytest.raises(InputError, match="another sweep writes it"):
            Store.for_writing(path)
        with Store.for_reading(path) as reader:
            assert reader.planned == 3
        store.put({"a": at_once(POINTS[0])}, BY_KEY)
    with Store.for_writing(path) as store:
        assert set(store.known("abc")) == {"a"}
    assert sorted(one.name for one in path.parent.iterdir()) == ["points.db"]


def test_a_lock_ends_with_its_process(path: Path) -> None:
    program = "import sys, os\nfrom pathlib import Path\nfrom onchip.sweeps.store import Store\n" \
        "Store.for_writing(Path(sys.argv[1]))\nos.kill(os.getpid(), 9)\n"  # fmt: skip
    ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False, env=os.environ)
    assert ended.returncode == -9
    Store.for_writing(path).close()


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("what", ["text", "database", "newer", "folder", "nowhere"])
def test_what_is_no_store_is_refused_and_left_as_it_is(path: Path, what: str, reads: bool) -> None:
    if what == "text":
        path.write_text("not a database, but long enough to look like one" * 40)
    elif what == "folder":
        path.mkdir()
    elif what == "nowhere":
        path = path.parent / "nowhere" / "points.db"
    elif what == "database":
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE points (x)")
    else:
        Store.for_writing(path).close()
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA user_version = 7")
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(InputError) as refused:
        (Store.for_reading if reads else Store.for_writing)(path)
    assert str(path) in str(refused.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_store_that_is_not_there_is_not_made_by_reading(path: Path) -> None:
    with pytest.raises(InputError, match="no such store"):
        Store.for_reading(path)
    assert not path.exists()


def test_other_programs_read_it(path: Path) -> None:
    with Store.for_writing(path) as store:
        store.put({"a": at_once(POINTS[0])}, BY_KEY)
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT status, traffic_bytes FROM points").fetchall() == [("OPTIMAL", 1)]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE study_points SET parameters = 'x'",
        "UPDATE study_points SET costs = '[1]'",
        "UPDATE points SET options = x'00'",
        "UPDATE points SET status = 'GREAT'",
        "UPDATE points SET seconds = 'long'",
        "UPDATE points SET objective_value = 9e999",
        "UPDATE points SET peak_bytes = 'many'",
        "UPDATE study_points SET costs = '{\"area\": NaN}'",
        "DROP TABLE studies",
    ],
)
def test_rows_that_no_sweep_wrote_are_refused_in_a_line(path: Path, change: str) -> None:
    with Store.for_writing(path) as store:
        store.add_study("first", POINTS)
        store.put({"a": at_once(POINTS[0])}, BY_KEY)
    with sqlite3.connect(path) as database:
        database.execute(change)
    with Store.for_reading(path) as store, pytest.raises(OnchipError) as refused:
        list(store.rows())
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("packed", [b"nonsense", zlib.compress(bytes(2**28))])
def test_an_answer_that_is_none_or_too_large_is_refused(path: Path, packed: bytes) -> None:
    with Store.for_writing(path) as store:
        store.put({"a": replace(at_once(POINTS[0]), document=packed)}, BY_KEY)
        with pytest.raises(InputError):
            store.document("a")


def test_a_store_at_rest_is_read_where_nothing_can_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite would create files next to it."""
    with Store.for_writing(path) as store:
        store.add_study("first", POINTS)
        store.put({"a": at_once(POINTS[0])}, BY_KEY)
    before = set(path.parent.iterdir())
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Store.for_reading(path) as store:
        assert [row.key for row in store.rows()] == ["a"]
        assert set(path.parent.iterdir()) == before


def test_of_a_store_that_is_written_the_newest_is_read_where_nothing_can_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Store.for_writing(path) as writer:
        writer.add_study("first", POINTS)
        writer.put({"a": at_once(POINTS[0])}, BY_KEY)
        with Store.for_reading(path) as reader:
            assert [row.key for row in reader.rows()] == ["a"]


# A damaged store is refused as unsound, for any damage; a full disk is a different error


POINT = point_of("a", {"size": 1})
DAMAGES = {
    "a status that is not known": "UPDATE points SET status = 'GREAT'",
    "text that is not UTF-8": "UPDATE points SET status = CAST(x'ff' AS TEXT)",
    "a unit that is not UTF-8": "UPDATE points SET unit = CAST(x'fffe' AS TEXT)",
    "a number that is text": "UPDATE points SET objective_value = 'many'",
    "a bound above the objective": "UPDATE points SET lower_bound = objective_value + 1",
    "a table without a column": "ALTER TABLE points DROP COLUMN reason",
    "a table that is gone": "DROP TABLE points",
}


def damaged(folder: Path, statement: str) -> Path:
    path = folder / "points.db"
    with Store.for_writing(path) as store:
        store.add_study("study", [POINT])
        store.put({"a": at_once(POINT)}, {"a": POINT})
    database = sqlite3.connect(path)
    database.execute(statement)
    database.commit()
    database.close()
    return path


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_sweep_does_not_resume_from_a_damaged_store(damage: str, tmp_path: Path) -> None:
    path = damaged(tmp_path, DAMAGES[damage])
    with Store.for_writing(path) as store, pytest.raises(InputError, match="the store is not sound") as caught:
        store.known(["a"])
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_of_a_damaged_store_are_not_shown(damage: str, tmp_path: Path) -> None:
    path = damaged(tmp_path, DAMAGES[damage])
    with Store.for_reading(path) as store, pytest.raises(InputError, match="the store is not sound"):
        list(store.rows())
