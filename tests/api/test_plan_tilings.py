"""Tilings, times, views and sweeps of the API."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import ceil
from pathlib import Path

import pytest

import onchip
from onchip.answer.document import RECOMPUTED_MACS, Reading
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.problem import Count, Objective, Order, Problem, Recomputation
from onchip.answer.result import Status, Stop
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.check import check_plan
from onchip.api.plan import THIS_TILING, WHOLE_OPERATORS, Request, cycles_by_mapping, plan_network
from onchip.api.run import RunValues, run_plan
from onchip.api.schedule import (
    CHECKING_TO_READING,
    SECONDS_TO_CHECK,
    SECONDS_TO_CHECK_AN_OPERATOR,
    ScheduleRequest,
    schedule_network,
    seconds_to_check,
)
from onchip.api.target import Target
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import UntiledError, UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import graph_to_json, read_graph, write_graph
from onchip.formats.own.plan_json import write_plan
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.timeline.mac_count import MacCount
from onchip.ops.layers_of import Precision
from onchip.reports.program.outcome import Outcome
from onchip.scheduling.mappings.mapped import MappedNest
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping
from onchip.verify.rules import Rule
from oracles.recomputation import least_cost_with_recomputation
from support.diamond import Json, Program
from support.series import series
from support.small_schedules import chip, document, three
from support.tiled import Attributes, Network, conv, convolution, problem_of, tiled_to_fit

# `plan --tiles`: the tiling found, the scope of status and bound, and the file that records it


WHOLE_NEED = 12 * 64 * 2
"""Bytes of the depthwise convolution's two maps."""


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Save an inverted bottleneck of 2, 12 and 2 channels with 8 x 8 pixels."""
    small = Network(8)
    image = small.input(1, 2, 8, 8)
    wide = convolution(small, image, 12, (1, 1)) or ""
    deep = convolution(small, wide, 12, (3, 3), groups=12) or ""
    narrow = convolution(small, deep, 2, (1, 1)) or ""
    small.add("Add", [image, narrow], small.shape(image))
    path = tmp_path / "network.json"
    write_graph(small.graph(), path)
    return path


def planned(
    network: Path,
    sram_bytes: int | None,
    tiles: TilesOption | None = None,
    objective: Objective = Objective.TRAFFIC,
    count: Count = Count.ACTIVATIONS,
) -> Outcome:
    return plan_network(Request(str(network), Reading(count=count), Target(sram_bytes), objective, tiles=tiles))


def test_tiles_are_the_default_where_an_operator_does_not_fit(network: Path) -> None:
    result = planned(network, WHOLE_NEED // 2).result
    assert (result.status, result.objective_value, result.space) == (Status.OPTIMAL, 0, None)


def test_whole_operators_are_the_default_where_all_fit(network: Path) -> None:
    outcome = planned(network, None, objective=Objective.PEAK)
    assert (outcome.result.status, outcome.result.space) == (Status.OPTIMAL, WHOLE_OPERATORS)
    assert len(outcome.problem.graph.operators) == 4


def test_never_keeps_operators_whole(network: Path) -> None:
    assert planned(network, WHOLE_NEED // 2, TilesOption.NEVER).result.status is Status.INFEASIBLE


@pytest.mark.parametrize("count", list(Count))
def test_the_least_arena_of_a_tiling_is_not_claimed_to_be_that_of_all(network: Path, count: Count) -> None:
    result = planned(network, None, TilesOption.AUTO, Objective.PEAK, count).result
    assert result.objective_value is not None
    assert result.objective_value < WHOLE_NEED / 2
    assert result.status is Status.FEASIBLE
    assert result.lower_bound < result.objective_value
    assert result.optimal_among in (THIS_TILING, None)


def test_a_scratchpad_smaller_than_the_smallest_part_is_proven_infeasible(network: Path) -> None:
    with pytest.raises(UntiledError) as refused:
        planned(network, 9)
    assert refused.value.is_proven


@pytest.mark.parametrize("objective", [Objective.TRAFFIC, Objective.PEAK])
def test_a_plan_file_records_its_tiles(network: Path, objective: Objective, tmp_path: Path) -> None:
    outcome, file = planned(network, WHOLE_NEED // 2, TilesOption.AUTO, objective), tmp_path / "plan.json"
    assert outcome.document is not None
    assert outcome.document.reading.tiles
    write_plan(outcome.document, file)
    check = check_plan(file, str(network), Target(), {})
    assert check.verdict.is_legal
    assert check.sha256 == outcome.document.graph.sha256


def test_in_the_given_order_the_tiles_of_an_operator_follow_one_another(network: Path, tmp_path: Path) -> None:
    asked = Request(str(network), Reading(), Target(WHOLE_NEED // 2), order=Order.GIVEN, tiles=TilesOption.AUTO)
    outcome, file = plan_network(asked), tmp_path / "plan.json"
    names = [one.name if one.tile is None else one.tile.operator for one in outcome.problem.graph.operators]
    assert len(names) > len(set(names))
    assert [name for name, _ in groupby(names)] == list(dict.fromkeys(names))
    assert outcome.document is not None
    write_plan(outcome.document, file)
    assert check_plan(file, str(network), Target(), {}).verdict.is_legal


def test_several_scratchpads_have_operators_tiled_one_by_one(tmp_path: Path) -> None:
    asked = Request("lenet5", target=Target(accelerator="nvdla-like@32KiB"), tiles=TilesOption.AUTO)
    outcome, file = plan_network(replace(asked, reading=Reading(count=Count.ALL))), tmp_path / "plan.json"
    assert outcome.document is not None
    assert outcome.document.reading.tiles
    write_plan(outcome.document, file)
    assert check_plan(file, "lenet5", Target(), {}).verdict.is_legal


@pytest.mark.parametrize("count", list(Count))
def test_tiles_compute_the_values_of_the_network(network: Path, count: Count, tmp_path: Path) -> None:
    outcome, file = planned(network, None, TilesOption.AUTO, Objective.PEAK, count), tmp_path / "plan.json"
    assert outcome.document is not None
    assert outcome.document.reading.tiles
    write_plan(outcome.document, file)
    execution = run_plan(file, str(network), RunValues())
    assert execution.is_right


def test_recomputed_borders_need_less_and_are_counted_again(tmp_path: Path) -> None:
    """Two inverted bottlenecks: rows of the wide maps are computed again within the limit on recomputation."""
    network = Network(8)
    source = network.input(1, 2, 12, 1)
    for _ in range(2):
        wide = convolution(network, source, 12, (1, 1)) or ""
        source = convolution(network, convolution(network, wide, 12, (3, 1), groups=12) or "", 2, (1, 1)) or ""
    path, plan = tmp_path / "network.json", tmp_path / "plan.json"
    write_graph(network.graph(), path)
    limits = Limits(node_limit=200)
    request = Request(str(path), objective=Objective.PEAK, tiles=TilesOption.AUTO, limits=limits)
    arenas = []
    for most_again in (0.0, 0.2, 1.0):
        outcome = plan_network(replace(request, most_again=most_again))
        assert outcome.document is not None
        assert outcome.document.claim is not None
        write_plan(outcome.document, plan)
        macs = outcome.document.claim.figures[RECOMPUTED_MACS]
        once = sum(map(MacCount(network.graph()).macs, network.operators))
        assert macs <= most_again * once
        assert check_plan(plan, str(path), Target(), {}).verdict.is_legal
        assert run_plan(plan, str(path), RunValues()).is_right
        arenas.append(outcome.result.objective_value or 0)
    assert arenas == sorted(arenas, reverse=True)
    assert arenas[-1] < arenas[0]
    assert macs > 0
    plan.write_text(plan.read_text().replace(f'"{RECOMPUTED_MACS}": {macs}', f'"{RECOMPUTED_MACS}": 0'))
    (violation,) = check_plan(plan, str(path), Target(), {}).verdict.violations
    assert (violation.rule, violation.subject) == (Rule.FIGURE_DIFFERS, RECOMPUTED_MACS)


# Schedules without search time, and in given stacks


NO_TIME = 1e-6
PRICED = ("simba", "meta-prototype-df", "tpu-like-df", "edge-tpu-like", "eyeriss-like", "ascend-like", "tesla-npu-like")
"""Presets that state the energy of an access."""


@pytest.mark.parametrize("objective", ["energy", "latency", "edp", "traffic"])
def test_without_time_there_is_a_legal_schedule_of_any_kind(objective: str) -> None:
    """The schedule is legal, as `schedule` raises if the verifier rejects it."""
    found = onchip.schedule(three(), chip(), minimize=objective, time_limit=NO_TIME)
    assert found.answer is not None
    assert found.status is Status.FEASIBLE
    assert found.to_dict()["stopped_by"] is Stop.TIME_LIMIT
    assert (found.objective or 0) > (found.lower_bound or 0) > 0


def test_without_time_each_operator_is_mapped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that was mapped without a search is not composed again if no time was left for longer mappings."""
    asked: list[NestPlace] = []
    mapped = BestMapper.__call__

    def counted(
        mapper: BestMapper, nest: NestPlace, room: Mapping[str, int], similar: Sequence[LayerMapping] = ()
    ) -> MappedNest | None:
        asked.append(nest)
        return mapped(mapper, nest, room, similar)

    monkeypatch.setattr(BestMapper, "__call__", counted)
    assert onchip.schedule(three(), chip(), time_limit=NO_TIME).answer is not None
    assert len(asked) == len(set(asked)) == 3


