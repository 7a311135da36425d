"""`onchip pack`: fits or not, the least capacity, the least bytes outside."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from adversary.frame import Ended, Facts, Program, Verdict
from oracles.packing import Buffer, fits, is_legal, least_capacity, least_outside_bytes

QUESTIONS = ("fits", "minimize", "overflow")


@dataclass(frozen=True, slots=True)
class PackLevel:
    """Few buffers, often full to the brim, seldom with room to spare."""

    name: str = "pack"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """Lives of 1 to 5 steps, sizes up to 3, 6 or a prime."""
        greatest = chance.choice((3, 6, 6, 13))
        buffers = []
        for _ in range(chance.randint(1, 7)):
            start = chance.randint(0, 6)
            buffers.append([start, start + chance.randint(1, 5), chance.randint(1, greatest)])
        live = max(sum(b[2] for b in buffers if b[0] <= step < b[1]) for step in range(12))
        question = chance.choice(QUESTIONS)
        spread = chance.randint(-live // 2, 1) if question == "overflow" else chance.randint(-1, 3)
        alignment = chance.choice((1, 1, 1, 2, 3, 4))
        return {"question": question, "buffers": buffers, "capacity": max(1, live + spread), "alignment": alignment}

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare with trying every offset."""
        rows = [f"b{i},{start},{stop},{size}" for i, (start, stop, size) in enumerate(facts["buffers"])]
        path = program.write("buffers.csv", "\n".join(("id,lower,upper,size", *rows)) + "\n")
        arguments: list[object] = ["pack", path, "--alignment", facts["alignment"], "--json"]
        arguments += ["--minimize"] if facts["question"] == "minimize" else ["--capacity", facts["capacity"]]
        arguments += ["--overflow"] if facts["question"] == "overflow" else []
        ended = program.ask(*arguments)
        if ended.code == 2:
            return Verdict(refused=True)
        return _judged(facts, ended)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield nothing beyond what shrinks everywhere."""
        yield from ()


def _judged(facts: Facts, ended: Ended) -> Verdict:
    buffers: list[Buffer] = [(start, stop, size) for start, stop, size in facts["buffers"]]
    answer, alignment = ended.answer, facts["alignment"]
    truth = _truth(facts, buffers)
    if truth is None:
        is_right = ended.code == 3 and answer["status"] == "INFEASIBLE"
        return Verdict(1, None if is_right else f"packs what does not fit: ends with {ended.code} {ended.err}")
    if ended.code != 0:
        return Verdict(1, f"ends without an answer: {ended.code} {ended.err}")
    offsets = [(answer["offsets"] or {}).get(f"b{i}") for i in range(len(buffers))]
    key = "outside_bytes" if facts["question"] == "overflow" else "arena_bytes"
    capacity = answer["arena_bytes"] if facts["question"] == "minimize" else facts["capacity"]
    if not is_legal(buffers, offsets, capacity, alignment):
        return Verdict(1, f"illegal packing: {offsets}")
    if facts["question"] == "fits":
        return Verdict(1, None if None not in offsets else f"illegal packing: {offsets}")
    if answer["lower_bound"] > truth:
        return Verdict(1, f"false bound: {answer['lower_bound']} above {truth}")
    if answer[key] < truth:
        return Verdict(1, f"impossible value: {answer[key]} below {truth}")
    is_false_proof = answer["status"] == "OPTIMAL" and answer[key] != truth
    return Verdict(1, f"false proof: {answer[key]} for {truth}" if is_false_proof else None)


def _truth(facts: Facts, buffers: list[Buffer]) -> int | None:
    """What is least; 0 where it is asked whether the buffers fit and they do; None where they do not."""
    capacity, alignment = facts["capacity"], facts["alignment"]
    if facts["question"] == "minimize":
        return least_capacity(buffers, alignment)
    if facts["question"] == "overflow":
        return least_outside_bytes(buffers, capacity, alignment)
    return 0 if fits(buffers, capacity, alignment) else None
