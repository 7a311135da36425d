"""`onchip pack` with fixed offsets: fits or not, and the least capacity, against every place of every other buffer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from adversary.frame import Ended, Facts, Program, Verdict
from oracles.packing import fits, is_legal


@dataclass(frozen=True, slots=True)
class PackFixedLevel:
    """Few buffers, some of them fixed, now and then on each other."""

    name: str = "pack-fixed"
    weight: float = 0.5

    def generate(self, chance: random.Random) -> Facts:
        """Lives of 1 to 4 steps; fixed offsets are multiples of the alignment."""
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
    if not is_legal(buffers, offsets, answer["arena_bytes"], facts["alignment"]):
        return f"illegal packing: {offsets}"
    if any(at not in (None, offset) for at, offset in zip(fixed, offsets, strict=True)):
        return f"a fixed buffer moved: {offsets} for {fixed}"
    if facts["question"] == "fits":
        return None if answer["arena_bytes"] <= truth else f"beyond the capacity: {answer['arena_bytes']}"
    if (answer["status"], answer["arena_bytes"], answer["lower_bound"]) != ("OPTIMAL", truth, truth):
        return f"false value: {answer['arena_bytes']} with bound {answer['lower_bound']}, {truth} is the least"
    return None
