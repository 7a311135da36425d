"""The bound over all mappings, also for wide elements, held against enumeration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice, pairwise, permutations, product
from math import ceil, factorial, inf, prod
from pathlib import Path
from random import Random

import numpy as np
import pytest
from cosa.reading import cosa_objective

from onchip.answer.layer_mapping import LayerMapping, Loop, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status, Stop
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.bounds.layer.floors import (
    first_and_last,
    floor_of_any,
    floor_with_bypass,
    least_cycles,
    turns_of,
    waiting_turns,
)
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.baselines.loma import (
    FirstOfDefines,
    arrangements,
    filled_orders,
    ranks,
    solve_as_loma,
    unrolled_for,
)
from onchip.mapping.baselines.random_search import random_orders, random_tiling
from onchip.mapping.cosa.cosa import VALUE_PER_BIT, solve_as_cosa
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.registry import EVEN_MAPPINGS, METHODS, WITHOUT_BYPASS
from onchip.mapping.prove.bounds import bound_of_all
from onchip.mapping.prove.wide import ended_short, refined, solve_widely
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.mapping.tile_search.uneven import solve_uneven
from onchip.model.accounting.accounting import DEFINES, ZIGZAG, Accounting
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import LayerCosts
from onchip.model.unrolling.unrolling import all_ways, some_ways
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import all_mappings, homed_toy, lean_toy, levels_with_room, narrow_toy, toy
from oracles.wide_mapspace import every_cost, tiny
from support.nest_tiles import ensure_best
from support.nests import random_case
from support.ragged_nests import random_ragged_mapping
from support.series import in_one_test, series

# `exact` beyond the even space: never above other methods, its bound never above a mapping


@pytest.mark.parametrize("seed", series((2, 0, 1), 1))
def test_no_mapping_is_below_the_bound_and_no_answer_below_the_best_mapping(seed: int) -> None:
    problem = tiny(seed)
    costs = [(one.energy_pj, one.cycles) for one in every_cost(problem)]
    for objective in MappingObjective:
        least = min((round(objective.of(*one)) for one in costs), default=inf)
        result = solve_widely(problem, objective, Run())
        assert floor_of_any(problem, objective) <= least
        assert least == inf or bound_of_all(problem, objective, 1 << 60, Run()) <= least
        assert result.objective_value is not None
        assert result.objective_value >= least
        assert result.lower_bound <= least
        if result.status is Status.OPTIMAL:
            assert result.objective_value == least


@pytest.mark.parametrize("objective", series(MappingObjective, 1))
def test_progress_tells_values_and_bounds_of_the_final_answer(objective: MappingObjective) -> None:
    problem = LayerProblem(Layer(k=16, c=16, p=7, q=7, r=3, s=3, padding=(1, 1, 1, 1)), load_accelerator("simba"))
    told: list[Progress] = []
    result = solve_widely(problem, objective, Run(Limits(2.0), told.append))
    assert min(one.best for one in told if one.best is not None) == result.objective_value
    assert 0 < told[0].lower_bound <= max(one.lower_bound for one in told) <= result.lower_bound


@pytest.mark.parametrize(
    "seeds", series([(10481, 10487), *(range(first, first + 50) for first in range(0, 600, 50))], 5), ids=str
)
def test_no_mapping_whose_loops_end_short_is_below_the_floor(seeds: Sequence[int]) -> None:
    """Seeds 10481 and 10487 have inputs whose taps all read padded zeros, or skip the stored positions."""
    for seed in seeds:
        problem = random_case(seed, most_macs=200).problem
        mapping = random_ragged_mapping(Random(seed), problem, keeps_all=True)
        cost = layer_cost(problem, mapping)
        for objective in MappingObjective:
            value = objective.of(cost.energy_pj, cost.cycles)
            assert floor_of_any(problem, objective) <= value, f"{seed} {objective} {mapping}"


@pytest.mark.parametrize("seeds", series([range(first, first + 50) for first in range(0, 600, 50)], 5), ids=str)
def test_no_legal_mapping_is_below_the_floor_with_bypass(seeds: Sequence[int]) -> None:
    skipping = 0
    for seed in seeds:
        problem = random_case(seed, most_macs=200).problem
        mapping = random_ragged_mapping(Random(seed), problem)
        skipping += any(len(mapping.kept(one)) < len(problem.keepers(one)) for one in Operand)
        cost = layer_cost(problem, mapping)
        for objective in MappingObjective:
            value = objective.of(cost.energy_pj, cost.cycles)
            assert floor_with_bypass(problem, objective) <= value, f"{seed} {objective} {mapping}"
    assert skipping


def test_a_floor_of_cycles_is_the_turns_of_the_array_or_what_dram_moves() -> None:
    machine = load_accelerator("tpu-like-df")
    turning = LayerProblem(Layer(k=33, c=320, p=30, q=30, r=3, s=3), machine)
    turns, begun = 2 * 10 * 30 * 30 * 9, 2 * 30 * 30
    assert least_cycles(turning) == turns + (turns - begun) + first_and_last(turning)  # one port reads and writes sums
    large = LayerProblem(Layer(k=32, c=32), machine)
    dram = machine.dram
    assert dram is not None
    assert least_cycles(large) == ceil((32 * 32 + 32 + 32) * 8 / dram.ports[0].bits_per_cycle)


def test_a_turn_waits_for_the_port_that_its_sums_need() -> None:
    """A register of each unit writes a sum of 16 bits in each turn and reads it, but the first time, 8 bits a cycle."""
    register = MemoryLevel(
        Memory("register", 8, holds=(Operand.OUTPUT,)),
        (),
        access=Access(8, 1.0, 1.0),
        ports=(Port(Direction.READ_WRITE, 8),),
    )
    array = ComputeArray({"unit": 4}, mac_energy_pj=0.0)
    sram = MemoryLevel(Memory("sram", 64, holds=(Operand.INPUT,)), None, is_scratchpad=True, access=Access(8, 1.0, 1.0))
    machine = Accelerator("small", (sram.memory,), (register, sram), None, array, Dram(Access(8, 1.0, 1.0)))
    problem = LayerProblem(Layer(k=6, c=5, partial_bits=16), machine)
    ways = np.ones((1, 1, len(LOOPS)), np.int64)
    assert waiting_turns(problem, ways).tolist() == [2 * 30 + 2 * (30 - 6)]
    ways[0, 0, LOOPS.index("K")] = 4
    assert waiting_turns(problem, ways).tolist() == [2 * 10 + 2 * (10 - 2)]


@in_one_test("seed", range(40))
def test_the_least_turns_are_those_of_the_best_of_all_ways(seed: int) -> None:
    problem = random_case(seed).problem
    array = array_of(problem.accelerator)
    least = inf
    choices = []
    for name, units in array.sizes.items():
        sizes = [range(1, min(units, bound) + 1) if loop in loops_along(array, name) else (1,) for loop, bound in
                 problem.layer.bounds.items()]  # fmt: skip
        choices.append([one for one in product(*sizes) if prod(one) <= units])
    for way in product(*choices):
        beside = [prod(own) for own in zip(*way, strict=True)]
        turns = prod(-(-bound // own) for bound, own in zip(problem.layer.bounds.values(), beside, strict=True))
        least = min(least, turns)
    found = all_ways(problem)
    assert found is not None
    assert turns_of(problem.layer, found).min() == least
    assert len(found) == prod(map(len, choices))
    assert set(map(bytes, some_ways(problem, 5))) <= set(map(bytes, found))


@pytest.mark.parametrize("make", series([toy, lean_toy, homed_toy], 1))
@pytest.mark.parametrize("seed", series(range(2), 1))
def test_neither_loma_nor_an_even_mapping_is_better(make: Callable[[int], LayerProblem], seed: int) -> None:
    problem = make(seed)
    for objective in MappingObjective:
        result = solve_widely(problem, objective, Run())
        even = solve_exactly(problem, objective, Run())
        if result.answer is None or result.objective_value is None:
            assert (result.status, even.status) == (Status.UNKNOWN, Status.INFEASIBLE)
            continue
        assert verify_mapping(problem, result.answer) == ()
        cost = layer_cost(problem, result.answer)
        assert result.objective_value == round(objective.of(cost.energy_pj, cost.cycles))
        assert result.lower_bound <= result.objective_value
        assert result.objective_value <= (even.objective_value or inf)
        value = METHODS["loma"].solve(problem, objective, Run()).objective_value
        assert value is None or result.objective_value <= value
        assert result.space == WITHOUT_BYPASS.name
        if result.optimal_among is not None:
            assert result.optimal_among == EVEN_MAPPINGS.name
            assert (result.status, even.status) == (Status.FEASIBLE, Status.OPTIMAL)
            assert result.objective_value == even.objective_value
        else:
            is_better = even.objective_value is None or result.objective_value < even.objective_value
            assert is_better or result.status is Status.OPTIMAL


@pytest.mark.parametrize("objective", series(MappingObjective, 1))
@pytest.mark.parametrize("text", series(["gemm:m7n24k40", "conv:k16c8p5q5r3s3:pad1"], 1))
def test_no_baseline_is_better_on_a_preset(objective: MappingObjective, text: str) -> None:
    problem = LayerProblem(Layer.of_text(text), load_accelerator("simba"))
    value = solve_widely(problem, objective, Run()).objective_value
    for name in ("loma", "cosa", "random"):
        answer = METHODS[name].solve(problem, objective, Run()).answer
        assert answer is not None
        cost = layer_cost(problem, answer)
        assert (value or inf) <= round(objective.of(cost.energy_pj, cost.cycles)), name


@pytest.mark.slow
@pytest.mark.parametrize("size", series([31, 127], 1))
def test_what_divides_nothing_is_cut_off_where_it_ends(size: int) -> None:
    """Both sizes are prime: with whole factors most units are idle."""
    machine = load_accelerator("ascend-like-df-paper")
    problem = LayerProblem(Layer.of_text(f"gemm:m{size}n{size}k{size}"), machine)
    even = solve_exactly(problem, MappingObjective.LATENCY, Run())
    result = solve_widely(problem, MappingObjective.LATENCY, Run())
    assert (even.status, result.space) == (Status.OPTIMAL, WITHOUT_BYPASS.name)
    assert size == 31 or result.status is Status.OPTIMAL
    assert result.answer is not None
    assert result.answer.ragged
    assert (result.objective_value or inf) * 100 < (even.objective_value or 0)


@pytest.mark.parametrize(("text", "most_cycles"), [("gemm:m127n127k127", 10_000), ("conv:k31c37p11q11", 4_000)])
@pytest.mark.parametrize("seconds", [0.001, 0.5])
def test_in_however_little_time_something_that_ends_short_is_seen(text: str, most_cycles: int, seconds: float) -> None:
    """The best even mappings take 2,048,417 and 12,925 cycles."""
    problem = LayerProblem(Layer.of_text(text), load_accelerator("simba"))
    result = solve_widely(problem, MappingObjective.LATENCY, Run(Limits(time_limit_seconds=seconds)))
    assert result.objective_value is not None
    assert result.objective_value <= most_cycles
    assert (result.status, result.space) == (Status.FEASIBLE, WITHOUT_BYPASS.name)


def test_a_run_that_is_to_stop_at_once_has_an_answer() -> None:
    """LOMA and the search of even mappings have no mapping yet, and no ragged mapping fits."""
    machine = load_accelerator("edge-tpu-like")
    array = array_of(machine)
    machine = replace(machine, array=replace(array, unrolls=dict.fromkeys(array.sizes, LOOPS)))
    problem, run = LayerProblem(Layer(k=64, c=64, p=56, q=56, r=3, s=3), machine), Run()
    run.interrupt.set()
    result = solve_widely(problem, MappingObjective.ENERGY, run)
    assert result.status is Status.FEASIBLE
    assert 0 < result.lower_bound < (result.objective_value or 0) < inf


def test_the_same_question_has_the_same_answer() -> None:
    problem = LayerProblem(Layer(k=5, c=3, p=2, r=2), load_accelerator("tpu-like-df"))
    first, again = (solve_widely(problem, MappingObjective.EDP, Run()) for _ in range(2))
    assert replace(first, seconds=0) == replace(again, seconds=0)


@pytest.mark.parametrize("objective", MappingObjective)
def test_a_run_that_is_cut_short_answers_what_it_has(objective: MappingObjective) -> None:
    problem = LayerProblem(Layer(k=60, c=64, p=28, q=28, r=3, s=3), load_accelerator("simba"))
    result = solve_widely(problem, objective, Run(Limits(time_limit_seconds=0.2)))
    assert result.stopped_by in (Stop.TIME_LIMIT, Stop.COMPLETED)
    assert result.objective_value is not None
    assert floor_of_any(problem, objective) <= result.lower_bound <= result.objective_value


@pytest.mark.parametrize("seed", series(range(30), 10))
def test_a_refined_mapping_is_legal_costs_what_is_said_and_no_more_than_its_start(seed: int) -> None:
    problem = toy(seed)
    start = METHODS["loma"].solve(problem, MappingObjective.EDP, Run()).answer
    if start is None:
        return
    for objective in MappingObjective:
        value, mapping = refined(problem, problem.layer, objective, start, 3000, Run())
        assert verify_mapping(problem, mapping) == ()
        before, after = (
            objective.of(float(costs.energy_pj[0]), float(costs.cycles[0]))
            for costs in (LayerCosts(problem).of([one]) for one in (start, mapping))
        )
        assert value == after
        assert value <= before


def test_a_mapping_of_longer_loops_ends_where_the_layer_does() -> None:
    longer = LayerMapping((Loop("K", 4, "K"), Loop("P", 2), Loop("K", 4), Loop("K", 2), Loop("P", 3)))
    short = ended_short(Layer(k=9, p=5), longer)
    assert short == LayerMapping((Loop("K", 4, "K"), Loop("P", 2), Loop("K", 3), Loop("P", 3)), ragged=("K", "P"))
    assert ended_short(Layer(k=32, p=6), longer) == longer
    assert ended_short(Layer(k=8, p=6), longer).nest == (Loop("K", 4, "K"), Loop("P", 2), Loop("K", 2), Loop("P", 3))


@pytest.mark.parametrize("seed", series(range(100), 40))
def test_what_ends_short_is_legal_and_takes_no_more_energy_than_padded(seed: int) -> None:
    random = Random(seed)
    case = random_case(seed, most_macs=200)
    longer = case.mapping
    bounds = {name: max(1, bound - random.choice((0, 0, 1, 2))) for name, bound in case.layer.bounds.items()}
    plain = replace(case.layer, padding=(0, 0, 0, 0))
    n, k, c, p, q, r, s, g = (bounds[name] for name in LOOPS)
    layer = replace(plain, n=n, k=k, c=c, p=p, q=q, r=r, s=s, g=g)
    whole, problem = LayerProblem(plain, case.accelerator), LayerProblem(layer, case.accelerator)
    short = ended_short(layer, longer)
    assert verify_mapping(problem, short) == ()
    cost, padded = layer_cost(problem, short), layer_cost(whole, longer)
    assert cost.energy_pj <= padded.energy_pj * (1 + 1e-12)
    assert cost.latency.ideal + cost.latency.unused <= padded.latency.ideal + padded.latency.unused


# Elements wider than a memory: it is left out, by every mapper alike, and the exact one still finds the best


SEEDS = range(80)
MOST_MAPPINGS = 1500


@pytest.mark.parametrize("seed", series(SEEDS, 20))
def test_it_finds_the_best_of_all_mappings_without_the_memories_that_are_too_narrow(seed: int) -> None:
    ensure_best(narrow_toy(seed), MOST_MAPPINGS)


def left_out(problem: LayerProblem) -> list[Operand]:
    """Return each operand once per memory that holds it but has no room for an element."""
    room = levels_with_room(problem)
    return [
        operand
        for operand in Operand
        if operand in problem.layer.operands
        for level in problem.below_home(operand)
        if operand in level.memory.holds and level not in room[operand]
    ]


@pytest.mark.slow
def test_toys_leave_out_memories_of_every_operand() -> None:
    problems = [narrow_toy(seed) for seed in SEEDS]
    small = [one for one in problems if sum(1 for _ in islice(all_mappings(one), MOST_MAPPINGS + 1)) <= MOST_MAPPINGS]
    found = Counter(operand for one in small for operand in set(left_out(one)))
    assert len(small) >= 50
    assert min(found[operand] for operand in Operand) >= 10, found


def alone(seed: int) -> LayerProblem:
    """Return the toy with the full capacity of every memory and all operands in DRAM."""
    return replace(narrow_toy(seed), homes=Homes(), room_bytes={})


def keeps_all_that_has_room(problem: LayerProblem, mapping: LayerMapping | None) -> bool:
    """Return True if the mapping keeps tiles in every memory with room for an element, and in no other memory."""
    room = levels_with_room(problem)
    return mapping is not None and all(
        [one.memory for one in mapping.kept(operand)] == [level.memory.name for level in room[operand]]
        for operand in problem.layer.operands
    )


@pytest.mark.parametrize("seed", series(range(24), 8))
def test_whatever_a_machine_has_no_room_for_there_is_a_best_mapping_and_none_drawn_is_better(seed: int) -> None:
    problem, random = alone(seed), Random(seed)
    best = METHODS["exact-even"](problem, MappingObjective.ENERGY, Run())
    assert best.status is Status.OPTIMAL
    assert keeps_all_that_has_room(problem, best.answer)
    levels = len(problem.levels) + 1
    drawn = [random_tiling(random, problem).mapping(problem, random_orders(random, levels)) for _ in range(200)]
    assert all(keeps_all_that_has_room(problem, one) for one in drawn)
    energies_pj = LayerCosts(problem).of(drawn).energy_pj
    assert best.lower_bound <= 1000 * min(energies_pj) + 1


@pytest.mark.parametrize("accounting", [ZIGZAG, DEFINES])
@pytest.mark.parametrize("seed", series(range(24), 8))
def test_loma_and_uneven_leave_out_the_same_memories(seed: int, accounting: Accounting) -> None:
    problem, energy = alone(seed), MappingObjective.ENERGY
    filled = solve_as_loma(problem, energy, Run(), accounting=accounting, has_stored_room=True)
    proven = solve_uneven(problem, energy, Run(), accounting, has_stored_room=True)
    for one in (filled, proven):
        assert one.answer is None or keeps_all_that_has_room(problem, one.answer)
        assert one.answer is None or verify_mapping(problem, one.answer) == ()
    if filled.objective_value is not None:
        assert proven.objective_value is not None
        assert proven.objective_value <= filled.objective_value


SIMBA = load_accelerator("simba-cosa")
WIDE = Layer(k=32, c=32, p=7, q=7, input_bits=32, weight_bits=32, output_bits=32, partial_bits=32)


def test_cosa_leaves_a_register_out_that_has_no_room_for_a_weight() -> None:
    problem = LayerProblem(WIDE, SIMBA)
    result = solve_as_cosa(problem, Run())
    assert result.status is Status.OPTIMAL
    assert keeps_all_that_has_room(problem, result.answer)
    assert result.answer is not None
    assert verify_mapping(problem, result.answer) == ()
    assert [one.memory for one in result.answer.weight] == ["weight_buffer"]
    assert result.objective_value == round(cosa_objective(WIDE, SIMBA, result.answer).total * VALUE_PER_BIT)


@pytest.mark.slow
def test_what_was_proven_when_every_memory_had_to_keep_what_it_holds_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof in which no memory is left out is read again."""
    cache, energy = MappingCache(tmp_path), MappingObjective.ENERGY
    narrow, wide = (LayerProblem(one, SIMBA) for one in (replace(WIDE, k=2, c=2, p=1), Layer(k=2, c=2, q=7)))
    with monkeypatch.context() as before:
        before.setattr("onchip.mapping.methods.cache.leaves_something_out", lambda *_: False)
        for problem in (narrow, wide):
            cache.solve(METHODS["exact"], problem, energy, Run())
    assert cache.known(METHODS["exact"], narrow, energy, Run()) is None
    assert cache.known(METHODS["exact"], wide, energy, Run()) is not None
    found = cache.solve(METHODS["exact"], narrow, energy, Run())
    again = cache.known(METHODS["exact"], narrow, energy, Run())
    assert again is not None
    assert again.answer == found.answer


