"""The exact mapper, the greedy mapping, the registry of mappers and their rivals."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status, Stop
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energies import with_assumed_energies
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError, InputError, UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.ir.layer import LOOPS, OUTPUT, Layer
from onchip.mapping.baselines.loma import greedy_mapping, one_by_one, solve_as_loma
from onchip.mapping.baselines.random_search import solve_as_hybrid, solve_at_random
from onchip.mapping.methods.cache import MappingCache, map_layer_at
from onchip.mapping.methods.registry import METHODS, method_named
from onchip.mapping.tile_search.exact import OBJECTIVES, ExactMapper, mapping_of, solve_exactly, space_of, ways_of
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import array_of
from onchip.model.program.compute_cost import nest_cost
from onchip.native import ExactWay
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import are_few, homed_toy, lean_toy, toy
from support.nest_tiles import ensure_best
from support.nests import beside_operands, random_accelerator, random_layer, random_problem
from support.series import series, with_slow

# The exact mapper against every mapping of its mapspace, on toy layers and random machines


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


# Mappings made without a search: legal wherever they are made, and never worse than one product after the other


LAYERS = (
    "conv:n1k64c3p56q56r7s7:stride2:pad3",
    "conv:n1k128c256p28q28r1s1",
    "conv:n1k96c96p14q14r3s3:pad1:groups96",
    "gemm:m784n160k1",
    "gemm:m1n1000k1024",
)
PRICED = ("simba", "meta-prototype-df", "tpu-like-df", "edge-tpu-like", "ascend-like", "tesla-npu-like")


def value(problem: LayerProblem, mapping: LayerMapping, objective: MappingObjective) -> float:
    """Return the value of a mapping, or infinity if it does not fit or cannot be costed."""
    try:
        cost = nest_cost(problem, mapping)
    except InputError:
        return inf
    return objective.of(cost.energy_pj, cost.cycles)


def odd_problem(seed: int) -> LayerProblem:
    """Return a toy with homes, or a random layer on a random machine."""
    if seed % 2:
        return homed_toy(seed)
    random = Random(seed)
    return random_problem(random, random_layer(random, 5000), random_accelerator(random))


@pytest.mark.parametrize("seed", series(range(120), 40))
def test_it_is_legal_and_never_worse_than_one_product_after_the_other(seed: int) -> None:
    problem = odd_problem(seed)
    for objective in MappingObjective:
        try:
            found = greedy_mapping(problem, objective)
        except InputError:
            continue
        before = value(problem, one_by_one(problem), objective)
        if found is None:
            assert before == inf
        else:
            assert verify_mapping(problem, found) == ()
            assert value(problem, found, objective) <= before


def test_on_many_odd_machines_it_is_better_than_one_product_after_the_other() -> None:
    latency, better, count = MappingObjective.LATENCY, 0, 0
    for seed in range(60):
        problem = odd_problem(seed)
        try:
            found = greedy_mapping(problem, latency)
        except InputError:
            continue
        if found is not None:
            count += 1
            better += value(problem, found, latency) < value(problem, one_by_one(problem), latency)
    assert better > count / 3 > 10


@pytest.mark.parametrize("name", PRICED)
@pytest.mark.parametrize("text", LAYERS)
def test_it_is_within_a_few_times_of_what_loma_finds(name: str, text: str) -> None:
    """Sequential products would take some hundred times as long."""
    accelerator = load_accelerator(name)
    problem = LayerProblem(Precision().on(accelerator).of(Layer.of_text(text)), accelerator)
    latency = MappingObjective.LATENCY
    found, by_loma = greedy_mapping(problem, latency), map_layer_at(problem, latency, Run(), "loma").answer
    assert found is not None
    assert verify_mapping(problem, found) == ()
    if by_loma is not None:
        assert value(problem, found, latency) <= 8 * value(problem, by_loma, latency)


@pytest.mark.parametrize("name", ["edge-tpu-like", "meta-prototype", "tesla-npu-like"])
def test_nothing_stands_side_by_side_that_a_memory_has_no_room_for(name: str) -> None:
    """Registers keep one weight for units on two dimensions, which may unroll any loop: LOMA's choice does not fit."""
    accelerator = load_accelerator(name)
    array = array_of(accelerator)
    accelerator = replace(accelerator, array=replace(array, unrolls=dict.fromkeys(array.sizes, LOOPS)))
    problem = LayerProblem(Precision().on(accelerator).of(Layer(k=64, c=64, p=56, q=56, r=3, s=3)), accelerator)
    latency = MappingObjective.LATENCY
    assert map_layer_at(problem, latency, Run(), "loma").answer is None
    found = greedy_mapping(problem, latency)
    assert found is not None
    assert 50 * value(problem, found, latency) <= value(problem, one_by_one(problem), latency)


# Methods by their names on the machines that come with onchip, and on the tables of CoSA's workloads


