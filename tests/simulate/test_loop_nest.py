"""The interpreter of loop nests: correct values, and counts computed by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Layer
from onchip.verify.mapping import tile_bits
from oracles.loop_nest import outputs_of, run_nest
from support.nests import random_case
from support.ragged_nests import random_ragged_mapping
from support.series import in_one_test, series

REGISTER = MemoryLevel(Memory("register", 64, holds=(Operand.WEIGHT, Operand.OUTPUT)), ())
SRAM = MemoryLevel(Memory("sram", 1024), None, is_scratchpad=True)
MACHINE = Accelerator(
    "small", (SRAM.memory,), (REGISTER, SRAM), array=ComputeArray({"K": 2, "C": 2}, mac_energy_pj=0.0)
)


@in_one_test("first", range(0, 120, 10))
def test_every_mapping_computes_what_the_layer_says(first: int) -> None:
    for seed in range(first, first + 10):
        case = random_case(seed, most_macs=250)
        run = run_nest(case.problem, case.mapping, seed)
        assert run.outputs == outputs_of(case.layer, seed), str(case.mapping)
        assert run.iterations == case.mapping.temporal_iterations


def test_what_several_units_want_is_read_once() -> None:
    layer, mapping = Layer(k=2, p=3), LayerMapping((Loop("K", 2, "K"), Loop("P", 3)))
    accesses = run_nest(LayerProblem(layer, MACHINE), mapping).accesses
    assert accesses["dram", INPUT, Move.READ_FOR_BELOW] == Counter({1: 3})
    assert accesses["dram", WEIGHT, Move.READ_FOR_BELOW] == Counter({2: 3})


def test_a_tile_stays_while_loops_run_that_lead_to_no_other() -> None:
    layer = Layer(k=2, p=3)
    weights = (Kept("register", 0),)
    inside = run_nest(LayerProblem(layer, MACHINE), LayerMapping((Loop("P", 3), Loop("K", 2)), weight=weights))
    outside = run_nest(LayerProblem(layer, MACHINE), LayerMapping((Loop("K", 2), Loop("P", 3)), weight=weights))
    assert inside.accesses["register", WEIGHT, Move.WRITE_FROM_ABOVE] == Counter({1: 2})
    assert outside.accesses["register", WEIGHT, Move.WRITE_FROM_ABOVE] == Counter({1: 6})


def test_a_sum_that_is_only_begun_is_not_read() -> None:
    run = run_nest(LayerProblem(Layer(c=4), MACHINE), LayerMapping((Loop("C", 4),), output=(Kept("register", 1),)))
    assert run.accesses["register", OUTPUT, Move.WRITE_FROM_BELOW] == Counter({1: 4})
    assert run.accesses["register", OUTPUT, Move.READ_FOR_BELOW] == Counter({1: 3})
    assert run.accesses["dram", OUTPUT, Move.WRITE_FROM_BELOW] == Counter({1: 1})
    assert ("dram", OUTPUT, Move.READ_FOR_BELOW) not in run.accesses


def test_a_sum_that_left_comes_back_to_be_added_to() -> None:
    nest = (Loop("C", 2), Loop("P", 2), Loop("C", 2))
    run = run_nest(LayerProblem(Layer(c=4, p=2), MACHINE), LayerMapping(nest, output=(Kept("register", 1),)))
    assert run.accesses["dram", OUTPUT, Move.WRITE_FROM_BELOW] == Counter({1: 4})
    assert run.accesses["dram", OUTPUT, Move.READ_FOR_BELOW] == Counter({1: 2})
    assert run.accesses["register", OUTPUT, Move.WRITE_FROM_ABOVE] == Counter({1: 2})


def test_sums_of_several_instances_are_added_up_on_their_way() -> None:
    run = run_nest(
        LayerProblem(Layer(c=4), MACHINE),
        LayerMapping((Loop("C", 2), Loop("C", 2, "C")), output=(Kept("register", 1),)),
    )
    assert run.accesses["register", OUTPUT, Move.READ_FOR_ABOVE] == Counter({1: 2})
    assert run.accesses["dram", OUTPUT, Move.WRITE_FROM_BELOW] == Counter({1: 1})


def test_of_a_halo_each_tile_fetches_all_and_of_padding_nothing() -> None:
    nest = (Loop("R", 3), Loop("P", 2), Loop("P", 2))
    kept = (Kept("sram", 2),)
    bare = run_nest(LayerProblem(Layer(p=4, r=3), MACHINE), LayerMapping(nest, input=kept))
    padded = run_nest(LayerProblem(Layer(p=4, r=3, padding=(1, 0, 1, 0)), MACHINE), LayerMapping(nest, input=kept))
    assert bare.accesses["dram", INPUT, Move.READ_FOR_BELOW] == Counter({4: 2})
    assert padded.accesses["dram", INPUT, Move.READ_FOR_BELOW] == Counter({3: 2})


def test_rows_that_a_stride_skips_are_part_of_a_tile_but_not_of_what_the_units_read() -> None:
    run = run_nest(
        LayerProblem(Layer(p=3, stride=(2, 1)), MACHINE), LayerMapping((Loop("P", 3),), input=(Kept("sram", 1),))
    )
    assert run.accesses["sram", INPUT, Move.WRITE_FROM_ABOVE] == Counter({5: 1})
    assert run.accesses["sram", INPUT, Move.READ_FOR_BELOW] == Counter({1: 3})
    assert run.peak_elements["sram", INPUT] == 5


@pytest.mark.parametrize("first", series(range(0, 200, 20), 3))
def test_loops_that_end_short_compute_the_layer_and_no_padding(first: int) -> None:
    """The nest adds each product once, and its largest tile has the size that the verifier measures."""
    short = 0
    for seed in range(first, first + 20):
        problem = random_case(seed, most_macs=200).problem
        mapping = random_ragged_mapping(Random(seed), problem)
        short += mapping.bounds != problem.layer.bounds
        run = run_nest(problem, mapping, seed)
        assert run.outputs == outputs_of(problem.layer, seed), str(mapping)
        assert _largest_tiles(problem, mapping) == {key: size for key, size in run.peak_elements.items() if size}
    assert short


def _largest_tiles(problem: LayerProblem, mapping: LayerMapping) -> dict[tuple[str, str], int]:
    """Return the largest tiles in elements, as the verifier measures them."""
    levels = tuple(replace(level, double_buffered=False) for level in problem.accelerator.levels)
    layer = replace(problem.layer, partial_bits=problem.layer.output_bits)
    plain = replace(problem, layer=layer, accelerator=replace(problem.accelerator, levels=levels))
    return {
        (memory, operand): bits // layer.bits(operand)
        for memory, needs in tile_bits(plain, mapping).items()
        for operand, bits in needs.items()
    }


def test_the_last_turn_of_units_side_by_side_may_be_of_fewer() -> None:
    mapping = LayerMapping((Loop("K", 2, "K"), Loop("K", 2)), weight=(Kept("register", 1),), ragged=("K",))
    run = run_nest(LayerProblem(Layer(k=3), MACHINE), mapping)
    assert run.accesses["register", WEIGHT, Move.WRITE_FROM_ABOVE] == Counter({1: 3})
    assert run.accesses["dram", OUTPUT, Move.WRITE_FROM_BELOW] == Counter({2: 1, 1: 1})
    assert run.iterations == 2


def test_iterations_beyond_the_bound_are_not_executed() -> None:
    ragged = LayerMapping((Loop("P", 2), Loop("K", 2), Loop("P", 3)), ragged=("P",))
    run = run_nest(LayerProblem(Layer(k=2, p=5), MACHINE), ragged)
    assert run.iterations == 2 * 5
    assert sorted(run.outputs.values()) == sorted(outputs_of(Layer(k=2, p=5)).values())
