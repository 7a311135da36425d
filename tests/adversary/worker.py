"""Worker process of the adversary: judges cases until the time is over."""

from __future__ import annotations

import hashlib
import json
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path

from adversary.frame import Facts, Json, Level, Program, Verdict, write_new
from oracles.packing import TooLargeError

FOLDER = Path(__file__).parents[1] / "found"


@dataclass(frozen=True, slots=True)
class Found:
    """A case, its level, and its fault when it was found."""

    level: str
    fault: str
    facts: Facts

    def write(self, folder: Path = FOLDER) -> Path:
        """Write it under a name that follows from the case."""
        text = json.dumps({"level": self.level, "fault": self.fault, "facts": self.facts}, indent=1)
        path = folder / f"{self.level}-{hashlib.sha256(json.dumps(self.facts).encode()).hexdigest()[:8]}.json"
        path.write_text(text + "\n")
        return path


def read_found(path: Path) -> Found:
    """Read a finding that `write` wrote."""
    fields = json.loads(path.read_text())
    return Found(fields["level"], fields["fault"], fields["facts"])


def shrink(level: Level, facts: Facts, kind: str, program: Program, seconds: float) -> Facts:
    """Return the smallest case found in that time whose fault is of the same kind."""
    deadline = time.monotonic() + seconds

    def still_fails(candidate: Facts) -> bool:
        return level.judge(candidate, program).kind == kind

    is_smaller = True
    while is_smaller and time.monotonic() < deadline:
        is_smaller = False
        for candidate in chain(level.smaller(facts), smaller_values(facts)):
            if time.monotonic() > deadline:
                break
            if weight(candidate) < weight(facts) and _holds(still_fails, candidate):
                facts, is_smaller = candidate, True
                break
    return facts


def _holds(still_fails: Callable[[Facts], bool], candidate: Facts) -> bool:
    """Return True if a candidate still fails; a case that breaks an oracle does not count as the same fault."""
    try:
        return still_fails(candidate)
    except Exception:
        return False


def weight(value: object) -> tuple[int, int, int]:
    """Return the measure that shrinking reduces: the entries, then the sum of the numbers, then the text length."""
    entries, total = 0, 0
    for one in _leaves(value):
        entries += 1
        total += abs(int(one)) if isinstance(one, int | float) else 0
    return entries, total, len(json.dumps(value))


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for one in value.values():
            yield None
            yield from _leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield None
            yield from _leaves(one)
    else:
        yield value


def smaller_values(value: Json) -> Iterator[Json]:
    """Yield the value with one entry left out or one number nearer to zero, anywhere in it."""
    if isinstance(value, dict):
        for key in value:
            yield {k: v for k, v in value.items() if k != key}
        for key, one in value.items():
            for less in smaller_values(one):
                yield {**value, key: less}
    elif isinstance(value, list):
        for at in range(len(value)):
            yield value[:at] + value[at + 1 :]
        for at, one in enumerate(value):
            for less in smaller_values(one):
                yield [*value[:at], less, *value[at + 1 :]]
    elif isinstance(value, int) and not isinstance(value, bool) and value > 0:
        yield from dict.fromkeys(less for less in (0, 1, value // 2, value - 1) if less < value)


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
    """Process that always takes the level furthest behind its share of the time; case files go to `folder`.

    `note` holds the current case, so that the parent process can name a case that never ends; `tally_file` holds the
    results of all cases before it.
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
