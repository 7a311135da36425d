"""Results of `schedule`, checked schedule files, and Pareto fronts, as tables, JSON objects and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from onchip.answer.document import Claim, ScheduleDocument
from onchip.answer.result import SearchResult, Stop
from onchip.answer.schedule import Schedule, ScheduledStack
from onchip.answer.words import amount, counted, percent, picked, printable, short_amount, short_bytes, short_energy
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import unknown_energy
from onchip.bounds.network.relaxation import Relaxation
from onchip.formats.own.schedule_json import tile_fields
from onchip.ir.graph import Graph
from onchip.model.program.compute_cost import ComputeCost
from onchip.model.program.figures import ScheduleFigures, TrafficParts
from onchip.model.timeline.mac_count import UncostedOperator, uncosted_operators
from onchip.reports.program.outcome import claim_rows, violation_object
from onchip.reports.shared.facts import (
    CoveredShare,
    DataTable,
    MethodOutcome,
    Proof,
    Rows,
    breakdown,
    element_words,
    facts,
    kinds_counted,
    picked_seconds,
    seconds_words,
    shares,
    warning_of_macs,
)
from onchip.reports.shared.figures import Json, ticks, trace
from onchip.reports.shared.page import AnswerPage, heading, section, still, table
from onchip.reports.shared.words import latency_words
from onchip.transform.groups.tile_graph import TileGraph
from onchip.verify.schedule.machine import ScheduleVerdict, VerifiedFigures

if TYPE_CHECKING:
    from onchip.scheduling.search.front import FrontAxis


@dataclass(frozen=True, slots=True)
class ScheduleSeconds:
    """The seconds that reading, solving and verifying took."""

    read: float
    solve: float
    verify: float


@dataclass(frozen=True, slots=True)
class ScheduleOutcome(MethodOutcome[Schedule]):
    """A scheduled network; without a schedule `tiles`, `figures` and `document` are None, and `why_not` says why.

    `network` has elements of the requested bits. `space` names the schedules for which the bound holds, `relaxation`
    its parts. `compute_costs` maps each tile operator to its cost. `not_checked` lists facts that the verifier did not
    recompute. A `remark` says how the answer differs from the request. Status and bound are claims if `is_from_file`.
    `weighed` names the mappings that the search chose among. `value_of_stages` is the objective value of the first,
    stage-by-stage schedule; `are_stages_cut` is True if time ran out before its work was done.
    """

    source: str
    network: Graph
    accelerator: Accelerator
    objective: str
    unit: str
    result: SearchResult[Schedule]
    relaxation: Relaxation
    space: Mapping[str, str]
    seconds: ScheduleSeconds
    tiles: TileGraph | None = None
    figures: ScheduleFigures | None = None
    document: ScheduleDocument | None = None
    compute_costs: Mapping[str, ComputeCost] = field(default_factory=dict)
    not_checked: tuple[str, ...] = ()
    why_not: str | None = None
    remark: str | None = None
    is_from_file: bool = False
    weighed: str | None = None
    value_of_stages: int | None = None
    are_stages_cut: bool | None = None

    @property
    def proven_space(self) -> dict[str, str]:
        """Restrictions of the schedules for which the bound holds, including those of the accelerator."""
        restriction = self.accelerator.restriction
        return {**self.space, **({"accelerator": restriction} if restriction else {})}

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all tile operators, those that are computed again among them."""
        if self.tiles is None:
            return 0
        return sum(nest.macs for origin in self.tiles.operators.values() for nest in origin.nests)

    @property
    def operators_without_nest(self) -> int:
        """Number of tile operators that are priced without a loop nest."""
        return 0 if self.tiles is None else sum(not origin.nests for origin in self.tiles.operators.values())

    @property
    def uncosted(self) -> tuple[UncostedOperator, ...]:
        """Operators of the network that are priced without a loop nest, and run."""
        origins = () if self.tiles is None else self.tiles.operators.values()
        return uncosted_operators(self.network, {origin.operator for origin in origins if not origin.nests})

    @property
    def coverage(self) -> tuple[CoveredShare, ...]:
        """Operators of the network by loop nests and by data movement, with their share of all operations."""
        origins = () if self.tiles is None else self.tiles.operators.values()
        nests = len({origin.operator for origin in origins if origin.nests})
        return shares((nests, self.macs), [one.operations for one in self.uncosted])


