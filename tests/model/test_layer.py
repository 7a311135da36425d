"""The cost model of a layer compared with the interpreter, and with figures computed by hand."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.problem import Count, Problem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError
from onchip.ir.layer import INPUT, OUTPUT, Layer
from onchip.model.accounting.accounting import INTERPRETER, ZIGZAG
from onchip.model.capacity.bounds import operators_that_do_not_fit, places_of_operands
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import Accesses, layer_accesses
from onchip.model.layer.ragged import boundaries
from onchip.model.layer.tiles import MACS
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.unrolling.unrolling import padded_bound, prime_counts
from oracles.loop_nest import run_nest
from oracles.shared_bytes import random_sharing_graph
from support.nests import random_case
from support.series import series

BUFFER = MemoryLevel(Memory("buffer", 4), None, is_scratchpad=True, access=Access(16, 1.0, 2.0, 8))
DRAM_ACCESS = Dram(Access(8, 10.0, 20.0))
MACHINE = Accelerator(
    "small", (BUFFER.memory,), (BUFFER,), array=ComputeArray({"K": 2}, mac_energy_pj=0.5), dram=DRAM_ACCESS
)


def _with_buffer(level: MemoryLevel) -> Accelerator:
    return replace(MACHINE, scratchpads=(level.memory,), levels=(level,))


@pytest.mark.parametrize("first", series(range(0, 400, 25), 6))
def test_accesses_and_tiles_are_those_that_the_interpreter_counts(first: int) -> None:
    for seed in range(first, first + 25):
        case = random_case(seed, most_macs=200)
        run = run_nest(case.problem, case.mapping)
        crossed = boundaries(case.layer, case.problem, case.mapping)
        counted = layer_accesses(case.accelerator, crossed)
        assert {(one.memory, one.operand, one.move): Counter(dict(one.sizes)) for one in counted} == run.accesses
        tiles = {
            (boundary.lower.memory, operand): boundary.lower_room()
            for operand, own in crossed.items()
            for boundary in own
            if boundary.lower.memory != MACS
        }
        assert {key: size for key, size in tiles.items() if size} == {k: v for k, v in run.peak_elements.items() if v}


def test_an_access_is_rounded_up_each_time_to_the_shortest() -> None:
    read = Accesses("buffer", INPUT, Move.READ_FOR_BELOW, ((3, 2), (1, 5)), 4)
    assert read.words(Access(16, 1.0, 1.0, 8)) == (2 * 2 + 1 * 5) / 2
    assert read.words(Access(16, 1.0, 1.0)) == 7


def test_energy_is_that_of_each_access_and_of_each_multiplication() -> None:
    mapping = LayerMapping((Loop("P", 2),), input=(Kept("buffer", 1),))
    cost = layer_cost(LayerProblem(Layer(p=2), MACHINE), mapping)
    assert cost.memory_energy_pj == {
        ("dram", "input"): 2 * 10.0,
        ("buffer", "input"): 1 * 2.0 + 2 * 0.5 * 1.0,
        ("dram", "weight"): 2 * 10.0,
        ("dram", "output"): 2 * 20.0,
    }
    assert cost.mac_energy_pj == 2 * 0.5
    assert cost.energy_pj == 20 + 3 + 20 + 40 + 1
    assert cost.energy_delay_pj_cycles == cost.energy_pj * cost.cycles


def test_sums_in_the_making_are_wider_than_finished_ones() -> None:
    half_way = LayerMapping((Loop("C", 2), Loop("C", 2)), output=(Kept("buffer", 1),))
    all_of_it = LayerMapping((Loop("C", 2), Loop("C", 2)), output=(Kept("buffer", 2),))
    for mapping, bits in ((half_way, 24), (all_of_it, 8)):
        (written,) = (
            one
            for one in layer_accesses(MACHINE, boundaries(Layer(c=4), LayerProblem(Layer(c=4), MACHINE), mapping))
            if (one.memory, one.move) == ("dram", Move.WRITE_FROM_BELOW)
        )
        assert written.bits == bits
    problem, mapping = LayerProblem(Layer(k=2), MACHINE), LayerMapping((Loop("K", 2),), output=(Kept("buffer", 1),))
    single = layer_accesses(MACHINE, boundaries(problem.layer, problem, mapping))
    assert {one.bits for one in single if one.operand == OUTPUT} == {8}


def test_padded_bounds_cost_what_the_longer_layer_costs_but_are_no_useful_work() -> None:
    mapping = LayerMapping((Loop("K", 2, "K"), Loop("P", 4)))
    padded, whole = (
        layer_cost(LayerProblem(Layer(p=3, k=2), MACHINE), mapping),
        layer_cost(LayerProblem(Layer(p=4, k=2), MACHINE), mapping),
    )
    assert padded.energy_pj == whole.energy_pj
    assert padded.cycles == whole.cycles
    assert (padded.macs, padded.utilisation) == (6, 0.75)


def test_what_does_not_fit_is_named_with_need_and_capacity() -> None:
    fits = LayerMapping((Loop("P", 4),), input=(Kept("buffer", 1),))
    layer_cost(LayerProblem(Layer(p=4), MACHINE), fits)
    both = replace(fits, nest=(Loop("P", 4), Loop("K", 2)), output=(Kept("buffer", 2),))
    with pytest.raises(MappingError) as caught:
        layer_cost(LayerProblem(Layer(p=4, k=2), MACHINE), both)
    assert "memory 'buffer': tiles need 96 bits, 64 of them output" in str(caught.value)


def test_double_buffering_needs_room_for_two_tiles_unless_there_is_only_one() -> None:
    machine = _with_buffer(replace(BUFFER, double_buffered=True))
    layer_cost(LayerProblem(Layer(p=4), machine), LayerMapping((Loop("P", 4),), input=(Kept("buffer", 1),)))
    layer_cost(
        LayerProblem(Layer(p=4), machine), LayerMapping((Loop("P", 2), Loop("P", 2)), input=(Kept("buffer", 1),))
    )
    with pytest.raises(MappingError, match="tiles need 64 bits, 64 of them input"):
        layer_cost(
            LayerProblem(Layer(p=8), machine), LayerMapping((Loop("P", 4), Loop("P", 2)), input=(Kept("buffer", 1),))
        )


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (LayerMapping((Loop("K", 4, "K"),)), "array: K: K4@K need 4 units"),
        (LayerMapping((Loop("P", 2, "K"), Loop("K", 4))), "P cannot be unrolled along 'K'"),
        (LayerMapping((Loop("K", 4, "C"),)), "the array has no dimension 'C'"),
        (LayerMapping(tuple(Loop("K", 1, one) for one in "FEDCAB")), "the array has no dimension 'F'"),
        (LayerMapping((Loop("K", 4),), input=(Kept("cache", 0),)), "input: there is no memory 'cache'"),
        (LayerMapping((Loop("K", 2),)), "loop K has 2 iterations"),
    ],
)
def test_a_mapping_that_is_not_of_this_machine_is_refused_in_one_line(mapping: LayerMapping, message: str) -> None:
    with pytest.raises(MappingError) as caught:
        layer_cost(LayerProblem(Layer(k=4), MACHINE), mapping)
    assert message in str(caught.value)


def test_memories_of_an_operand_stand_in_the_order_of_the_accelerator_and_serve_more_and_more() -> None:
    register = MemoryLevel(Memory("register", 8, holds=(Operand.INPUT,)), (), access=Access(8, 1, 1))
    machine = replace(MACHINE, levels=(register, BUFFER))
    up = LayerMapping((), input=(Kept("register", 0), Kept("buffer", 0)))
    layer_cost(LayerProblem(Layer(), machine), up)
    with pytest.raises(MappingError, match="memory 'buffer' cannot be filled from memory 'register'"):
        layer_cost(LayerProblem(Layer(), machine), replace(up, input=up.input[::-1]))
    shrinking = replace(machine, levels=(replace(register, serves=("K",)), replace(BUFFER, serves=())))
    with pytest.raises(MappingError, match="memory 'register' cannot be filled from memory 'buffer'"):
        layer_cost(LayerProblem(Layer(), shrinking), up)
    with pytest.raises(MappingError, match="weight: memory 'register' does not hold it"):
        layer_cost(LayerProblem(Layer(), machine), LayerMapping((), weight=(Kept("register", 0),)))
    with pytest.raises(MappingError, match="the layer has no weight"):
        layer_cost(LayerProblem(Layer(has_weight=False), machine), LayerMapping((), weight=(Kept("buffer", 0),)))


def test_energies_of_memories_that_state_none_are_left_out_and_the_whole_is_unknown() -> None:
    mapping = LayerMapping((), input=(Kept("buffer", 0),))
    known = layer_cost(LayerProblem(Layer(), MACHINE), mapping)
    for silent, name in ((_with_buffer(replace(BUFFER, access=None)), "buffer"), (replace(MACHINE, dram=Dram()), DRAM)):
        cost = layer_cost(LayerProblem(Layer(), silent), mapping)
        assert cost.stated_energy_pj is None
        assert {**cost.memory_energy_pj} == {key: pj for key, pj in known.memory_energy_pj.items() if key[0] != name}
        assert cost.accesses == known.accesses


def test_an_accelerator_that_says_too_little_is_refused_with_what_it_lacks() -> None:
    mapping = LayerMapping((), input=(Kept("buffer", 0),))
    with pytest.raises(AcceleratorError, match="has no array to map loops on"):
        layer_cost(LayerProblem(Layer(), replace(MACHINE, array=None)), mapping)
    writes_only = _with_buffer(replace(BUFFER, ports=(Port(Direction.WRITE, 8),)))
    with pytest.raises(AcceleratorError, match="memory 'buffer': no port can read"):
        layer_cost(LayerProblem(Layer(), writes_only), mapping)


def test_a_cost_has_its_mapping() -> None:
    mapping = LayerMapping((Loop("P", 2),), input=(Kept("buffer", 1),))
    for accounting in (INTERPRETER, ZIGZAG):
        assert layer_cost(LayerProblem(Layer(p=2), MACHINE), mapping, accounting).mapping is mapping


# Fit in one scratchpad equals fit in the search for offsets over any number of scratchpads


@pytest.mark.parametrize("seed", series(range(300), 100))
def test_what_fits_into_the_only_scratchpad_is_what_the_search_finds_a_place_for(seed: int) -> None:
    chance = random.Random(seed)
    graph = random_sharing_graph(seed, greatest_size=chance.choice((3, 9)))
    holds = chance.choice((tuple(Operand), tuple(Operand), (Operand.INPUT, Operand.OUTPUT), (Operand.INPUT,)))
    memory = Memory("sram", chance.randint(1, 24), chance.choice((1, 2, 4, 5)), holds)
    indexed = IndexedProblem.of(Problem(graph, (memory,), count=chance.choice(tuple(Count))))
    found = [operator for operator in range(indexed.operator_count) if places_of_operands(indexed, operator) is None]
    assert operators_that_do_not_fit(indexed) == tuple(found)


# Prime factors of loop bounds


@given(st.integers(1, 100_000))
def test_factors_are_primes_that_multiply_to_the_bound(bound: int) -> None:
    counts = prime_counts(bound)
    assert prod(prime**count for prime, count in counts.items()) == bound
    assert all(prime % divisor for prime in counts for divisor in range(2, int(prime**0.5) + 1))
    assert list(counts) == sorted(counts)


@given(st.integers(1, 2_000), st.sampled_from((2, 3, 5, 7, 11)))
def test_a_padded_bound_is_the_least_without_large_primes(bound: int, largest: int) -> None:
    padded = padded_bound(bound, largest)
    assert max(prime_counts(padded), default=1) <= largest
    assert all(max(prime_counts(less)) > largest for less in range(bound, padded))
