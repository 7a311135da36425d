"""CoSA: its model, exchanges and workloads, held against enumeration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import product
from math import log2
from pathlib import Path
from random import Random
from typing import TypeAlias

import numpy as np
import pytest
from cosa.reading import cosa_objective, fits, objective_of

from onchip.answer.layer_mapping import LayerMapping, Loop, MappingError, even
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.errors import AcceleratorError, InputError, UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table, layer_tables
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Layer
from onchip.mapping.cosa.cosa import (
    MOST_TIES,
    VALUE_PER_BIT,
    Column,
    CosaSchedule,
    Exchanges,
    best_of_equals,
    solve_as_cosa,
)
from onchip.mapping.cosa.program import (
    GIVEN_ORDER,
    CosaMachine,
    CosaWeights,
    Factor,
    FactorPlacement,
    Place,
    factors_of,
)
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import check_array, check_memories
from onchip.search.budget.limits import Limits, MipSolver, Run
from oracles import mapping_cosa
from support.series import series

# Answers of `cosa`: the published optima, schedules that fit as CoSA counts, ties, refusals


OPTIMA = json.loads((Path(__file__).parents[1] / "data" / "cosa" / "optima.json").read_text(encoding="utf-8"))
RESNET50 = layer_table("resnet50")
SIMBA = load_accelerator("simba-cosa")
SMALL = Layer.of_text("conv:n1k64c32p14q14r3s3:stride2")


def answer_of(result: SearchResult[LayerMapping]) -> LayerMapping:
    assert result.answer is not None
    return result.answer


@pytest.mark.parametrize("name", OPTIMA["optima"])
def test_a_published_optimum_is_found_or_beaten_within_its_gap(name: str) -> None:
    published = OPTIMA["optima"][name]["objective"]
    result = solve_as_cosa(LayerProblem(RESNET50[name], SIMBA), Run())
    assert result.status is Status.OPTIMAL
    assert result.objective_value is not None
    above = result.objective_value / VALUE_PER_BIT - published
    assert -OPTIMA["gap"] * published <= above <= 1 / VALUE_PER_BIT


def test_the_terms_are_those_published_where_the_optimum_is() -> None:
    for name in ("_outputs_input.8", "_outputs_input.83", "_outputs_input.132"):
        published = OPTIMA["optima"][name]
        terms = cosa_objective(
            RESNET50[name], SIMBA, answer_of(solve_as_cosa(LayerProblem(RESNET50[name], SIMBA), Run()))
        )
        found = (terms.utilisation, terms.compute, terms.traffic)
        assert found == pytest.approx([published[term] for term in ("utilisation", "compute", "traffic")], abs=1e-6)


def test_terms_of_what_does_not_fit_as_cosa_counts_are_told_where_that_is_asked() -> None:
    layer = RESNET50["_outputs_input.8"]
    nest = tuple(Loop(name, bound) for name, bound in layer.bounds.items() if bound > 1)
    holders = {str(one): [level.memory.name for level in SIMBA.levels if one in level.memory.holds] for one in Operand}
    levels = [(level.memory.name, nest if at == 0 else ()) for at, level in enumerate(SIMBA.levels)]
    whole = even(levels, holders, ())
    with pytest.raises(MappingError, match="do not fit as CoSA counts them"):
        cosa_objective(layer, SIMBA, whole)
    assert cosa_objective(layer, SIMBA, whole, must_fit=False).compute == pytest.approx(log2(layer.macs))


@pytest.mark.slow
def test_logarithms_above_what_cp_sat_lets_a_variable_be_lose_no_schedule() -> None:
    """Logarithms for a memory of 1 MiB are counted so finely that two reused factors exceed 10^7 units."""
    layer, accelerator = RESNET50["_outputs_input.8"], load_accelerator("simba-large-buffers")
    found = [
        solve_as_cosa(LayerProblem(layer, accelerator), Run(Limits(solver=one)))
        for one in (MipSolver.CP_SAT, MipSolver.HIGHS)
    ]
    assert [result.status for result in found] == [Status.OPTIMAL, Status.OPTIMAL]
    assert found[0].objective_value == found[1].objective_value


@pytest.mark.parametrize("machine", ["simba", "simba-cosa", "simba-64-pes", "simba-large-buffers"])
@pytest.mark.parametrize("text", ["conv:n2k96c48p14q7r3s5", "conv:k64c64p56q56r3s3:groups64", "gemm:m24n1000k77"])
def test_the_mapping_is_the_layer_on_the_machine(machine: str, text: str) -> None:
    layer, accelerator = Layer.of_text(text), load_accelerator(machine)
    result = solve_as_cosa(LayerProblem(layer, accelerator), Run())
    mapping = answer_of(result)
    assert mapping.bounds == layer.bounds
    check_memories(LayerProblem(layer, accelerator), mapping)
    check_array(accelerator, mapping)
    assert result.objective_value == round(cosa_objective(layer, accelerator, mapping).total * VALUE_PER_BIT)


@pytest.mark.slow
def test_ties_are_broken_as_asked_and_cost_no_objective() -> None:
    layer = RESNET50["_outputs_input.73"]

    def energy_pj(mapping: LayerMapping) -> float:
        return layer_cost(LayerProblem(layer, SIMBA), mapping).energy_pj

    def least_first(mappings: Sequence[LayerMapping]) -> list[float]:
        return [energy_pj(mapping) for mapping in mappings]

    def greatest_first(mappings: Sequence[LayerMapping]) -> list[float]:
        return [-energy_pj(mapping) for mapping in mappings]

    as_found, least, greatest = (
        solve_as_cosa(LayerProblem(layer, SIMBA), Run(), tie_break=tie_break)
        for tie_break in (None, least_first, greatest_first)
    )
    energies = [energy_pj(answer_of(one)) for one in (least, as_found, greatest)]
    assert energies == sorted(energies)
    assert energies[0] < energies[-1]
    for one in (least, as_found, greatest):
        read = cosa_objective(layer, SIMBA, answer_of(one)).total
        assert round(read * VALUE_PER_BIT) == one.objective_value == as_found.objective_value


def test_the_same_layer_gives_the_same_mapping() -> None:
    assert (
        solve_as_cosa(LayerProblem(SMALL, SIMBA), Run()).answer
        == solve_as_cosa(LayerProblem(SMALL, SIMBA), Run()).answer
    )


def test_large_primes_are_padded_where_asked() -> None:
    layer = Layer(k=79, c=13, p=7)
    as_is = answer_of(solve_as_cosa(LayerProblem(layer, SIMBA), Run()))
    padded = answer_of(solve_as_cosa(LayerProblem(layer, SIMBA), Run(), largest_prime=7))
    assert as_is.bounds == layer.bounds
    assert padded.bounds == layer.bounds | {"K": 80, "C": 14}
    assert padded.temporal_iterations < as_is.temporal_iterations


def test_a_layer_without_weights_is_mapped() -> None:
    layer = Layer(g=64, p=8, q=8, r=2, s=2, stride=(2, 2), has_weight=False)
    result = solve_as_cosa(LayerProblem(layer, SIMBA), Run())
    assert result.status is Status.OPTIMAL
    assert answer_of(result).weight == ()
    check_memories(LayerProblem(layer, SIMBA), answer_of(result))


def test_an_element_too_large_for_its_share_of_a_memory_is_infeasible() -> None:
    """CoSA gives inputs a quarter of the global buffer, in which here an element has room, but not in the quarter."""
    levels = (*SIMBA.levels[:-1], replace(SIMBA.levels[-1], memory=replace(SIMBA.levels[-1].memory, capacity_bytes=6)))
    tight = replace(SIMBA, levels=levels, scratchpads=(levels[-1].memory,))
    layer = replace(SMALL, input_bits=16, weight_bits=8)
    result = solve_as_cosa(LayerProblem(layer, tight), Run())
    assert (result.status, result.answer, result.stopped_by) == (Status.INFEASIBLE, None, Stop.COMPLETED)


def test_a_limit_of_no_time_leaves_no_claim() -> None:
    result = solve_as_cosa(LayerProblem(RESNET50["_outputs_input.83"], SIMBA), Run(Limits(time_limit_seconds=0.0)))
    assert result.status is not Status.OPTIMAL or result.answer is not None
    assert result.status is not Status.INFEASIBLE


def test_a_machine_without_an_array_is_refused() -> None:
    with pytest.raises(AcceleratorError, match=r"no array"):
        solve_as_cosa(LayerProblem(SMALL, load_accelerator("single-2mib")), Run())


@dataclass(frozen=True, slots=True)
class Unchained:
    serves: tuple[tuple[str, ...], ...]
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Unchained((("x",), ("y",), ("x", "y")), "memory 'm1' serves y of the array"),
        Unchained((("x",), ("x",)), "memory 'm1' serves x of the array"),
        Unchained(((), ()), "memory 'm1' serves nothing of the array"),
    ],
)
def test_memories_that_are_no_chain_are_refused(case: Unchained) -> None:
    levels = tuple(
        MemoryLevel(Memory(f"m{index}", 64), serves, is_scratchpad=True) for index, serves in enumerate(case.serves)
    )
    memories = tuple(level.memory for level in levels)
    accelerator = Accelerator("unchained", memories, levels, None, ComputeArray({"x": 2, "y": 2}, mac_energy_pj=0.0))
    with pytest.raises(AcceleratorError) as caught:
        solve_as_cosa(LayerProblem(SMALL, accelerator), Run())
    assert str(caught.value).startswith(case.says)


def test_an_array_that_unrolls_one_loop_gets_no_other() -> None:
    levels = (MemoryLevel(Memory("sram", 1 << 16), None, is_scratchpad=True),)
    accelerator = Accelerator(
        "fixed", (levels[0].memory,), levels, None, ComputeArray({"K": 8, "OX": 4}, mac_energy_pj=0.0)
    )
    mapping = answer_of(solve_as_cosa(LayerProblem(Layer(k=2, c=64, q=2, n=8), accelerator), Run()))
    assert {(loop.dimension, loop.along) for loop in mapping.nest if loop.along} == {("K", "K"), ("Q", "OX")}


def test_free_units_run_any_loops() -> None:
    levels = (MemoryLevel(Memory("sram", 1 << 16), None, is_scratchpad=True),)
    accelerator = Accelerator("free", (levels[0].memory,), levels, None, ComputeArray(free=64, mac_energy_pj=0.0))
    mapping = answer_of(solve_as_cosa(LayerProblem(Layer(k=4, c=4, q=4), accelerator), Run()))
    assert mapping.temporal_iterations == 1


def test_an_objective_of_what_does_not_fit_is_refused() -> None:
    loops = [Loop(name, bound) for name, bound in SMALL.bounds.items()]
    everything = even(
        [("register", loops), ("accumulation_buffer", ()), ("weight_buffer", ()), ("input_buffer", ())],
        {WEIGHT: ["register", "weight_buffer"], INPUT: ["input_buffer"], OUTPUT: ["accumulation_buffer"]},
        (),
    )
    with pytest.raises(MappingError, match="fit"):
        cosa_objective(SMALL, SIMBA, everything)


def test_an_objective_of_uneven_cuts_is_refused() -> None:
    mapping = answer_of(solve_as_cosa(LayerProblem(SMALL, SIMBA), Run()))
    top = mapping.output[-1]
    uneven = replace(mapping, output=(*mapping.output[:-1], replace(top, loops=len(mapping.nest))))
    assert top.loops < len(mapping.nest)
    with pytest.raises(MappingError, match="different loops"):
        cosa_objective(SMALL, SIMBA, uneven)


# Many schedules at once against one at a time, and exchanges against all that are near


LAYERS = (
    Layer(k=64, c=32, p=14, q=14, r=3, s=3, stride=(2, 1)),
    Layer(n=6, k=12, c=10),
    Layer(g=8, p=6, q=4, r=5, s=1, has_weight=False),
    Layer(k=16, c=3, p=28, q=28, r=7, s=7, stride=(2, 2)),
)
MACHINES = ("simba", "simba-cosa", "simba-large-buffers")
Change: TypeAlias = tuple[Factor, Place, Place]
CASES = list(product(range(len(LAYERS)), MACHINES, range(4)))


def drawn(number: int, name: str, seed: int) -> tuple[CosaMachine, FactorPlacement]:
    """Place every copy of every factor at random, whether it fits or not, with a random order at the global buffer."""
    random = Random(f"{number} {name} {seed}")
    machine = CosaMachine.of(LAYERS[number], load_accelerator(name))
    counts: dict[Column, int] = {}
    for factor, count in factors_of(machine.layer.bounds).items():
        places = [place for place in machine.places if machine.may_hold(place, *factor)]
        for _ in range(count):
            place = random.choice(places)
            counts[factor, place] = counts.get((factor, place), 0) + 1
    order = tuple(random.sample(GIVEN_ORDER, len(GIVEN_ORDER)))
    return machine, FactorPlacement(counts, {machine.shared: order})


@pytest.mark.parametrize(("number", "name", "seed"), CASES)
def test_objectives_and_fit_are_those_of_each_placement(number: int, name: str, seed: int) -> None:
    machine, placement = drawn(number, name, seed)
    exchanges = Exchanges.of(machine, placement)
    own = exchanges.schedule(placement)
    assert exchanges.placement(own) == placement
    rows = np.concatenate([own.counts[None], exchanges.moved(own.counts)])
    order = placement.order(machine.shared)
    each = [exchanges.placement(CosaSchedule(row, placement.orders)) for row in rows]
    totals = [objective_of(machine, one).total for one in each]
    assert exchanges.objectives(rows, order).tolist() == pytest.approx(totals, abs=1e-9)
    assert exchanges.fits(rows).tolist() == [fits(machine, one) for one in each]


@pytest.mark.parametrize(("number", "name", "seed"), CASES[::5])
def test_exchanges_are_all_moves_of_a_copy_and_all_exchanges_of_two_of_a_prime(
    number: int, name: str, seed: int
) -> None:
    machine, placement = drawn(number, name, seed)
    held = [key for key in placement.counts if key[0][1] > 1]
    expected: set[frozenset[tuple[Column, int]]] = set()
    for (factor, place), other in product(held, machine.places):
        if other != place and machine.may_hold(other, *factor):
            expected.add(_changed(placement, ((factor, place, other),)))
    for (one, here), (two, there) in product(held, held):
        is_apart = one != two and here != there and one[1] == two[1]
        if is_apart and machine.may_hold(there, *one) and machine.may_hold(here, *two):
            expected.add(_changed(placement, ((one, here, there), (two, there, here))))
    exchanges = Exchanges.of(machine, placement)
    own = exchanges.schedule(placement)
    found = {frozenset(exchanges.placement(CosaSchedule(row)).counts.items()) for row in exchanges.moved(own.counts)}
    assert found == expected


def _changed(placement: FactorPlacement, moves: Sequence[Change]) -> frozenset[tuple[Column, int]]:
    counts = dict(placement.counts)
    for factor, source, target in moves:
        counts[factor, source] -= 1
        counts[factor, target] = counts.get((factor, target), 0) + 1
    return frozenset((key, count) for key, count in counts.items() if count)


def test_of_equal_schedules_the_cheapest_is_found_and_no_more_than_asked_are_looked_at() -> None:
    layer, accelerator = LAYERS[0], load_accelerator("simba")
    looked_at: list[LayerMapping] = []

    def all_alike(some: Sequence[LayerMapping]) -> list[float]:
        looked_at.extend(some)
        return [0.0] * len(some)

    assert solve_as_cosa(LayerProblem(layer, accelerator), Run(), tie_break=all_alike).answer == looked_at[0]
    assert 1 < len(looked_at) <= MOST_TIES
    assert len(set(looked_at)) > MOST_TIES // 3, "too many schedules differ in the order of loops of one iteration only"

    def last_is_best(some: Sequence[LayerMapping]) -> list[float]:
        return [float(one != looked_at[-1]) for one in some]

    assert solve_as_cosa(LayerProblem(layer, accelerator), Run(), tie_break=last_is_best).answer == looked_at[-1]


def test_an_impossible_schedule_gives_way_to_any_that_costs_something() -> None:
    machine = CosaMachine.of(LAYERS[1], load_accelerator("simba"))
    first = next(one for seed in range(50) if fits(machine, one := drawn(1, "simba", seed)[1]))
    seen: list[LayerMapping] = []

    def first_is_refused(some: Sequence[LayerMapping]) -> list[float]:
        seen.extend(some)
        return [float("inf") if one == seen[0] else 1.0 for one in some]

    best = best_of_equals(machine, first, first_is_refused, most=20)
    assert best.mapping(machine) == (seen[1] if len(seen) > 1 else seen[0])
    assert len(seen) <= 20


# CoSA's model against every schedule: one place for each single prime factor, every order at the global buffer


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


# CoSA's layer tables and machines against the figures of their sources


KIB = 1024
COUNTS = {
    "resnet50": 24,
    "resnext50": 25,
    "resnext50-cosa": 25,
    "deepbench": 76,
    "deepbench-ocr": 4,
    "deepbench-face-recognition": 5,
}


def sizes_read(layer: Layer) -> tuple[int, ...]:
    return tuple(axis.size for axis in layer.axes)


def test_the_tables_have_as_many_layers_as_the_source() -> None:
    assert {name: len(layer_table(name)) for name in layer_tables()} == COUNTS


@pytest.mark.parametrize("name", ["resnet50", "resnext50", "resnext50-cosa", "deepbench"])
def test_a_table_names_its_source_and_licence(name: str) -> None:
    table = json.loads(files("onchip.data").joinpath("layers", f"{name}.json").read_text(encoding="utf-8"))
    assert (table["name"], table["licence"]) == (name, "BSD-2-Clause")
    assert "c4798a7" in table["source"]


@pytest.mark.parametrize("name", ["resnet50", "resnext50", "resnext50-cosa"])
def test_layers_of_a_network_differ_and_read_images_of_its_sizes(name: str) -> None:
    layers = list(layer_table(name).values())
    assert len(set(layers)) == len(layers)
    # A 1x1 filter with stride 2 leaves the last row and column alone.
    sizes = {size - (layer.r == 1 and layer.stride[0] == 2) for layer in layers for size in sizes_read(layer)}
    assert sizes <= {224, 56, 28, 14, 7, 1, 54, 26, 12}


def test_resnet50_begins_with_118_million_macs_and_ends_fully_connected() -> None:
    layers = list(layer_table("resnet50").values())
    assert layers[0].macs == 118_013_952
    assert layers[-1].macs == 2048 * 1000


def test_grouped_layers_have_the_work_of_the_shipped_ones_and_32_times_their_input() -> None:
    grouped, shipped = layer_table("resnext50"), layer_table("resnext50-cosa")
    assert list(grouped) == list(shipped)
    convolutions = [name for name, layer in grouped.items() if layer.g > 1]
    assert {grouped[name].r for name in convolutions} == {3}
    for name, layer in grouped.items():
        assert layer.macs == shipped[name].macs
        assert layer.elements("weight") == shipped[name].elements("weight")
        assert layer.elements("input") == shipped[name].elements("input") * (32 if name in convolutions else 1)
    assert len(convolutions) == 7


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no layer table 'vgg'") as caught:
        layer_table("vgg")
    assert "deepbench-ocr" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "elements", "accumulation", "weight", "inputs", "shared", "dram_bits"),
    [
        ("simba", 16, 3 * KIB, 32 * KIB, 8 * KIB, 128 * KIB, 160),
        ("simba-64-pes", 64, 3 * KIB, 32 * KIB, 8 * KIB, 128 * KIB, 320),
        ("simba-large-buffers", 16, 6 * KIB, 64 * KIB, 16 * KIB, 1024 * KIB, 160),
        ("simba-cosa", 16, 8 * 64 * 3, 128 * KIB, 4 * KIB, 64 * KIB, 160),
    ],
)
def test_a_machine_has_the_sizes_of_its_source(
    name: str, elements: int, accumulation: int, weight: int, inputs: int, shared: int, dram_bits: int
) -> None:
    """The first four in bytes of a processing element, 64 MACs each."""
    accelerator = load_accelerator(name)
    array, dram = accelerator.array, accelerator.dram
    assert array is not None
    assert dram is not None
    assert array.macs == 64 * elements
    per_element = {"register": 64, "accumulation_buffer": 8, "weight_buffer": 8, "input_buffer": 1, "global_buffer": 1}
    capacities = {
        level.memory.name: level.memory.capacity_bytes * per_element[level.memory.name] for level in accelerator.levels
    }
    assert list(capacities.values()) == [64, accumulation, weight, inputs, shared]
    assert [port.bits_per_cycle for port in dram.ports] == [dram_bits]


@pytest.mark.parametrize("name", ["simba", "simba-64-pes", "simba-large-buffers", "simba-cosa"])
def test_a_machine_has_energies_scaled_with_the_root_of_its_sizes(name: str) -> None:
    for level in load_accelerator(name).levels[:-1]:
        assert level.access is not None
        expected = 10 * (level.memory.capacity_bytes / (8 * KIB)) ** 0.5 * level.access.access_bits / 64
        assert level.access.read_energy_pj == pytest.approx(expected, rel=0.01)
        assert level.access.read_energy_pj == level.access.write_energy_pj
