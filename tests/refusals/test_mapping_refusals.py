"""The nearest legal and the nearest illegal mapping for every rule of the mapping verifier."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from random import Random

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.ir.layer import Layer
from onchip.model.layer.limits import checked_boundaries, needed_bits
from onchip.model.layer.ragged import boundaries
from onchip.verify.mapping import verify_mapping
from onchip.verify.rules import Rule
from support.mutants import reported_by
from support.nests import random_case

REGISTER = MemoryLevel(Memory("register", 8, holds=(Operand.WEIGHT, Operand.OUTPUT)), ("C",))
BUFFER = MemoryLevel(Memory("buffer", 12), None, is_scratchpad=True)
TWICE = MemoryLevel(Memory("twice", 12), None, is_scratchpad=True, double_buffered=True)
WIDE = MemoryLevel(Memory("wide", 12), ("K", "C"))
NARROW = MemoryLevel(Memory("narrow", 12), ("K",))
ARRAY = ComputeArray({"K": 2, "C": 3, "pe": 4}, unrolls={"pe": ("P", "Q", "R")})
MACHINE = Accelerator("small", (BUFFER.memory, TWICE.memory), (REGISTER, BUFFER, TWICE, WIDE, NARROW), array=ARRAY)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Two mappings of `layer` that differ in one place; the second breaks `rule` alone, with `detail`."""

    rule: Rule
    layer: Layer
    legal: LayerMapping
    illegal: LayerMapping
    detail: str
    illegal_layer: Layer | None = None  # if the layer differs instead of the mapping, or together with it
    may_pad: bool = False


def _in(*memories: str, loops: int = 1) -> tuple[Kept, ...]:
    return tuple(Kept(memory, loops) for memory in memories)


def _p(size: int) -> tuple[Loop, ...]:
    return (Loop("P", size),)


