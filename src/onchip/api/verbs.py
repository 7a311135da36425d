"""The verbs of the Python API that solve: each takes objects, names or files, and returns a `Result`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from onchip.answer.options.choices import choice
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions, MapOptions, PackOptions, PlanOptions, ScheduleOptions
from onchip.answer.packing import Buffer
from onchip.answer.result import SearchResult, Status
from onchip.api.inputs import MINIMIZE, GivenNetwork, NetworkLike, TargetLike, machine_of, plan_request, target_of
from onchip.api.results import (
    FrontResult,
    FuseResult,
    InfoReport,
    MappingResult,
    NetworkMappingResult,
    PackResult,
    PlanResult,
    ScheduleResult,
    View,
)
from onchip.arch.sizes import bytes_of
from onchip.errors import UsageError
from onchip.ir.layer import Layer
from onchip.search.budget.limits import Limits, Progress
from onchip.search.strategy.start import RunStarter, interruptible_run, silent_run

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.api.fuse import FusionRequest
    from onchip.api.map import MappingRequest
    from onchip.api.schedule import ScheduleRequest
    from onchip.arch.accelerator import Accelerator
    from onchip.arch.memory import Memory
    from onchip.ir.graph import Graph
    from onchip.reports.mapping.outcome import MappedLayer, MappingOutcome
    from onchip.reports.packing import MemoriesOutcome, OverflowOutcome, PackingOutcome
    from onchip.reports.program.outcome import Outcome
    from onchip.reports.schedule.outcome import FrontOutcome, ScheduleOutcome
    from onchip.reports.stack.outcome import FusionOutcome

Listener: TypeAlias = Callable[[Progress], None]
"""A function that receives the best objective value so far and the proven bound."""


@dataclass(frozen=True, slots=True)
class Search:
    """The limits of a search, and its progress listener."""

    limits: Limits
    start: RunStarter

    @classmethod
    def of(cls, time_limit: float | None, workers: int, seed: int, progress: Listener | None = None) -> Search:
        """Return the search of a verb's arguments; raises UsageError for a time or a number below its minimum."""
        if time_limit is not None and not time_limit > 0:
            raise UsageError(
                f"{time_limit} is no time limit", place="time_limit", expected="a number of seconds above 0, or None"
            )
        if workers < 1:
            raise UsageError(f"{workers} is no number of workers", place="workers", expected="at least 1")
        limits = Limits(time_limit, workers=workers, seed=seed)
        return cls(limits, silent_run if progress is None else partial(interruptible_run, listener=progress))


def plan(
    network: NetworkLike,
    target: TargetLike | None = None,
    *,
    minimize: str = "traffic",
    options: PlanOptions | None = None,
    time_limit: float | None = None,
    workers: int = 1,
    seed: int = 0,
    progress: Listener | None = None,
) -> PlanResult:
    """Find operator order, addresses, spills and reloads of minimum cost.

    Parameters
    ----------
    network
        A graph, a bundled name or a file.
    target
        A memory, its size (`"512KiB"`) or budget (`"m_r"`, `"m_h"`, `"m_p"`), or an accelerator. It may be left out
        if the peak is minimised.
    minimize
        `traffic`, `peak`, `dma-cycles`, `dma-energy`, `latency` or `recomputation`.
    options
        The other choices of the search.
    time_limit
        Seconds for the whole call; by default until the answer is proven.
    workers, seed
        Number of parallel workers, and the seed of all random choices.
    progress
        A function that receives the best value so far and the bound.

    Returns
    -------
    PlanResult
        The plan, verified, with its bound. `save` writes it, `report` draws it.

    Raises
    ------
    OnchipError
        An input is unreadable, or options contradict each other.

    Notes
    -----
    The objectives `traffic` and `peak` and the budgets are those of COSMA (arXiv 2311.18246).

    Examples
    --------
    >>> import onchip as oc
    >>> net = oc.load_network("lenet5", bits=8)
    >>> oc.plan(net, oc.Memory("sram", "48KiB"))
    OPTIMAL  0 bytes  bound 0 bytes  gap 0.0%  peak 39.1 KiB

    """
    from onchip.api.plan import plan_network

    given, search = GivenNetwork.of(network), Search.of(time_limit, workers, seed, progress)
    request = plan_request(
        given.source, given.reading, target_of(target), minimize, options or PlanOptions(), search.limits
    )
    machine = request.target.accelerator
    return plan_result(plan_network(request, search.start), given.source, machine)


