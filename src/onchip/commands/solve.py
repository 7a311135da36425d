"""`onchip plan`, `schedule`, `map`, `fuse`, `pack` and `capacity`: the commands that search an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onchip.answer.document import Reading, StrategyDocument
from onchip.answer.options.choices import option
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import (
    CapacityOptions,
    FusionOptions,
    MapOptions,
    PackOptions,
    PlanOptions,
    ScheduleOptions,
)
from onchip.answer.problem import Objective
from onchip.api.phases import phase
from onchip.commands.arguments import (
    AsJson,
    LimitOptions,
    MemoryOptions,
    Network,
    PackingOptions,
    ReadingOptions,
    RequiredAccelerator,
    accelerator_option,
    bindings_of,
    output_option,
)
from onchip.commands.progress import watched_run
from onchip.commands.show import (
    AnswerFiles,
    ExitCode,
    ShownOptions,
    code_of_check,
    code_of_result,
    command_line,
    show_solved,
    show_view,
)
from onchip.errors import GraphError, UsageError
from onchip.reports.shared.output import write
from onchip.search.budget.limits import MipSolver

if TYPE_CHECKING:
    from onchip.api.results import Result
    from onchip.formats.own.graph_json import WeightSource
    from onchip.ir.graph import Graph

GRAPH_SUFFIXES = (".json", ".json.gz")


def _finished(result: Result[Any], files: AnswerFiles, context: typer.Context, shown: ShownOptions) -> int:
    """Write an answer and its page if they are requested, print the result, and return the exit code."""
    if result.answer is not None:
        files.write_answer(result.save)
        files.write_report(partial(result.page, command_line(context)))
    show_solved(result.shown, shown)
    return code_of_result(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReadingOptions(ReadingOptions):
    """Options for the conversion of a network to a graph that is planned."""

    state: list[str] | None = option(
        None, "Network input that is an output of the previous inference; repeatable.", "INPUT=OUTPUT"
    )
    bands: list[str] | None = option(
        None, "Split operator into N channel tiles (graph files that list splits); repeatable.", "OPERATOR=N"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanArguments:
    """Arguments and options of `onchip plan`."""

    context: typer.Context
    network: Network
    memories: MemoryOptions
    objective: Objective = option(
        Objective.TRAFFIC, "Minimised cost: traffic, DMA cycles or energy, peak, latency, or recomputed cycles."
    )
    options: PlanOptions
    read_as: PlanReadingOptions
    search: LimitOptions
    solver: MipSolver = option(MipSolver.CP_SAT, "Solver of the program of --method paper.")
    output: Annotated[Path | None, output_option("PLAN.json", "Write the plan.")] = None
    report: Path | None = option(None, "Draw the plan, as `report` does.", "FILE.html")
    figure: Path | None = option(None, "Draw its memory map.", "FILE.svg")
    shown: ShownOptions


def plan_command(options: PlanArguments) -> int:
    """Plan the operator order, tensor addresses and spills.

    NETWORK is planned into one or several scratchpads. The budgets m_r, m_h and m_p are computed from the network: the
    largest working set of one operator, the mean, and the minimum peak without spills (see `onchip info`). With
    --objective peak and neither --sram nor --accelerator, the scratchpad holds all tensors together. With --recompute
    allowed operators may run again, in one scratchpad; --objective recomputation minimises the cycles of these runs,
    without spills. Ctrl-C ends the search with the best plan so far.
    """
    from onchip.api.inputs import plan_request
    from onchip.api.plan import plan_network
    from onchip.api.verbs import plan_result
    from onchip.formats.files import ensure_writable, write_file

    read_as, memories, figure = options.read_as, options.memories, options.figure
    chosen = replace(options.options, bands=bindings_of("--bands", read_as.bands))
    reading, limits = (
        replace(read_as.reading, states=bindings_of("--state", read_as.state)),
        options.search.limits(options.solver),
    )
    request = plan_request(options.network, reading, memories.target, options.objective, chosen, limits)
    files = AnswerFiles((options.network, memories.accelerator or options.network), options.output, options.report)
    files.ensure_they_can_be_written()
    if figure is not None:
        if figure.suffix != ".svg":
            raise UsageError(f"{str(figure)!r} is no SVG file", place="--figure", expected="a name that ends in .svg")
        ensure_writable(figure, inputs=files.inputs)
    result = plan_result(plan_network(request, watched_run), options.network, memories.accelerator)
    code = _finished(result, files, options.context, options.shown)
    if figure is not None and result.answer is not None:
        with phase("drawing"):
            write_file(figure, result.shown.picture().encode())
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleVerbOptions:
    """Arguments and options of `onchip schedule`."""

    context: typer.Context
    network: Network
    accelerator: RequiredAccelerator
    objective: ScheduleObjective = option(
        ScheduleObjective.ENERGY, "Minimised cost: energy, latency, the product of both, or DRAM traffic."
    )
    options: ScheduleOptions
    read_as: ReadingOptions
    search: LimitOptions
    start: Path | None = option(
        None,
        "Earlier schedule of the network, also for another accelerator, to start the search from.",
        "SCHEDULE.json[.gz]",
    )
    output: Annotated[Path | None, output_option("SCHEDULE.json[.gz]", "Write the schedule.")] = None
    report: Path | None = option(None, "Draw fused groups, energy, timeline, memory maps and mappings.", "FILE.html")
    pareto: str | None = option(
        None,
        "Compute the Pareto front over two or more of energy, latency, traffic and peak; -o names a directory.",
        "AXES",
    )
    points: int = option(12, "Maximum number of schedules of --pareto.", "N", least=2)
    shown: ShownOptions

    def was_said(self, option: str) -> bool:
        """Return True if the user gave an option, even with its default value."""
        source = self.context.get_parameter_source(option)
        return source is not None and source.name == "COMMANDLINE"


def schedule_command(options: ScheduleVerbOptions) -> int:
    """Schedule a network completely on an accelerator.

    A schedule is one program: fused groups, tiles, loop mappings, addresses and transfers. It is verified before it is
    shown, and `onchip run` executes it. Its bound holds for the whole space that it names. Ctrl-C ends with the best
    schedule so far.
    """
    from onchip.api.schedule import ScheduleRequest, axes_of, front_of_schedules, schedule_network
    from onchip.api.verbs import front_result, schedule_result

    if options.pareto is None and options.was_said("points"):
        raise UsageError("--points is used with --pareto only", place="--points", expected="--pareto AXES")
    if options.pareto is not None and options.was_said("objective"):
        what = "--objective cannot be combined with --pareto"
        raise UsageError(what, place="--objective", expected="only one of the two")
    asked = options.objective, options.options, options.read_as.reading, options.search.limits(), options.start
    request = ScheduleRequest(options.network, options.accelerator, *asked)
    inputs = options.network, options.accelerator, *([] if options.start is None else [str(options.start)])
    files = AnswerFiles(inputs, options.output, options.report)
    axes = None if options.pareto is None else axes_of(options.pareto, options.points)
    files.ensure_they_can_be_written(is_folder=axes is not None)
    result: Result[Any]
    if axes is None:
        result = schedule_result(schedule_network(request, watched_run), options.network)
    else:
        result = front_result(front_of_schedules(request, axes, options.points, watched_run), request)
    return _finished(result, files, options.context, options.shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapArguments:
    """Arguments and options of `onchip map`."""

    context: typer.Context
    source: Annotated[
        str,
        typer.Argument(
            metavar="LAYER|NETWORK",
            help="conv:n1k64c64p56q56r3s3:stride2:pad1, gemm:m64n256k512, a network, NETWORK:LAYER, cosa:resnet50, "
            "or a layer file of Timeloop or ZigZag.",
        ),
    ]
    accelerator: Annotated[
        str, accelerator_option("A bundled name (NAME@64KiB resizes it) or a file, also of Timeloop or ZigZag.")
    ]
    objective: MappingObjective = option(
        MappingObjective.ENERGY, "Minimised cost: energy, latency, or the product of both."
    )
    options: MapOptions
    read_as: ReadingOptions
    search: LimitOptions
    solver: MipSolver = option(MipSolver.CP_SAT, "Solver of the program of --method cosa.")
    output: Annotated[Path | None, output_option("MAPPING.yaml", "Write the mappings.")] = None
    report: Path | None = option(None, "Draw energy, roofline and utilisation.", "FILE.html")
    show: bool = option(False, "Print the loop nests.")
    shown: ShownOptions


def map_command(options: MapArguments) -> int:
    """Map the loops of a layer, or of each layer of a network.

    A mapping distributes loops over the array and the memories of an accelerator. Identical layers are searched once.
    Every mapping is verified before it is shown; its energy and cycles are those of onchip's cost model for every
    method. An operator without a loop nest is costed as data movement. Ctrl-C ends with the mappings found so far.
    """
    from onchip.api.map import MappingRequest, map_layers
    from onchip.api.verbs import mapping_result
    from onchip.reports.mapping.outcome import loop_nests

    asked = options.objective, options.options, options.read_as.reading, options.search.limits(options.solver)
    request = MappingRequest(options.source, options.accelerator, *asked)
    inputs = filter(None, (options.source, options.accelerator, options.options.mapspace))
    files = AnswerFiles(tuple(inputs), options.output, options.report)
    files.ensure_they_can_be_written()
    outcome = map_layers(request, watched_run)
    result = mapping_result(outcome, request)
    if outcome.document.answer or not outcome.layers.layers:
        files.write_answer(result.save)
    if outcome.document.answer:
        files.write_report(partial(result.page, command_line(options.context)))
    show_solved(result.shown, options.shown)
    if options.show and outcome.document.answer and not options.shown.as_json:
        write(f"\n{loop_nests(outcome)}")
    # there is an answer only if every layer has one; an illegal schedule of CoSA is wrong
    codes = {ExitCode.WRONG if one.why_not else code_of_result(one.result) for one in outcome.mapped}
    order = (ExitCode.INFEASIBLE, ExitCode.INTERRUPTED, ExitCode.NO_ANSWER, ExitCode.WRONG)
    return next((code for code in order if code in codes), ExitCode.ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseOptions:
    """Arguments and options of `onchip fuse`."""

    context: typer.Context
    network: Network
    accelerator: RequiredAccelerator
    objective: FusionObjective = option(
        FusionObjective.ENERGY, "Minimised cost: energy, latency, the product of both, or DRAM traffic."
    )
    options: FusionOptions
    read_as: ReadingOptions
    search: LimitOptions
    output: Annotated[Path | None, output_option("STRATEGY.json", "Write the strategy.")] = None
    emit_graph: Path | None = option(
        None, "Write the network in tiles, to be planned, checked and run (or .gz).", "GRAPH.json"
    )
    report: Path | None = option(None, "Draw heat maps, fused groups, memory levels and energy.", "FILE.html")
    check: Path | None = option(None, "Verify a strategy by its own mappings, instead of searching.", "STRATEGY.json")
    shown: ShownOptions


def fuse_command(options: FuseOptions) -> int:
    """Find fused groups, tile sizes and overlap modes.

    The cost is minimised. Layers of a fused group run together, tile by tile. Choices that are not given are searched.
    The lower bound covers all groups, tiles and placements; given groups are costed in every tiling of the list. Ctrl-C
    ends with the best answer so far.
    """
    from onchip.api.fuse import FusionRequest, fuse_network
    from onchip.api.verbs import fuse_result

    asked = options.objective, options.options, options.read_as.reading, options.search.limits()
    request = FusionRequest(options.network, options.accelerator, *asked)
    files = AnswerFiles((options.network, options.accelerator), options.output, options.report)
    if options.check is not None:
        return _checked_strategy(options.check, options)
    files.ensure_they_can_be_written()
    reading = replace(request.plain_reading, bits=request.reading.bits)
    emitted = EmittedGraph.to(options.emit_graph, reading, *files.inputs)
    outcome = fuse_network(request, watched_run)
    if emitted is not None and outcome.document is not None:
        emitted.write(outcome.document)
    return _finished(fuse_result(outcome, request), files, options.context, options.shown)


def _checked_strategy(strategy: Path, options: FuseOptions) -> ExitCode:
    from onchip.api.answers import check_view
    from onchip.api.check_request import CheckRequest
    from onchip.api.check_strategy import check_strategy_file
    from onchip.api.target import Target
    from onchip.formats.own.strategy_json import read_strategy

    document = read_strategy(strategy)
    inputs = options.network, options.accelerator, str(strategy)
    emitted = EmittedGraph.to(options.emit_graph, document.reading, *inputs)
    checked = check_strategy_file(CheckRequest(strategy, options.network, Target(accelerator=options.accelerator)))
    if emitted is not None and checked.is_legal:
        emitted.write(document)
    show_view(check_view(checked), as_json=options.shown.as_json)
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
            what, expected = "the file name has another suffix", " or ".join(GRAPH_SUFFIXES)
            raise UsageError(what, file=str(path), place="--emit-graph", expected=expected)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PackArguments:
    """Arguments and options of `onchip pack`."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="Buffers: .csv as MiniMalloc's, .json, .mlir or .txt.")]
    packing: PackingOptions
    search: LimitOptions
    output: Annotated[
        Path | None, output_option("OUT", "Write offsets (none: outside) as .csv, .json, .mlir or .txt.")
    ] = None
    as_json: AsJson = False