@pytest.mark.slow
def test_a_little_time_is_used() -> None:
    none, little = (onchip.schedule(three(), chip(), time_limit=limit) for limit in (NO_TIME, 3.0))
    assert (little.objective or 0) < (none.objective or 0)


@pytest.mark.parametrize("name", PRICED)
def test_what_maps_without_a_search_is_legal_on_accelerators_of_all_kinds(name: str) -> None:
    accelerator = load_accelerator(name)
    layer = Precision().on(accelerator).of(Layer.of_text("conv:n1k16c8p8q8r3s3:pad1"))
    mapper = BestMapper(accelerator, MappingObjective.ENERGY, Run(Limits(NO_TIME)))
    room = {level.memory.name: level.memory.capacity_bytes for level in accelerator.addressed}
    problem = LayerProblem(layer, accelerator)
    found = mapper(NestPlace(0, layer, problem.homes, weight_is_an_input=False), room)
    assert found is not None
    assert found.is_makeshift
    assert verify_mapping(problem, found.mapping) == ()
    for operand in layer.operands:
        assert [one.memory for one in found.mapping.kept(operand)] == [
            level.memory.name for level in problem.keepers(operand)
        ]


@pytest.mark.slow
def test_given_stacks_and_tiles_are_those_of_the_answer() -> None:
    (stack,) = document(in_tiles=True).answer.stacks
    assert stack.operators == ("conv0", "conv1", "add")
    assert stack.tiling == Tiling(4, 4, OverlapMode.FULLY_CACHED)
    whole = document(in_tiles=False).answer.stacks
    assert [(one.operators, one.tiling) for one in whole] == [(("conv0",), None), (("conv1",), None), (("add",), None)]


