"""CoSA's model against every schedule: one place for each single prime factor, every order at the global buffer."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Status
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.mapping.cosa.cosa import VALUE_PER_BIT, solve_as_cosa
from onchip.mapping.cosa.program import CosaWeights
from onchip.search.budget.limits import Limits, MipSolver, Run
from oracles import mapping_cosa
from support.series import series


@dataclass(frozen=True, slots=True)
class Chain:
    """Memory levels: elements held per operand, and the units of the dimension that a level serves first."""

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
        return Accelerator(
            "chain", (levels[-1].memory,), tuple(levels), None, ComputeArray(dimensions, mac_energy_pj=0.0)
        )


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


def least_of(chain: Chain, layer: Layer) -> float:
    least = mapping_cosa.least_objective(layer, chain.accelerator(), most=10**7)
    assert least is not None
    return least


def test_the_cases_are_of_many_kinds() -> None:
    cases = [random_case(seed) for seed in range(SEEDS)]
    assert {"input" in held for chain, _ in cases for held in chain.entries[:-1]} == {True, False}
    assert {loop for _, layer in cases for loop, bound in layer.bounds.items() if bound > 1} == set("NKCPQRSG")
    assert {layer.stride for _, layer in cases} == {(1, 1), (2, 1), (2, 3)}


SEEDS = 60


@pytest.mark.parametrize("seed", series(range(SEEDS), SEEDS // 4))
def test_the_model_finds_the_least_of_all_schedules(seed: int) -> None:
    chain, layer = random_case(seed)
    result = solve_as_cosa(LayerProblem(layer, chain.accelerator()), Run())
    least = least_of(chain, layer)
    assert result.objective_value is not None
    assert result.status is Status.OPTIMAL
    assert result.objective_value == result.lower_bound == pytest.approx(least * VALUE_PER_BIT, abs=1)


@pytest.mark.parametrize("weights", [(0.0, 1.0, 1.0), (1.0, 2.0, 5.0), (2.5, 0.0, 0.3), (0.1, 10.0, 4.0)])
@pytest.mark.parametrize("seed", range(0, SEEDS, 6))
def test_the_model_finds_the_least_by_any_weights(seed: int, weights: tuple[float, float, float]) -> None:
    chain, layer = random_case(seed)
    result = solve_as_cosa(LayerProblem(layer, chain.accelerator()), Run(), weights=CosaWeights(*weights))
    least = mapping_cosa.least_objective(layer, chain.accelerator(), 10**7, weights)
    assert least is not None
    assert result.objective_value == result.lower_bound == pytest.approx(least * VALUE_PER_BIT, abs=1)


@pytest.mark.parametrize("weights", [(-1.0, 1.0, 1.0), (0.15, 1.0, 1.0), (0.1, 1.0, 0.01)])
def test_weights_that_are_no_tenths_are_refused(weights: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="counts"):
        CosaWeights(*weights)


@pytest.mark.parametrize("solver", [MipSolver.HIGHS, MipSolver.SCIP])
@pytest.mark.parametrize("seed", range(0, SEEDS, 7))
def test_other_solvers_find_it_too(seed: int, solver: MipSolver) -> None:
    chain, layer = random_case(seed)
    results = [
        solve_as_cosa(LayerProblem(layer, chain.accelerator()), Run(Limits(solver=s)))
        for s in (solver, MipSolver.CP_SAT)
    ]
    assert results[0].status is results[1].status is Status.OPTIMAL
    assert results[0].objective_value == results[1].objective_value


@pytest.mark.parametrize("holds", [("input", "weight"), ("input", "weight", "output"), ("weight", "output")])
@pytest.mark.parametrize("seed", series(range(12), 8))
def test_a_buffer_that_weights_share_counts_its_window_as_the_objective_does(seed: int, holds: tuple[str, ...]) -> None:
    """The factor of the buffer that weights reach last is the window's, too, where inputs lie in it."""
    random = Random(seed)
    shared = Memory("shared", random.choice((16, 24, 64)), holds=(Operand.INPUT, Operand.OUTPUT))
    inner = Memory("inner", random.choice((6, 12, 24)), holds=tuple(map(Operand, holds)))
    levels = (MemoryLevel(inner, ("lane",)), MemoryLevel(shared, None, is_scratchpad=True))
    accelerator = Accelerator("two", (shared,), levels, None, ComputeArray({"lane": 2}, mac_energy_pj=0.0))
    p, r, s, k = (random.choice((1, 2, 3)) for _ in range(4))
    layer = Layer(p=p, r=r, s=s, k=k, stride=random.choice(((1, 1), (2, 1))), partial_bits=8)
    least = mapping_cosa.least_objective(layer, accelerator, 10**6)
    result = solve_as_cosa(LayerProblem(layer, accelerator), Run())
    assert least is not None
    assert result.objective_value == result.lower_bound == pytest.approx(least * VALUE_PER_BIT, abs=1)
