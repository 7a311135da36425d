"""Fresh random cases at every level for so many seconds, and a table of what came of them."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import secrets
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median

from adversary.found import FOLDER, Found
from adversary.levels import LEVELS
from adversary.worker import Tally, Worker

SECONDS_OF_A_CASE = 300.0
"""A case that takes longer never ends."""


def main() -> int:
    """Return 1 if anything failed."""
    asked = _arguments()
    seed = asked.seed or secrets.token_hex(6)
    print(f"seed {seed}, {asked.seconds:g} seconds, {asked.workers} processes", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        tallies = _run(asked, seed, Path(folder))
    print(table(tallies))
    return int(any(tally.faults for tally in tallies.values()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="adversary", description=__doc__)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", help="as an earlier run printed it; else a fresh one")
    parser.add_argument("--levels", nargs="+", choices=[level.name for level in LEVELS])
    parser.add_argument("--found", type=Path, default=FOLDER, help="where cases that fail are written")
    parser.add_argument("--shrink-seconds", type=float, default=60.0, help="for making one case smaller")
    parser.add_argument("--stop-at-first", action="store_true", help="end at the first fault")
    return parser.parse_args()


def _run(asked: argparse.Namespace, seed: str, folder: Path) -> dict[str, Tally]:
    context = multiprocessing.get_context("spawn")
    places = [folder / str(number) for number in range(asked.workers)]
    workers = [context.Process(target=_work, args=(asked, f"{seed}:{place.name}", place)) for place in places]
    for worker in workers:
        worker.start()
    endless = _watch(workers, places, stop_at_first=asked.stop_at_first)
    total = {level.name: Tally() for level in LEVELS if level.name in (asked.levels or [one.name for one in LEVELS])}
    for place in places:
        _add(total, place / "tallies.json")
    for found in endless:
        total[found.level].faults.append(found.fault)
        print(f"{found.level}: {found.fault}\n  kept in {found.write(asked.found).name}", flush=True)
    return total


def _work(asked: argparse.Namespace, seed: str, place: Path) -> None:
    place.mkdir()
    os.environ["ONCHIP_CACHE"] = str(place / "cache")
    levels = [level for level in LEVELS if asked.levels is None or level.name in asked.levels]
    worker = Worker(levels, seed, place, place / "note.json", place / "tallies.json", asked.found, asked.shrink_seconds)
    worker.work(asked.seconds, stop_at_first=asked.stop_at_first)


def _watch(workers: Sequence[BaseProcess], places: list[Path], *, stop_at_first: bool) -> list[Found]:
    """Wait for all; a worker whose case never ends is killed and its case returned."""
    endless = []
    while any(worker.is_alive() for worker in workers):
        time.sleep(0.5)
        for worker, place in zip(workers, places, strict=True):
            note = place / "note.json"
            if worker.is_alive() and note.exists() and time.time() - note.stat().st_mtime > SECONDS_OF_A_CASE:
                worker.kill()
                fields = json.loads(note.read_text())
                fault = f"never ends: seed {fields['seed']} was at it for {SECONDS_OF_A_CASE:g} seconds"
                endless.append(Found(fields["level"], fault, fields["facts"]))
            if not worker.is_alive() and worker.exitcode and worker.exitcode > 0:
                raise RuntimeError(f"a process of the adversary ended with {worker.exitcode}")
        if stop_at_first and any(not worker.is_alive() for worker in workers):
            for worker in workers:
                worker.terminate()
    return endless


def _add(total: dict[str, Tally], path: Path) -> None:
    for name, fields in (json.loads(path.read_text()) if path.exists() else {}).items():
        tally = total[name]
        tally.cases += fields["cases"]
        tally.refused += fields["refused"]
        tally.proofs += fields["proofs"]
        tally.seconds += fields["seconds"]
        tally.faults += fields["faults"]
        tally.above += fields["above"]


def table(tallies: dict[str, Tally]) -> str:
    """Return what came of each level, and of all."""
    rows = ["| level | cases | refused | proofs | failures | seconds |", "|---|---|---|---|---|---|"]
    for name, one in tallies.items():
        rows.append(
            f"| {name} | {one.cases:,} | {one.refused:,} | {one.proofs:,} | {len(one.faults)} | {one.seconds:.0f} |"
        )
    cases, proofs = sum(t.cases for t in tallies.values()), sum(t.proofs for t in tallies.values())
    failures, seconds = sum(len(t.faults) for t in tallies.values()), sum(t.seconds for t in tallies.values())
    refused = sum(t.refused for t in tallies.values())
    rows.append(f"| all | {cases:,} | {refused:,} | {proofs:,} | {failures} | {seconds:.0f} |")
    return "\n".join((*rows, *(_above_the_least(name, one.above) for name, one in tallies.items() if one.above)))


def _above_the_least(name: str, above: Sequence[float]) -> str:
    """How often answers are the least that there is, and how far the others are above it."""
    more = sorted(one for one in above if one > 0)
    text = f"{name}: of {len(above):,} answers {len(above) - len(more):,} are the least that there is"
    return f"{text}; the others are {median(more):.1%} above it (median), at most {more[-1]:.1%}" if more else text
