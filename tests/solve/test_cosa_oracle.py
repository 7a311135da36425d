"""CoSA's model against every schedule: one place for each single prime factor, every order at the global buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import inf, log2, prod
from random import Random

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.ir.loopnest import Layer
from onchip.plan.result import Status
from onchip.solve.limits import Limits, MipSolver, Run
from onchip.solve.mapping.cosa import VALUE_PER_BIT, solve_as_cosa
from oracles import mapping_cosa

A = {"weight": "RSCKG", "input": "PQCNG", "output": "PQKNG"}
WINDOWS = {"R": "P", "S": "Q"}
Spot = tuple[int, str | None]
Factor = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Chain:
    """For each level: what it holds (elements for each operand), and the units of the dimension it serves first."""

    entries: tuple[dict[str, int], ...]
    units: tuple[int, ...]

    def accelerator(self) -> Accelerator:
        dimensions = {f"d{level}": units for level, units in enumerate(self.units)}
        levels = []
        for level, held in enumerate(self.entries):
            capacity = held["input"] * 4 if len(held) == 2 else next(iter(held.values()))
            memory = Memory(f"m{level}", capacity, holds=tuple(Operand(name) for name in held))
            last = level == len(self.entries) - 1
            levels.append(MemoryLevel(memory, tuple(dimensions)[: level + 1], last))
        return Accelerator("chain", (levels[-1].memory,), tuple(levels), None, ComputeArray(dimensions))


def random_case(seed: int) -> tuple[Chain, Layer]:
    random = Random(seed)
    is_tight = seed % 2 == 1  # little room but at the global buffer, so that its order of loops matters
    inner = random.sample(["weight", "output", "input"], random.choice((1, 2, 2)))
    entries = [{operand: random.choice((1, 1, 2) if is_tight else (1, 2, 4, 8))} for operand in inner]
    shared = random.choice((16, 64) if is_tight else (2, 4, 16))
    chain = Chain(
        (*entries, {"input": shared, "output": 3 * shared}),
        tuple(random.choice((1, 1, 2) if is_tight else (1, 2, 3)) for _ in range(len(entries) + 1)),
    )
    sizes = dict.fromkeys("nkcpqrsg", 1)
    for loop in random.choices("nkcpqrsggrsp", k=random.choice((3, 4) if is_tight else (2, 3))):
        sizes[loop] *= random.choice((2, 2, 3))
    stride = random.choice(((1, 1), (2, 1), (2, 3)))
    n, k, c, p, q, r, s, g = sizes.values()
    return chain, Layer(n, k, c, p, q, r, s, g, stride, partial_bits=8)


def least_objective(chain: Chain, layer: Layer) -> float:
    factors = [(loop, prime) for loop, bound in layer.bounds.items() for prime in primes(bound, loop)]
    levels = len(chain.entries)
    spots: list[Spot] = [(level, None) for level in range(levels + 1)] + [
        (level, "side by side") for level in range(levels) if chain.units[level] > 1
    ]
    return min(
        (
            objective(chain, layer, list(zip(factors, chosen, strict=True)))
            for chosen in product(spots, repeat=len(factors))
        ),
        default=inf,
    )


def primes(bound: int, loop: str) -> Iterator[int]:
    if bound == 1 and loop in "RSPQ":
        yield 1
    for prime in (2, 3):
        while bound % prime == 0:
            bound //= prime
            yield prime


def objective(chain: Chain, layer: Layer, placed: Sequence[tuple[Factor, Spot]]) -> float:
    """Infinite where it does not fit."""
    shared = len(chain.entries) - 1
    for level, units in enumerate(chain.units):
        if prod(prime for (_, prime), spot in placed if spot == (level, "side by side")) > units:
            return inf
    used = 0.0
    weights_at = max((i for i in range(shared) if "weight" in chain.entries[i]), default=None)
    for level, held in enumerate(chain.entries):
        for operand, most in held.items():
            size = tile(chain, layer, placed, level, operand)
            if size > most:
                return inf
            used += log2(size) * (level < shared) * (1.01 if level == weights_at else 1)
    computed = sum(log2(prime) for (_, prime), (_, along) in placed if along is None)
    moved = 0.0
    for operand, related in A.items():
        for (loop, prime), (level, along) in placed:
            if level < shared:
                moved += 0.99 * (0.8 + 0.04 * level) * log2(prime) * (loop in related)
            elif level == shared and along is not None:
                moved += 0.99 * log2(prime)
            elif level > shared:
                moved += log2(prime) * (1.01 if operand == "weight" else 1)
    at_shared = [factor for factor, spot in placed if spot == (shared, None)]
    return -0.1 * used + 10 * computed + moved + min(map(iterated, permutations(at_shared)))


def tile(chain: Chain, layer: Layer, placed: Sequence[tuple[Factor, Spot]], level: int, operand: str) -> int:
    strides = {"P": layer.stride[0], "Q": layer.stride[1]} if operand == "input" else {}
    inside = [factor for factor, spot in placed if spot[0] <= level]
    size = prod(prime * strides.get(loop, 1) for loop, prime in inside if loop in A[operand])
    shared = len(chain.entries) - 1
    inputs_at = max((i for i in range(shared) if "input" in chain.entries[i]), default=None)
    if operand == "input" and level == inputs_at:
        for taps, outputs in WINDOWS.items():
            on_chip = [prime for (loop, prime), spot in placed if loop == taps and spot[0] <= shared]
            slides = any(loop == outputs for loop, _ in inside)
            size *= 2 ** len(on_chip) if slides else prod(on_chip)
    return size


def iterated(order: Sequence[Factor]) -> float:
    total = 0.0
    for related in A.values():
        moves = False
        for loop, prime in order:
            moves = moves or loop in related
            total += log2(prime) if moves else 0.0
    return total


def test_the_cases_are_of_many_kinds() -> None:
    cases = [random_case(seed) for seed in range(SEEDS)]
    assert {"input" in held for chain, _ in cases for held in chain.entries[:-1]} == {True, False}
    assert {loop for _, layer in cases for loop, bound in layer.bounds.items() if bound > 1} == set("NKCPQRSG")
    assert {layer.stride for _, layer in cases} == {(1, 1), (2, 1), (2, 3)}


SEEDS = 60


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_model_finds_the_least_of_all_schedules(seed: int) -> None:
    chain, layer = random_case(seed)
    result = solve_as_cosa(layer, chain.accelerator(), Run())
    least = least_objective(chain, layer)
    assert result.objective_value is not None
    assert result.status is Status.OPTIMAL
    assert result.objective_value == result.lower_bound == pytest.approx(least * VALUE_PER_BIT, abs=1)


@pytest.mark.parametrize("solver", [MipSolver.HIGHS, MipSolver.SCIP])
@pytest.mark.parametrize("seed", range(0, SEEDS, 7))
def test_other_solvers_find_it_too(seed: int, solver: MipSolver) -> None:
    chain, layer = random_case(seed)
    results = [solve_as_cosa(layer, chain.accelerator(), Run(Limits(solver=s))) for s in (solver, MipSolver.CP_SAT)]
    assert results[0].status is results[1].status is Status.OPTIMAL
    assert results[0].objective_value == results[1].objective_value


@pytest.mark.parametrize(
    "layer",
    [
        Layer(k=3, partial_bits=8),
        Layer(k=3, r=2, partial_bits=8),
        Layer(k=6, c=2, partial_bits=8),
        Layer(k=2, c=6, partial_bits=8),
        Layer(n=3, k=2, q=2, partial_bits=8),
    ],
)
def test_loops_that_only_the_global_buffer_has_room_for_are_ordered_best(layer: Layer) -> None:
    chain = Chain(({"weight": 1}, {"output": 1}, {"input": 64, "output": 192}), (1, 1, 1))
    result = solve_as_cosa(layer, chain.accelerator(), Run())
    assert result.objective_value == pytest.approx(least_objective(chain, layer) * VALUE_PER_BIT, abs=1)


@pytest.mark.parametrize("holds", [("input", "weight"), ("input", "weight", "output"), ("weight", "output")])
@pytest.mark.parametrize("seed", range(12))
def test_a_buffer_that_weights_share_counts_its_window_as_the_objective_does(seed: int, holds: tuple[str, ...]) -> None:
    """The factor of the buffer that weights reach last is the window's, too, where inputs lie in it."""
    random = Random(seed)
    shared = Memory("shared", random.choice((16, 24, 64)), holds=(Operand.INPUT, Operand.OUTPUT))
    inner = Memory("inner", random.choice((6, 12, 24)), holds=tuple(map(Operand, holds)))
    levels = (MemoryLevel(inner, ("lane",)), MemoryLevel(shared, None, is_scratchpad=True))
    accelerator = Accelerator("two", (shared,), levels, None, ComputeArray({"lane": 2}))
    p, r, s, k = (random.choice((1, 2, 3)) for _ in range(4))
    layer = Layer(p=p, r=r, s=s, k=k, stride=random.choice(((1, 1), (2, 1))), partial_bits=8)
    least = mapping_cosa.least_objective(layer, accelerator, 10**6)
    result = solve_as_cosa(layer, accelerator, Run())
    assert least is not None
    assert result.objective_value == result.lower_bound == pytest.approx(least * VALUE_PER_BIT, abs=1)
