"""Mappings with ragged loops: counts equal the interpreter's, cycles those marked one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Port
from onchip.ir.layer import OUTPUT, WEIGHT, Layer
from onchip.model.accounting.accounting import ZIGZAG
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import layer_accesses, needed_bits
from onchip.model.layer.ragged import boundaries
from onchip.model.layer.tables import LayerCosts
from onchip.verify.mapping import tile_bits
from oracles.loop_nest import run_nest
from oracles.mapping import energy_and_cycles
from support.nests import Case, random_case
from support.ragged_nests import random_ragged_mapping
from support.series import series

BUFFER = MemoryLevel(
    Memory("buffer", 64),
    None,
    is_scratchpad=True,
    access=Access(8, 1.0, 2.0),
    ports=(Port(Direction.READ, 99), Port(Direction.WRITE, 8)),
)
MACHINE = Accelerator(
    "small",
    (BUFFER.memory,),
    (BUFFER,),
    array=ComputeArray({"K": 4}, mac_energy_pj=0.5),
    dram=Dram(Access(8, 10.0, 20.0)),
)


def _ragged_cases(first: int, count: int) -> list[Case]:
    """Return the cases in which some loop is ragged."""
    cases = [random_case(seed, most_macs=200) for seed in range(first, first + count)]
    short = [Case(one.problem, random_ragged_mapping(Random(first + at), one.problem)) for at, one in enumerate(cases)]
    found = [one for one in short if one.mapping.bounds != one.layer.bounds]
    assert len(found) > count // 4
    return found


@pytest.mark.parametrize("first", series(range(0, 1000, 50), 1))
def test_accesses_are_those_that_the_interpreter_counts(first: int) -> None:
    for case in _ragged_cases(first, 50):
        counted = layer_accesses(case.accelerator, boundaries(case.layer, case.problem, case.mapping))
        sizes = {(one.memory, one.operand, one.move): Counter(dict(one.sizes)) for one in counted}
        assert sizes == run_nest(case.problem, case.mapping).accesses, str(case.mapping)


@pytest.mark.parametrize("first", series(range(5000, 6000, 50), 1))
def test_energy_and_cycles_are_those_counted_one_by_one(first: int) -> None:
    for case in _ragged_cases(first, 50):
        cost = layer_cost(case.problem, case.mapping)
        energy_pj, cycles = energy_and_cycles(case.problem, case.mapping)
        assert cost.energy_pj == pytest.approx(energy_pj, rel=1e-12), str(case.mapping)
        assert cost.cycles == cycles, str(case.mapping)


def test_tiles_take_the_room_that_the_verifier_measures() -> None:
    for case in _ragged_cases(0, 200):
        needs = needed_bits(case.problem, boundaries(case.layer, case.problem, case.mapping))
        for memory, own in tile_bits(case.problem, case.mapping).items():
            for operand, bits in own.items():
                whole = case.problem.home(operand) == memory
                resident = case.layer.elements(operand) * case.layer.bits(operand) if whole else 0
                assert needs[memory, operand] - resident == bits, str(case.mapping)


def test_loops_that_divide_cost_the_same_whether_or_not_they_may_end_short() -> None:
    for seed in range(100):
        case = random_case(seed, most_macs=200)
        named = tuple(name for name in case.layer.bounds if seed % 2 or name in "KP")
        plain, ragged = (layer_cost(case.problem, replace(case.mapping, ragged=one)) for one in ((), named))
        assert (plain.energy_pj, plain.latency) == (ragged.energy_pj, ragged.latency)


def test_the_last_turn_takes_what_is_left_and_the_layer_is_not_padded() -> None:
    problem = LayerProblem(Layer(k=5), MACHINE)
    short = LayerMapping((Loop("K", 4, "K"), Loop("K", 2)), weight=(Kept("buffer", 1),), ragged=("K",))
    padded = replace(short, ragged=())
    cost, longer = layer_cost(problem, short), layer_cost(problem, padded)
    assert cost.latency.ideal + cost.latency.unused == 2
    assert (cost.mac_energy_pj, longer.mac_energy_pj) == (5 * 0.5, 8 * 0.5)
    assert cost.memory_energy_pj["dram", WEIGHT] == 5 * 10.0
    assert longer.memory_energy_pj["dram", WEIGHT] == 8 * 10.0
    written = next(one for one in cost.accesses if (one.operand, one.move) == (OUTPUT, Move.WRITE_FROM_BELOW))
    assert written.sizes == ((1, 1), (4, 1))


def test_a_loop_that_ends_short_runs_fewer_cycles_than_a_padded_one() -> None:
    problem = LayerProblem(Layer(p=5, c=2), MACHINE)
    short = LayerMapping((Loop("P", 2), Loop("C", 2), Loop("P", 3)), ragged=("P",))
    cost = layer_cost(problem, short)
    assert cost.latency.total == 2 * 5
    assert layer_cost(problem, replace(short, ragged=())).latency.total == 2 * 6


def test_the_next_tile_has_the_last_turns_of_the_one_before_to_come_in() -> None:
    """Inputs have 3, 3 and 1 rows: the second tile comes within 3 cycles, the third, as slow as the largest, too."""
    nest = (Loop("P", 3), Loop("K", 2), Loop("P", 3))
    mapping = LayerMapping(nest, input=(Kept("buffer", 2),), ragged=("P",))
    machine = replace(MACHINE, levels=(replace(BUFFER, ports=(Port(Direction.READ, 99), Port(Direction.WRITE, 4))),))
    latency = layer_cost(LayerProblem(Layer(p=7, k=2), machine), mapping).latency
    assert (latency.ideal + latency.unused, latency.stall, latency.preload) == (14, 2 * (6 - 3), 6)


def test_a_tile_that_ends_at_once_stays_while_a_loop_moves_on_along_which_it_is_the_same() -> None:
    """The last of three channels is a tile of one: it stays while P moves on."""
    nest = (Loop("K", 2), Loop("P", 2), Loop("K", 2))
    mapping = LayerMapping(nest, weight=(Kept("buffer", 0),), ragged=("K",))
    counted = layer_cost(LayerProblem(Layer(k=3, p=2), MACHINE), mapping).accesses
    filled = next(one for one in counted if (one.operand, one.move) == (WEIGHT, Move.WRITE_FROM_ABOVE))
    assert filled.sizes == ((1, 2 * 2 + 1),)


def test_other_accountings_and_the_compiled_model_refuse_loops_that_end_short() -> None:
    problem = LayerProblem(Layer(k=5), MACHINE)
    short = LayerMapping((Loop("K", 2), Loop("K", 3)), ragged=("K",))
    message = "mapping: loop K ends short: 6 iterations for 5"
    with pytest.raises(MappingError, match=message):
        layer_cost(problem, short, ZIGZAG)
    with pytest.raises(MappingError, match="mapping 0: its loops are not the layer's"):
        LayerCosts(problem).of([short])