def _proof(result: SearchResult[Any], seconds: float) -> dict[str, Any]:
    """Return the fields of a result that a search states."""
    proof = {"status": result.status, "objective": result.objective_value, "lower_bound": result.bound}
    return {**proof, "answer": result.answer, "seconds": seconds, "stopped_by": result.stopped_by}


def plan_result(outcome: Outcome, source: Graph | str, machine: Accelerator | str | None) -> PlanResult:
    """Return the result of a planned network."""
    from onchip.model.capacity.bounds import infeasible_operator
    from onchip.reports import pictures
    from onchip.reports.program.outcome import infeasible_words, outcome_object, outcome_tables

    def page(one: Outcome, asked: str) -> str:
        from onchip.api.run import page_of_plan

        return page_of_plan(one, machine, asked)

    result, figures, problem = outcome.result, outcome.figures, outcome.problem
    counted: dict[str, float | None] = {
        "required_bytes": outcome.required.need_bytes,
        "capacity_bytes": outcome.capacity_bytes,
    }
    if figures is not None:
        counted |= {
            "traffic_bytes": figures.total,
            "compulsory_bytes": figures.compulsory,
            "peak_bytes": figures.peak_bytes,
            "arena_bytes": figures.arena_bytes,
            "latency_cycles": figures.latency_cycles,
        }
    notes = []
    if result.status is Status.INFEASIBLE:
        notes.append(infeasible_words(outcome, infeasible_operator(problem)))
    elif result.answer is None:
        notes.append(result.why_not or f"no plan was found ({result.stopped_by})")
    space = {"plans": result.space or "any"}
    if result.optimal_among is not None:
        notes.append(f"optimal among {result.optimal_among}")
    reading = None if outcome.document is None else outcome.document.reading
    if reading is None or reading.bits is None:
        notes += _width_words(problem.graph)
    return PlanResult(
        **_proof(result, outcome.seconds.solve),
        minimize=problem.objective,
        unit=problem.objective.unit,
        space=space,
        figures=counted,
        notes=tuple(notes),
        document=outcome.document,
        source=source,
        machine=machine,
        view=View(outcome, outcome_object, outcome_tables, page, pictures.plan_figures),
    )


def _width_words(graph: Graph) -> list[str]:
    """Return a sentence about the widths of elements that the model gives, unless all have 8 bits."""
    widths = sorted({tensor.bits for tensor in graph.tensors if tensor.bits is not None})
    if not widths or widths == [8]:
        return []
    words = " and ".join(str(bits) for bits in widths)
    return [f"elements have {words} bits, as in the model; load_network(..., bits=8) gives its 8-bit version"]


