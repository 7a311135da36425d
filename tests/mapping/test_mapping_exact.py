"""The exact mapper against every mapping of its mapspace, on toy layers and random machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status, Stop
from onchip.arch.memory import Operand
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, OUTPUT, Layer
from onchip.mapping.tile_search.exact import OBJECTIVES, ExactMapper, mapping_of, solve_exactly, space_of, ways_of
from onchip.model.layer.cost import layer_cost
from onchip.native import ExactWay
from onchip.search.budget.limits import Limits, Progress, Run
from oracles.mapspace import are_few, homed_toy, lean_toy, toy
from support.nest_tiles import ensure_best
from support.nests import beside_operands
from support.series import series, with_slow

MOST_MAPPINGS = 3000
TOYS = range(60)
"""The adversary looks at as many others as there is time for."""


@pytest.mark.parametrize("seed", with_slow(TOYS, lambda seed: seed in (3, 6) or seed >= TOYS[12]))
def test_it_finds_the_best_of_all_mappings(seed: int) -> None:
    ensure_best(toy(seed), MOST_MAPPINGS)


@pytest.mark.parametrize("seed", series(range(40), 10))
def test_it_finds_the_best_where_memories_keep_one_operand(seed: int) -> None:
    ensure_best(lean_toy(seed), MOST_MAPPINGS)


@pytest.mark.parametrize("seed", series(range(40), 6))
def test_it_finds_the_best_where_operands_lie_whole_in_tight_memories(seed: int) -> None:
    ensure_best(homed_toy(seed), MOST_MAPPINGS)


@pytest.mark.slow
def test_most_toys_are_small_enough() -> None:
    assert sum(are_few(toy(seed), MOST_MAPPINGS) for seed in TOYS) >= 45


def test_in_some_toys_incomplete_sums_find_no_room_where_outputs_lie_whole() -> None:
    assert sum(_gains_by_room_for_incomplete_sums(homed_toy(seed)) for seed in range(60)) >= 5


def _gains_by_room_for_incomplete_sums(problem: LayerProblem) -> bool:
    layer, accelerator = problem.layer, problem.accelerator
    more_bytes = layer.elements(OUTPUT) * (layer.partial_bits - layer.output_bits) // 8 + 1
    home = problem.home(OUTPUT)
    room_bytes = {name: room + more_bytes * (name == home) for name, room in problem.room_bytes.items()}
    levels = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=level.memory.capacity_bytes + more_bytes))
        if level.memory.name == home
        else level
        for level in accelerator.levels
    )
    roomy = replace(accelerator, levels=levels, scratchpads=(levels[-1].memory,))
    tight, wide = (
        solve_exactly(one, MappingObjective.ENERGY, Run()).objective_value
        for one in (problem, replace(problem, accelerator=roomy, room_bytes=room_bytes))
    )
    return wide is not None and (tight is None or wide < tight)


def test_chains_whose_sums_find_no_room_where_outputs_lie_whole_are_not_looked_into() -> None:
    """The memory has room for whole outputs and little else: wider sums do not fit and complete below."""
    whole = load_accelerator("meta-prototype-df")
    homes = {Operand.INPUT: "activation_global_buffer", Operand.OUTPUT: "activation_local_buffer"}
    problem = beside_operands(Layer(k=512, c=512, p=11, q=11, r=3, s=3, partial_bits=16), whole, homes)
    assert problem is not None
    mapper = ExactMapper(problem, MappingObjective.ENERGY, Run())
    assert mapper.solve().status is Status.OPTIMAL
    assert mapper.nodes < 100


@pytest.mark.parametrize("objective", MappingObjective)
def test_more_workers_prove_the_same(objective: MappingObjective) -> None:
    problem = LayerProblem(Layer(k=24, c=12, p=7, q=7, r=3, s=3), load_accelerator("simba"))
    found = [solve_exactly(problem, objective, Run(Limits(workers=workers))) for workers in (1, 2, 5)]
    assert {one.status for one in found} == {Status.OPTIMAL}
    assert len({one.objective_value for one in found}) == 1


def test_a_layer_on_simba_is_proven_and_costs_what_the_model_says() -> None:
    layer, accelerator = Layer(k=64, c=64, p=14, q=14, r=3, s=3, padding=(1, 1, 1, 1)), load_accelerator("simba")
    result = solve_exactly(LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run())
    assert result.status is Status.OPTIMAL
    assert result.answer is not None
    assert result.objective_value == result.lower_bound
    cost = layer_cost(LayerProblem(layer, accelerator), result.answer)
    assert result.objective_value == pytest.approx(1000 * cost.energy_pj, rel=1e-9)


def test_no_known_mapping_of_a_layer_on_simba_takes_less_time() -> None:
    """The known mapping begins and ends the loops between two tiles with one class, as a memory is cut among them."""
    layer, accelerator = Layer(k=2048, c=1024, p=7, q=7, stride=(2, 2)), load_accelerator("simba")
    nest = (
        Loop("C", 8, "lane"),
        Loop("K", 8, "vector"),
        Loop("C", 16),
        Loop("P", 7),
        Loop("C", 2),
        Loop("K", 2),
        Loop("K", 128),
        Loop("C", 2, "pe"),
        Loop("Q", 7, "pe"),
        Loop("C", 2),
    )
    known = LayerMapping(
        nest,
        (Kept("input_buffer", 7), Kept("global_buffer", 7)),
        (Kept("register", 0), Kept("weight_buffer", 5)),
        (Kept("accumulation_buffer", 5), Kept("global_buffer", 6)),
    )
    result = solve_exactly(LayerProblem(layer, accelerator), MappingObjective.LATENCY, Run())
    assert result.status is Status.OPTIMAL
    assert result.objective_value is not None
    assert result.objective_value <= layer_cost(LayerProblem(layer, accelerator), known).cycles


def test_a_run_tells_of_better_mappings_and_never_of_a_bound_above_them() -> None:
    told: list[Progress] = []
    layer, accelerator = Layer(k=64, c=64, p=14, q=14, r=3, s=3, padding=(1, 1, 1, 1)), load_accelerator("simba")
    result = solve_exactly(LayerProblem(layer, accelerator), MappingObjective.LATENCY, Run(listener=told.append))
    values = [one.best for one in told if one.best is not None]
    assert values == sorted(values, reverse=True)
    assert values[-1] == result.objective_value
    assert all(one.best is None or one.lower_bound <= result.lower_bound for one in told)


@pytest.mark.parametrize("objective", MappingObjective)
def test_larger_memories_never_cost_more_energy_or_time(objective: MappingObjective) -> None:
    layer, accelerator = toy(3).layer, toy(3).accelerator
    levels = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=4 * level.memory.capacity_bytes))
        for level in accelerator.levels
    )
    larger = replace(accelerator, levels=levels, scratchpads=tuple(one.memory for one in levels if one.is_scratchpad))
    small = solve_exactly(LayerProblem(layer, accelerator), objective, Run()).objective_value
    large = solve_exactly(LayerProblem(layer, larger), objective, Run()).objective_value
    assert small is not None
    assert large is not None
    assert large <= small


@pytest.mark.parametrize("objective", MappingObjective)
def test_a_run_that_is_cut_short_has_a_bound_below_its_mapping(objective: MappingObjective) -> None:
    layer, accelerator = Layer(k=64, c=64, p=28, q=28, r=3, s=3), load_accelerator("simba")
    solve_exactly(LayerProblem(Layer(k=2, c=2), accelerator), objective, Run())
    result = solve_exactly(LayerProblem(layer, accelerator), objective, Run(Limits(time_limit_seconds=0.5)))
    assert result.status in (Status.FEASIBLE, Status.OPTIMAL, Status.UNKNOWN)
    assert result.objective_value is None or result.lower_bound <= result.objective_value
    assert (result.status is Status.OPTIMAL) is (result.stopped_by is Stop.COMPLETED)


@pytest.mark.parametrize("objective", MappingObjective)
@pytest.mark.parametrize("seed", range(0, 12, 3))
def test_a_run_of_so_many_nodes_claims_nothing_false_and_ends_the_same_each_time(
    seed: int, objective: MappingObjective
) -> None:
    best = solve_exactly(toy(seed), objective, Run()).objective_value
    cut_off = 0
    for nodes in (0, 1, 2, 5, 20, 100, 1_000):
        limits = Limits(node_limit=nodes)
        result, again = (solve_exactly(toy(seed), objective, Run(limits)) for _ in range(2))
        assert replace(result, seconds=again.seconds) == again
        cut_off += result.stopped_by is Stop.NODE_LIMIT
        if best is None:
            continue
        assert result.lower_bound <= best
        assert result.objective_value is None or result.objective_value >= best
        assert (result.status is Status.OPTIMAL) <= (result.objective_value == best)
    assert cut_off > 0


def test_a_mapping_to_begin_with_is_never_made_worse() -> None:
    first = solve_exactly(toy(3), MappingObjective.LATENCY, Run())
    again = solve_exactly(toy(3), MappingObjective.LATENCY, Run(), first.answer)
    assert again.objective_value == first.objective_value


def test_a_layer_of_one_multiply_accumulate_has_one_mapping() -> None:
    accelerator = load_accelerator("simba")
    result = solve_exactly(LayerProblem(Layer(), accelerator), MappingObjective.ENERGY, Run())
    assert result.status is Status.OPTIMAL
    assert result.answer is not None
    assert result.objective_value == round(
        1000 * layer_cost(LayerProblem(Layer(), accelerator), result.answer).energy_pj
    )


def test_blocks_beside_each_other_along_two_dimensions_of_the_array_have_a_size() -> None:
    """Twenty taps side by side, five along one dimension and four along another, are more than either has units."""
    layer, accelerator = Layer(k=2, q=7, s=20, stride=(2, 2)), load_accelerator("simba")
    problem, taps = LayerProblem(layer, accelerator), LOOPS.index("S")
    unrolled = [tuple(size if loop == taps else 1 for loop in range(len(LOOPS))) for size in (1, 5, 4)]
    way = [along.index(sizes) for along, sizes in zip(ways_of(problem), unrolled, strict=True)]
    search = ExactWay(space_of(problem), OBJECTIVES[MappingObjective.ENERGY])
    floor, chains = search.floor(way), search.chains(way, limit=1e6)
    assert floor is not None
    assert chains
    for _, nest in chains:
        assert layer_cost(problem, mapping_of(nest, problem)).energy_pj >= floor[0]


def test_units_beside_each_other_share_an_input_that_their_windows_divide() -> None:
    """A unit needs only the window of its outputs; hybrid finds 549 cycles, and whole inputs take 800."""
    layer, accelerator = Layer(k=2, c=2, p=28, q=28, r=3, s=3), load_accelerator("eyeriss-like")
    result = solve_exactly(LayerProblem(layer, accelerator), MappingObjective.LATENCY, Run())
    assert result.status is Status.OPTIMAL
    assert result.objective_value == 496


def test_no_bound_of_a_run_that_is_cut_short_is_above_a_mapping_that_divides_the_input() -> None:
    layer, accelerator = Layer(p=32, q=32, r=7, s=7), load_accelerator("eyeriss-like")
    result = solve_exactly(
        LayerProblem(layer, accelerator), MappingObjective.LATENCY, Run(Limits(time_limit_seconds=1.0))
    )
    assert result.lower_bound <= 513
