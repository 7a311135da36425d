"""Computation of one point of a sweep: its network, the request to its verb, and the stored parts of the answer."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, TypeVar

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.verb_options import FusionOptions, MapOptions, PlanOptions, ScheduleOptions
from onchip.answer.problem import Count, Problem, Recompute
from onchip.answer.result import SearchResult, Status
from onchip.answer.stacks import tile_of_text
from onchip.api.networks import layers_named, network_to_plan, read_network
from onchip.api.requests import fusion_request, map_request, plan_request, schedule_request
from onchip.api.target import Target
from onchip.arch.energies import stated
from onchip.errors import InputError, InternalError, UntiledError
from onchip.formats.files import canonical_sha256
from onchip.formats.own.graph_json import graph_sha256
from onchip.ir.graph import Graph
from onchip.ops.layers_of import Precision
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.limits import Limits, WarmStart
from onchip.search.strategy.start import NoAnswerError
from onchip.sweeps.point import VERBS, PointAnswer, PointFigures, PointStatus, SweepPoint, SweptVerb

GRAPHS_KEPT: Final = 32
"""Size of the cache in a worker process: reading a network takes longer than planning a small one."""
_graphs: dict[tuple[str, str, str], Graph] = {}


def reading_of(options: Mapping[str, Any]) -> Reading:
    """Return the reading in a plan's options, without byte sharing."""
    return Reading(
        options["bits"],
        options["dims"] or {},
        Granularity(options["granularity"]),
        Count(options["count"]),
        options["cap_tensors"],
        shapes=shapes_of(options),
        recompute=Recompute(options["recompute"]),
    )


