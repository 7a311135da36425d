"""Answers of `cosa`: the published optima, schedules that fit as CoSA counts, ties, refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2
from pathlib import Path

import pytest
from cosa.reading import cosa_objective

from onchip.answer.layer_mapping import LayerMapping, Loop, MappingError, even
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.errors import AcceleratorError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Layer
from onchip.mapping.cosa.cosa import VALUE_PER_BIT, solve_as_cosa
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import check_array, check_memories
from onchip.search.budget.limits import Limits, MipSolver, Run

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
