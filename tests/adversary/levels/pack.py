"""`onchip pack`: fits or not, the least capacity, the least bytes outside; in no time, and ten times as large."""

from __future__ import annotations

import csv
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adversary.frame import Ended, Facts, Program, Verdict
from oracles.packing import Buffer, bounds_of_packing, fits, is_legal, items_of, least_capacity, least_outside_bytes

QUESTIONS = ("fits", "minimize", "overflow", "overflow")
SIZES = ("tiny",) * 14 + ("hasty", "hasty", "large")
LARGE_SECONDS = 4.0
MOST_SECONDS_LATE = 30.0  # of a slow and busy machine
"""Far more than the documented half second: other processes have the machine, too, and solvers are loaded once."""


@dataclass(frozen=True, slots=True)
class PackLevel:
    """Few buffers, often full to the brim, seldom with room to spare."""

    name: str = "pack"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """Return buffers that live 1 to 5 steps, sometimes all the same steps, with sizes up to 1, 3, 6 or 13."""
        kind = chance.choice(SIZES)
        greatest = chance.choice((1, 3, 6, 6, 13))
        count, steps = (chance.randint(20, 50), 40) if kind == "large" else (chance.randint(1, 7), 6)
        lives = [(start, start + chance.randint(1, 5)) for start in (chance.randint(0, steps) for _ in range(count))]
        if chance.random() < 0.2:
            lives = [chance.choice(lives[:2]) for _ in lives]
        buffers = [[start, stop, chance.randint(1, greatest)] for start, stop in lives]
        live = max(sum(b[2] for b in buffers if b[0] <= step < b[1]) for step in range(steps + 6))
        question = chance.choice(QUESTIONS)
        spread = chance.randint(-live // 2, 1) if question == "overflow" else chance.randint(-1, 3)
        facts = {"question": question, "buffers": buffers, "capacity": max(1, live + spread)}
        facts["alignment"] = chance.choice((1, 1, 1, 2, 3, 4))
        limits = {"hasty": {"seconds": chance.choice((0.001, 0.005, 0.02, 0.05))}, "large": {"seconds": LARGE_SECONDS}}
        return facts | limits.get(kind, {})

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare with trying every offset, or, ten times as large, with a model of another kind."""
        rows = [f"b{i},{start},{stop},{size}" for i, (start, stop, size) in enumerate(facts["buffers"])]
        path = program.write("buffers.csv", "\n".join(("id,lower,upper,size", *rows)) + "\n")
        arguments: list[object] = ["pack", path, "--alignment", facts["alignment"], "--json"]
        arguments += ["--minimize"] if facts["question"] == "minimize" else ["--capacity", facts["capacity"]]
        arguments += ["--overflow"] if facts["question"] == "overflow" else []
        arguments += ["--time-limit", facts["seconds"]] if "seconds" in facts else []
        began = time.monotonic()
        ended = program.ask(*arguments, "-o", path.with_name("packed.csv"))
        if ended.code == 2:
            return Verdict(refused=True)
        if (seconds := time.monotonic() - began) > facts.get("seconds", math.inf) + MOST_SECONDS_LATE:
            return Verdict(1, f"outlasts its limit: {seconds:.1f} seconds of {facts['seconds']}")
        fault = _fault_of_file(facts, ended, path.with_name("packed.csv"))
        return Verdict(1, fault) if fault else _judged(facts, ended)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield nothing beyond what shrinks everywhere."""
        yield from ()


def _fault_of_file(facts: Facts, ended: Ended, path: Path) -> str | None:
    """Return a fault unless the CSV file agrees with the answer."""
    if ended.code != 0:
        return None
    with path.open() as lines:
        rows = [(int(r["lower"]), int(r["upper"]), int(r["size"]), r["offset"]) for r in csv.DictReader(lines)]
    offsets = ended.answer["offsets"] or {}
    said = [offsets.get(f"b{i}") for i in range(len(facts["buffers"]))]
    expected = [(*buffer, "" if at is None else str(at)) for buffer, at in zip(facts["buffers"], said, strict=True)]
    return None if rows == expected else f"another file: {rows} for {expected}"


def _judged(facts: Facts, ended: Ended) -> Verdict:
    buffers: list[Buffer] = [(start, stop, size) for start, stop, size in facts["buffers"]]
    answer, alignment = ended.answer, facts["alignment"]
    low, high = _bounds(facts, buffers)
    if ended.code == 4 and "seconds" in facts:
        return Verdict(0)
    if ended.code == 3:
        return Verdict(1, None if high is None else f"false INFEASIBLE: {high} is possible")
    if low is None:
        return Verdict(1, f"packs what does not fit: ends with {ended.code} {ended.err}")
    if ended.code != 0:
        return Verdict(1, f"ends without an answer: {ended.code} {ended.err}")
    offsets = [(answer["offsets"] or {}).get(f"b{i}") for i in range(len(buffers))]
    capacity = answer["arena_bytes"] if facts["question"] == "minimize" else facts["capacity"]
    if not is_legal(items_of(buffers, alignment), offsets, capacity):
        return Verdict(1, f"illegal packing: {offsets}")
    if facts["question"] == "fits":
        return Verdict(1, None if None not in offsets else f"illegal packing: {offsets}")
    value, bound = answer["outside_bytes" if facts["question"] == "overflow" else "arena_bytes"], answer["lower_bound"]
    if high is not None and bound > high:
        return Verdict(1, f"false bound: {bound} above {high}")
    if value < low or bound > value:
        return Verdict(1, f"impossible value: {value} with bound {bound}, at least {low}")
    if answer["status"] == "OPTIMAL" and high is not None and value > high:
        return Verdict(1, f"false proof: {value} for {high}")
    is_left_open = "seconds" not in facts and answer["status"] != "OPTIMAL"
    return Verdict(1, f"left open: {value} for {low}" if is_left_open else None)


def _bounds(facts: Facts, buffers: list[Buffer]) -> tuple[int | None, int | None]:
    """Return bounds on the minimum: at least (None: infeasible) and at most (None: unknown); 0 if everything fits."""
    capacity, alignment = facts["capacity"], facts["alignment"]
    if len(buffers) > 9:
        return bounds_of_packing(buffers, capacity, alignment, facts["question"], LARGE_SECONDS)
    truth: int | None
    if facts["question"] == "minimize":
        truth = least_capacity(buffers, alignment)
    elif facts["question"] == "overflow":
        truth = least_outside_bytes(buffers, capacity, alignment)
    else:
        truth = 0 if fits(buffers, capacity, alignment) else None
    return truth, truth


@dataclass(frozen=True, slots=True)
class PackFixedLevel:
    """A level of few buffers, some with fixed offsets, sometimes in conflict."""

    name: str = "pack-fixed"
    weight: float = 0.5

    def generate(self, chance: random.Random) -> Facts:
        """Return buffers that live 1 to 4 steps; fixed offsets are multiples of the alignment."""
        alignment, greatest = chance.choice((1, 1, 2, 3)), chance.choice((2, 4, 6))
        buffers: list[list[int | None]] = []
        for _ in range(chance.randint(1, 6)):
            start, offset = chance.randint(0, 5), alignment * chance.randint(0, 8)
            size = chance.randint(1, greatest)
            buffers.append([start, start + chance.randint(1, 4), size, offset if chance.random() < 0.4 else None])
        capacity = max(1, sum(size or 0 for _, _, size, _ in buffers) + chance.randint(-6, 6))
        question = chance.choice(("fits", "minimize"))
        return {"question": question, "buffers": buffers, "capacity": capacity, "alignment": alignment}

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare the answer with trying every place."""
        rows = [
            f"b{at},{start},{stop},{size},{'' if offset is None else offset}"
            for at, (start, stop, size, offset) in enumerate(facts["buffers"])
        ]
        path = program.write("buffers.csv", "\n".join(("id,lower,upper,size,offset", *rows)) + "\n")
        is_least = facts["question"] == "minimize"
        asked = ("--minimize",) if is_least else ("--capacity", facts["capacity"])
        ended = program.ask("pack", path, "--alignment", facts["alignment"], *asked, "--json")
        if ended.code == 2:
            return Verdict(refused=True)
        if ended.code not in (0, 3):
            return Verdict(1, f"ends badly: {ended.code} {ended.err[-300:]}")
        truth = _least(facts) if is_least else facts["capacity"] if _fits(facts, facts["capacity"]) else None
        if (ended.code == 3) is not (truth is None):
            return Verdict(1, f"false verdict: {ended.code} where {truth} is the least")
        return Verdict(1, None if truth is None else _fault_of_answer(facts, ended, truth))

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield nothing beyond what shrinks everywhere."""
        yield from ()


def _fits(facts: Facts, capacity: int) -> bool:
    buffers = [(start, stop, size) for start, stop, size, _ in facts["buffers"]]
    return fits(buffers, capacity, facts["alignment"], [offset for _, _, _, offset in facts["buffers"]])


def _least(facts: Facts) -> int | None:
    """Return the minimum capacity; None if fixed buffers overlap."""
    ends = [offset + size for _, _, size, offset in facts["buffers"] if offset is not None]
    padded = [-(-size // facts["alignment"]) * facts["alignment"] for _, _, size, _ in facts["buffers"]]
    room = max(ends, default=0) + facts["alignment"] + sum(padded)
    return next((capacity for capacity in range(1, room + 1) if _fits(facts, capacity)), None)


def _fault_of_answer(facts: Facts, ended: Ended, truth: int) -> str | None:
    answer = ended.answer
    buffers = [(start, stop, size) for start, stop, size, _ in facts["buffers"]]
    fixed = [offset for _, _, _, offset in facts["buffers"]]
    offsets = [answer["offsets"][f"b{at}"] for at in range(len(buffers))]
    if not is_legal(items_of(buffers, facts["alignment"]), offsets, answer["arena_bytes"]):
        return f"illegal packing: {offsets}"
    if any(at not in (None, offset) for at, offset in zip(fixed, offsets, strict=True)):
        return f"a fixed buffer moved: {offsets} for {fixed}"
    if facts["question"] == "fits":
        return None if answer["arena_bytes"] <= truth else f"beyond the capacity: {answer['arena_bytes']}"
    if (answer["status"], answer["arena_bytes"], answer["lower_bound"]) != ("OPTIMAL", truth, truth):
        return f"false value: {answer['arena_bytes']} with bound {answer['lower_bound']}, {truth} is the least"
    return None
