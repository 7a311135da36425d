"""`onchip check` of a TFLite Micro arena plan against an independent rule: overlaps, variables, negative offsets."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from adversary.frame import Facts, Program, Verdict
from support.tflite_models import TfliteOperator, TfliteTensor, network

METADATA = "OfflineMemoryAllocation"
OPEN = -1


@dataclass(frozen=True, slots=True)
class ArenaLevel:
    """Operators in a row, some with a variable tensor, and offsets that are often legal."""

    name: str = "arena"
    weight: float = 0.5

    def generate(self, chance: random.Random) -> Facts:
        """Make a chain in which each operator reads an earlier tensor and its state; `sizes` are in bytes."""
        count = chance.randint(1, 5)
        reads = [chance.randint(0, at) for at in range(count)]
        sizes = [chance.choice((4, 16, 24, 64)) for _ in range(count + 1)]
        states = [chance.choice((8, 32)) if chance.random() < 0.3 else 0 for _ in range(count)]
        total = len(sizes) + count
        spread = chance.choice((40, 100, 400))
        offsets = [chance.randrange(0, spread, 4) for _ in range(total)]
        for _ in range(chance.choice((0, 0, 1, 2))):
            offsets[chance.randrange(total)] = chance.choice((OPEN, OPEN, -2, -4, -(2**31)))
        return {"reads": reads, "sizes": sizes, "states": states, "offsets": offsets}

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare the verdict with the lives of tensors, worked out from the facts."""
        sizes, states, reads = facts["sizes"], facts["states"], facts["reads"]
        if not (len(states) == len(reads) == len(sizes) - 1) or any(not 0 <= at <= k for k, at in enumerate(reads)):
            return Verdict(refused=True)
        if min(sizes) < 1 or min(states, default=0) < 0 or len(facts["offsets"]) != len(sizes) + len(states):
            return Verdict(refused=True)
        path = program.folder / "planned.tflite"
        _write(facts, path)
        ended = program.ask("check", path, path, "--json")
        if ended.code not in (0, 1):
            return Verdict(1, f"ends badly: {ended.code} {ended.err[-300:]}")
        is_legal = _is_legal(facts, facts["offsets"])
        if (ended.code == 0) is not is_legal:
            return Verdict(1, f"check misjudges: {ended.code} for {'legal' if is_legal else 'illegal'} offsets")
        return Verdict(1)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield no cases beyond the general reductions."""
        yield from ()


def _write(facts: Facts, path: object) -> None:
    """Write tensors t0, t1, ... and states s0, s1, ...; a state of no bytes is a constant without readers."""
    tensors = [TfliteTensor(f"t{at}", [1, size], "INT8") for at, size in enumerate(facts["sizes"])]
    operators = []
    for at, (read, state) in enumerate(zip(facts["reads"], facts["states"], strict=True)):
        constant = None if state else np.zeros((1, 1), np.int8)
        tensors.append(TfliteTensor(f"s{at}", [1, state or 1], "INT8", constant, is_variable=bool(state)))
        inputs = [f"t{read}", f"s{at}"] if state else [f"t{read}"]
        operators.append(TfliteOperator("CUSTOM", inputs, [f"t{at + 1}"], custom="Any"))
    model = network(tensors, operators, ["t0"], [f"t{len(facts['reads'])}"])
    model.metadata = {METADATA: np.array([1, 1, len(facts["offsets"]), *facts["offsets"]], "<i4").tobytes()}
    model.write(path)  # type: ignore[arg-type]  # a path


def _is_legal(facts: Facts, offsets: Sequence[int]) -> bool:
    """Return True if no offset is below -1, and no two tensors needed in one step share a byte."""
    if min(offsets) < OPEN:
        return False
    count = len(facts["reads"])
    needed: list[set[int]] = [{0}] + [{step} for step in range(1, count + 1)]
    for step, read in enumerate(facts["reads"], start=1):
        needed[read] |= set(range(min(needed[read]), step + 1))
    needed[count] |= {count}
    placed = [(at, size, steps) for at, size, steps in zip(offsets, facts["sizes"], needed, strict=False)]
    every = set(range(count + 2))
    placed += [(at, size, every) for at, size in zip(offsets[count + 1 :], facts["states"], strict=True) if size]
    placed = [one for one in placed if one[0] != OPEN]
    return not any(
        one[2] & other[2] and one[0] < other[0] + other[1] and other[0] < one[0] + one[1]
        for number, one in enumerate(placed)
        for other in placed[:number]
    )