UNITS = {"energy": "fJ", "latency": "cycles", "edp": "fJ x cycles", "traffic": "bytes"}


@dataclass(frozen=True, slots=True)
class ScheduleCheck:
    """A verified schedule file and its network, whose graph has the hash `sha256`.

    `tiles` is the network in tiles, None if the stacks do not define one.
    """

    document: ScheduleDocument
    network: Graph
    sha256: str
    verdict: ScheduleVerdict
    tiles: TileGraph | None = None

    @property
    def is_legal(self) -> bool:
        """True if the schedule has no violation."""
        return self.verdict.is_legal


def schedule_check_object(check: ScheduleCheck) -> dict[str, object]:
    """Return the violations of a schedule, and its figures with its maker's claims."""
    document, figures, verdict = check.document, check.verdict.figures, check.verdict
    claim, planned = document.claim, document.graph.sha256
    return {
        "network": check.network.name,
        "accelerator": document.accelerator.name,
        "legal": check.is_legal,
        "graph": {"planned_sha256": planned, "sha256": check.sha256, "differs": planned not in (None, check.sha256)},
        "violations": [violation_object(violation) for violation in verdict.violations],
        "recomputed": figures
        and {
            "objective": claim and claim.objective,
            "objective_unit": claim and UNITS[claim.objective],
            "objective_value": claim and figures.objective_value(claim.objective),
            **picked(figures, "energy_pj", "latency_cycles", "traffic_bytes", "peak_bytes"),
            "arenas": dict(figures.arenas),
        },
        "claimed": claim
        and {
            **picked(claim, "method", "status", "objective", "objective_value", "lower_bound"),
            **claim.figures,
            "space": dict(claim.space),
        },
        "not_modelled": list(document.accelerator.notes),
        "not_checked": list(verdict.not_checked),
    }


def schedule_check_tables(check: ScheduleCheck) -> Iterator[RenderableType]:
    """Yield a line for each violation, or the figures with the claims, and the unchecked rules."""
    for violation in check.verdict.violations:
        yield Text(printable(str(violation)))
    if check.verdict.figures is not None:
        yield _verified_grid(check.verdict.figures, check.document.claim)
        if check.verdict.figures.energy_fj is None:
            yield Text(unknown_energy(check.document.accelerator))
    yield from (Text(printable(note)) for note in check.document.accelerator.notes)
    for what in check.verdict.not_checked:
        yield Text(f"not verified: {what}")
    count = len(check.verdict.violations)
    yield Text("the schedule is legal" if check.is_legal else counted(count, "violation"))


def _verified_grid(figures: VerifiedFigures, claim: Claim | None) -> DataTable:
    """Return the recomputed figures, and those that the file claims."""
    claimed = dict(claim.figures) if claim else {}
    energy = None if figures.energy_pj is None else f"{figures.energy_pj:,} pJ"
    rows = [
        ("energy", energy, claimed.get("energy_pj"), "pJ"),
        ("latency", f"{figures.latency_cycles:,} cycles", claimed.get("latency_cycles"), "cycles"),
        ("traffic", f"{figures.traffic_bytes:,} bytes", claimed.get("traffic_bytes"), "bytes"),
        ("peak", f"{figures.peak_bytes:,} bytes", None, ""),
        *((f"arena of {name}", f"{size:,} bytes", None, "") for name, size in figures.arenas),
    ]
    found = [(name, own or "-", "-" if said is None else f"{said:,} {unit}") for name, own, said, unit in rows]
    unit, value = ("", None) if claim is None else (UNITS[claim.objective], figures.objective_value(claim.objective))
    return DataTable(("", "recomputed", "claimed"), [*found, *claim_rows(claim, unit, value)])


def schedule_tables(outcome: ScheduleOutcome) -> Iterator[RenderableType]:
    """Yield the facts of a schedule and of its proof, or the reason for a missing schedule."""
    if outcome.figures is None:
        yield Text(f"search ended without a schedule: {outcome.why_not or 'the time was over'}")
    yield facts([*schedule_rows(outcome), schedule_proof(outcome).time])
    yield from map(Text, remarks(outcome))