def map_layer(
    layer: Layer | str,
    target: TargetLike,
    *,
    minimize: str = "energy",
    options: MapOptions | None = None,
    time_limit: float | None = None,
    workers: int = 1,
    seed: int = 0,
    progress: Listener | None = None,
) -> MappingResult:
    """Map one layer onto the array and the memories of an accelerator.

    Parameters
    ----------
    layer
        A layer of `conv` or `gemm`, its text (`conv:k64c64p56q56r3s3:pad1`), a network and its layer
        (`NETWORK:LAYER`), or a layer file of Timeloop or ZigZag.
    target
        An accelerator, its name or its file.
    minimize
        `energy`, `latency` or `edp`.
    options, time_limit, workers, seed, progress
        As for `plan`.

    Returns
    -------
    MappingResult
        The mapping, verified and costed, with its bound and its loop nest.

    Raises
    ------
    OnchipError
        An input is unreadable, the layer cannot be mapped, or it is a network.

    Examples
    --------
    >>> import onchip as oc
    >>> best = oc.map_layer(oc.gemm(4, 4, 4), "simba", minimize="latency", options=oc.MapOptions(method="loma"))
    >>> best.latency_cycles == best.objective
    True

    """
    from onchip.api.map import map_layers

    search = Search.of(time_limit, workers, seed, progress)
    request = _map_request(layer, target, minimize, options, search)
    outcome = map_layers(request, search.start)
    if not outcome.is_one_layer:
        raise UsageError("a network is given", place="layer", expected="a layer; `map_network` maps a network")
    return _of_layer(outcome.mapped[0], outcome, request)


def map_network(
    network: NetworkLike,
    target: TargetLike,
    *,
    minimize: str = "energy",
    options: MapOptions | None = None,
    time_limit: float | None = None,
    workers: int = 1,
    seed: int = 0,
    progress: Listener | None = None,
) -> NetworkMappingResult:
    """Map each layer of a network onto the array and the memories of an accelerator, each layer alone.

    Parameters
    ----------
    network
        A graph, a bundled name, a file, or a layer table (`cosa:resnet50`).
    target, minimize, options, time_limit, workers, seed, progress
        As for `map_layer`; the layers share the time.

    Returns
    -------
    NetworkMappingResult
        The sums over all layers, and the result of each.

    Raises
    ------
    OnchipError
        An input is unreadable, or a layer cannot be mapped.

    Examples
    --------
    >>> import onchip as oc
    >>> layers = oc.map_network("lenet5", "simba", options=oc.MapOptions(method="loma"))
    >>> layers.energy_pj == sum(one.energy_pj for one in layers.layers.values())
    True

    """
    from onchip.api.map import map_layers

    search = Search.of(time_limit, workers, seed, progress)
    request = _map_request(network, target, minimize, options, search)
    return mapping_result(map_layers(request, search.start), request)


def mapping_result(outcome: MappingOutcome, request: MappingRequest) -> NetworkMappingResult:
    """Return the sums over all layers, and the result of each."""
    from onchip.reports import pictures
    from onchip.reports.mapping.outcome import mapping_html, mapping_object, mapping_table

    totals, statuses = outcome.totals, {one.result.status for one in outcome.mapped}
    value = None if totals is None else totals.objective_value
    if totals is not None and value is None and totals.energy_delay_pj_cycles is not None:
        value = totals.energy_delay_pj_cycles * 1000
    bound = None if totals is None else totals.lower_bound
    is_proven = value is not None and value == bound and statuses == {Status.OPTIMAL}
    status = Status.OPTIMAL if is_proven else Status.UNKNOWN if totals is None else Status.FEASIBLE
    found = tuple(one.mapping for one in outcome.mapped if one.mapping is not None)
    figures = totals and {
        "energy_pj": totals.energy_pj,
        "latency_cycles": totals.latency_cycles,
        "macs": totals.macs,
        "utilisation": totals.utilisation,
    }
    return NetworkMappingResult(
        status=status if Status.INFEASIBLE not in statuses else Status.INFEASIBLE,
        minimize=outcome.objective,
        unit=outcome.unit,
        objective=value,
        lower_bound=bound,
        answer=found if totals is not None else None,
        space={"mappings": "any" if outcome.mapspace is None else outcome.mapspace.name},
        seconds=outcome.seconds,
        figures=figures or {},
        notes=tuple(outcome.accelerator.notes),
        document=outcome.document,
        source=request.source,
        machine=request.accelerator,
        view=View(outcome, mapping_object, mapping_table, mapping_html, pictures.mapping_figures),
        layers={name: _of_layer(one, outcome, request) for name, one, _ in outcome.of_each()},
    )