def test_stacks_that_are_not_found_in_time_are_not_said_to_be_there() -> None:
    asked = onchip.schedule(
        three(), chip(), options=ScheduleOptions("one", (4, 4), OverlapMode.FULLY_CACHED), time_limit=NO_TIME
    )
    assert asked.answer is not None
    assert [one.tiling for one in asked.answer.stacks] == [None, None, None]
    assert asked.space["stacks"] == "layers"
    assert asked.notes[0] == "no stacks as asked for in time: every operator runs alone"


def test_what_is_kept_back_for_checking_grows_with_the_operators_and_with_what_a_processor_has_to_wait() -> None:
    """The time kept back is at most a fixed multiple of the reading time."""
    now, had = time.perf_counter(), time.process_time()
    idle, busy = (Deadline(began=now - 100, processor_began=had - one) for one in (100, 25))
    for operators in (1, 100, 1000):
        own = SECONDS_TO_CHECK + SECONDS_TO_CHECK_AN_OPERATOR * operators
        assert seconds_to_check(idle, operators) == pytest.approx(own, rel=0.1)
        assert seconds_to_check(busy, operators) == pytest.approx(4 * own, rel=0.1)
    assert seconds_to_check(busy, 1_000_000) == pytest.approx(CHECKING_TO_READING * 100, rel=0.1)


