"""Schedules without search time, and in given stacks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest

import onchip
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.result import Status, Stop
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.schedule import CHECKING_TO_READING, SECONDS_TO_CHECK, SECONDS_TO_CHECK_AN_OPERATOR, seconds_to_check
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.ops.layers_of import Precision
from onchip.scheduling.mappings.mapped import MappedNest
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping
from support.small_schedules import chip, document, three

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
