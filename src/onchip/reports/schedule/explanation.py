"""The energy, movements and free capacity of a schedule, as a JSON object and as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import FEMTO_PER_PICO
from onchip.answer.program import Residency
from onchip.answer.schedule import ScheduledStack
from onchip.answer.words import counted, exact_bytes, percent, picked, printable, short_energy
from onchip.arch.energies import summed, unknown_energy
from onchip.arch.memory import DRAM
from onchip.errors import InternalError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.model.program.compute_cost import ComputeCost, CopyCost, CopyPrices
from onchip.model.program.figures import ScheduleFigures
from onchip.model.timeline.activity import array_waits
from onchip.model.timeline.schedule_timeline import ScheduleTimeline
from onchip.reports.explain.schedule_history import (
    Crowding,
    MovementKind,
    MovementReason,
    ScheduleHistory,
    ScheduleMovements,
    TensorMovement,
)
from onchip.reports.schedule.outcome import ScheduleOutcome, energies_object, schedule_rows, traffic_object
from onchip.reports.shared.facts import DataTable, facts
from onchip.reports.shared.figures import MACS, Json, memory_names
from onchip.scheduling.program.runs import NestPlace

COPIES: Final = "copies"
TRAFFIC: Final = ("loads", "write-backs", "streamed in", "streamed out")


@dataclass(kw_only=True)
class ComputeSums:
    """Sums over tile operators; `energy_pj` has the energies in pJ by memory and cause.

    `stated_energy_fj` is rounded for each Compute and each Copy, like the schedule's; energies in pJ are not rounded.
    """

    tile_operators: int = 0
    macs: int = 0
    stated_energy_fj: int | None = 0
    energy_pj: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))

    @property
    def stated_energy_pj(self) -> float | None:
        """Return the energy in pJ, or None if it is unknown."""
        return None if self.stated_energy_fj is None else self.stated_energy_fj / FEMTO_PER_PICO

    def add_compute(self, cost: ComputeCost, macs: int) -> None:
        """Count the energy and the multiply-accumulates of one tile operator."""
        self.tile_operators += 1
        self.macs += macs
        self.stated_energy_fj = summed((self.stated_energy_fj, cost.stated_energy_fj))
        self.energy_pj[MACS, MACS] += cost.mac_pj or 0.0
        for key, part in cost.access_pj.items():
            self.energy_pj[key] += part


@dataclass
class StackFigures(ComputeSums):
    """Sums of one stack, Copies included, with cycles by part of the latency and DRAM bytes by mover."""

    number: int
    stack: ScheduledStack
    cycles: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    traffic: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def label(self) -> str:
        """Number, and first and last operator."""
        names = self.stack.operators
        return f"{self.number}: {names[0]}" if len(names) == 1 else f"{self.number}: {names[0]} \u2013 {names[-1]}"

    @property
    def traffic_bytes(self) -> int:
        """Number of bytes from and to DRAM."""
        return sum(self.traffic.values())

    @property
    def latency_cycles(self) -> int:
        """Cycles from the end of the previous stack to its own end."""
        return sum(self.cycles.values())

    def energy_at(self, memory: str) -> float:
        """Return the picojoules of one memory, of DRAM, or of the MACs."""
        return sum(part for (place, _), part in self.energy_pj.items() if place == memory)

    def energy_for(self, cause: str) -> float:
        """Return the picojoules of one cause: an operand of Computes, Copies, or the MACs."""
        return sum(part for (_, why), part in self.energy_pj.items() if why == cause)

    def add_compute(self, cost: ComputeCost, macs: int) -> None:
        """Count the energy, the multiply-accumulates and the traffic of one tile operator."""
        super().add_compute(cost, macs)
        self.traffic["streamed in"] += -(-cost.dram_read_bits // 8)
        self.traffic["streamed out"] += -(-cost.dram_written_bits // 8)

    def add_copy(self, cost: CopyCost) -> None:
        """Count the energy and the traffic of one Copy."""
        self.stated_energy_fj = summed((self.stated_energy_fj, cost.stated_energy_fj))
        for memory, part in cost.access_pj.items():
            self.energy_pj[memory, COPIES] += part
        self.traffic["loads"] += cost.dram_read_bits // 8
        self.traffic["write-backs"] += cost.dram_written_bits // 8


def figures_of_stacks(history: ScheduleHistory, timeline: ScheduleTimeline) -> tuple[StackFigures, ...]:
    """Return the figures of each stack in execution order."""
    found = tuple(StackFigures(number, stack) for number, stack in enumerate(history.schedule.stacks))
    origins = history.tiles.operators
    stack_of = [origins[name].stack for name in history.operators]
    for name, number in zip(history.operators, stack_of, strict=True):
        macs = sum(nest.macs for nest in origins[name].nests)
        found[number].add_compute(history.compute_costs[name], macs)
    prices = CopyPrices(history.accelerator)
    for copy in history.copies:
        tensor = history.tiles.graph.tensor[copy.tensor]
        is_parameter = tensor.role is Role.PARAMETER
        price = prices.of(tensor.size_bytes, copy.source, copy.target, is_parameter=is_parameter)
        found[stack_of[min(copy.step, len(stack_of) - 1)]].add_copy(price)
    _add_cycles(found, timeline, stack_of)
    return found


def causes(found: Sequence[StackFigures]) -> list[str]:
    """Return the causes with any energy."""
    present = {why for one in found for _, why in one.energy_pj}
    return [why for why in (MACS, "input", "weight", "output", COPIES) if why in present]


def total_energy(found: Sequence[StackFigures]) -> Mapping[tuple[str, str], float]:
    """Return the picojoules of all stacks, by memory and cause."""
    total: dict[tuple[str, str], float] = defaultdict(float)
    for one in found:
        for key, part in one.energy_pj.items():
            total[key] += part
    return total


def _add_cycles(found: Sequence[StackFigures], timeline: ScheduleTimeline, stack_of: Sequence[int]) -> None:
    """Add the cycles; a gap belongs to the stack of the Compute after it, the last gap to the last stack."""
    computes = [place for place, one in enumerate(timeline.activities) if one.queue is None]
    number_of = dict(zip(computes, stack_of, strict=True))
    for place, number in number_of.items():
        found[number].cycles["computing"] += timeline.activities[place].cycles
    for wait in array_waits(timeline.activities):
        if not stack_of:
            return
        number = stack_of[-1] if wait.activity is None else number_of[wait.activity]
        for name, cycles in wait.parts.by_name.items():
            if cycles:
                found[number].cycles[name] += cycles


@dataclass
class OperatorFigures(ComputeSums):
    """Sums over the tile operators of one network operator; `nests` counts the runs of each loop nest.

    The energy is that of Computes; Copies belong to tensors.
    """

    name: str
    kind: str
    stack: int
    scheduled: ScheduledStack
    written_bytes: int
    cycles: int = 0
    nests: dict[NestPlace, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MappedNestOfOperator:
    """A kind of loop nest of an operator, its mapping, and the number of tile operators that run it."""

    problem: LayerProblem
    mapping: LayerMapping
    times: int


def figures_of_operators(network: Graph, history: ScheduleHistory) -> tuple[OperatorFigures, ...]:
    """Return the figures of each network operator, in the network's order."""
    stacks = history.schedule.stacks
    stack_of = {name: number for number, stack in enumerate(stacks) for name in stack.operators}
    found = {
        one.name: OperatorFigures(
            one.name,
            one.kind,
            stack_of[one.name],
            stacks[stack_of[one.name]],
            sum(network.tensor[name].size_bytes for name in one.outputs),
        )
        for one in network.operators
    }
    for name in history.operators:
        origin, cost = history.tiles.operators[name], history.compute_costs[name]
        one = found[origin.operator]
        one.add_compute(cost, sum(nest.macs for nest in origin.nests))
        one.cycles += cost.cycles
        for nest in history.nest_places[name]:
            one.nests[nest] = one.nests.get(nest, 0) + 1
    return tuple(found.values())