def pack_command(options: PackArguments) -> int:
    """Assign offsets to buffers within a capacity.

    The result is a packing, or a proof that there is none. A CSV file has columns id, lower, upper and size; a buffer
    is live over the half-open range [lower, upper). Columns offset, alignment and gaps (ranges such as 3-5 in which
    others may use the bytes) are optional; an empty offset leaves it open. A JSON file may also name several memories,
    preferences, and groups that must lie together or apart. Of an MLIR file, slices of stream.resource.pack and
    allocations of memrefs are packed, and -o OUT.mlir has the offsets. JSON may also be a program of ExecuTorch, with
    its offsets in -o OUT.json, or a graph of TVM, and a text file the plan that TFLite Micro prints. Exit code 0 if the
    buffers fit, 3 if they provably do not fit, 4 if the time was not sufficient for a decision. Buffers that do not fit
    together are named.

    With --overflow each buffer is within the capacity for its whole live range, or outside: the bytes outside (the sum
    of the sizes there) are minimised. There is always an answer. The output has no offset for buffers outside.
    """
    from onchip.answer.packing import Overflow, Packing, PackingProblem
    from onchip.api.pack import pack_buffers
    from onchip.api.verbs import pack_result
    from onchip.formats.packing_files import read_packing_file, write_packing_file
    from onchip.reports.packing import MemoriesOutcome

    packing, capacity_bytes = options.packing, options.packing.capacity_bytes
    limits, files = options.search.limits(), AnswerFiles((str(options.file),), options.output)
    given = read_packing_file(options.file) if options.file.suffix == ".json" else None
    has_memories = given is not None and bool(given.memories)
    if capacity_bytes is None and not packing.minimize and not has_memories:
        expected = "a size" if packing.overflow else "a size, or --minimize"
        raise UsageError("pack needs a capacity", place="--capacity", expected=expected)
    files.ensure_they_can_be_written()
    if has_memories and (capacity_bytes is not None or packing.minimize):
        raise UsageError("the file has memories", place="--capacity", expected="no capacity, and no --minimize")
    chosen = PackOptions(alignment_bytes=packing.alignment, overflow=packing.overflow, splits=packing.split)
    asked = given or options.file, capacity_bytes, chosen, limits, watched_run
    outcome = pack_buffers(*asked, minimize=packing.minimize)
    packed: Packing | Overflow | None
    problem, memories = PackingProblem(outcome.problem.buffers, 1), None
    if isinstance(outcome, MemoriesOutcome):
        packed = None if outcome.result.answer is None else Overflow(tuple(outcome.offsets.values()))
        memories = list(outcome.memories.values())
    else:
        packed, problem = outcome.result.answer, outcome.problem
    if packed is not None:
        written = outcome.ids, problem, packed
        files.write_answer(lambda path: write_packing_file(*written, path, options.file, memories))
    result = pack_result(outcome)
    show_view(result.shown, as_json=options.as_json)
    return code_of_result(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityArguments:
    """Arguments and options of `onchip capacity`."""

    network: Network
    objective: Objective = option(Objective.TRAFFIC, "Minimised cost; all but traffic and peak need an accelerator.")
    accelerator: Annotated[str | None, accelerator_option("Accelerator whose only scratchpad takes all sizes.")] = None
    options: CapacityOptions
    read_as: ReadingOptions
    search: LimitOptions
    shown: ShownOptions


def capacity_command(options: CapacityArguments) -> int:
    """Find the minimum traffic for every scratchpad capacity.

    The result is a step function, with the exact start and value of each step. The curve runs from M_R, below which
    nothing fits, to the capacity at which only compulsory traffic is left. Each step is proven. With an accelerator
    that has one scratchpad, --objective may also be DMA cycles or energy, proven as well, or latency, from a lower
    bound to a plan's. Ctrl-C ends with the curve so far. Exit code 3 if no capacity fits.
    """
    from onchip.api.results import View
    from onchip.sweeps.capacity import CapacityRequest, capacity_curve, capacity_object, capacity_tables

    asked = options.accelerator, options.objective, options.options, options.read_as.reading, options.search.limits()
    outcome = capacity_curve(CapacityRequest(options.network, *asked), watched_run)
    show_solved(View(outcome, capacity_object, capacity_tables), options.shown)
    return ExitCode.ANSWER if outcome.unfit is None else ExitCode.INFEASIBLE
