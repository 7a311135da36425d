"""The check of a schedule file: read it and its network -> lower -> verify, without any search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from onchip.answer.document import ScheduleDocument
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduleError
from onchip.api.insisted import ensure_reading_is
from onchip.api.networks import Network, network_to_schedule
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.formats.foreign_files import accelerator_text, load_any_accelerator
from onchip.formats.own.accelerator_yaml import accelerator_sha256
from onchip.formats.own.graph_json import graph_sha256
from onchip.formats.own.schedule_json import read_schedule
from onchip.ir.graph import Graph
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.layers_of import Precision
from onchip.reports.schedule.outcome import ScheduleCheck
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