# Schedules in stacks through slices of channels and repeated pixels: legal, and not below their bound


NEAREST: Attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def halves() -> Graph:
    """Return one half of a map plus a convolution of the other half."""
    network = Network(8)
    wide = conv(network, network.input(1, 2, 8, 8), 4, 1)
    first, second = network.split(wide, [(1, 2, 8, 8)] * 2, 1)
    network.add("Add", [first, conv(network, second, 2, 3)], (1, 2, 8, 8))
    return network.graph()


def grown() -> Graph:
    """Return a map that is enlarged and added to a convolution of itself, as where a decoder meets its encoder."""
    network = Network(8)
    small = conv(network, network.input(1, 2, 4, 4), 2, 3)
    large = network.add("Resize", [small], (1, 2, 8, 8), (), NEAREST)
    network.add("Add", [large, conv(network, large, 2, 3)], (1, 2, 8, 8))
    return network.graph()


@pytest.mark.parametrize("mode", series(OverlapMode, 1))
@pytest.mark.parametrize(
    ("network", "objective", "tile"),
    series(
        [
            (grown, ScheduleObjective.TRAFFIC, (8, 1)),
            (halves, ScheduleObjective.ENERGY, (3, 5)),
            (halves, ScheduleObjective.TRAFFIC, (8, 1)),
            (grown, ScheduleObjective.ENERGY, (3, 5)),
        ],
        1,
    ),
)
def test_one_stack_is_legal_and_costs_no_less_than_its_bound(
    network: Callable[[], Graph], objective: ScheduleObjective, tile: tuple[int, int], mode: OverlapMode, tmp_path: Path
) -> None:
    """The schedule is legal, as `schedule` raises if the verifier rejects it."""
    path = tmp_path / "network.json"
    path.write_text(graph_to_json(network()))
    options = ScheduleOptions("one", tile, mode)
    request = ScheduleRequest(
        str(path), chip(), objective, replace(options, uses_cache=False), reading=Reading(bits=8), limits=Limits(5.0)
    )
    found = schedule_network(request)
    assert found.result.answer is not None
    assert [len(stack.operators) for stack in found.result.answer.stacks] == [len(found.network.operators)]
    assert (found.result.objective_value or 0) >= found.result.lower_bound > 0


# Cycles of operators by mappings: never below their work over the array, for tiles and several nests too


UNITS = 4
ACCESS = Access(8, 1.0, 1.0)
PORTS = (Port(Direction.READ_WRITE, 64),)


def machine(*memories: Memory) -> Accelerator:
    levels = tuple(MemoryLevel(memory, is_scratchpad=True, access=ACCESS, ports=PORTS) for memory in memories)
    return Accelerator(
        "chip", memories, levels, array=ComputeArray({"unit": UNITS}, mac_energy_pj=1.0), dram=Dram(ACCESS, PORTS)
    )


ONE = machine(Memory("sram", 4096))