def _map_request(
    source: NetworkLike | Layer, target: TargetLike, minimize: str, options: MapOptions | None, search: Search
) -> MappingRequest:
    from onchip.api.map import MappingRequest

    asked = machine_of(target), choice(MappingObjective, minimize, MINIMIZE), options or MapOptions()
    if isinstance(source, Layer):
        return MappingRequest(source, *asked, limits=search.limits)
    given = GivenNetwork.of(source)
    return MappingRequest(given.source, *asked, given.reading, search.limits)


def _of_layer(one: MappedLayer, outcome: MappingOutcome, request: MappingRequest) -> MappingResult:
    from dataclasses import replace

    from onchip.answer.layer_problem import LayerProblem
    from onchip.reports import pictures
    from onchip.reports.mapping.outcome import loop_nest, mapping_html, mapping_object, mapping_table

    result, cost, mapping = one.result, one.cost, one.mapping
    mine = tuple(named for named in outcome.document.answer if named.names == one.names)
    alone = replace(outcome, mapped=(one,), is_one_layer=outcome.is_one_layer)
    why = one.why_not or (f"no mapping was found ({result.stopped_by})" if mapping is None else None)
    figures = cost and {
        "energy_pj": cost.stated_energy_pj,
        "latency_cycles": round(cost.cycles),
        "macs": cost.macs,
        "utilisation": cost.macs / (cost.units * cost.cycles) if cost.cycles else 0.0,
    }
    return MappingResult(
        status=result.status if mapping is not None or result.answer is None else Status.UNKNOWN,
        minimize=outcome.objective,
        unit=outcome.unit,
        objective=one.claim.objective_value if one.claim and mapping is not None else None,
        lower_bound=one.lower_bound,
        answer=mapping,
        space={"mappings": "any" if outcome.mapspace is None else outcome.mapspace.name},
        seconds=result.seconds,
        figures=figures or {},
        notes=(*([why] if why else []), *outcome.accelerator.notes),
        document=replace(outcome.document, answer=mine) if mine else None,
        source=request.source,
        machine=request.accelerator,
        view=View(alone, mapping_object, mapping_table, mapping_html, pictures.mapping_figures)
        if outcome.is_one_layer
        else None,
        loop_nest="" if mapping is None else loop_nest(LayerProblem(one.layer, outcome.accelerator), mapping),
    )


def fuse(
    network: NetworkLike,
    target: TargetLike,
    *,
    minimize: str = "energy",
    options: FusionOptions | None = None,
    time_limit: float | None = None,
    workers: int = 1,
    seed: int = 0,
    progress: Listener | None = None,
) -> FuseResult:
    """Find the fused groups of a network, their tile sizes and overlap modes.

    Parameters
    ----------
    network
        A graph, a bundled name or a file.
    target
        An accelerator, its name or its file.
    minimize
        `energy`, `latency`, `edp` or `dram`.
    options, time_limit, workers, seed, progress
        As for `plan`.

    Returns
    -------
    FuseResult
        The groups, verified, with the bound for all strategies.

    Raises
    ------
    OnchipError
        An input is unreadable, or a layer cannot be fused.

    Notes
    -----
    Groups, tiles and overlap modes are those of DeFiNES (HPCA 2023).

    Examples
    --------
    >>> import onchip as oc
    >>> groups = oc.fuse("lenet5", "simba", options=oc.FusionOptions(groups="layers"), time_limit=2)
    >>> groups.objective >= groups.lower_bound
    True

    """
    from onchip.api.fuse import FusionRequest, fuse_network

    given, search = GivenNetwork.of(network), Search.of(time_limit, workers, seed, progress)
    asked = machine_of(target), choice(FusionObjective, minimize, MINIMIZE), options or FusionOptions()
    request = FusionRequest(given.source, *asked, given.reading, search.limits)
    return fuse_result(fuse_network(request, search.start), request)


