"""A damaged store is refused as unsound, for any damage; a full disk is a different error."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from onchip.errors import InputError
from onchip.sweeps.store import Store
from support.swept_points import at_once, point_of

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