def operator(
    kind: str, read: tuple[int, ...], written: tuple[int, ...], weight: tuple[int, ...] = (), **how: AttributeValue
) -> Graph:
    tensors = [Tensor.of_shape("x", read, 8, Role.INPUT), Tensor.of_shape("y", written, 8, Role.OUTPUT)]
    parameters = [Tensor.of_shape("w", weight, 8, Role.PARAMETER)] if weight else []
    names = tuple(tensor.name for tensor in parameters)
    return Graph("one", (*tensors, *parameters), (Operator("op", kind, ("x",), ("y",), names, how),))


CONVOLUTION = operator("Conv", (1, 8, 10, 10), (1, 8, 8, 8), (8, 8, 3, 3), kernel_shape=[3, 3])
TRANSPOSED = operator("ConvTranspose", (1, 4, 5, 5), (1, 4, 11, 11), (4, 4, 3, 3), kernel_shape=[3, 3], strides=[2, 2])
PRODUCT = operator("Gemm", (6, 64), (6, 10), (64, 10))
POOL = operator("MaxPool", (1, 8, 8, 8), (1, 8, 4, 4), kernel_shape=[2, 2], strides=[2, 2])
ALL = {"convolution": CONVOLUTION, "transposed": TRANSPOSED, "product": PRODUCT, "pool": POOL}


def cycles(graph: Graph, accelerator: Accelerator = ONE) -> int:
    found = cycles_by_mapping(graph, accelerator, Run())
    assert set(found) == {one.name for one in graph.operators}
    return sum(found.values())


@pytest.mark.parametrize("graph", ALL.values(), ids=ALL)
def test_no_operator_takes_less_than_its_work_over_the_array(graph: Graph) -> None:
    """The scratchpad also holds weights, which a pool does not have."""
    (operator,) = graph.operators
    assert cycles(graph) >= ceil(MacCount(graph).macs(operator) / UNITS)