SMALL = Layer(k=16, c=8, p=8, q=8, r=3, s=3, padding=(1, 1, 1, 1))


@pytest.mark.parametrize("machine", ["simba", "simba-cosa"])
@pytest.mark.parametrize("objective", series(MappingObjective, 1))
def test_cosa_answers_its_optimum_whose_ties_the_cost_model_breaks(machine: str, objective: MappingObjective) -> None:
    layer, accelerator = layer_table("resnet50")["_outputs_input.73"], load_accelerator(machine)
    result = method_named("cosa")(LayerProblem(layer, accelerator), objective, Run())
    assert (result.status, result.method) == (Status.OPTIMAL, "cosa")
    assert result.answer is not None
    assert layer_cost(LayerProblem(layer, accelerator), result.answer).energy_pj > 0
    values = {}
    for asked in MappingObjective:
        answer = method_named("cosa")(LayerProblem(layer, accelerator), asked, Run()).answer
        assert answer is not None
        cost = layer_cost(LayerProblem(layer, accelerator), answer)
        values[asked] = objective.of(cost.energy_pj, cost.cycles)
    assert values[objective] == min(values.values())


def test_cosa_maps_a_loop_longer_than_the_compiled_cost_model_counts() -> None:
    layer = Layer(n=131_072, k=8, c=8)
    result = method_named("cosa")(LayerProblem(layer, load_accelerator("simba")), MappingObjective.ENERGY, Run())
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("machine", ["tpu-like-df", "eyeriss-like", "meta-prototype"])
def test_exact_is_legal_and_no_worse_than_its_rivals_on_other_machines(machine: str) -> None:
    """Sums of 16 bits: the registers of two of these machines have no room for longer ones."""
    layer, accelerator, objective = replace(SMALL, partial_bits=16), load_accelerator(machine), MappingObjective.ENERGY
    result = method_named("exact")(LayerProblem(layer, accelerator), objective, Run(Limits(time_limit_seconds=1)))
    assert result.answer is not None
    assert result.objective_value is not None
    assert verify_mapping(LayerProblem(layer, accelerator), result.answer) == ()
    cost = layer_cost(LayerProblem(layer, accelerator), result.answer)
    assert result.objective_value == pytest.approx(objective.of(cost.energy_pj, cost.cycles), rel=1e-9)
    assert result.lower_bound <= result.objective_value
    rival = method_named("random")(LayerProblem(layer, accelerator), objective, Run())
    if result.status is Status.OPTIMAL and rival.objective_value is not None:
        assert result.objective_value <= rival.objective_value


def test_a_machine_without_energies_is_refused_with_what_lacks_them() -> None:
    machine, objective = load_accelerator("tpu-like"), MappingObjective.ENERGY
    assert machine.array is not None
    priced = replace(machine, array=replace(machine.array, mac_energy_pj=0.0))
    for one in (machine, priced):
        with pytest.raises(AcceleratorError, match="dram: the energy of an access is not stated; expected access_bits"):
            method_named("exact")(LayerProblem(SMALL, one), objective, Run())
    assumed = with_assumed_energies(machine)
    assert method_named("exact")(LayerProblem(SMALL, assumed), MappingObjective.LATENCY, Run()).answer is not None


@pytest.mark.slow
@pytest.mark.parametrize("table", ["resnext50", "resnext50-cosa", "deepbench-ocr", "deepbench-face-recognition"])
def test_a_layer_of_each_table_is_mapped_by_exact_at_no_more_than_cosa(table: str) -> None:
    layers, accelerator = layer_table(table), load_accelerator("simba")
    layer = min(layers.values(), key=lambda one: one.macs)
    values = []
    for method in ("exact", "cosa"):
        result = method_named(method).solve(LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run())
        assert result.answer is not None
        if verify_mapping(LayerProblem(layer, accelerator), result.answer) == ():
            values.append(layer_cost(LayerProblem(layer, accelerator), result.answer).energy_pj)
    assert values
    assert values[0] == min(values)


# Rivals of the exact mapper: legal, the same for a seed, and never better than the proof allows


LAYER = Layer(k=8, c=8, p=4, q=4, r=3, s=3, padding=(1, 1, 1, 1))
PORTS = (Port(Direction.READ, 16), Port(Direction.WRITE, 16))
RIVALS = ("random", "hybrid", "loma")