K4, P4, P12 = Layer(k=4), Layer(p=4), Layer(p=12)
TABLE = {
    "iterations that multiply to the bound": Refusal(
        Rule.TOO_FEW_ITERATIONS,
        K4,
        LayerMapping((Loop("K", 2, "K"), Loop("K", 2))),
        LayerMapping((Loop("K", 2, "K"), Loop("K", 1))),
        "K: 2 iterations for a bound of 4",
    ),
    "at least so many where bounds may be padded": Refusal(
        Rule.TOO_FEW_ITERATIONS, P4, LayerMapping(_p(5)), LayerMapping(_p(3)), "P: 3 iterations", may_pad=True
    ),
    "no more where they may not": Refusal(
        Rule.TOO_MANY_ITERATIONS, P4, LayerMapping(_p(4)), LayerMapping(_p(5)), "P: 5 iterations for a bound of 4"
    ),
    "along a dimension that the array has": Refusal(
        Rule.NO_SUCH_DIMENSION,
        Layer(k=2),
        LayerMapping((Loop("K", 2, "K"),)),
        LayerMapping((Loop("K", 2, "N"),)),
        "N: loop K2@N runs along it",
    ),
    "along one that unrolls the loop": Refusal(
        Rule.NOT_UNROLLED,
        P4,
        LayerMapping((Loop("P", 4, "pe"),)),
        LayerMapping((Loop("P", 2, "K"), Loop("P", 2))),
        "K: loop P2@K runs along it",
    ),
    "all its units": Refusal(
        Rule.ARRAY_EXCEEDED,
        Layer(p=2, q=6),
        LayerMapping((Loop("P", 2, "pe"), Loop("Q", 2, "pe"), Loop("Q", 3))),
        LayerMapping((Loop("P", 2, "pe"), Loop("Q", 3, "pe"), Loop("Q", 2))),
        "pe: 6 of 4 units",
    ),
    "a memory that there is": Refusal(
        Rule.NO_SUCH_MEMORY,
        P4,
        LayerMapping(_p(4), _in("buffer")),
        LayerMapping(_p(4), _in("cache")),
        "cache: input is kept in it",
    ),
    "one that holds the operand": Refusal(
        Rule.NOT_HELD,
        K4,
        LayerMapping((Loop("K", 4),), weight=_in("register")),
        LayerMapping((Loop("K", 4),), input=_in("register")),
        "input: 'register' does not hold it",
    ),
    "an operand that the layer has": Refusal(
        Rule.NO_SUCH_OPERAND,
        P4,
        LayerMapping(_p(4), weight=_in("buffer")),
        LayerMapping(_p(4), weight=_in("buffer")),
        "weight: it is kept in 'buffer'",
        illegal_layer=Layer(p=4, has_weight=False),
    ),
    "a memory above the one before": Refusal(
        Rule.MISPLACED,
        P4,
        LayerMapping(_p(4), weight=_in("register", "buffer")),
        LayerMapping(_p(4), weight=_in("buffer", "register")),
        "weight: 'register' is not above 'buffer'",
    ),
    "another memory than the one before": Refusal(
        Rule.MISPLACED,
        P4,
        LayerMapping(_p(4), weight=_in("buffer", "twice")),
        LayerMapping(_p(4), weight=_in("buffer", "buffer")),
        "weight: 'buffer' is not above 'buffer'",
    ),
    "a memory that serves all that the one before serves": Refusal(
        Rule.MISPLACED,
        P4,
        LayerMapping(_p(4), weight=_in("register", "wide")),
        LayerMapping(_p(4), weight=_in("register", "narrow")),
        "weight: 'narrow' is not above 'register'",
    ),
    "after a memory for the whole array another one for the whole array": Refusal(
        Rule.MISPLACED,
        P4,
        LayerMapping(_p(4), weight=_in("buffer", "twice")),
        LayerMapping(_p(4), weight=_in("buffer", "wide")),
        "weight: 'wide' is not above 'buffer'",
    ),
    "sums of which no other instance has a part": Refusal(
        Rule.CAPACITY_EXCEEDED,
        Layer(p=8),
        LayerMapping((Loop("P", 8),), output=_in("register")),
        LayerMapping((Loop("P", 8), Loop("R", 2, "pe")), output=_in("register")),
        "register: 192 bits (output 192) in 64",
        illegal_layer=Layer(p=8, r=2),
    ),
    "a tile that fills the memory": Refusal(
        Rule.CAPACITY_EXCEEDED,
        P12,
        LayerMapping(_p(12), _in("buffer")),
        LayerMapping(_p(13), _in("buffer")),
        "buffer: 104 bits (input 104) in 96",
        illegal_layer=Layer(p=13),
    ),
    "tiles of two operands that fill it": Refusal(
        Rule.CAPACITY_EXCEEDED,
        Layer(p=6),
        LayerMapping(_p(6), _in("buffer"), (), _in("buffer")),
        LayerMapping(_p(6), _in("buffer"), _in("buffer"), _in("buffer")),
        "buffer: 104 bits (input 48, weight 8, output 48) in 96",
    ),
    "a block with the rows between": Refusal(
        Rule.CAPACITY_EXCEEDED,
        Layer(p=6, stride=(2, 1)),
        LayerMapping(_p(6), _in("buffer")),
        LayerMapping(_p(6), _in("buffer")),
        "buffer: 128 bits (input 128) in 96",
        illegal_layer=Layer(p=6, stride=(3, 1)),
    ),
    "a halo": Refusal(
        Rule.CAPACITY_EXCEEDED,
        Layer(p=10, r=3),
        LayerMapping((Loop("P", 10), Loop("R", 3)), _in("buffer", loops=2)),
        LayerMapping((Loop("P", 10), Loop("R", 4)), _in("buffer", loops=2)),
        "buffer: 104 bits (input 104) in 96",
        illegal_layer=Layer(p=10, r=4),
    ),
    "no padding": Refusal(
        Rule.CAPACITY_EXCEEDED,
        Layer(p=12, r=3, padding=(1, 0, 1, 0)),
        LayerMapping((Loop("P", 12), Loop("R", 3)), _in("buffer", loops=2)),
        LayerMapping((Loop("P", 12), Loop("R", 3)), _in("buffer", loops=2)),
        "buffer: 104 bits (input 104) in 96",
        illegal_layer=Layer(p=12, r=3, padding=(1, 0, 0, 0)),
    ),
    "two tiles where the memory takes turns": Refusal(
        Rule.CAPACITY_EXCEEDED,
        P12,
        LayerMapping((Loop("P", 6), Loop("P", 2)), _in("twice")),
        LayerMapping((Loop("P", 7), Loop("P", 2)), _in("twice")),
        "twice: 112 bits (input 112) in 96",
        illegal_layer=Layer(p=14),
    ),
    "one tile where there is no other": Refusal(
        Rule.CAPACITY_EXCEEDED,
        Layer(p=12, k=2),
        LayerMapping((Loop("P", 12), Loop("K", 2)), _in("twice")),
        LayerMapping((Loop("P", 12), Loop("P", 2)), _in("twice")),
        "twice: 192 bits (input 192) in 96",
        illegal_layer=Layer(p=24),
    ),
    "finished sums": Refusal(
        Rule.CAPACITY_EXCEEDED,
        Layer(p=12, c=2),
        LayerMapping((Loop("C", 2), Loop("P", 12)), output=(Kept("register", 1), Kept("buffer", 2))),
        LayerMapping((Loop("C", 2), Loop("P", 12)), output=(Kept("register", 0), Kept("buffer", 2))),
        "buffer: 288 bits (output 288) in 96",
    ),
    "sums finished on their way by adding over instances": Refusal(
        Rule.CAPACITY_EXCEEDED,
        Layer(p=6, c=3),
        LayerMapping((Loop("C", 3, "C"), Loop("P", 6)), output=(Kept("buffer", 2),)),
        LayerMapping((Loop("C", 3), Loop("P", 6)), output=(Kept("buffer", 2),)),
        "buffer: 144 bits (output 144) in 96",
    ),
    "in each instance its own part": Refusal(
        Rule.CAPACITY_EXCEEDED,
        Layer(k=16),
        LayerMapping((Loop("K", 2, "K"), Loop("K", 8)), weight=_in("register", loops=2)),
        LayerMapping((Loop("K", 2), Loop("K", 8)), weight=_in("register", loops=2)),
        "register: 128 bits (weight 128) in 64",
    ),
    "what an instance serves is in it wherever the loop stands": Refusal(
        Rule.CAPACITY_EXCEEDED,
        Layer(c=6),
        LayerMapping((Loop("C", 2), Loop("C", 3, "C")), weight=_in("register", loops=1)),
        LayerMapping((Loop("C", 3), Loop("C", 3, "C")), weight=_in("register", loops=1)),
        "register: 72 bits (weight 72) in 64",
        illegal_layer=Layer(c=9),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_nearest_legal_mapping_passes_and_the_nearest_illegal_one_does_not(name: str) -> None:
    row = TABLE[name]
    assert verify_mapping(LayerProblem(row.layer, MACHINE), row.legal, may_pad=row.may_pad) == ()
    violations = verify_mapping(LayerProblem(row.illegal_layer or row.layer, MACHINE), row.illegal, may_pad=row.may_pad)
    assert [violation.rule for violation in violations] == [row.rule]
    assert row.detail in f"{violations[0].subject}: {violations[0].detail}"


def test_every_rule_has_a_row() -> None:
    # Refusals of claims are in tests/verify/test_mapping_claims.py.
    claims = {Rule.OBJECTIVE_DIFFERS, Rule.BOUND_ABOVE_OBJECTIVE, Rule.OPTIMAL_UNPROVEN, Rule.ANSWER_DENIED}
    assert {row.rule for row in TABLE.values()} == reported_by("mapping") - claims


def test_an_accelerator_without_an_array_unrolls_nothing() -> None:
    machine = replace(MACHINE, array=None, levels=(BUFFER, TWICE))
    assert verify_mapping(LayerProblem(K4, machine), LayerMapping((Loop("K", 4),))) == ()
    (violation,) = verify_mapping(LayerProblem(Layer(k=2), machine), LayerMapping((Loop("K", 2, "K"),)))
    assert violation.rule is Rule.NO_SUCH_DIMENSION


@pytest.mark.parametrize("first", range(0, 600, 50))
def test_verifier_and_cost_model_agree_to_the_byte_on_what_fits(first: int) -> None:
    verdicts = set()
    for seed in range(first, first + 50):
        case, random = random_case(seed), Random(seed)
        needs: dict[str, int] = defaultdict(int)
        for (memory, _), bits in needed_bits(case.problem, boundaries(case.layer, case.problem, case.mapping)).items():
            needs[memory] += bits
        names = [level.memory.name for level in case.problem.levels]
        room = {name: _exactly(needs[name] - case.problem.resident_bits(name), random) for name in names}
        problem = replace(case.problem, room_bytes=room)
        is_legal = not verify_mapping(problem, case.mapping)
        try:
            checked_boundaries(problem, case.mapping)
        except MappingError:
            assert not is_legal, seed
        else:
            assert is_legal, seed
        verdicts.add(is_legal)
    assert verdicts == {True, False}


def _exactly(need_bits: int, random: Random) -> int:
    """Return the bytes needed, or sometimes one byte less."""
    return max(-(-need_bits // 8) - (random.random() < 0.2), 0)