def schedule_rows(outcome: ScheduleOutcome) -> Rows:
    """Return the facts of a schedule, and of the proof."""
    network = outcome.network
    rows = [
        ("network", f"{network.name}, {counted(len(network.operators), 'operator')}"),
        ("accelerator", outcome.accelerator.name),
    ]
    if outcome.document is not None and outcome.document.reading.bits is None:
        rows += element_words(tensor.bits for tensor in network.tensors)
    if outcome.is_from_file:
        has_claim = outcome.document is not None and outcome.document.claim is not None
        rows.append(("claim", "status and bound are claimed by the file" if has_claim else "the file makes no claim"))
    figures = [] if outcome.figures is None else _figure_rows(outcome, outcome.figures)
    return [*rows, *schedule_proof(outcome).rows, *figures]


def remarks(outcome: ScheduleOutcome) -> Iterator[str]:
    """Yield what the figures do not contain, the limits of the model, and how the answer differs from the request."""
    if outcome.figures is not None:
        if outcome.figures.stated_energy_fj is None:
            yield unknown_energy(outcome.accelerator)
        if every := outcome.uncosted:
            yield f"without a loop nest, costed as data movement: {kinds_counted(one.kind for one in every)}"
            yield from warning_of_macs(every)
    yield from map(printable, outcome.accelerator.notes)
    if outcome.remark is not None:
        yield outcome.remark


def schedule_proof(outcome: ScheduleOutcome) -> Proof:
    """Return the claim of a schedule; the bound covers every schedule but for the restrictions of its space."""
    result, seconds = outcome.result, outcome.seconds
    restricted = [f"{what}: {how}" for what, how in outcome.proven_space.items() if how != "any"]
    free = [what for what, how in outcome.proven_space.items() if how == "any"]
    covers = "; ".join(restricted) or "every schedule"
    details = f"any {', '.join(free)}", *(f"not verified: {what}" for what in outcome.not_checked)
    spent = picked_seconds(seconds.read, seconds.solve, seconds.verify)
    proof = Proof.of(result, outcome.objective, outcome.unit, covers, details, spent)
    return replace(proof, stopped_by=Stop.COMPLETED) if outcome.is_from_file else proof


def schedule_object(outcome: ScheduleOutcome) -> dict[str, object]:
    """Return the result of `schedule` for `--json`; fields of a missing schedule are null."""
    result, figures, document, parts = outcome.result, outcome.figures, outcome.document, outcome.relaxation
    return {
        "network": outcome.network.name,
        "accelerator": outcome.accelerator.name,
        "method": result.method,
        "objective": outcome.objective,
        "objective_unit": outcome.unit,
        "status": result.status,
        "stopped_by": None if outcome.is_from_file else result.stopped_by,
        **picked(result, "objective_value", "lower_bound", "gap"),
        "space": outcome.proven_space,
        "not_modelled": list(outcome.accelerator.notes),
        "weighed": outcome.weighed,
        "value_of_stages": outcome.value_of_stages,
        "stages_cut": outcome.are_stages_cut,
        "bound_parts": {
            "mac_pj": parts.mac_pj,
            "feeding_pj": dict(parts.feeding_pj),
            **picked(parts, "unrolling_pj", "without_nest_pj", "dram_read_pj", "computing_cycles", "dram_cycles"),
            "traffic_bytes": parts.traffic_bytes,
            "for_room": {
                "energy_pj": float(parts.crowding.energy_pj),
                "dram_cycles": int(parts.crowding.dram_cycles),
                "traffic_bytes": parts.crowding.traffic_bits // 8,
            },
        },
        "energy_pj": figures and figures.energy_pj,
        "energies": figures and energies_object(figures),
        "latency_cycles": figures and figures.latency_cycles,
        "latency_parts": figures and figures.latency.by_name,
        "traffic": figures and traffic_object(figures.traffic),
        "macs": outcome.macs if figures else None,
        "operators": len(outcome.network.operators),
        "tile_operators": outcome.tiles and len(outcome.tiles.operators),
        "operators_without_nest": outcome.operators_without_nest if figures else None,
        "without_nest": [asdict(one) for one in outcome.uncosted] if figures else None,
        "coverage": [asdict(one) for one in outcome.coverage] if figures else None,
        "stacks": document and [_stack_object(stack) for stack in document.answer.stacks],
        "mappings": document and len(document.answer.mappings),
        "instructions": document and len(document.answer.program.instructions),
        "peak_bytes": figures and {name: one.peak_bytes for name, one in figures.memories.items()},
        "arena_bytes": figures and {name: one.arena_bytes for name, one in figures.memories.items()},
        "not_counted": outcome.tiles and list(outcome.tiles.not_counted),
        "not_checked": list(outcome.not_checked),
        "seconds": picked(outcome.seconds, "read", "solve", "verify"),
        "error": outcome.why_not,
        "remark": outcome.remark,
    }