def shapes_of(options: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of network inputs in the options."""
    return {name: tuple(shape) for name, shape in (options["shapes"] or {}).items()}


def network_sha256(verb: SweptVerb, network: str, options: Mapping[str, Any]) -> str:
    """Return the hash of the parts of a network that a verb reads; raises InputError for an unreadable network."""
    if verb is SweptVerb.PLAN:
        return graph_sha256(network_to_plan(network, reading_of(options)))
    bindings = Bindings(options["dims"] or {}, shapes_of(options), {})
    reading = Reading.of(bindings, Granularity(options["granularity"]))
    if verb is not SweptVerb.MAP:
        return graph_sha256(read_network(network, reading))
    layers, _ = layers_named(network, reading, Precision(options["bits"], options["partial_bits"]))
    return canonical_sha256([repr(sorted(layers.layers.items())), repr(sorted(layers.times.items()))], InputError)


def graph_of_point(point: SweepPoint, named: Reading, reading: Reading) -> Graph:
    """Return the network of a plan's point, read as `reading` says and cached for the next point.

    Raises InputError if the network, read as `named` by the options, has changed since the sweep began.
    """
    place = point.network, point.network_sha256, repr(reading)
    if place not in _graphs:
        graph = network_to_plan(point.network, reading)
        as_named = graph if reading == named else network_to_plan(point.network, named)
        if graph_sha256(as_named) != point.network_sha256:
            raise InputError("the network has changed since the sweep began", place=point.network, expected="the same")
        if len(_graphs) >= GRAPHS_KEPT:
            _graphs.pop(next(iter(_graphs)))
        _graphs[place] = graph
    return _graphs[place]


PACKED: Final = 6
"""Compression level of documents, for zlib."""
SMALL: Final = "minerva"
"""A bundled network that is read quickly."""
Options = Mapping[str, Any]
OptionsT = TypeVar("OptionsT")


def answer_point(point: SweepPoint) -> PointAnswer:
    """Answer a point; if the verb rejects it, return a failed answer with the reason."""
    watch = Stopwatch()
    try:
        answer = _ANSWERED[point.verb](point, options_of(point))
    except UntiledError as error:
        status = PointStatus.INFEASIBLE if error.is_proven else PointStatus.UNKNOWN
        answer = PointAnswer(status, reason=error.what)
    except NoAnswerError as error:
        answer = PointAnswer(PointStatus.UNKNOWN, reason=error.what)
    except (InputError, InternalError) as error:
        answer = PointAnswer(PointStatus.FAILED, reason=_line_without_file(error))
    return replace(answer, seconds=watch.seconds)


def prepare_for(verb: SweptVerb) -> None:
    """Import the modules of a verb and read a small network, so that the first point takes no longer than others."""
    for module in _MODULES[verb]:
        import_module(module)
    read_network(SMALL, Reading())


def options_of(point: SweepPoint) -> dict[str, Any]:
    """Return all options of a point's verb, including defaults."""
    return {**VERBS[point.verb].defaults(point.objective), **point.options}


def _line_without_file(error: InputError | InternalError) -> str:
    """Return the message of an error without its file, which may be temporary."""
    error.file = None
    return str(error)


def _planned(point: SweepPoint, options: Options) -> PointAnswer:
    from onchip.api.plan import plan_read_network
    from onchip.formats.own.plan_json import plan_to_json

    deadline = Deadline.after(options["time_limit"])
    price, tiles = _price(options), TilesOption.NEVER
    more = {"alignment_bytes": options["alignment"], "recompute_price": price, "tiles": tiles}
    with _machine_file(point) as file:
        target = Target(point.sram_bytes, file)
        chosen = _chosen(PlanOptions, options, **more), _limits(options)
        request = plan_request(point.network, _read(options), target, point.objective, *chosen)
        named, request = request.reading, replace(request, reading=request.reading_as_shared)
        graph = graph_of_point(point, named, request.reading)
        outcome = plan_read_network(request, graph, deadline, known=partial(_known, point))
    result, figures = outcome.result, outcome.figures
    counted = PointFigures()
    if figures is not None:
        counted = PointFigures(figures.total, figures.non_compulsory, figures.peak_bytes, figures.arena_bytes)
    document = None if outcome.document is None else plan_to_json(outcome.document)
    return _answer(
        result,
        outcome.problem.objective.unit,
        counted,
        None if result.answer is not None else result.stopped_by,
        document,
    )


def _price(options: Options) -> float | None:
    """Return the price of recomputation for points that allow it, else None."""
    price: float | None = options["recompute_price"]
    return price if options["recompute"] == Recompute.ALLOWED else None


def _known(point: SweepPoint, problem: Problem) -> WarmStart | None:
    """Return the warm start that a plan's neighbours give for its problem."""
    from onchip.formats.own.plan_json import plan_from_json
    from onchip.transform.slices.emission import ChannelBands

    said = point.neighbours
    if said is None:
        return None
    plan, value = None, None
    if said.document is not None and said.value is not None:
        document = plan_from_json(zlib.decompress(said.document), point.key)
        banded = replace(problem, graph=ChannelBands(document.reading.bands)(problem.graph))
        plan, value = replace(document.answer, problem=banded), int(said.value)
    return WarmStart.of(problem, plan, value, int(said.lower_bound))


def _scheduled(point: SweepPoint, options: Options) -> PointAnswer:
    from onchip.api.schedule import schedule_network
    from onchip.formats.own.schedule_json import schedule_to_json

    with _machine_file(point) as file:
        chosen = point.objective, _chosen(ScheduleOptions, options), _limits(options)
        outcome = schedule_network(schedule_request(point.network, _read(options), str(file), *chosen))
    result, figures = outcome.result, outcome.figures
    counted = PointFigures()
    if figures is not None:
        peak_bytes = sum(memory.peak_bytes for memory in figures.memories.values())
        counted = PointFigures(
            figures.traffic_bytes,
            peak_bytes=peak_bytes,
            latency_cycles=figures.latency_cycles,
            energy_pj=figures.energy_pj,
        )
    document = None if outcome.document is None else schedule_to_json(outcome.document)
    return _answer(result, outcome.unit, counted, outcome.why_not, document)


def _mapped(point: SweepPoint, options: Options) -> PointAnswer:
    from onchip.api.map import map_layers
    from onchip.formats.own.mapping_yaml import mappings_to_yaml

    with _machine_file(point) as file:
        chosen = point.objective, _chosen(MapOptions, options), _limits(options)
        outcome = map_layers(map_request(point.network, _read(options), str(file), *chosen))
    totals, statuses = outcome.totals, {one.result.status for one in outcome.mapped}
    if totals is None:
        status = Status.INFEASIBLE if Status.INFEASIBLE in statuses else Status.UNKNOWN
        return PointAnswer(PointStatus(status), unit=outcome.unit, reason="a layer has no mapping")
    value, bound = totals.objective_value, totals.lower_bound
    if value is None:  # a product of sums has no proven bound
        value = stated(totals.energy_pj) * 1000 * totals.latency_cycles
    is_proven = bound is not None and statuses == {Status.OPTIMAL}
    return PointAnswer(
        PointStatus.OPTIMAL if is_proven else PointStatus.FEASIBLE,
        value,
        bound,
        outcome.unit,
        PointFigures(latency_cycles=totals.latency_cycles, energy_pj=totals.energy_pj),
        document=packed(mappings_to_yaml(outcome.document)),
    )


def _fused(point: SweepPoint, options: Options) -> PointAnswer:
    from onchip.api.fuse import fuse_network
    from onchip.formats.own.strategy_json import strategy_to_json

    with _machine_file(point) as file:
        chosen = point.objective, _chosen(FusionOptions, options), _limits(options)
        outcome = fuse_network(fusion_request(point.network, _read(options), str(file), *chosen))
    result, figures = outcome.result, outcome.figures
    counted = PointFigures()
    if figures is not None:
        traffic_bytes = -(-figures.dram_bits // 8)
        cycles = round(figures.latency_cycles)
        counted = PointFigures(traffic_bytes, latency_cycles=cycles, energy_pj=figures.energy_pj)
    document = None if outcome.document is None else strategy_to_json(outcome.document)
    return _answer(result, outcome.unit, counted, outcome.why_not, document)


def _answer(
    result: SearchResult[Any], unit: str, figures: PointFigures, reason: str | None, document: str | None
) -> PointAnswer:
    """Return a verb's result as the answer of a point; `document` is the text of its file."""
    content = None if document is None else packed(document)
    status = PointStatus(result.status)
    return PointAnswer(status, result.objective_value, result.bound, unit, figures, reason=reason, document=content)


_ANSWERED: Final[Mapping[SweptVerb, Callable[[SweepPoint, Options], PointAnswer]]] = {
    SweptVerb.PLAN: _planned,
    SweptVerb.MAP: _mapped,
    SweptVerb.FUSE: _fused,
    SweptVerb.SCHEDULE: _scheduled,
}


_MODULES: Final[Mapping[SweptVerb, tuple[str, ...]]] = {
    SweptVerb.PLAN: ("onchip.api.plan", "onchip.formats.own.plan_json"),
    SweptVerb.MAP: ("onchip.api.map", "onchip.formats.own.mapping_yaml"),
    SweptVerb.FUSE: ("onchip.api.fuse", "onchip.formats.own.strategy_json"),
    SweptVerb.SCHEDULE: ("onchip.api.schedule", "onchip.formats.own.schedule_json"),
}


def packed(text: str) -> bytes:
    """Return an answer file as a store keeps it."""
    return zlib.compress(text.encode(), PACKED)


@contextmanager
def _machine_file(point: SweepPoint) -> Iterator[str | None]:
    """Yield the file of the point's machine while its verb runs; None if it is one scratchpad."""
    if point.sram_bytes is not None:
        yield None
        return
    with NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8", prefix="onchip-", delete=False) as file:
        file.write(point.machine.yaml)
    try:
        yield file.name
    finally:
        Path(file.name).unlink(missing_ok=True)


def _limits(options: Options) -> Limits:
    return Limits(options["time_limit"], seed=options["seed"])


def _read(options: Options) -> Reading:
    """Return the reading in the options of a point."""
    bindings = Bindings(options["dims"] or {}, shapes_of(options), {})
    return replace(Reading.of(bindings, Granularity(options["granularity"])), bits=options["bits"])


def _chosen(kind: type[OptionsT], options: Options, **more: object) -> OptionsT:
    """Return the options of a verb that a point states by the same names; `more` replaces some."""
    named: Any = kind  # a dataclass
    values = {one.name: options[one.name] for one in fields(named) if one.name in options}
    if values.get("tile") is not None:
        values["tile"] = tile_of_text(values["tile"])
    return kind(**{**values, **more})
