"""Random cases at every level for some seconds, and a table of the results."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import secrets
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median

from adversary.levels import LEVELS
from adversary.worker import FOLDER, Found, Tally, Worker

SECONDS_OF_A_CASE = 300.0
"""A case that takes longer never ends."""
NEVER_ENDS = "never ends"
"""The beginning of the fault of a case that never ends."""


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
    parser.add_argument("--processor-time", action="store_true", help="count the seconds that each process computes")
    parser.add_argument("--seed", help="as an earlier run printed it; else a fresh one")
    parser.add_argument("--levels", nargs="+", choices=[level.name for level in LEVELS])
    parser.add_argument("--found", type=Path, default=FOLDER, help="where cases that fail are written")
    parser.add_argument("--shrink-seconds", type=float, default=60.0, help="for making one case smaller")
    parser.add_argument("--stop-at-first", action="store_true", help="end at the first fault")
    return parser.parse_args()


def _run(asked: argparse.Namespace, seed: str, folder: Path) -> dict[str, Tally]:
    crew = Crew(asked, seed, folder)
    endless = crew.found_endless()
    total = {level.name: Tally() for level in LEVELS if level.name in (asked.levels or [one.name for one in LEVELS])}
    for place in crew.places:
        _add(total, place / "tallies.json")
    for found in endless:
        total[found.level].faults.append(found.fault)
        print(f"{found.level}: {found.fault}\n  kept in {found.write(asked.found).name}", flush=True)
    return total


def _work(asked: argparse.Namespace, seed: str, place: Path, seconds: float) -> None:
    place.mkdir()
    os.environ["ONCHIP_CACHE"] = str(place / "cache")
    levels = [level for level in LEVELS if asked.levels is None or level.name in asked.levels]
    worker = Worker(levels, seed, place, place / "note.json", place / "tallies.json", asked.found, asked.shrink_seconds)
    clock = time.process_time if asked.processor_time else time.monotonic
    worker.work(seconds, clock, stop_at_first=asked.stop_at_first)


@dataclass(slots=True)
class Crew:
    """A fixed number of concurrent processes; a process whose case never ends is killed and replaced.

    `places` are the folders of all processes so far.
    """

    asked: argparse.Namespace
    seed: str
    folder: Path
    places: list[Path] = field(default_factory=list)
    _workers: dict[Path, BaseProcess] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)

    def found_endless(self) -> list[Found]:
        """Wait for all; return the cases that never ended."""
        for _ in range(self.asked.workers):
            self._hire()
        endless = []
        while self._workers:
            time.sleep(0.5)
            for place, worker in list(self._workers.items()):
                if self._is_stuck(place, worker):
                    worker.kill()
                    endless.append(_never_ends(place / "note.json"))
                    self._hire()
                if not worker.is_alive():
                    self._dismiss(place, worker)
        return endless

    def _hire(self) -> None:
        seconds = self.asked.seconds - (time.monotonic() - self._started)
        if seconds <= 0:
            return
        number = len(self.places)
        place = self.folder / str(number)
        worker = multiprocessing.get_context("spawn").Process(
            target=_work, args=(self.asked, f"{self.seed}:{number}", place, seconds)
        )
        worker.start()
        self.places.append(place)
        self._workers[place] = worker

    def _dismiss(self, place: Path, worker: BaseProcess) -> None:
        worker.join()
        del self._workers[place]
        if worker.exitcode and worker.exitcode > 0:
            raise RuntimeError(f"a process of the adversary ended with {worker.exitcode}")
        if self.asked.stop_at_first:
            for other in self._workers.values():
                other.terminate()

    def _is_stuck(self, place: Path, worker: BaseProcess) -> bool:
        note = place / "note.json"
        return worker.is_alive() and note.exists() and time.time() - note.stat().st_mtime > SECONDS_OF_A_CASE


def _never_ends(note: Path) -> Found:
    fields = json.loads(note.read_text())
    fault = f"{NEVER_ENDS}: seed {fields['seed']} was at it for {SECONDS_OF_A_CASE:g} seconds"
    return Found(fields["level"], fault, fields["facts"])


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
    """Return a Markdown table of results by level, and in total."""
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
    """Return a line with the number of minimal answers, and the excess of the others over the minimum."""
    more = sorted(one for one in above if one > 0)
    text = f"{name}: of {len(above):,} answers {len(above) - len(more):,} are the least that there is"
    return f"{text}; the others are {median(more):.1%} above it (median), at most {more[-1]:.1%}" if more else text