def _figure_rows(outcome: ScheduleOutcome, figures: ScheduleFigures) -> Rows:
    """Return the figures of a schedule with their parts, without those that are zero."""
    energy, traffic, latency = figures.energy, figures.traffic, figures.latency
    memories = sorted(energy.by_memory_pj.items(), key=lambda one: -one[1])
    energies = [("MACs", energy.mac_pj), *memories]
    bytes_by_mover = [
        ("loads", traffic.loads),
        ("write-backs", traffic.write_backs),
        ("streamed in", traffic.streamed_reads),
        ("streamed out", traffic.streamed_writes),
    ]
    stacks = () if outcome.document is None else outcome.document.answer.stacks
    tiles = 0 if outcome.tiles is None else len(outcome.tiles.operators)
    without, macs = outcome.operators_without_nest, counted(outcome.macs, "MAC")
    moved = f", {counted(without, 'tile operator')} without a loop nest" if without else ""
    capacities = {level.memory.name: level.memory.capacity_bytes for level in outcome.accelerator.levels}
    parts = breakdown((printable(name), pj, short_energy(pj)) for name, pj in energies if pj)
    cycles = f"{figures.latency_cycles:,} cycles: {latency_words(latency)}"
    moves = breakdown((name, size, short_bytes(size)) for name, size in bytes_by_mover)
    return [
        ("energy", f"{short_energy(figures.energy_pj)}: {parts}"),
        ("latency", cycles),
        ("traffic", f"{short_bytes(figures.traffic_bytes)}" + (f": {moves}" if moves else "")),
        *(
            (f"peak of {printable(name)}", f"{short_bytes(one.peak_bytes)} of {short_bytes(capacities[name])}")
            for name, one in figures.memories.items()
        ),
        ("program", f"{counted(len(stacks), 'fused group')}, {counted(tiles, 'tile operator')}, {macs}{moved}"),
    ]


def energies_object(figures: ScheduleFigures) -> Mapping[str, object]:
    """Return the picojoules of MACs, of Computes' accesses by memory and operand, and of Copies by memory."""
    energy = figures.energy
    computes: dict[str, dict[str, float]] = {}
    for (memory, operand), part in energy.compute_access_pj.items():
        computes.setdefault(memory, {})[str(operand)] = part
    return {"macs": energy.mac_pj, "computes": computes, "copies": dict(energy.copy_access_pj)}


def traffic_object(parts: TrafficParts) -> dict[str, object]:
    """Return the bytes from and to DRAM, by mover."""
    return picked(parts, "total", "loads", "write_backs", "streamed_reads", "streamed_writes")


def _stack_object(stack: ScheduledStack) -> Mapping[str, object]:
    tiling = stack.tiling
    tile = None if tiling is None else tile_fields(tiling)
    return {"operators": list(stack.operators), "tile": tile, "mode": None if tiling is None else tiling.mode}


@dataclass(frozen=True, slots=True)
class ShownPoint:
    """A schedule on the front with its values along the axes."""

    values: tuple[int, ...]
    outcome: ScheduleOutcome


@dataclass(frozen=True, slots=True)
class FrontOutcome:
    """Verified schedules that do not dominate one another, in the order of the first axis.

    `bounds` hold along each axis for every schedule; `points` are some of the `found` schedules on the front.
    """

    network: str
    accelerator: str
    axes: Sequence[FrontAxis]
    bounds: tuple[int, ...]
    points: Sequence[ShownPoint]
    found: int
    space: Mapping[str, str]
    stopped_by: Stop
    seconds: float

    def gap_of(self, point: ShownPoint) -> float:
        """Return the share by which a schedule could at most be better than the point along all axes at once."""
        pairs = zip(point.values, self.bounds, strict=True)
        return min((value - bound) / value if value else 0.0 for value, bound in pairs)


def name_of_point(number: int) -> str:
    """Return the file name of a point in its front's folder, by its number from 1."""
    return f"{number:02d}.schedule.json.gz"


def front_tables(front: FrontOutcome) -> Iterator[RenderableType]:
    """Yield a line for each point, and the lower bounds."""
    if not front.points:
        yield Text("search ended without a schedule")
    yield _points_grid(front)
    yield from map(Text, _front_remarks(front))
    yield Text(f"time {seconds_words({'solve': front.seconds})}")