@pytest.mark.parametrize("graph", ALL.values(), ids=ALL)
@pytest.mark.parametrize("share", [2, 4])
def test_tiles_take_no_less_than_what_they_are_tiles_of(graph: Graph, share: int) -> None:
    """Rounding adds less than a cycle per tile, without the moves between tiles."""
    need = sum(tensor.size_bytes for tensor in graph.tensors)
    tiles = tiled_to_fit(problem_of(graph, need // share))
    found = cycles_by_mapping(tiles, ONE, Run())
    own = [found[one.name] for one in tiles.operators if one.tile is not None and one.tile.operator == "op"]
    assert len(own) > 1
    assert cycles(graph) <= sum(own) < cycles(graph) + len(own)


def test_wider_elements_take_longer_over_the_same_ports() -> None:
    wide = Graph(
        "wide",
        tuple(Tensor.of_shape(one.name, one.shape or (), 64, one.role) for one in PRODUCT.tensors),
        PRODUCT.operators,
    )
    assert cycles(wide) > cycles(PRODUCT)


def test_operands_need_room_in_all_scratchpads_together_alone() -> None:
    """The plan decides which of two scratchpads of the same kind an operand lies in."""
    holds = (Operand.INPUT, Operand.WEIGHT)
    several = (
        Memory("one", 800, holds=holds),
        Memory("other", 800, holds=holds),
        Memory("out", 800, holds=(Operand.OUTPUT,)),
    )
    assert cycles(CONVOLUTION, machine(*several)) > 0


# Sweeps in which operators may run again: every row equals the optimum over all instruction sequences


SIZES = {"x": 1, "s": 4, "u": 1, "v": 6, "w": 1, "y": 1}
EDGES = {"make": ("x", "s"), "first": ("s", "u"), "widen": ("u", "v"), "narrow": ("v", "w"), "join": ("ws", "y")}
CAPACITIES = (7, 8, 10, 11)


@pytest.fixture
def recomputed_network(tmp_path: Path) -> Path:
    """Write a network with a map that is cheap to recompute: join reads it late, and another map needs its room."""
    fields: Json = {
        "format": "onchip-graph",
        "version": 1,
        "name": "waiting",
        "tensors": [
            {"name": name, "shape": [size], "bits": 8, "role": {"x": "input", "y": "output"}.get(name, "activation")}
            for name, size in SIZES.items()
        ],
        "operators": [
            {"name": name, "kind": "Softmax", "inputs": [*reads], "outputs": [written]}
            for name, (reads, written) in EDGES.items()
        ],
    }
    path = tmp_path / "waiting.json"
    path.write_text(json.dumps(fields))
    return path


def least(network: Path, capacity: int, costs: dict[str, int] | None, objective: str) -> int | None:
    """Return the least cost found by the oracle; without `costs` a further run costs more than everything else."""
    graph = read_graph(network)
    again = Recomputation(costs or dict.fromkeys(EDGES, 10**6))
    asked = Problem(graph, (Memory("sram", capacity),), Objective(objective), Order.FREE, recomputation=again)
    return least_cost_with_recomputation(asked, with_addresses=True)


@pytest.mark.slow
def test_each_point_is_planned_with_and_without_running_again(recomputed_network: Path, tmp_path: Path) -> None:
    options = {"recompute": ["never", "allowed"], "recompute_price": 500_000}
    rows = onchip.sweep([recomputed_network], store=tmp_path / "s.db", sram=CAPACITIES, options=options)

    found = {(row.parameters["sram"], row.options.get("recompute", "never")): row.answer for row in rows}
    halves = {name: -(-SIZES[written] // 2) for name, (_, written) in EDGES.items()}
    for capacity in CAPACITIES:
        assert found[capacity, "never"].objective_value == least(recomputed_network, capacity, None, "traffic")
        assert found[capacity, "allowed"].objective_value == least(recomputed_network, capacity, halves, "traffic")
    assert {answer.status for answer in found.values()} == {"OPTIMAL"}
    assert found[8, "allowed"].objective_value != found[8, "never"].objective_value


@pytest.mark.slow
def test_what_follows_of_other_capacities_is_what_is_computed(recomputed_network: Path, tmp_path: Path) -> None:
    options, store = {"recompute": "allowed"}, tmp_path / "s.db"
    rows = onchip.sweep([recomputed_network], minimize="recomputation", store=store, sram="7B..12B", options=options)
    cycles = {name: SIZES[written] for name, (_, written) in EDGES.items()}
    assert len(rows) == 6
    for row in rows:
        capacity = int(row.parameters["sram"])
        assert row.answer.objective_value == least(recomputed_network, capacity, cycles, "recomputation")


@pytest.mark.slow
def test_a_plan_of_a_sweep_is_checked_with_what_runs_again(
    onchip: Program, recomputed_network: Path, tmp_path: Path
) -> None:
    store, plan = tmp_path / "s.db", tmp_path / "plan.json"
    how = ("--option", "recompute=allowed", "--option", "recompute_price=0")
    said = onchip("sweep", recomputed_network, "--sram", "8B", *how, "--store", store, "--json")
    key = said.json["rows"][0]["key"]
    assert onchip("sweep", "--store", store, "--answer", key, "-o", plan).code == 0
    document = json.loads(plan.read_text())
    assert document["reading"]["recompute"] == "allowed"
    assert [one for one in document["instructions"] if one == {"compute": "make"}] == 2 * [{"compute": "make"}]
    assert onchip("check", plan, recomputed_network).code == 0


@pytest.mark.parametrize("value", [-1, True, "much"])
def test_a_price_is_a_number_of_at_least_0(recomputed_network: Path, tmp_path: Path, value: object) -> None:
    options = {"recompute": "allowed", "recompute_price": value}
    with pytest.raises(UsageError, match="recompute_price"):
        onchip.sweep([recomputed_network], store=tmp_path / "s.db", sram=[8], options=options)
