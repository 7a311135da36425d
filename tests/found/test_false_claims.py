"""Bounds and statuses that were once false."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from adversary.fusing import ODD_KINDS, graph_file, random_machine, random_network
from onchip.answer.document import Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions, Placements, ScheduleOptions
from onchip.answer.problem import Objective, Order
from onchip.answer.result import SearchResult, Status
from onchip.api.fuse import NONE_OF_THESE, FusionRequest, for_all_strategies, fuse_network
from onchip.api.plan import NO_PLAN, THIS_TILING, Request, plan_network
from onchip.api.schedule import ScheduleRequest, read_schedule_question, schedule_network
from onchip.api.target import Target
from onchip.arch.energies import stated
from onchip.errors import InputError, InternalError
from onchip.model.accounting.accounting import AccountingName
from onchip.reports.program.outcome import Outcome
from onchip.reports.stack.outcome import FusionOutcome
from onchip.search.budget.limits import Limits
from support.diamond import Program
from support.fused_files import CHIP
from support.onnx_networks import integers, model, value
from support.series import series, with_slow
from support.small_schedules import schedule_check_and_run

FREE_MEMORIES = re.sub(r"(read|write)_energy_pj: [0-9.]+", r"\1_energy_pj: 0", CHIP)
"""A chip on which only multiply-accumulates cost energy, each a fractional number of femtojoules."""
MACHINES = (CHIP, FREE_MEMORIES.replace("mac_energy_pj: 0.5", "mac_energy_pj: 0.0127"))
OBJECTIVES = (FusionObjective.ENERGY, FusionObjective.LATENCY, FusionObjective.EDP, FusionObjective.DRAM)
SPACES = (FusionOptions(), FusionOptions(tile=(1, 1)), FusionOptions(groups="layers", placements=Placements.DRAM))
ACCOUNTINGS = (AccountingName.INTERPRETER, AccountingName.DEFINES)


def fused(
    files: tuple[Path, Path], objective: FusionObjective, options: FusionOptions, accounting: AccountingName
) -> FusionOutcome:
    network, machine = map(str, files)
    request = FusionRequest(
        network,
        machine,
        objective,
        replace(options, mapper="loma", uses_cache=False, accounting=accounting),
        reading=Reading(bits=8),
    )
    return fuse_network(request)


def values_reached(
    files: tuple[Path, Path], objective: FusionObjective, accounting: AccountingName
) -> tuple[set[int], set[int]]:
    """Return the lower bounds, and the values of strategies in several spaces and of a schedule."""
    bounds, values = set[int](), set[int]()
    for options in SPACES:
        try:
            result = fused(files, objective, options, accounting).result
        except InputError:
            continue
        bounds.add(result.lower_bound)
        values |= {result.objective_value} - {None}  # type: ignore[arg-type]
        assert result.status is not Status.INFEASIBLE
        assert result.status is not Status.OPTIMAL or result.objective_value == result.lower_bound
        assert result.optimal_among is None or result.bound_among == result.objective_value
    network, machine = map(str, files)
    is_traffic = objective is FusionObjective.DRAM
    of_schedule = ScheduleObjective.TRAFFIC if is_traffic else ScheduleObjective(objective)
    request = ScheduleRequest(
        network, machine, of_schedule, ScheduleOptions(uses_cache=False), reading=Reading(bits=8), limits=Limits(0.3)
    )
    try:
        scheduled = schedule_network(request).result.objective_value
    except InputError:
        scheduled = None
    return bounds, values | ({scheduled * (8 if is_traffic else 1)} if scheduled is not None else set())


def files_in(folder: Path, network: object, machine: str) -> tuple[Path, Path]:
    paths = folder / "network.json", folder / "chip.yaml"
    paths[0].write_text(json.dumps(network))
    paths[1].write_text(machine)
    return paths


@pytest.mark.parametrize("seed", series(range(20), 4))
@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_no_strategy_or_schedule_costs_less_than_the_bound(
    seed: int, accounting: AccountingName, tmp_path: Path
) -> None:
    random = Random(seed)
    network = graph_file(random_network(random, ODD_KINDS))
    machine = json.dumps(random_machine(random)) if seed % 2 else MACHINES[seed // 2 % 2]
    files = files_in(tmp_path, network, machine)

    bounds, values = values_reached(files, OBJECTIVES[seed % 4], accounting)

    assert not bounds or max(bounds) <= min(values, default=max(bounds))


@pytest.mark.parametrize("objective", series(OBJECTIVES, 1))
@pytest.mark.parametrize("stride", [2, 3])
def test_pixels_that_a_stride_skips_are_not_in_the_bound(
    stride: int, objective: FusionObjective, tmp_path: Path
) -> None:
    """The tiles have one pixel: the first layer computes only the pixels that the second, of one tap, reads."""
    sizes = {"x": 9, "a": 9, "y": 9 // stride + (stride == 2)}
    roles = {"x": "input", "a": "activation", "y": "output"}
    tensors = [{"name": at, "shape": [1, 4, *2 * [size]], "bits": 8, "role": roles[at]} for at, size in sizes.items()]
    tensors += [{"name": f"w{at}", "shape": [4, 4, 1, 1], "bits": 8, "role": "parameter"} for at in "ay"]
    operators = [
        {
            "name": f"conv_{written}",
            "kind": "Conv",
            "inputs": [read],
            "parameters": [f"w{written}"],
            "outputs": [written],
            "attributes": {"strides": 2 * [by], "kernel_shape": [1, 1]},
        }
        for read, written, by in (("x", "a", 1), ("a", "y", stride))
    ]
    network = {"format": "onchip-graph", "version": 1, "name": "skips", "tensors": tensors, "operators": operators}
    machine = FREE_MEMORIES.replace("mac_energy_pj: 0.5", "mac_energy_pj: 1000")
    files = files_in(tmp_path, network, machine)
    in_pixels = fused(files, objective, FusionOptions(groups="one", tile=(1, 1)), AccountingName.INTERPRETER)

    bounds, values = values_reached(files, objective, AccountingName.INTERPRETER)

    assert in_pixels.figures is not None
    assert in_pixels.figures.macs == 2 * 16 * sizes["y"] ** 2
    assert 0 < max(bounds) <= min(*values, in_pixels.result.objective_value or 0)


def test_a_schedule_may_cost_less_than_the_best_strategy_of_the_list(onchip: Program, tmp_path: Path) -> None:
    shape = {"shape": [1, 4, 6, 6], "bits": 8}
    roles = {"x": "input", "a": "activation", "y": "output"}
    tensors = [{"name": name, **shape, "role": role} for name, role in roles.items()]
    operators = [
        {"name": f"soft_{written}", "kind": "Softmax", "inputs": [read], "outputs": [written], "attributes": {}}
        for read, written in (("x", "a"), ("a", "y"))
    ]
    network = {"format": "onchip-graph", "version": 1, "name": "two", "tensors": tensors, "operators": operators}
    asked = *files_in(tmp_path, network, CHIP), tmp_path / "strategy.json"
    ended = onchip("fuse", asked[0], "--accelerator", asked[1], "--json", "-o", asked[2]).json
    scheduled = onchip("schedule", asked[0], "--accelerator", asked[1], "--time-limit", "1", "--json").json

    assert ended["status"] == "FEASIBLE"
    assert ended["lower_bound"] <= scheduled["objective_value"] < ended["objective_value"]
    claim = json.loads(asked[2].read_text())["result"]
    assert (claim["status"], claim["lower_bound"]) == ("FEASIBLE", ended["lower_bound"])
    assert onchip("check", asked[2], asked[0], "--accelerator", asked[1]).code == 0


@pytest.mark.parametrize("change", [-1e9, 1])
def test_a_bound_among_strategies_below_the_bound_or_above_the_value_is_found(
    onchip: Program, change: float, tmp_path: Path
) -> None:
    network, machine = files_in(tmp_path, graph_file(random_network(Random(1))), CHIP)
    path = tmp_path / "strategy.json"
    assert (
        onchip("fuse", network, "--accelerator", machine, "--groups", "layers", "--placements", "dram", "-o", path).code
        == 0
    )
    fields = json.loads(path.read_text())
    fields["result"]["bound_among"] += change
    path.write_text(json.dumps(fields))

    checked = onchip("check", path, network, "--accelerator", machine)

    assert checked.code == 1
    assert "bound-above-objective" in checked.out


def test_no_strategy_in_the_space_is_not_infeasible() -> None:
    result = for_all_strategies(SearchResult(Status.INFEASIBLE, None, None, 0, 0.0, "optimal"), 7, "2 stacks")

    assert (result.status, result.lower_bound, result.why_not) == (Status.UNKNOWN, 7, NONE_OF_THESE)
    assert (result.optimal_among, result.bound_among) == (None, None)


@pytest.mark.parametrize("bound_among", [4, 8])
def test_a_bound_among_some_answers_is_between_the_bound_and_the_value(bound_among: int) -> None:
    with pytest.raises(InternalError, match=f"its bound among some answers, {bound_among}, is not between"):
        SearchResult(Status.FEASIBLE, "answer", 7, 5, 0.0, "optimal", bound_among=bound_among)


SIZE = 64
"""Bytes of each tensor of the network."""


def network(folder: Path, kind: str = "Relu", joined: str = "Add") -> Path:
    """Write a network: an input is read again at the end, after a step that needs three other tensors."""
    roles = {"x": "input", "y": "output"}
    shape = {"shape": [1, 1, 8, 8], "bits": 8}
    tensors = [{"name": name, **shape, "role": roles.get(name, "activation")} for name in "xabcy"]
    edges = {"a": (kind, ["x"]), "b": (kind, ["a"]), "c": (joined, ["a", "b"]), "y": (joined, ["x", "c"])}
    operators = [
        {"name": f"op_{written}", "kind": kind, "inputs": read, "outputs": [written], "attributes": {}}
        for written, (kind, read) in edges.items()
    ]
    path = folder / "network.json"
    fields = {"format": "onchip-graph", "version": 1, "name": "skip", "tensors": tensors, "operators": operators}
    path.write_text(json.dumps(fields))
    return path


def planned(
    path: Path, sram_bytes: int, objective: Objective = Objective.TRAFFIC, order: Order | None = None
) -> Outcome:
    asked = Request(str(path), Reading(), Target(sram_bytes), objective, order, tiles=TilesOption.AUTO)
    return plan_network(asked)


def test_a_proven_plan_of_one_tiling_is_feasible_if_another_tiling_may_be_better(tmp_path: Path) -> None:
    path = network(tmp_path)
    alone, fused = planned(path, 5 * SIZE // 2, order=Order.GIVEN), planned(path, 5 * SIZE // 2)

    assert alone.result.objective_value
    assert (alone.result.status, alone.result.lower_bound) == (Status.FEASIBLE, 0)
    assert alone.result.optimal_among == THIS_TILING
    assert (fused.result.status, fused.result.objective_value) == (Status.OPTIMAL, 0)
    assert fused.result.optimal_among is None


@pytest.mark.parametrize("objective", [Objective.TRAFFIC, Objective.PEAK])
@pytest.mark.parametrize("sram_bytes", [2 * SIZE + 8, 5 * SIZE // 2, 3 * SIZE, 4 * SIZE])
def test_no_bound_is_above_what_another_tiling_reaches(sram_bytes: int, objective: Objective, tmp_path: Path) -> None:
    path = network(tmp_path)
    results = [planned(path, sram_bytes, objective, order).result for order in (Order.FREE, Order.GIVEN)]
    reached = [one.objective_value for one in results if one.objective_value is not None]
    for result in results:
        assert all(result.lower_bound <= value for value in reached)
        assert result.status is not Status.OPTIMAL or result.objective_value == min(reached)
        assert result.status is not Status.INFEASIBLE or not reached


def test_a_network_that_cannot_be_tiled_keeps_its_proof(tmp_path: Path) -> None:
    result = planned(network(tmp_path, "NonMaxSuppression", "NonMaxSuppression"), 3 * SIZE).result

    assert (result.status, result.optimal_among) == (Status.OPTIMAL, None)


def test_no_plan_without_spills_of_one_tiling_is_not_infeasible(tmp_path: Path) -> None:
    result = planned(network(tmp_path), 5 * SIZE // 2, Objective.PEAK, Order.GIVEN).result

    assert (result.status, result.why_not) == (Status.UNKNOWN, NO_PLAN)


FOLDER = Path(__file__).parent
PADS = [0, 0, 1, 1, 0, 0, 1, 1]


def convolutions(*, is_padded_apart: bool) -> onnx.ModelProto:
    """Return two convolutions; the zeros around the second's input come from a Pad or from its own padding."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (8, 4, 3, 3), "w1": (6, 8, 3, 3)}
    weights = [numpy_helper.from_array(rng.random(shape).astype(np.float32), name) for name, shape in shapes.items()]
    nodes = [helper.make_node("Conv", ["x", "w0"], ["a"], name="conv0", pads=[1] * 4)]
    if is_padded_apart:
        nodes.append(helper.make_node("Pad", ["a", "pads"], ["padded"], name="pad"))
        nodes.append(helper.make_node("Conv", ["padded", "w1"], ["y"], name="conv1"))
    else:
        nodes.append(helper.make_node("Conv", ["a", "w1"], ["y"], name="conv1", pads=[1] * 4))
    return model(nodes, [value("x", (1, 4, 10, 9))], ["y"], [*weights, integers("pads", PADS)])


