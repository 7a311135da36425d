"""One process of the adversary, which judges cases until the time is over."""

from __future__ import annotations

import json
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from adversary.found import FOLDER, Found
from adversary.frame import Level, Program, Verdict, write_new
from adversary.shrinking import shrink
from oracles.packing import TooLargeError

KINDS_KEPT = 3
"""Most cases that are written per kind of fault; more would repeat the same information."""


@dataclass(slots=True)
class Tally:
    """The results of one level in one process."""

    cases: int = 0
    refused: int = 0
    proofs: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    above: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Worker:
    """Looks at the level that has had the least of its share of the time next; files of cases go to `folder`.

    `note` holds what the worker is at, so that whoever started it can name a case that never ends, and `tally_file`
    what came of all cases before it.
    """

    levels: Sequence[Level]
    seed: str
    folder: Path
    note: Path
    tally_file: Path
    found: Path = FOLDER
    shrink_seconds: float = 60.0
    tallies: dict[str, Tally] = field(default_factory=dict)
    _kinds: Counter[tuple[str, str]] = field(default_factory=Counter)

    def work(
        self, seconds: float, clock: Callable[[], float] = time.monotonic, *, stop_at_first: bool = False
    ) -> dict[str, Tally]:
        """Judge cases for some seconds of a clock, or until the first fault."""
        self.tallies = {level.name: Tally() for level in self.levels}
        deadline, number = clock() + seconds, 0
        while clock() < deadline and not (stop_at_first and any(t.faults for t in self.tallies.values())):
            level = min(self.levels, key=lambda one: self.tallies[one.name].seconds / one.weight)
            self._judge_one(level, f"{self.seed}:{level.name}:{number}")
            number += 1
        return self.tallies

    def _judge_one(self, level: Level, seed: str) -> None:
        tally, started = self.tallies[level.name], time.monotonic()
        facts = level.generate(random.Random(seed))
        self.note.write_text(json.dumps({"level": level.name, "seed": seed, "facts": facts, "since": time.time()}))
        program = Program(self.folder)
        try:
            verdict = level.judge(facts, program)
        except TooLargeError:  # the answer is unknown
            verdict = Verdict(refused=True)
        except Exception:  # an oracle that breaks is a defect, too, and must be seen
            verdict = Verdict(fault=f"the judge breaks: {traceback.format_exc(limit=-3)}")
        tally.cases += 1
        tally.proofs += verdict.proofs
        tally.refused += verdict.refused
        tally.above += verdict.above
        if verdict.kind is not None:
            self._keep(level, facts, verdict, program, tally)
        tally.seconds += time.monotonic() - started
        write_new(self.tally_file, json.dumps({name: asdict(one) for name, one in self.tallies.items()}))

    def _keep(self, level: Level, facts: dict[str, object], verdict: Verdict, program: Program, tally: Tally) -> None:
        kind, fault = verdict.kind or "", (verdict.fault or "").replace(str(self.folder), "FOLDER")
        tally.faults.append(fault)
        self._kinds[level.name, kind] += 1
        if self._kinds[level.name, kind] > KINDS_KEPT:
            return
        small = shrink(level, facts, kind, program, self.shrink_seconds)
        path = Found(level.name, fault, small).write(self.found)
        print(f"{level.name}: {fault}\n  kept in {path.name}", flush=True)