# The order in which DeFiNES enumerates loop orders, and its choice among equally good mappings


FACTORS = [("K", 2), ("C", 2), ("OX", 3)]


@pytest.mark.parametrize("size", range(6))
def test_each_arrangement_comes_once_and_the_next_has_one_item_at_the_front(size: int) -> None:
    for items in product(FACTORS, repeat=size):
        every = list(arrangements(items))
        assert len(every) == len(set(every))
        assert set(every) == set(permutations(items))
        for one, following in pairwise(every):
            rest = list(following[1:])
            assert any([*one[:at], *one[at + 1 :]] == rest and one[at] == following[0] for at in range(size))


def test_the_order_is_that_of_its_source() -> None:
    """Williams (SODA 2009), as E. Garrison's multipermute has it, which DeFiNES uses."""
    assert ["".join(name for name, _ in one) for one in arrangements([("1", 0), ("2", 0), ("3", 0)])] == [
        "321",
        "132",
        "312",
        "231",
        "123",
        "213",
    ]
    twos = [("1", 0), ("1", 0), ("2", 0), ("2", 0)]
    found = ["".join(name for name, _ in one) for one in arrangements(twos)]
    assert found == ["2211", "1221", "2121", "1212", "1122", "2112"]


def test_rows_have_the_numbers_of_their_orders_innermost_first() -> None:
    problem = LayerProblem(Layer(k=64, c=4, p=8, q=4, r=3), load_accelerator("meta-prototype-df"))
    unrolled = unrolled_for(problem, {"K": {"K": 32}, "C": {"C": 2}, "OX": {"Q": 4}, "OY": {"P": 4}})
    chosen = next(filled_orders(problem, unrolled, 6, DEFINES))
    rows = len(chosen.temporal_count)
    assert rows == factorial(4)
    numbers = [FirstOfDefines()(chosen, row) for row in range(rows)]
    assert sorted(numbers) == list(range(rows))
    outermost_k = ranks((("C", 2), ("FY", 3), ("K", 2), ("OY", 2)))[("C", 2), ("FY", 3), ("OY", 2), ("K", 2)]
    assert outermost_k in numbers