@pytest.mark.parametrize("accelerator", ["simba", "meta-prototype-df"])
def test_a_pad_costs_the_operators_before_it_nothing_of_their_bound(accelerator: str, tmp_path: Path) -> None:
    bounds = []
    for is_padded_apart in (False, True):
        path = tmp_path / f"{is_padded_apart}.onnx"
        onnx.save(convolutions(is_padded_apart=is_padded_apart), path)
        bounds.append(
            read_schedule_question(ScheduleRequest(str(path), accelerator, reading=Reading(bits=8))).relaxation
        )
    inside, apart = bounds
    assert apart.mac_pj == inside.mac_pj
    assert apart.energy_fj >= 0.99 * inside.energy_fj
    assert apart.traffic_bytes == inside.traffic_bytes


def test_a_transposed_convolution_counts_though_its_reader_skips_pixels() -> None:
    question = read_schedule_question(
        ScheduleRequest(str(FOLDER / "loose-convtranspose.onnx"), "simba", reading=Reading(bits=8))
    )
    array = question.accelerator.array
    assert array is not None
    macs = 8 * 6 * 9 * 14 * 13  # each input pixel counts nine taps, including those that padding cuts off at two edges
    assert stated(question.relaxation.mac_pj) > 0.9 * macs * (array.mac_energy_pj or 0)


