"""`onchip fuse`: find fused groups of layers, their tiles, and the overlap that tiles share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.document import Reading, StrategyDocument
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.verb_options import FusionOptions
from onchip.api.phases import phase
from onchip.commands.answer_files import AnswerFiles, command_line
from onchip.commands.arguments import LimitOptions, Network, ReadingOptions, RequiredAccelerator, output_option
from onchip.commands.exit_code import ExitCode, code_of_check, code_of_result
from onchip.commands.progress import watched_run
from onchip.commands.show import ShownOptions, show_solved
from onchip.errors import GraphError, UsageError

if TYPE_CHECKING:
    from onchip.api.fuse import FusionRequest
    from onchip.formats.own.graph_json import WeightSource
    from onchip.ir.graph import Graph

GRAPH_SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseOptions:
    """Arguments and options of `onchip fuse`."""

    context: typer.Context
    network: Network
    accelerator: RequiredAccelerator
    objective: Annotated[
        FusionObjective, typer.Option(help="Minimised cost: energy, latency, the product of both, or DRAM traffic.")
    ] = FusionObjective.ENERGY
    options: FusionOptions
    read_as: ReadingOptions
    search: LimitOptions
    output: Annotated[Path | None, output_option("STRATEGY.json", "Write the strategy.")] = None
    emit_graph: Annotated[
        Path | None,
        typer.Option(metavar="GRAPH.json", help="Write the network in tiles, to be planned, checked and run (or .gz)."),
    ] = None
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Draw heat maps, fused groups, memory levels and energy.")
    ] = None
    check: Annotated[
        Path | None,
        typer.Option(metavar="STRATEGY.json", help="Verify a strategy by its own mappings, instead of searching."),
    ] = None
    shown: ShownOptions

    @property
    def request(self) -> FusionRequest:
        """Return the request; raises InputError for an invalid tile, time or dimension."""
        from onchip.api.requests import fusion_request

        asked = self.network, self.read_as.reading, self.accelerator, self.objective, self.options
        return fusion_request(*asked, self.search.limits())

    @property
    def files(self) -> AnswerFiles:
        """Return the input and output files."""
        return AnswerFiles((self.network, self.accelerator), self.output, self.report)


def fuse_command(options: FuseOptions) -> int:
    """Find fused groups, tile sizes and overlap modes.

    The cost is minimised. Layers of a fused group run together, tile by tile. Choices that are not given are searched.
    The lower bound covers all groups, tiles and placements; given groups are costed in every tiling of the list. Ctrl-C
    ends with the best answer so far.
    """
    from onchip.api.fuse import fuse_network
    from onchip.formats.own.strategy_json import write_strategy
    from onchip.reports.stack.html import fusion_html
    from onchip.reports.stack.outcome import fusion_object, fusion_tables

    request, files = options.request, options.files
    if options.check is not None:
        return _check(options.check, options)
    files.ensure_they_can_be_written()
    reading = replace(Reading.of(request.bindings, request.granularity), bits=request.bits)
    emitted = EmittedGraph.to(options.emit_graph, reading, *files.inputs)
    outcome = fuse_network(request, watched_run)
    if outcome.document is not None:
        files.write_answer(partial(write_strategy, outcome.document))
        files.write_report(partial(fusion_html, outcome, command_line(options.context)))
        if emitted is not None:
            emitted.write(outcome.document)
    show_solved(outcome, fusion_object, fusion_tables, options.shown)
    return code_of_result(outcome.result)


def _check(strategy: Path, options: FuseOptions) -> ExitCode:
    from onchip.api.check_strategy import StrategyFile, check_strategy_file
    from onchip.commands.check import show_checked
    from onchip.formats.own.strategy_json import read_strategy

    document = read_strategy(strategy)
    inputs = options.network, options.accelerator, str(strategy)
    emitted = EmittedGraph.to(options.emit_graph, document.reading, *inputs)
    checked = check_strategy_file(StrategyFile(strategy, options.network, options.accelerator))
    if emitted is not None and checked.is_legal:
        emitted.write(document)
    show_checked(checked, as_json=options.shown.as_json)
    return code_of_check(checked.is_legal)


@dataclass(frozen=True, slots=True)
class EmittedGraph:
    """The output path of a tile graph; `graph` is the network, named `source`, and `weights` its model."""

    path: Path
    source: str
    graph: Graph
    weights: WeightSource | None = None

    @classmethod
    def to(cls, path: Path | None, reading: Reading, source: str, *others: str) -> EmittedGraph | None:
        """Return the output of a tile graph, or None without a path.

        Raises InputError if no strategy's tile graph could be written there and read again.
        """
        from onchip.api.check_strategy import network_to_tile, weights_to_keep
        from onchip.formats.files import ensure_writable

        if path is None:
            return None
        if not path.name.endswith(GRAPH_SUFFIXES):
            expected = " or ".join(GRAPH_SUFFIXES)
            raise UsageError(
                "the file name has another suffix", file=str(path), place="--emit-graph", expected=expected
            )
        ensure_writable(path, inputs=(source, *others))
        graph = network_to_tile(source, reading)
        return cls(path, source, graph, weights_to_keep(source, reading, graph))

    def write(self, document: StrategyDocument) -> None:
        """Write the network in the tiles of a legal strategy; raises GraphError if it cannot be tiled so."""
        from onchip.api.check_strategy import tiled_graph
        from onchip.formats.own.graph_json import write_tiles

        try:
            with phase("writing"):
                write_tiles(tiled_graph(document.answer, self.graph), self.path, self.weights)
        except GraphError as error:
            raise error.in_file(self.source) from None