def fuse_result(outcome: FusionOutcome, request: FusionRequest) -> FuseResult:
    """Return the result of a fused network."""
    from onchip.reports import pictures
    from onchip.reports.stack.html import fusion_html
    from onchip.reports.stack.outcome import fusion_object, fusion_tables, proof_words

    result, found = outcome.result, outcome.figures
    figures = found and {
        "energy_pj": found.energy_pj,
        "latency_cycles": round(found.latency_cycles),
        "traffic_bytes": -(-found.dram_bits // 8),
    }
    notes = (outcome.why_not, proof_words(outcome, "searched"), *outcome.accelerator.notes)
    return FuseResult(
        **_proof(result, result.seconds),
        minimize=outcome.objective,
        unit=outcome.unit,
        space={"strategies": outcome.space},
        figures=figures or {},
        notes=tuple(filter(None, notes)),
        document=outcome.document,
        source=request.source,
        machine=request.accelerator,
        view=View(outcome, fusion_object, fusion_tables, fusion_html, pictures.fusion_figures),
    )


def schedule(
    network: NetworkLike,
    target: TargetLike,
    *,
    minimize: str = "energy",
    options: ScheduleOptions | None = None,
    time_limit: float | None = None,
    workers: int = 1,
    seed: int = 0,
    progress: Listener | None = None,
) -> ScheduleResult:
    """Schedule a network: fused groups, tiles, loop nests, addresses and transfers in one program.

    Parameters
    ----------
    network
        A graph, a bundled name or a file.
    target
        An accelerator, its name or its file.
    minimize
        `energy`, `latency`, `edp` or `traffic`.
    options, time_limit, workers, seed, progress
        As for `plan`.

    Returns
    -------
    ScheduleResult
        The schedule, verified, with a bound for all schedules of its space.

    Raises
    ------
    OnchipError
        An input is unreadable or unusable, or options do not fit it.

    Examples
    --------
    >>> import onchip as oc
    >>> net = oc.load_network("lenet5", bits=8)
    >>> schedule = oc.schedule(net, "simba", options=oc.ScheduleOptions(groups="layers"), time_limit=2)
    >>> oc.check(schedule).is_legal
    True

    """
    from onchip.api.schedule import ScheduleRequest, schedule_network

    given, search = GivenNetwork.of(network), Search.of(time_limit, workers, seed, progress)
    asked = machine_of(target), choice(ScheduleObjective, minimize, MINIMIZE), options or ScheduleOptions()
    request = ScheduleRequest(given.source, *asked, given.reading, search.limits)
    return schedule_result(schedule_network(request, search.start), given.source)


def schedule_result(outcome: ScheduleOutcome, source: Graph | str) -> ScheduleResult:
    """Return the result of a scheduled network."""
    from onchip.reports import pictures
    from onchip.reports.schedule.html import schedule_html
    from onchip.reports.schedule.outcome import schedule_object, schedule_tables

    result, found = outcome.result, outcome.figures
    figures = found and {
        "energy_pj": found.energy_pj,
        "latency_cycles": found.latency_cycles,
        "traffic_bytes": found.traffic_bytes,
    }
    why = None if result.answer is not None else f"no schedule was found: {outcome.why_not or result.stopped_by}"
    return ScheduleResult(
        **_proof(result, outcome.seconds.solve),
        minimize=outcome.objective,
        unit=outcome.unit,
        space=outcome.proven_space,
        figures=figures or {},
        notes=tuple(filter(None, (why, outcome.remark, *outcome.accelerator.notes))),
        document=outcome.document,
        source=source,
        machine=outcome.accelerator,
        view=View(outcome, schedule_object, schedule_tables, schedule_html, pictures.schedule_figures),
    )


def pareto(
    network: NetworkLike,
    target: TargetLike,
    *,
    minimize: Sequence[str] = ("energy", "latency"),
    points: int = 12,
    options: ScheduleOptions | None = None,
    time_limit: float | None = None,
    workers: int = 1,
    seed: int = 0,
    progress: Listener | None = None,
) -> FrontResult:
    """Find a Pareto front of schedules: none is better than another along all axes.

    Parameters
    ----------
    network, target
        As for `schedule`.
    minimize
        Two or more of `energy`, `latency`, `traffic` and `peak`.
    points
        Maximum number of schedules.
    options, time_limit, workers, seed, progress
        As for `schedule`.

    Returns
    -------
    FrontResult
        The schedules in the order of the first axis, and a lower bound along each axis. `save` writes a folder.

    Raises
    ------
    OnchipError
        An input is unreadable or unusable, or an axis is unknown.

    """
    from onchip.api.schedule import ScheduleRequest, axes_of, front_of_schedules

    given, search = GivenNetwork.of(network), Search.of(time_limit, workers, seed, progress)
    asked = machine_of(target), ScheduleObjective.ENERGY, options or ScheduleOptions()
    request = ScheduleRequest(given.source, *asked, given.reading, search.limits)
    axes = axes_of(",".join(minimize), points)
    return front_result(front_of_schedules(request, axes, points, search.start), request)


def front_result(front: FrontOutcome, request: ScheduleRequest) -> FrontResult:
    """Return the result of a Pareto front."""
    from onchip.reports import pictures
    from onchip.reports.schedule.outcome import front_html, front_object, front_tables

    found = tuple(schedule_result(point.outcome, request.source) for point in front.points)
    return FrontResult(
        status=Status.FEASIBLE if found else Status.UNKNOWN,
        minimize=", ".join(front.axes),
        unit=", ".join(axis.unit for axis in front.axes),
        objective=None,
        lower_bound=None,
        answer=found or None,
        space=front.space,
        seconds=front.seconds,
        stopped_by=front.stopped_by,
        source=request.source,
        machine=request.accelerator,
        view=View(front, front_object, front_tables, front_html, pictures.front_figures),
        lower_bounds=dict(zip(map(str, front.axes), front.bounds, strict=True)),
    )


def pack(
    buffers: Mapping[str, Buffer] | Sequence[Buffer] | str | Path,
    capacity: int | str | None = None,
    *,
    memories: Sequence[Memory] = (),
    options: PackOptions | None = None,
    time_limit: float | None = None,
    workers: int = 1,
    seed: int = 0,
    progress: Listener | None = None,
) -> PackResult:
    """Give buffers with known live ranges offsets in memory.

    Parameters
    ----------
    buffers
        Buffers, or a map from name to buffer, or a file (`.csv` as MiniMalloc reads it, `.json`, or `.mlir`). Buffers
        without names are numbered.
    capacity
        Bytes, or a size such as `"1MiB"`; by default the minimum capacity is searched.
    memories
        Memories that hold the buffers, instead of one with a capacity; the preferred one first. The bytes of each
        buffer times the rank of its memory (0 is the best) are minimised.
    options, time_limit, workers, seed, progress
        As for `plan`.

    Returns
    -------
    PackResult
        The offsets, verified, with a bound on the arena, or on the bytes outside the capacity. If the buffers do not
        fit, `conflict` names some that do not fit together.

    Raises
    ------
    OnchipError
        The buffers are unreadable or invalid.

    Examples
    --------
    >>> import onchip as oc
    >>> found = oc.pack({"a": oc.Buffer(0, 2, 4), "b": oc.Buffer(1, 3, 5), "c": oc.Buffer(2, 4, 4)})
    >>> found.status, found.arena_bytes
    (<Status.OPTIMAL: 'OPTIMAL'>, 9)

    """
    from onchip.api.pack import pack_buffers
    from onchip.formats.minimalloc import BufferTable

    options, search = options or PackOptions(), Search.of(time_limit, workers, seed, progress)
    given: Path | BufferTable
    if isinstance(buffers, str | Path):
        given = Path(buffers)
    else:
        named = buffers if isinstance(buffers, Mapping) else {str(at): one for at, one in enumerate(buffers)}
        given = BufferTable(tuple(named), tuple(named.values()))
    capacity_bytes = None if capacity is None else bytes_of(capacity, "capacity")
    if memories and capacity is not None:
        raise UsageError("capacity and memories are both given", place="capacity", expected="only memories")
    if (options.splits or (options.overflow and not memories)) and capacity_bytes is None:
        what = "overflow and splits need a capacity"
        raise UsageError(what, place="capacity", expected="a size such as 512KiB")
    minimize = capacity_bytes is None
    return pack_result(
        pack_buffers(given, capacity_bytes, options, search.limits, search.start, tuple(memories), minimize=minimize)
    )


def pack_result(outcome: PackingOutcome | OverflowOutcome | MemoriesOutcome) -> PackResult:
    """Return the result of packed buffers."""
    from onchip.formats.minimalloc import packing_to_csv
    from onchip.reports import pictures
    from onchip.reports.packing import MemoriesOutcome, PackingOutcome, memories_object, overflow_object, packing_object
    from onchip.reports.shared.facts import facts

    def tables(one: PackingOutcome | OverflowOutcome | MemoriesOutcome) -> tuple[RenderableType]:
        return (facts(one.rows),)

    proof = _proof(outcome.result, outcome.seconds)
    if isinstance(outcome, MemoriesOutcome):
        return PackResult(
            minimize=outcome.objective,
            unit="allocations" if outcome.objective == "allocations" else "bytes",
            view=View(outcome, memories_object, tables),
            offsets=outcome.offsets,
            memories=outcome.memories,
            **proof,
        )
    is_packing, packed = isinstance(outcome, PackingOutcome), outcome.result.answer
    as_object: Callable[[Any], Mapping[str, object]] = packing_object if is_packing else overflow_object
    return PackResult(
        minimize="arena" if is_packing else "overflow",
        unit="bytes",
        figures={"arena_bytes" if is_packing else "outside_bytes": outcome.result.objective_value},
        view=View(outcome, as_object, tables, as_figures=pictures.packing_figures),
        offsets={} if packed is None else dict(zip(outcome.ids, packed.offsets_bytes, strict=True)),
        conflict=outcome.conflict if isinstance(outcome, PackingOutcome) else (),
        csv="" if packed is None else packing_to_csv(outcome.ids, outcome.problem, packed),
        **proof,
    )


def info(network: NetworkLike, *, time_limit: float | None = 10.0) -> InfoReport:
    """Describe a network: its size, its largest tensors, and its capacity budgets.

    Parameters
    ----------
    network
        A graph, a bundled name or a file.
    time_limit
        Seconds to look for the minimum peak (M_P).

    Returns
    -------
    InfoReport
        The largest working set of one operator (M_R), the minimum peak without spills (M_P; None if it is not proven)
        and the compulsory traffic, in bytes.

    Raises
    ------
    OnchipError
        The network is unreadable.

    Examples
    --------
    >>> import onchip as oc
    >>> oc.info(oc.load_network("lenet5", bits=8))
    lenet5: 5 operators, 10 tensors, M_R 40,064 bytes, M_P 40,064 bytes

    """
    from onchip.answer.words import counted, exact_bytes
    from onchip.api.plan import describe_network
    from onchip.reports.program.outcome import description_object, description_report

    given, search = GivenNetwork.of(network), Search.of(time_limit, 1, 0)
    found = describe_network(given.source, given.reading, search.limits, search.start)
    graph, peak = found.problem.graph, found.min_peak_bytes
    size = f"{counted(len(graph.operators), 'operator')}, {counted(len(graph.tensors), 'tensor')}"
    least = "not proven" if peak is None else exact_bytes(peak)
    return InfoReport(
        headline=f"{graph.name}: {size}, M_R {exact_bytes(found.required.need_bytes)}, M_P {least}",
        view=View(found, description_object, description_report),
        operators=len(graph.operators),
        tensors=len(graph.tensors),
        required_bytes=found.required.need_bytes,
        min_peak_bytes=peak,
        compulsory_bytes=found.compulsory_bytes,
    )