@pytest.fixture
def accelerator() -> Accelerator:
    """Return a machine whose inner memories hold one operand each, so that operands have separate cuts."""
    held = (
        MemoryLevel(Memory("sums", 16, holds=(Operand.OUTPUT,)), ("lane",), access=Access(8, 1.0, 1.5), ports=PORTS),
        MemoryLevel(Memory("weights", 64, holds=(Operand.WEIGHT,)), ("lane",), access=Access(8, 2.0, 2.5), ports=PORTS),
    )
    shared = MemoryLevel(
        Memory("shared", 256, holds=(Operand.INPUT, Operand.OUTPUT)),
        None,
        True,
        access=Access(8, 6.0, 7.0),
        ports=PORTS,
    )
    dram = Dram(Access(8, 100.0, 110.0), (Port(Direction.READ_WRITE, 16),))
    array = ComputeArray({"lane": 4, "pe": 2}, mac_energy_pj=0.5)
    return Accelerator("three levels", (shared.memory,), (*held, shared), None, array, dram)


@pytest.mark.parametrize("method", with_slow(RIVALS, {"hybrid"}.__contains__))
@pytest.mark.parametrize("objective", series(MappingObjective, 1))
def test_a_rivals_mapping_is_legal_and_costs_what_it_says(
    accelerator: Accelerator, method: str, objective: MappingObjective
) -> None:
    result = method_named(method)(LayerProblem(LAYER, accelerator), objective, Run(Limits(seed=3)))
    assert result.status is Status.FEASIBLE
    assert result.answer is not None
    assert verify_mapping(LayerProblem(LAYER, accelerator), result.answer) == ()
    cost = layer_cost(LayerProblem(LAYER, accelerator), result.answer)
    assert result.objective_value == round(objective.of(cost.energy_pj, cost.cycles))


@pytest.mark.parametrize("method", with_slow(RIVALS, {"hybrid"}.__contains__))
def test_the_same_seed_gives_the_same_mapping(accelerator: Accelerator, method: str) -> None:
    first, second = (
        method_named(method)(LayerProblem(LAYER, accelerator), MappingObjective.EDP, Run(Limits(seed=5)))
        for _ in range(2)
    )
    assert first.answer == second.answer


def test_another_seed_gives_another_random_mapping(accelerator: Accelerator) -> None:
    answers = {
        str(solve_at_random(LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run(Limits(seed=seed))).answer)
        for seed in range(6)
    }
    assert len(answers) > 1


def test_more_valid_mappings_are_never_worse(accelerator: Accelerator) -> None:
    few, many = (
        solve_at_random(LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run(), valid).objective_value
        for valid in (2, 40)
    )
    assert few is not None
    assert many is not None
    assert many <= few


def test_more_threads_and_more_patience_are_never_worse(accelerator: Accelerator) -> None:
    less, more = (
        solve_as_hybrid(
            LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run(), threads, patience
        ).objective_value
        for threads, patience in ((1, 5), (3, 60))
    )
    assert less is not None
    assert more is not None
    assert more <= less


def test_loma_with_more_loops_is_no_worse_here(accelerator: Accelerator) -> None:
    coarse, fine = (
        solve_as_loma(LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run(), limit).objective_value
        for limit in (3, 6)
    )
    assert coarse is not None
    assert fine is not None
    assert fine <= coarse


@pytest.mark.parametrize("method", ["random", pytest.param("hybrid", marks=pytest.mark.slow)])
def test_no_rival_of_the_same_mapspace_is_better_than_the_proof(accelerator: Accelerator, method: str) -> None:
    best = METHODS["exact"](LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run())
    rival = METHODS[method](LayerProblem(LAYER, accelerator), MappingObjective.ENERGY, Run())
    assert best.status is Status.OPTIMAL
    assert rival.objective_value is not None
    assert best.lower_bound <= rival.objective_value


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no method 'best'"):
        method_named("best")


@pytest.mark.slow
def test_a_kept_mapping_is_found_again_and_a_false_one_is_not_believed(
    accelerator: Accelerator, tmp_path: Path
) -> None:
    cache, method = MappingCache(tmp_path), METHODS["exact"]
    layer = Layer(k=4, c=4, p=2)
    first = cache.solve(method, LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run())
    (path,) = (tmp_path / "mappings").iterdir()
    again = cache.solve(
        method, LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run(Limits(time_limit_seconds=0.0))
    )
    assert (again.answer, again.objective_value) == (first.answer, first.objective_value)
    text = path.read_text(encoding="utf-8")
    for broken in ("", "{}", text.replace('"K"', '"C"'), text.replace('"objective_value": ', '"objective_value": 1')):
        path.write_text(broken, encoding="utf-8")
        assert (
            cache.solve(method, LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run()).answer == first.answer
        )
        assert path.read_text(encoding="utf-8") == text


@pytest.mark.slow
def test_another_objective_or_layer_is_another_file(accelerator: Accelerator, tmp_path: Path) -> None:
    cache, method = MappingCache(tmp_path), METHODS["exact"]
    for layer in (Layer(k=4), Layer(k=8)):
        for objective in (MappingObjective.ENERGY, MappingObjective.EDP):
            cache.solve(method, LayerProblem(layer, accelerator), objective, Run())
    assert len(list((tmp_path / "mappings").iterdir())) == 4
