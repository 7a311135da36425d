"""The check of a schedule file, and the cost of a legal one by its own mappings, without any search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from onchip.answer.document import ScheduleDocument
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import Homes, ScheduledMapping, ScheduleError
from onchip.api.networks import Network, ensure_reading_is, network_to_schedule
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.formats.foreign_files import accelerator_text, load_any_accelerator
from onchip.formats.own.accelerator_yaml import accelerator_sha256
from onchip.formats.own.graph_json import graph_sha256
from onchip.formats.own.schedule_json import read_schedule
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.model.program.compute_cost import (
    ComputeCost,
    NestCost,
    OperandAtHome,
    cost_of_nests,
    cost_without_nest,
    nest_cost,
    with_declared,
)
from onchip.model.program.figures import ScheduleFigures, homes_of_computes, schedule_figures
from onchip.ops.layers_of import Precision
from onchip.reports.schedule.outcome import ScheduleCheck
from onchip.scheduling.program.runs import NestPlace, Step, step_of
from onchip.scheduling.program.usable import ensure_usable
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph_of_schedule
from onchip.verify.rules import Rule, Violation
from onchip.verify.schedule.machine import ScheduleSetting, ScheduleVerdict, outside_violations
from onchip.verify.schedule.tiles import verify_stacks
from onchip.verify.schedule.verifier import verify_schedule
from onchip.without_collecting import without_collecting


@dataclass(frozen=True, slots=True)
class ScheduleFile:
    """A schedule file, and the expectations that it is checked against.

    `accelerator` is the required accelerator (None: any); `insisted` are required values of fields of Reading.
    """

    path: Path
    network: Network
    accelerator: str | Accelerator | None = None
    insisted: Mapping[str, object] = field(default_factory=dict)


@phase("reading")
@without_collecting()
def check_schedule_file(file: ScheduleFile) -> ScheduleCheck:
    """Verify a schedule file for its network, which is read as the file says.

    A schedule for another network or accelerator gets a violation. Raises InputError for unreadable files, UsageError
    for contradictory options, AcceleratorError for an unusable accelerator.
    """
    document = read_schedule(file.path)
    ensure_reading_is(document.reading, file.insisted, str(file.path))
    own, other = document.accelerator, file.accelerator
    if other is not None and accelerator_sha256(load_any_accelerator(other)) != accelerator_sha256(own):
        network = network_to_schedule(file.network, document.reading)
        detail = f"the schedule is for the accelerator {own.name!r} that it holds, not for {accelerator_text(other)!r}"
        differs = Violation(Rule.ACCELERATOR_DIFFERS, document.accelerator.name, detail)
        return ScheduleCheck(document, network, graph_sha256(network), ScheduleVerdict((differs,), None, ()))
    try:
        return check_schedule_document(document, file.network)
    except InputError as error:
        raise error if error.file else error.in_file(str(file.path)) from None


def check_schedule_document(document: ScheduleDocument, source: Network) -> ScheduleCheck:
    """Verify a schedule for the network `source`; raises InputError as for its file."""
    network = network_to_schedule(source, document.reading)
    sha256 = graph_sha256(network)
    if document.graph.sha256 not in (None, sha256):
        planned = f"{document.graph.name!r} {document.graph.sha256}"
        detail = f"the schedule is for {planned}, and this is {network.name!r} {sha256}"
        differs = Violation(Rule.NETWORK_DIFFERS, document.graph.name, detail)
        return ScheduleCheck(document, network, sha256, ScheduleVerdict((differs,), None, ()))
    ensure_usable(document.accelerator, document.claim.objective if document.claim else ScheduleObjective.LATENCY)
    precision = precision_of(document)
    stacks = document.answer.stacks
    if found := verify_stacks(network, stacks):
        return ScheduleCheck(document, network, sha256, ScheduleVerdict(found, None, ()))
    try:
        tiles = tile_graph_of_schedule(network, document.answer, precision)
    except ScheduleError as error:
        no_tiles = Violation(Rule.NOT_IN_TILES, error.place or "stacks", f"{error.what}; expected {error.expected}")
        return ScheduleCheck(document, network, sha256, ScheduleVerdict((no_tiles,), None, ()))
    return ScheduleCheck(document, network, sha256, _verdict(document, network, tiles, precision), tiles)


def precision_of(document: ScheduleDocument) -> Precision:
    """Return the bits of a schedule's elements (None: each tensor's own) and of its partial sums."""
    reading = document.reading
    return Precision(reading.bits, reading.partial_bits).on(document.accelerator)


@phase("verifying")
def _verdict(document: ScheduleDocument, network: Graph, tiles: TileGraph, precision: Precision) -> ScheduleVerdict:
    setting = ScheduleSetting(network, document.accelerator, tiles.graph, precision.sum_bits)
    verdict = verify_schedule(setting, document.answer, document.claim, nest_cost)
    if verdict.is_legal and (found := outside_violations(setting, document.answer)):
        return replace(verdict, violations=found, figures=None)
    return verdict


@dataclass(frozen=True, slots=True)
class PricedSchedule:
    """The cost of each Compute of a legal schedule, by tile operator, and all figures."""

    costs: Mapping[str, ComputeCost]
    figures: ScheduleFigures


@phase("pricing")
def priced_schedule(document: ScheduleDocument, tiles: TileGraph) -> PricedSchedule:
    """Price a verified schedule by its own mappings, without any search."""
    schedule, accelerator = document.answer, document.accelerator
    steps = {operator.name: step_of(tiles, operator) for operator in tiles.graph.operators}
    prices = _Prices(accelerator, schedule.mappings)
    operands = {name: step.operands for name, step in steps.items()}
    homes = homes_of_computes(accelerator.addressed, schedule.program, operands)
    costs = {name: prices.of(steps[name], at) for name, at in homes}
    return PricedSchedule(costs, schedule_figures(tiles.graph, accelerator, schedule.program, costs))


@dataclass(slots=True)
class _Prices:
    """A price table of Computes; each nest is priced once, by its mapping."""

    accelerator: Accelerator
    mappings: Sequence[ScheduledMapping]
    _nests: dict[NestPlace, NestCost] = field(default_factory=dict)
    _mapping_of: dict[tuple[int, Layer, Homes], ScheduledMapping] = field(init=False)

    def __post_init__(self) -> None:
        self._mapping_of = {(one.stack, one.layer, one.homes): one for one in self.mappings}

    def of(self, step: Step, homes: Sequence[str | None]) -> ComputeCost:
        """Return the cost of a Compute whose operands have these homes."""
        found = self._alone(step, homes)
        return with_declared(found, self.accelerator, step.declared_bytes)

    def _alone(self, step: Step, homes: Sequence[str | None]) -> ComputeCost:
        """Return the cost without the workspace that the operator declares."""
        if step.nests or step.filled_bits:
            costs = [self._nest(nest) for nest in step.nest_places(homes)]
            return cost_of_nests(costs, step.filled(homes, self.accelerator))
        operands = [
            OperandAtHome(one.operand, one.bits, one.row_bits, home)
            for one, home in zip(step.operands, homes, strict=True)
        ]
        return cost_without_nest(operands, self.accelerator, step.declared_bytes)

    def _nest(self, nest: NestPlace) -> NestCost:
        if nest not in self._nests:
            one = self._mapping_of[nest.stack, nest.layer, nest.homes]
            problem = LayerProblem(one.layer, self.accelerator, one.homes, weight_is_an_input=nest.weight_is_an_input)
            self._nests[nest] = nest_cost(problem, one.mapping)
        return self._nests[nest]
