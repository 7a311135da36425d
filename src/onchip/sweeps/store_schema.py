"""The SQL tables of a store; docs/sweeps.md describes their contents."""

from __future__ import annotations

from pathlib import Path
from typing import Final

APPLICATION_ID: Final = 0x6F6E6370
"""Marker in the header of the file that identifies a store of onchip."""
STORE_VERSION: Final = 1
SQLITE: Final = b"SQLite format 3\0"
"""First bytes of every SQLite database."""

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
INSERT_POINT: Final = f"INSERT OR REPLACE INTO points VALUES ({', '.join('?' * 22)})"
SELECT_ROWS: Final = """
SELECT study, studies.name, number, study_points.key, study_points.network, accelerator, parameters, costs,
    points.verb, points.network_sha256, points.machine_sha256, points.sram_bytes, points.objective, points.options,
    status, objective_value, lower_bound, unit, traffic_bytes, non_compulsory_bytes, peak_bytes, arena_bytes,
    latency_cycles, energy_pj, seconds, reason, settled_by
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