def _points_grid(front: FrontOutcome) -> DataTable:
    rows = []
    for number, point in enumerate(front.points, 1):
        stacks = point.outcome.document.answer.stacks if point.outcome.document else ()
        rows.append((str(number), *point.values, len(stacks), percent(front.gap_of(point))))
    columns = ("point", *(f"{axis}, {axis.unit}" for axis in front.axes), "groups", "gap")
    return DataTable(columns, rows, anchor="point")


def _front_remarks(front: FrontOutcome) -> Iterator[str]:
    bounds = (f"{axis} {amount(bound, axis.unit)}" for axis, bound in zip(front.axes, front.bounds, strict=True))
    yield f"lower bounds: {', '.join(bounds)}; the gap of a point bounds the improvement along all axes at once"
    if hidden := front.found - len(front.points):
        yield f"{counted(hidden, 'further Pareto point')} omitted (`points`)"


def front_object(front: FrontOutcome) -> dict[str, object]:
    """Return the axes, their bounds, and each point with its schedule's object."""
    return {
        "network": front.network,
        "accelerator": front.accelerator,
        "pareto": list(front.axes),
        "units": {axis: axis.unit for axis in front.axes},
        "lower_bounds": dict(zip(front.axes, front.bounds, strict=True)),
        "points": [
            {
                **dict(zip(front.axes, point.values, strict=True)),
                "gap": front.gap_of(point),
                "schedule": schedule_object(point.outcome),
            }
            for point in front.points
        ],
        "found": front.found,
        "space": dict(front.space),
        "stopped_by": front.stopped_by,
        "seconds": front.seconds,
    }


def front_pairs(front: FrontOutcome) -> dict[str, Json]:
    """Return a scatter plot of the schedules for each pair of axes, by title."""
    numbers = range(1, len(front.points) + 1)
    hover = [
        "<br>".join((name_of_point(number), *map(short_amount, point.values, (axis.unit for axis in front.axes))))
        for number, point in zip(numbers, front.points, strict=True)
    ]
    rows = {"opens": [f"point-{number}" for number in numbers]}
    found: dict[str, Json] = {}
    for (first, across), (second, up) in combinations(enumerate(front.axes), 2):
        order = sorted(range(len(front.points)), key=lambda at: front.points[at].values)
        x, y = ([front.points[at].values[axis] for at in order] for axis in (first, second))
        marks = {"customdata": [hover[at] for at in order], "marker": {"size": 10}, "line": {"width": 1, "dash": "dot"}}
        mode = "lines+markers" if len(front.axes) == 2 else "markers"
        meta = {"opens": [rows["opens"][at] for at in order]}
        points = trace(mode, "schedules", x, y, "role-activation", "%{customdata}", meta, **marks)
        axes = {
            name: {"title": str(axis), **ticks(min(values), max(values), axis.unit)}
            for name, axis, values in (("x", across, x), ("y", up, y))
        }
        found[f"{up} against {across}"] = {"traces": [points], **axes}
    return found


def front_html(front: FrontOutcome, typed: str) -> str:
    """Return the page's text; `typed` is the command line. Raises UsageError if a package for pages is missing."""
    rows = [("schedules", f"{len(front.points)}, {front.found} found on the Pareto front")]
    for at, (axis, bound) in enumerate(zip(front.axes, front.bounds, strict=True)):
        least = min((point.values[at] for point in front.points), default=0)
        rows.append(
            (f"minimum {axis}", f"{short_amount(least, axis.unit)} ({short_amount(bound, axis.unit)} at least)")
        )
    pairs = front_pairs(front)
    plots = [part for at, pair in enumerate(pairs) for part in (heading(pair), still(f"front-{at}", pair))]
    return AnswerPage(
        f"{front.network} on {front.accelerator}",
        rows,
        {name: value for name, value in front_object(front).items() if name != "points"},
        typed,
        (
            section(
                "front",
                "Pareto front",
                "Marks are schedules that no other schedule dominates. Click a mark to find its row.",
                *plots,
            ),
            section(
                "points",
                "Schedules",
                f"A point is the file {name_of_point(1)} and so on of the folder.",
                table(_points_grid(front)),
            ),
        ),
        {f"front-{at}": figure for at, figure in enumerate(pairs.values())},
        (*_front_remarks(front),),
    ).html()