def mapped_nests(one: OperatorFigures, history: ScheduleHistory) -> Sequence[MappedNestOfOperator]:
    """Return the kinds of loop nests of an operator, the most frequent first."""
    by_times = sorted(one.nests.items(), key=lambda nest: -nest[1])
    return [
        MappedNestOfOperator(
            LayerProblem(nest.layer, history.accelerator, nest.homes, {}, nest.weight_is_an_input),
            history.mappings[nest.stack, nest.layer, nest.homes],
            times,
        )
        for nest, times in by_times
    ]


STREAMED: Final = (MovementKind.STREAMED_IN, MovementKind.STREAMED_OUT)
SHORT_OF_ROOM: Final = (MovementReason.TOO_LARGE, MovementReason.NO_ROOM)


@dataclass(frozen=True, slots=True)
class MovementSum:
    """Movements of one network tensor with equal kind, reason, operator and memory on the chip.

    `memory` is None for streamed operands. `worst` is the movement that lacks the most capacity.
    """

    tensor: str
    kind: MovementKind
    operator: str
    memory: str | None
    reason: MovementReason
    times: int
    bits: int
    energy_pj: float | None
    worst: TensorMovement

    @property
    def size_bytes(self) -> int:
        """Number of moved bytes, rounded up."""
        return -(-self.bits // 8)


@dataclass(frozen=True)
class ScheduleExplanation:
    """An explained legal schedule or, if `tensor` is not None, one of its network tensors."""

    outcome: ScheduleOutcome
    figures: ScheduleFigures
    history: ScheduleHistory
    tensor: str | None = None

    @classmethod
    def of(cls, outcome: ScheduleOutcome, tensor: str | None = None) -> ScheduleExplanation:
        """Explain a schedule; raises UsageError for a tensor that there is not, InternalError without a schedule."""
        document, tiles, figures = outcome.document, outcome.tiles, outcome.figures
        if document is None or tiles is None or figures is None:
            raise InternalError("there is no schedule to explain", place="explanation")
        if tensor is not None:
            bands = {one.name: one.part_of or one.name for one in tiles.graph.tensors}
            if tensor not in bands and tensor not in bands.values():
                some = ", ".join(list(dict.fromkeys(bands.values()))[:5])
                raise UsageError(f"the schedule has no tensor {tensor!r}", "tensor", f"a tensor, for example {some}")
            tensor = bands.get(tensor, tensor)
        history = ScheduleHistory(document.answer, tiles, outcome.accelerator, outcome.compute_costs)
        return cls(outcome, figures, history, tensor)

    @cached_property
    def movements(self) -> ScheduleMovements:
        """Copies and streamed operands in the order of steps."""
        return ScheduleMovements(self.history)

    @cached_property
    def own_movements(self) -> tuple[TensorMovement, ...]:
        """Movements of the named tensor, or all, in the order of steps."""
        found = [one for one in self.movements.all if self.tensor in (None, one.tensor)]
        return tuple(sorted(found, key=lambda one: one.step))

    @cached_property
    def operators(self) -> tuple[OperatorFigures, ...]:
        """Network operators, the most expensive first; by cycles if energies are unknown."""
        found = figures_of_operators(self.outcome.network, self.history)
        return tuple(sorted(found, key=lambda one: (-sum(one.energy_pj.values()), -one.cycles)))

    @cached_property
    def sums(self) -> tuple[MovementSum, ...]:
        """Sums of movements, the most expensive first; by bits if energies are unknown."""
        origins = self.history.tiles.operators
        found = sums_of_movements(self.own_movements, {name: origin.operator for name, origin in origins.items()})
        return tuple(sorted(found, key=lambda one: (-(one.energy_pj or 0.0), -one.bits)))


def sums_of_movements(movements: Iterable[TensorMovement], origin_of: Mapping[str, str]) -> tuple[MovementSum, ...]:
    """Sum up equal movements; `origin_of` maps a tile operator to its network operator."""
    found: dict[tuple[str, str, str, str | None, str], MovementSum] = {}
    for one in movements:
        operator, memory = origin_of[one.operator], _on_chip(one)
        key = one.tensor, one.kind, operator, memory, one.reason
        if key not in found:
            found[key] = MovementSum(one.tensor, one.kind, operator, memory, one.reason, 0, 0, 0.0, one)
        known = found[key]
        found[key] = replace(
            known,
            times=known.times + 1,
            bits=known.bits + one.bits,
            energy_pj=summed((known.energy_pj, one.energy_pj)),
            worst=max(known.worst, one, key=_missing_bytes),
        )
    return tuple(found.values())


def _missing_bytes(one: TensorMovement) -> int:
    return 0 if one.crowding is None else one.crowding.missing_bytes


def _on_chip(one: TensorMovement) -> str | None:
    """Return the memory on the chip: the end that is not DRAM, or the target of a move."""
    if one.kind in STREAMED:
        return None
    return one.source if one.target == DRAM else one.target


MOST_OTHERS: Final = 10


def schedule_explanation_object(explanation: ScheduleExplanation) -> Json:
    """Return the costs of the schedule, or of the named tensor, with their reasons, for `--json`."""
    outcome = explanation.outcome
    head: Json = {"network": outcome.network.name, "accelerator": outcome.accelerator.name}
    if explanation.tensor is not None:
        return head | _tensor_object(explanation, explanation.tensor)
    result, figures = outcome.result, explanation.figures
    return {
        **head,
        "status": result.status,
        "objective": outcome.objective,
        "objective_unit": outcome.unit,
        **picked(result, "objective_value", "lower_bound", "gap"),
        "energy_pj": figures.energy_pj,
        "energies": energies_object(figures),
        "latency_cycles": figures.latency_cycles,
        "latency_parts": figures.latency.by_name,
        "traffic": traffic_object(figures.traffic),
        "operators": [_operator_object(one) for one in explanation.operators],
        "copies": [_sum_object(explanation, one) for one in explanation.sums if one.kind not in STREAMED],
        "streamed": [_sum_object(explanation, one) for one in explanation.sums if one.kind in STREAMED],
    }


def _tensor_object(explanation: ScheduleExplanation, tensor: str) -> Json:
    history, network = explanation.history, explanation.outcome.network
    bands = {one.name for one in history.tiles.graph.tensors if tensor in (one.name, one.part_of)}
    whole = network.tensor.get(tensor) or history.tiles.graph.tensor[tensor]
    producer = network.producer.get(tensor)
    return {
        "tensor": tensor,
        "role": whole.role,
        "bytes": whole.size_bytes,
        "bands": len(bands),
        "written_by": producer and producer.name,
        "read_by": [one.name for one in network.readers.get(tensor, ())],
        "residencies": [
            {
                "band": one.tensor,
                **picked(one, "memory", "offset_bytes"),
                "bytes": one.size_bytes,
                **picked(one, "start_step", "stop_step", "began"),
            }
            for one in history.residencies
            if one.tensor in bands
        ],
        "copies": [_sum_object(explanation, one) for one in explanation.sums if one.kind not in STREAMED],
        "streamed": [_sum_object(explanation, one) for one in explanation.sums if one.kind in STREAMED],
        "movements": [_movement_object(explanation, one) for one in explanation.own_movements],
    }


def _operator_object(one: OperatorFigures) -> Json:
    parts = sorted(one.energy_pj.items(), key=lambda part: -part[1])
    return {
        "operator": one.name,
        **picked(one, "kind", "stack", "tile_operators", "macs"),
        "energy_pj": one.stated_energy_pj,
        "cycles": one.cycles,
        "energies": [{"memory": memory, "cause": cause, "energy_pj": part} for (memory, cause), part in parts if part],
    }


def _sum_object(explanation: ScheduleExplanation, one: MovementSum) -> Json:
    return {
        **picked(one, "tensor", "kind", "operator", "memory", "times"),
        "bytes": one.size_bytes,
        **picked(one, "energy_pj", "reason"),
        "worst": _worst_object(explanation, one.worst),
    }


def _movement_object(explanation: ScheduleExplanation, one: TensorMovement) -> Json:
    return {
        "bands": list(one.bands),
        **picked(one, "kind", "step", "operator", "source", "target"),
        "bytes": -(-one.bits // 8),
        **picked(one, "energy_pj", "reason"),
        "room": one.crowding and _crowding_object(explanation, one.crowding),
    }


def _worst_object(explanation: ScheduleExplanation, one: TensorMovement) -> Json | None:
    if one.crowding is None:
        return None
    others = explanation.movements.room.others(one.crowding, one.bands)
    listed = [{"tensor": other.tensor, "bytes": other.size_bytes} for other in others[:MOST_OTHERS]]
    return _crowding_object(explanation, one.crowding) | {"others": listed}


def _crowding_object(explanation: ScheduleExplanation, crowding: Crowding) -> Json:
    return {
        "memory": crowding.memory.name,
        "capacity_bytes": crowding.memory.capacity_bytes,
        "step": crowding.step,
        "operator": explanation.history.operators[crowding.step],
        **picked(crowding, "need_bytes", "others_bytes"),
        "missing_bytes": max(crowding.missing_bytes, 0),
    }


MOST_SHOWN: Final = 10
_CAUSES: Final = ("input", "weight", "output", COPIES)


def schedule_explanation_tables(explanation: ScheduleExplanation) -> Iterator[RenderableType]:
    """Yield the figures, energies, most expensive operators, movements with reasons, and missing capacity."""
    if explanation.tensor is not None:
        yield from _of_tensor(explanation, explanation.tensor)
        return
    yield facts([*schedule_rows(explanation.outcome), ("steps", f"{explanation.history.step_count:,}")])
    yield _energy_table(explanation)
    if explanation.figures.stated_energy_fj is None:
        yield Text(unknown_energy(explanation.outcome.accelerator))
    yield _operators_table(explanation)
    yield from _movements(explanation.sums)
    yield from _smaller(explanation)


def _energy_table(explanation: ScheduleExplanation) -> DataTable:
    energy, total_pj = explanation.figures.energy, explanation.figures.energy_pj
    rows = [(MACS, *[""] * len(_CAUSES), *_with_share(energy.mac_pj, total_pj))]
    for name in memory_names(explanation.outcome.accelerator):
        parts = {cause: energy.compute_access_pj.get((name, cause), 0.0) for cause in _CAUSES[:-1]}
        parts[COPIES] = energy.copy_access_pj.get(name, 0.0)
        cells = (short_energy(part) if part else "-" for part in parts.values())
        rows.append((name, *cells, *_with_share(sum(parts.values()), total_pj)))
    return DataTable(("energy", *_CAUSES, "all", "share"), rows)


def _operators_table(explanation: ScheduleExplanation) -> DataTable:
    """Return the most expensive operators, without Copies, which belong to tensors."""
    total_pj = explanation.figures.energy_pj
    rows: list[tuple[object, ...]] = [
        (one.name, _most_of(one), one.tile_operators, *_with_share(one.stated_energy_pj, total_pj), one.cycles)
        for one in explanation.operators[:MOST_SHOWN]
    ]
    if rest := explanation.operators[MOST_SHOWN:]:
        energy = _with_share(summed(one.stated_energy_pj for one in rest), total_pj)
        steps, cycles = sum(one.tile_operators for one in rest), sum(one.cycles for one in rest)
        rows.append((f"{len(rest):,} more", "", steps, *energy, cycles))
    return DataTable(("operator", "most of it is", "steps", "energy", "share", "cycles"), rows)


def _most_of(one: OperatorFigures) -> str:
    if not one.energy_pj:
        return "-"
    (memory, cause), part = max(one.energy_pj.items(), key=lambda each: each[1])
    total = sum(one.energy_pj.values())
    where = MACS if memory == MACS else f"{cause} in {printable(memory)}"
    return f"{where}, {percent(part / total)}" if total else "-"


def _movements(sums: Sequence[MovementSum]) -> Iterator[RenderableType]:
    if not sums:
        yield Text("there are no copies and no streamed operands")
        return
    rows = [
        (one.tensor, _how(one), _why(one), one.times, one.size_bytes, short_energy(one.energy_pj))
        for one in sums[:MOST_SHOWN]
    ]
    yield DataTable(("tensor", "moves", "why", "times", "bytes", "energy"), rows)
    if len(sums) > MOST_SHOWN:
        rest = sums[MOST_SHOWN:]
        size, energy = sum(one.size_bytes for one in rest), summed(one.energy_pj for one in rest)
        yield Text(f"and {len(rest):,} more, {exact_bytes(size)}, {short_energy(energy)}; --json has all")


def _how(one: MovementSum) -> str:
    operator, memory = printable(one.operator), printable(one.memory or "")
    match one.kind:
        case MovementKind.STREAMED_IN | MovementKind.STREAMED_OUT:
            return f"{one.kind} by {operator}"
        case MovementKind.LOAD | MovementKind.RELOAD:
            return f"{one.kind} into {memory} for {operator}"
        case MovementKind.MOVE:
            return f"copied into {memory} for {operator}"
        case _:
            return f"{one.kind} from {memory} after {operator}"


def _why(one: MovementSum) -> str:
    crowding = one.worst.crowding
    memory = "" if crowding is None else printable(crowding.memory.name)
    return {
        MovementReason.NEEDED: "needed once",
        MovementReason.NOT_HELD: "excluded from all memories",
        MovementReason.TOO_LARGE: f"larger than {memory}",
        MovementReason.NO_ROOM: f"does not fit in {memory}",
        MovementReason.CHOSEN: f"chosen: fits in {memory}" if memory else "chosen",
        MovementReason.MOVED: "on the chip",
    }[one.reason]


def _smaller(explanation: ScheduleExplanation) -> Iterator[RenderableType]:
    """Yield the bytes by which memories are too small, with all other residents unchanged."""
    short = [one for one in explanation.sums if one.reason in SHORT_OF_ROOM]
    if not short:
        yield Text("capacity causes no DRAM traffic")
        return
    yield Text("capacity missing to keep tensors on chip, with all other residents unchanged:")
    for one in short[:MOST_SHOWN]:
        crowding = one.worst.crowding
        if crowding is not None:
            yield Text(f"  {printable(one.tensor)}, {_how(one)}: {_lacks(explanation, one, crowding)}")
    if len(short) > MOST_SHOWN:
        yield Text(f"  and {len(short) - MOST_SHOWN:,} more; --json has all")


def _lacks(explanation: ScheduleExplanation, one: MovementSum, crowding: Crowding) -> str:
    memory, capacity = printable(crowding.memory.name), crowding.memory.capacity_bytes
    lacking = f"{memory} ({capacity:,}) would have to be {crowding.missing_bytes:,} larger, or something smaller"
    need = f"needs {exact_bytes(crowding.need_bytes)}"
    if crowding.is_too_large and not crowding.others_bytes:
        return f"{need}; {lacking}"
    step = f"step {crowding.step:,} ({printable(explanation.history.operators[crowding.step])})"
    others = _listed(explanation.movements.room.others(crowding, one.worst.bands))
    return f"{need} with {crowding.others_bytes:,} other bytes in {step}: {others}; {lacking}"


def _listed(others: Sequence[Residency]) -> str:
    words = [f"{printable(one.tensor)} ({one.size_bytes:,})" for one in others[:3]]
    more = [f"{len(others) - 3:,} more"] if len(others) > 3 else []
    return ", ".join([*words, *more])


def _of_tensor(explanation: ScheduleExplanation, tensor: str) -> Iterator[RenderableType]:
    network, history = explanation.outcome.network, explanation.history
    bands = {one.name: one for one in history.tiles.graph.tensors if tensor in (one.name, one.part_of)}
    whole = network.tensor.get(tensor) or bands[tensor]
    producer, readers = network.producer.get(tensor), network.readers.get(tensor, ())
    read_by = ", ".join(printable(one.name) for one in readers) or "no operator"
    here = [one for one in history.residencies if one.tensor in bands]
    yield facts(
        [
            ("tensor", f"{printable(tensor)}, {whole.role}, {exact_bytes(whole.size_bytes)}"),
            ("in", "one piece" if len(bands) == 1 else counted(len(bands), "band")),
            ("written by", "network input" if producer is None else printable(producer.name)),
            ("read by", read_by),
        ]
    )
    if here:
        rows = [
            (
                one.tensor,
                one.memory,
                one.offset_bytes,
                one.size_bytes,
                f"{one.start_step:,} to {max(one.stop_step - 1, one.start_step):,}",
                str(one.began),
            )
            for one in here[:MOST_SHOWN]
        ]
        yield DataTable(("tile", "memory", "offset", "bytes", "steps", "came there"), rows)
        if len(here) > MOST_SHOWN:
            yield Text(f"and {len(here) - MOST_SHOWN:,} more residencies; --json has all")
    else:
        yield Text("the tensor is never resident on chip")
    yield from _movements(explanation.sums)
    yield from _smaller(explanation)


def _with_share(energy_pj: float | None, total_pj: float | None) -> tuple[str, str]:
    share = percent(energy_pj / total_pj) if energy_pj is not None and total_pj else "-"
    return short_energy(energy_pj) if energy_pj else "-", share