def transposed_convolution(random: Random) -> onnx.ModelProto:
    """Return a transposed convolution with any stride, dilation and output padding, and perhaps a reader."""
    group = random.choice((1, 2))
    channels, outputs = group * random.choice((1, 2)), group * random.choice((1, 2))
    sizes, kernel, strides = ([random.randint(1, top) for _ in range(2)] for top in (4, 3, 4))
    dilations, padding = [random.choice((1, 1, 2)) for _ in range(2)], [random.randrange(size) for size in strides]
    spans = zip(sizes, kernel, strides, dilations, padding, strict=True)
    pads = [random.randint(0, min(2, ((n - 1) * s + (k - 1) * d + o) // 2)) for n, k, s, d, o in spans]
    nodes = [
        helper.make_node(
            "ConvTranspose",
            ["x", "w", "b"],
            ["up"],
            name="up",
            strides=strides,
            dilations=dilations,
            output_padding=padding,
            pads=pads * 2,
            group=group,
        )
    ]
    weights = [("w", (channels, outputs // group, *kernel)), ("b", (outputs,))]
    match random.choice(("Conv", "Pad", "Softmax", "Slice")):
        case "Conv":
            weights.append(("v", (2, outputs, 1, 1)))
            nodes.append(helper.make_node("Conv", ["up", "v"], ["y"], name="c", strides=[random.randint(1, 2)] * 2))
        case "Pad":
            nodes.append(helper.make_node("Pad", ["up", "places"], ["y"], name="p"))
        case "Slice":
            nodes.append(helper.make_node("Slice", ["up", "starts", "ends", "axes"], ["y"], name="s"))
        case _:
            nodes.append(helper.make_node("Softmax", ["up"], ["y"], name="soft"))
    rng = np.random.default_rng(0)
    constants = [numpy_helper.from_array(rng.random(shape).astype(np.float32), name) for name, shape in weights]
    numbers = {"places": [0, 0, 1, 0, 0, 0, 0, 2], "starts": [0], "ends": [1], "axes": [2]}
    constants += [numpy_helper.from_array(np.array(each), name) for name, each in numbers.items()]
    return model(nodes, [value("x", (1, channels, *sizes))], ["y"], constants)


@pytest.mark.parametrize("objective", ["traffic", "energy", "latency"])
def test_the_bound_of_a_kernel_smaller_than_its_stride_is_reached(
    objective: str, onchip: Program, tmp_path: Path
) -> None:
    network = FOLDER / "convt-kernel2-stride3.onnx"
    found = schedule_check_and_run(onchip, network, tmp_path, "simba", "--objective", objective)
    assert found["traffic"]["total"] >= 16 + 4 + 121


@pytest.mark.parametrize("seed", with_slow(range(12), {6, 7}.__contains__))
def test_no_schedule_of_a_transposed_convolution_is_below_its_bound(seed: int, onchip: Program, tmp_path: Path) -> None:
    network = tmp_path / "network.onnx"
    onnx.save(transposed_convolution(Random(seed)), network)
    objective = ("traffic", "energy", "latency", "edp")[seed % 4]
    accelerator = ("simba", "meta-prototype-df")[seed // 4 % 2]
    schedule_check_and_run(onchip, network, tmp_path, accelerator, "--objective", objective)
