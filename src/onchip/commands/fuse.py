"""`onchip fuse`: which layers run together, in which tiles, and what neighbouring tiles share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.answer.document import Granularity, Reading, StrategyDocument
from onchip.answer.stacks import OverlapMode, tile_of_text
from onchip.commands.arguments import (
    AsJson,
    Dims,
    ElementBits,
    Network,
    PartialBits,
    Seed,
    Workers,
    dims_of,
    seconds_of,
)
from onchip.commands.exit_code import ExitCode, code_of_check, code_of_result
from onchip.commands.progress import watched_run
from onchip.cost.layer.accounting import AccountingName
from onchip.errors import GraphError, InputError, UsageError
from onchip.reports.shared.output import write, write_json
from onchip.solve.run.limits import Limits
from onchip.solve.stacks.objective import FusionObjective
from onchip.solve.stacks.options import Combination, FusionOptions
from onchip.solve.stacks.tilings import TileSizes

if TYPE_CHECKING:
    from onchip.app.fuse import FusionRequest
    from onchip.ir.graph import Graph
    from onchip.reports.stack.outcome import FusionOutcome

GRAPH_SUFFIXES = (".json", ".json.gz")


Machine = Annotated[str, typer.Option(metavar="NAME|FILE", help="A bundled name (NAME@64KiB resizes it) or a file.")]
Objective = Annotated[FusionObjective, typer.Option(help="Least energy, latency, product of both, or DRAM traffic.")]
Tile = Annotated[
    str | None, typer.Option(metavar="4x72", help="Columns x rows of a stack's last feature map; else searched.")
]
Mode = Annotated[
    OverlapMode | None, typer.Option(help="What tiles share instead of computing it again; else searched.")
]
Stacks = Annotated[
    str,
    typer.Option(metavar="one|greedy|optimal|layers|0-3,4-7", help="Layers that run together, by number or by name."),
]
Sizes = Annotated[TileSizes, typer.Option(help="The sizes that are tried along columns and rows.")]
Combined = Annotated[Combination, typer.Option(help="Each stack its own tile and mode, or a single one for all.")]
MapsInDram = Annotated[bool, typer.Option("--maps-in-dram", help="Maps between stacks always go through DRAM.")]
Method = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Who maps the layers of a tile: exact (the default), loma, hybrid or random; as DeFiNES counts uneven "
        "(the default) or loma.",
    ),
]
Counting = Annotated[
    AccountingName,
    typer.Option(
        "--accounting",
        metavar="interpreter|defines",
        help="Count a layer as the interpreter does, or unroll it by DeFiNES's rule and count as DeFiNES.",
    ),
]
Detail = Annotated[Granularity, typer.Option(help="Fuse operators, or leave the nodes.")]
TimeLimit = Annotated[float | None, typer.Option(metavar="S", help="Seconds in all; else until proven.")]
Cache = Annotated[
    bool, typer.Option(" /--no-cache", help="Map anew what was proven in an earlier run.", show_default=False)
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="STRATEGY.json", help="Write the strategy.")]
EmitGraph = Annotated[
    Path | None,
    typer.Option(metavar="GRAPH.json", help="Write the network in tiles, to be planned, checked and run (or .gz)."),
]
Report = Annotated[
    Path | None, typer.Option(metavar="FILE.html", help="Draw heat maps, stacks, memory levels and energy.")
]
Check = Annotated[
    Path | None, typer.Option(metavar="STRATEGY.json", help="Verify a strategy and cost it, instead of searching.")
]


def fuse_command(
    context: typer.Context,
    network: Network,
    accelerator: Machine,
    objective: Objective = FusionObjective.ENERGY,
    tile: Tile = None,
    mode: Mode = None,
    stacks: Stacks = "optimal",
    tile_sizes: Sizes = TileSizes.SWEEP,
    combination: Combined = Combination.BEST,
    maps_in_dram: MapsInDram = False,
    method: Method = None,
    accounting: Counting = AccountingName.INTERPRETER,
    bits: ElementBits = 8,
    partial_bits: PartialBits = None,
    granularity: Detail = Granularity.FUSED,
    dim: Dims = None,
    time_limit: TimeLimit = None,
    workers: Workers = 1,
    seed: Seed = 0,
    cache: Cache = True,
    output: Output = None,
    emit_graph: EmitGraph = None,
    report: Report = None,
    check: Check = None,
    as_json: AsJson = False,
) -> int:
    """Run a network depth-first: find the stacks of layers, their tiles and what these share that cost least.

    What is not given is searched, with a proof over the space that the answer names. Ctrl-C ends with the best so far.
    """
    from onchip.app.fuse import FusionRequest, fuse_network

    options = FusionOptions(
        stacks, _tile(tile), mode, tile_sizes, combination, not maps_in_dram, 2 * workers if workers > 1 else 1
    )
    limits = Limits(seconds_of(time_limit), workers=workers, seed=seed)
    read_as = bits, partial_bits, dims_of(dim), granularity
    request = FusionRequest(network, accelerator, objective, options, method, *read_as, limits, cache, accounting)
    if check is not None:
        return _check(check, request, emit_graph, as_json=as_json)
    _ensure_files_can_be_written(output, report, (network, accelerator))
    emitted = EmittedGraph.to(emit_graph, Reading(bits, request.dims, granularity), network, accelerator)
    outcome = fuse_network(request, watched_run)
    _write_files(outcome, output, report, context)
    if emitted is not None and outcome.document is not None:
        emitted.write(outcome.document)
    _show(outcome, as_json=as_json)
    return code_of_result(outcome.result)


def _show(outcome: FusionOutcome, *, as_json: bool) -> None:
    from onchip.reports.stack.text import fusion_object, fusion_tables

    if as_json:
        write_json(fusion_object(outcome))
        return
    from onchip.reports.program.terminal import show

    write(show(*fusion_tables(outcome)))


def _tile(text: str | None) -> tuple[int, int] | None:
    try:
        return None if text is None else tile_of_text(text)
    except InputError as error:
        raise UsageError(error.what, place="--tile", expected=error.expected) from None


def _check(path: Path, request: FusionRequest, emit_graph: Path | None, *, as_json: bool) -> ExitCode:
    from onchip.app.fuse import accounting_of, check_strategy
    from onchip.formats.own.strategy_json import read_strategy
    from onchip.reports.stack.text import check_object, check_words

    document = read_strategy(path)
    emitted = EmittedGraph.to(emit_graph, document.reading, request.source, request.accelerator, str(path))
    violations, figures = check_strategy(document, request, watched_run)
    if emitted is not None and figures is not None:
        emitted.write(document)
    if as_json:
        write_json({**check_object(violations, figures), "accounting": accounting_of(document)})
    else:
        write(check_words(violations, figures))
    return code_of_check(not violations)


def _ensure_files_can_be_written(output: Path | None, report: Path | None, inputs: tuple[str, ...]) -> None:
    from onchip.formats.writable import ensure_writable

    if report is not None:
        from onchip.reports.program.html import ensure_report_can_be_made

        ensure_report_can_be_made()
    for path in filter(None, (output, report)):
        ensure_writable(path, inputs=inputs)


@dataclass(frozen=True, slots=True)
class EmittedGraph:
    """Where the tiles of a network are written; `graph` is the network, named `source`."""

    path: Path
    source: str
    graph: Graph

    @classmethod
    def to(cls, path: Path | None, reading: Reading, source: str, *others: str) -> EmittedGraph | None:
        """None without a path; raises InputError where no strategy's tiles could be written there and read again."""
        from onchip.app.fuse import network_to_tile
        from onchip.formats.writable import ensure_writable

        if path is None:
            return None
        if not path.name.endswith(GRAPH_SUFFIXES):
            expected = " or ".join(GRAPH_SUFFIXES)
            raise UsageError("it has another suffix", file=str(path), place="--emit-graph", expected=expected)
        ensure_writable(path, inputs=(source, *others))
        return cls(path, source, network_to_tile(source, reading))

    def write(self, document: StrategyDocument) -> None:
        """In the tiles of a legal strategy."""
        from onchip.app.fuse import tiled_graph
        from onchip.formats.own.graph_json import write_graph

        try:
            write_graph(tiled_graph(document.answer, self.graph), self.path)
        except GraphError as error:
            raise error.in_file(self.source) from None


def _write_files(outcome: FusionOutcome, output: Path | None, report: Path | None, context: typer.Context) -> None:
    """Without a strategy none is written."""
    if outcome.document is None:
        return
    if output is not None:
        from onchip.formats.own.strategy_json_writer import write_strategy

        write_strategy(outcome.document, output)
    if report is not None:
        from onchip.commands.report import command_line
        from onchip.formats.files import write_file
        from onchip.reports.stack.html import fusion_html

        write_file(report, fusion_html(outcome, command_line(context)).encode())
