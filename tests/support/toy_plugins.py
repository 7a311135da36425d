"""Plug-ins of a package outside of onchip: a small one of each group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from onchip.answer.document import PlanDocument
from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.program import Allocate, Plan
from onchip.answer.result import SearchResult
from onchip.answer.schedule import Schedule
from onchip.api.check_request import AnswerCheck
from onchip.api.target import Target
from onchip.arch.accelerator import Accelerator
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.operator_kinds import OperatorNests
from onchip.ir.tensor import Role, Tensor
from onchip.mapping.baselines.random_search import solve_at_random
from onchip.mapping.methods.registry import MappingMethod
from onchip.memory.baselines.pinned import solve_naively
from onchip.memory.methods import Method
from onchip.reports.schedule.outcome import ScheduleOutcome
from onchip.reports.shared.figures import stacked_bars
from onchip.search.budget.limits import Run
from onchip.verify.schedule.machine import ScheduleSetting
from support.fused_files import CHIP


def read_chain(path: Path, dims: Mapping[str, int]) -> Graph:
    """Read a file with a kind per line, each mixing the four channels of a map of `size` x `size` pixels."""
    kinds, size = path.read_text().split(), dims.get("size", 4)
    names = [f"map{at}" for at in range(len(kinds) + 1)]
    roles = [Role.INPUT, *[Role.ACTIVATION] * (len(kinds) - 1), Role.OUTPUT]
    maps = [Tensor.of_shape(name, (1, 4, size, size), 8, role) for name, role in zip(names, roles, strict=True)]
    weights = [Tensor.of_shape(f"weight{at}", (4, 4), 8, Role.PARAMETER) for at in range(len(kinds))]
    operators = [
        Operator(f"mix{at}", kind, (names[at],), (names[at + 1],), (weights[at].name,)) for at, kind in enumerate(kinds)
    ]
    return Graph(path.stem, (*maps, *weights), tuple(operators))


def mix_channels(operator: Operator, shapes: tuple[tuple[int, ...], ...]) -> OperatorNests:
    """Return the nest of a 1 x 1 convolution: every output channel is a sum over the pixel's input channels."""
    (_, outputs, rows, columns), (_, inputs, *_), *_ = shapes
    return OperatorNests((Layer(k=outputs, c=inputs, p=rows, q=columns),), input=1, weight=2)


def nothing_stays() -> Method:
    return Method("", "nothing stays on chip", solve_naively, frozenset({Objective.TRAFFIC}), (Order.GIVEN,))


def some_mapping() -> MappingMethod:
    return MappingMethod("", "the best of a few", solve_at_random)


def toy_accelerator() -> Accelerator:
    return accelerator_from_yaml(CHIP.encode(), "toy")


def check_of_empty_file(file: Path, network: str, target: Target) -> AnswerCheck | None:
    return None if file.read_bytes() else AnswerCheck("empty file", network, "", ())


def seven_cycles(graph: Graph, accelerator: Accelerator) -> Mapping[str, int]:
    return {operator.name: 7 for operator in graph.operators}


def nothing_on_chip(setting: ScheduleSetting, schedule: Schedule) -> Mapping[str, str]:
    return {
        one.tensor: f"it lies in {one.memory}" for one in schedule.program.instructions if isinstance(one, Allocate)
    }


def cycles_of_networks(outcome: ScheduleOutcome) -> Mapping[str, object]:
    assert outcome.figures is not None
    cycles = {"all": [float(outcome.figures.latency_cycles)]}
    return stacked_bars([outcome.network.name], cycles, {"all": "good"}, "cycles")


def order_of_operators(document: PlanDocument, problem: Problem) -> bytes:
    return json.dumps([one.name for one in problem.graph.operators]).encode()


def fails(*given: object) -> object:
    raise ValueError("this never works\nin two lines")


def _never(problem: Problem, run: Run) -> SearchResult[Plan]:
    raise ValueError("never")


def gives_up() -> Method:
    return replace(nothing_stays(), solve=_never)


def returns_text(*given: object) -> str:
    return "text"


NO_FUNCTION = 7
