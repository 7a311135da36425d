"""Schedules of networks that join maps along the channels: nothing is copied, and nothing costs more for it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack
from onchip.api.check_schedule import check_schedule_document
from onchip.api.kernels import RunValues
from onchip.api.run_schedule import execution_of
from onchip.api.schedule import ScheduleRequest, read_schedule_question, schedule_network
from onchip.arch.accelerator import Accelerator
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.layers_of import Precision
from onchip.ops.views import views_that_join
from onchip.scheduling.search.solve import ScheduleSearch
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.tiled import tile_graph_of_schedule
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from oracles.schedule import LeastSchedule, Work
from oracles.schedule_costs import Toy
from scheduling.test_every_schedule import machine
from support.random_schedules import Case, joining_case
from support.series import series

SECONDS = 2.0
PRECISION = Precision(8, 8)


@cache
def cases() -> tuple[Case, ...]:
    """Cases in which something is joined that need not be copied."""
    return tuple(case for seed in range(100) if views_that_join((case := joining_case(seed)).network))


def request(case: Case, folder: Path, objective: ScheduleObjective) -> ScheduleRequest:
    network, chip = folder / "network.json", folder / "chip.yaml"
    network.write_text(case.network_text)
    chip.write_text(case.machine_text)
    return ScheduleRequest(str(network), str(chip), objective, limits=Limits(SECONDS), uses_cache=False, bits=8)


@pytest.mark.parametrize("objective", [ScheduleObjective.ENERGY, ScheduleObjective.TRAFFIC])
@pytest.mark.parametrize("number", series(range(20), 2))
def test_schedules_that_copy_nothing_are_legal_and_compute_the_same(
    number: int, objective: ScheduleObjective, tmp_path: Path
) -> None:
    case = cases()[number]
    asked = request(case, tmp_path, objective)
    outcome = schedule_network(asked)
    assert outcome.document is not None
    run = {one.operator for one in outcome.document.answer.program.instructions if hasattr(one, "operator")}
    assert not run & views_that_join(case.network)
    execution = execution_of(check_schedule_document(outcome.document, asked.source), asked.source, RunValues())
    assert execution.check.is_legal
    assert execution.run is not None
    assert execution.run.difference is None
    assert execution.relative_difference == 0


@pytest.mark.parametrize("number", series(range(20), 3))
def test_a_schedule_that_copies_what_it_joins_is_legal_and_respects_the_bound(number: int, tmp_path: Path) -> None:
    """As programs of earlier versions do."""
    asked = read_schedule_question(request(cases()[number], tmp_path, ScheduleObjective.TRAFFIC))
    question = replace(asked.question(ScheduleObjective.TRAFFIC, uses_cache=False), views=frozenset())
    found = ScheduleSearch(question, asked.options, Run(Limits(SECONDS))).solved()
    assert found.answer is not None
    assert found.objective_value is not None
    assert found.objective_value >= asked.relaxation.traffic_bytes
    schedule = found.answer.composition.schedule
    tiles = tile_graph_of_schedule(asked.network, schedule, asked.precision)
    assert tiles == found.answer.tiles
    assert {name.partition("#")[0] for name in tiles.operators} >= views_that_join(asked.network)
    setting = ScheduleSetting(asked.network, asked.accelerator, tiles.graph, asked.precision.sum_bits)
    assert verify_schedule(setting, schedule, None, nest_cost).is_legal


def joins(shapes: tuple[int, ...], *, is_read_apart: bool) -> Graph:
    """Maps of so many channels of two pixels, computed of one input, joined and read."""
    size = (1, 2)
    tensors = [Tensor.of_shape("x", (1, 1, *size), 8, Role.INPUT)]
    operators = []
    for at, channels in enumerate(shapes):
        tensors.append(Tensor.of_shape(f"w{at}", (channels, 1, 1, 1), 8, Role.PARAMETER))
        tensors.append(Tensor.of_shape(f"m{at}", (1, channels, *size), 8, Role.ACTIVATION))
        operators.append(Operator(f"conv{at}", "Conv", ("x",), (f"m{at}",), (f"w{at}",), {"kernel_shape": [1, 1]}))
    parts = tuple(f"m{at}" for at in range(len(shapes)))
    tensors.append(Tensor.of_shape("j", (1, sum(shapes), *size), 8, Role.ACTIVATION))
    tensors.append(Tensor.of_shape("y", (1, sum(shapes), *size), 8, Role.OUTPUT))
    operators.append(Operator("join", "Concat", parts, ("j",), (), {"axis": 1}))
    operators.append(Operator("last", "Softmax", ("j",), ("y",)))
    if is_read_apart:
        tensors.append(Tensor.of_shape("z", (1, shapes[0], *size), 8, Role.OUTPUT))
        operators.append(Operator("apart", "Softmax", ("m0",), ("z",)))
    return Graph("joins", tuple(tensors), tuple(operators))


def least(network: Graph, chip: Accelerator, objective: str, *, makes_joins: bool) -> float:
    stacks = [ScheduledStack((one.name,)) for one in network.operators]
    toy = Toy(network, chip, PRECISION, stacks, makes_joins=makes_joins)
    return LeastSchedule(toy, objective, work=Work(300_000)).least().cost


@pytest.mark.parametrize("objective", ["energy", "traffic"])
@pytest.mark.parametrize("capacity", [4, 6, 8, 10, 14])
@pytest.mark.parametrize("is_read_apart", [False, True])
def test_no_schedule_that_copies_what_it_joins_costs_less(
    capacity: int, objective: str, *, is_read_apart: bool
) -> None:
    network = joins((1, 2), is_read_apart=is_read_apart)
    assert views_that_join(network) == {"join"}
    copied = least(network, machine(capacity), objective, makes_joins=True)
    assert least(network, machine(capacity), objective, makes_joins=False) <= copied
