"""Runs of plans and schedules, on real bytes or timed, and the machine changes that would shorten them most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.answer.problem import Problem, Rate, Transfers
from onchip.answer.words import counted, exact_bytes, percent, picked, printable, short_energy
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import unknown_energy
from onchip.arch.memory import DRAM, Dma, Port
from onchip.model.program.figures import ScheduleFigures, TrafficParts
from onchip.model.timeline.activity import (
    Activity,
    LatencyParts,
    PlaceUse,
    array_waits,
    latency_parts,
    most_bytes_at_once,
)
from onchip.reports.program.outcome import Check, Json, check_object, check_report
from onchip.reports.schedule.outcome import ScheduleCheck, schedule_check_object, schedule_check_tables, traffic_object
from onchip.reports.shared.facts import DataTable, Rows, breakdown, facts, figures_by_size
from onchip.reports.shared.words import activity_object, latency_words, wait_lines, wait_objects
from onchip.verify.figures import Figures

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.model.timeline.plan_timeline import Timeline
    from onchip.simulate.machine import MachineRun

GREATEST_RELATIVE_DIFFERENCE: Final = 1e-5
"""Limit on max |a - b| / max |b| between outputs a of the run and b of the whole model."""


def _has_right_values(run: MachineRun, relative_difference: float | None) -> bool:
    """Return True if no tensor differs and the outputs are close to the model's, if there is a model."""
    if run.difference is not None:
        return False
    return relative_difference is None or relative_difference <= GREATEST_RELATIVE_DIFFERENCE


@dataclass(frozen=True, slots=True)
class Execution:
    """A verified plan and, if it is legal, one run for each inference.

    `relative_difference` is the greatest of all runs, None without a model to compare with.
    """

    check: Check
    kernels: str | None = None
    runs: tuple[MachineRun, ...] = ()
    relative_difference: float | None = None
    seconds: float = 0.0

    @property
    def run(self) -> MachineRun | None:
        """Return the last inference; the runs end with the first that differs."""
        return self.runs[-1] if self.runs else None

    @property
    def bytes_agree(self) -> bool:
        """Return True if every inference moved the bytes that the verifier counts."""
        figures = self.check.verdict.figures
        planned = (figures.loads, figures.write_backs, figures.moved)
        return all((run.loads, run.write_backs, run.moved) == planned for run in self.runs)

    @property
    def is_right(self) -> bool:
        """Return True if the plan is legal, its tensors have the right values, and its bytes agree."""
        return self.run is not None and self.bytes_agree and _has_right_values(self.run, self.relative_difference)


@dataclass(frozen=True, slots=True)
class ScheduleExecution:
    """A verified schedule and, if it is legal, its run; `planned` is the traffic by the cost model.

    `relative_difference` is None without an untiled network or a model to compare outputs with.
    """

    check: ScheduleCheck
    kernels: str | None = None
    run: MachineRun | None = None
    planned: TrafficParts | None = None
    relative_difference: float | None = None
    seconds: float = 0.0

    @property
    def bytes_agree(self) -> bool:
        """Return True if Copies moved the planned bytes, and the planned total equals the verifier's."""
        run, planned, figures = self.run, self.planned, self.check.verdict.figures
        if run is None or planned is None or figures is None:
            return False
        copied = (run.loads, run.write_backs) == (planned.loads, planned.write_backs)
        return copied and planned.total == figures.traffic_bytes

    @property
    def is_right(self) -> bool:
        """Return True if the schedule is legal, its tensors have the right values, and its bytes agree."""
        return self.run is not None and self.bytes_agree and _has_right_values(self.run, self.relative_difference)


def execution_object(execution: Execution | ScheduleExecution) -> dict[str, object]:
    """Return the result of `run` for `--json`, with the object of `onchip check`."""
    run = execution.run
    moved: Json | None
    planned: Json | None
    if isinstance(execution, Execution):
        figures, links = execution.check.verdict.figures, execution.check.problem.transfers.links
        check, inferences = check_object(execution.check), {"inferences": len(execution.runs)}
        moved = None if run is None else _bytes_object(run, has_links=bool(links))
        planned = _bytes_object(figures, has_links=bool(links))
    else:
        check, inferences = schedule_check_object(execution.check), {}
        moved = (
            None if run is None else {"loads": run.loads, "write_backs": run.write_backs, "between_memories": run.moved}
        )
        planned = None if execution.planned is None else traffic_object(execution.planned)
    head = {"right": execution.is_right, "kernels": execution.kernels}
    if run is None:
        return {**head, "run": None, "check": check}
    relative, difference = execution.relative_difference, run.difference
    fields = {
        "compared": run.compared,
        "difference": difference and picked(difference, "tensor", "found", "operator", "step", "instruction"),
        "relative_difference": relative if relative != float("inf") else "inf",  # JSON has no infinity
        "moved": moved,
        "planned": planned,
        "seconds": execution.seconds,
    }
    return {**head, **inferences, "run": fields, "check": check}


def _bytes_object(counted: MachineRun | Figures, *, has_links: bool) -> Json:
    """Return the traffic; bytes moved between scratchpads, if links exist, are not part of `total`."""
    total = counted.loads + counted.write_backs
    traffic = {"total": total, "loads": counted.loads, "write_backs": counted.write_backs}
    return {**traffic, "moved": counted.moved} if has_links else traffic


def execution_tables(execution: Execution | ScheduleExecution) -> Iterator[RenderableType]:
    """Yield the result of `run`, or the violations of an answer that was not run."""
    from rich.text import Text

    run, is_plan = execution.run, isinstance(execution, Execution)
    kind = "plan" if is_plan else "schedule"
    if run is None:
        yield from _violations(execution.check)
        yield Text(f"the {kind} is not legal: it was not run")
        return
    rows = [("network", _network_of(execution.check)), ("kernels", execution.kernels or "none")]
    if isinstance(execution, Execution):
        rows.append(("inferences", f"{len(execution.runs):,}"))
    equal = f"{run.compared:,} tensors equal bit for bit"
    rows.append(("values", equal if run.difference is None else str(run.difference)))
    rows += _moved_rows(execution, run)
    if (relative := execution.relative_difference) is not None:
        whole = "whole model" if is_plan else "whole network"
        rows.append((whole, f"greatest relative difference {relative:.3g} (allowed {GREATEST_RELATIVE_DIFFERENCE:g})"))
    yield facts([*rows, ("time", f"{execution.seconds:.3f} s")])
    yield Text(f"the {kind} runs, and gives the right values" if execution.is_right else "values or bytes differ")


def _moved_rows(execution: Execution | ScheduleExecution, run: MachineRun) -> Rows:
    """Return the bytes that were moved, beside the planned ones if these differ."""

    def words(moved: int, planned: int) -> str:
        return f"{moved:,} bytes, {'as planned' if moved == planned else f'planned {planned:,}'}"

    if isinstance(execution, Execution):
        figures = execution.check.verdict.figures
        pairs = [("loads", run.loads, figures.loads), ("write-backs", run.write_backs, figures.write_backs)]
        pairs.append(("traffic", run.loads + run.write_backs, figures.total))
        if execution.check.problem.transfers.links:
            pairs.append(("between scratchpads", run.moved, figures.moved))
        return [(name, words(moved, planned)) for name, moved, planned in pairs]
    planned = execution.planned
    if planned is None:
        return []
    return [
        ("loads", words(run.loads, planned.loads)),
        ("write-backs", words(run.write_backs, planned.write_backs)),
        ("streamed", f"{planned.streamed_reads:,} bytes in and {planned.streamed_writes:,} out, by the cost model"),
        ("between memories", f"{run.moved:,} bytes"),
    ]


def _violations(check: Check | ScheduleCheck) -> Iterable[RenderableType]:
    return check_report(check) if isinstance(check, Check) else schedule_check_tables(check)


def _network_of(check: Check | ScheduleCheck) -> str:
    return check.problem.graph.name if isinstance(check, Check) else check.network.name


NOT_COUNTED = (
    "transfers within the array and its own memories: plans have no loop mappings; `onchip schedule` finds them"
)


@dataclass(frozen=True, slots=True)
class Timing:
    """A verified plan and, if it is legal, its timeline."""

    check: Check
    accelerator: Accelerator
    timeline: Timeline | None = None

    @property
    def latency_cycles(self) -> int | None:
        """Latency in cycles, or None without a timeline."""
        return None if self.timeline is None else self.timeline.total_cycles


@dataclass(frozen=True, slots=True)
class ScheduleTiming:
    """A verified schedule and, if it is legal, its figures."""

    check: ScheduleCheck
    figures: ScheduleFigures | None = None

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator that the schedule is for."""
        return self.check.document.accelerator

    @property
    def latency_cycles(self) -> int | None:
        """Latency in cycles, or None without figures."""
        return None if self.figures is None else self.figures.latency_cycles

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates of all tile operators."""
        tiles = self.check.tiles
        return 0 if tiles is None else sum(nest.macs for one in tiles.operators.values() for nest in one.nests)

    @property
    def mac_utilisation(self) -> float | None:
        """Multiply-accumulates done, divided by those that the array could have done; None without an array."""
        array = self.accelerator.array
        if self.figures is None or array is None:
            return None
        return self.macs / (array.macs * self.figures.latency_cycles) if self.figures.latency_cycles else 0.0

    @property
    def dma_utilisation(self) -> float | None:
        """Share of the time in which a DMA queue is busy, set-up included."""
        if self.figures is None:
            return None
        busy = sum(one.cycles for one in self.figures.timeline.activities if one.queue is not None)
        all_cycles = (self.accelerator.dma or Dma()).queues * self.figures.latency_cycles
        return busy / all_cycles if all_cycles else 0.0


def milliseconds_of(timing: Timing | ScheduleTiming) -> float | None:
    """Return the latency in milliseconds, or None without a latency or a clock."""
    cycles, clock_mhz = timing.latency_cycles, timing.accelerator.clock_mhz
    return None if cycles is None or clock_mhz is None else cycles / clock_mhz / 1000


def timing_object(timing: Timing | ScheduleTiming) -> dict[str, object]:
    """Return the result of `time` for `--json`, with every activity; for an illegal answer, the object of `check`."""
    head = {"network": _network_of(timing.check), "accelerator": timing.accelerator.name}
    milliseconds = milliseconds_of(timing)
    if isinstance(timing, Timing):
        if (timeline := timing.timeline) is None:
            return {"accelerator": timing.accelerator.name, "timeline": None, "check": check_object(timing.check)}
        parts = ("total", "mac", "scratchpad_read", "scratchpad_write", "dram_read", "dram_write")
        cycles = ("total_cycles", "compute_cycles", "stalled_cycles", "transfer_cycles")
        return {
            **head,
            **picked(timeline, *cycles, "dma_utilisation", "mac_utilisation", "macs"),
            "milliseconds": milliseconds,
            "not_counted": [NOT_COUNTED],
            "energy_pj": {part: getattr(timeline.energy, f"{part}_pj") for part in parts},
            "latency_parts": timeline.parts.by_name,
            "waits": wait_objects(timeline.activities),
            "timeline": [activity_object(activity, has_dram_turns=False) for activity in timeline.activities],
        }
    if (figures := timing.figures) is None:
        check = schedule_check_object(timing.check)
        return {"accelerator": timing.accelerator.name, "timeline": None, "check": check}
    energy = figures.energy
    return {
        **head,
        "total_cycles": figures.latency_cycles,
        "milliseconds": milliseconds,
        "latency_parts": figures.latency.by_name,
        "waits": wait_objects(figures.timeline.activities),
        **picked(timing, "mac_utilisation", "dma_utilisation"),
        "energy_pj": {"total": figures.energy_pj, "mac": energy.mac_pj, "memories": dict(energy.by_memory_pj)},
        "traffic_bytes": figures.traffic_bytes,
        "timeline": [activity_object(activity) for activity in figures.timeline.activities],
    }


def timing_tables(timing: Timing | ScheduleTiming) -> Iterator[RenderableType]:
    """Yield the result of `time`: cycles, utilisations and energies; or the violations of an answer that is illegal."""
    from rich.text import Text

    rows = [("network", _network_of(timing.check)), ("accelerator", timing.accelerator.name)]
    if isinstance(timing, Timing) and timing.timeline is not None:
        yield facts([*rows, *_plan_timing_rows(timing.timeline, milliseconds_of(timing))])
        yield Text(f"not modelled: {NOT_COUNTED}")
    elif isinstance(timing, ScheduleTiming) and timing.figures is not None:
        yield facts([*rows, *_schedule_timing_rows(timing, timing.figures)])
        if timing.figures.stated_energy_fj is None:
            yield Text(unknown_energy(timing.accelerator))
    else:
        yield from _violations(timing.check)
        yield Text(f"the {'plan' if isinstance(timing, Timing) else 'schedule'} is not legal: it was not timed")


def _plan_timing_rows(timeline: Timeline, milliseconds: float | None) -> Rows:
    energy = timeline.energy
    scratchpads = _both(energy.scratchpad_read_pj, energy.scratchpad_write_pj)
    parts = f"MACs {short_energy(energy.mac_pj)}, scratchpads {scratchpads}, dram "
    return [
        ("latency", _latency_words(timeline.total_cycles, milliseconds, timeline.parts)),
        ("MAC utilisation", f"{timeline.mac_utilisation:.1%}: {counted(timeline.macs, 'MAC')}"),
        ("DMA utilisation", f"{timeline.dma_utilisation:.1%}"),
        ("energy", f"{short_energy(energy.total_pj)}: {parts}{_both(energy.dram_read_pj, energy.dram_write_pj)}"),
    ]


def _schedule_timing_rows(timing: ScheduleTiming, figures: ScheduleFigures) -> Rows:
    energy, use, dma = figures.energy, timing.mac_utilisation, timing.dma_utilisation
    energies = [("MACs", energy.mac_pj), *figures_by_size(energy.by_memory_pj)]
    parts = breakdown((name, pj, short_energy(pj)) for name, pj in energies if pj)
    return [
        ("latency", _latency_words(figures.latency_cycles, milliseconds_of(timing), figures.latency)),
        *([("MAC utilisation", f"{use:.1%}: {counted(timing.macs, 'MAC')}")] if use is not None else []),
        *([("DMA utilisation", f"{dma:.1%}")] if dma is not None else []),
        ("energy", f"{short_energy(figures.energy_pj)}: {parts}"),
        ("traffic", exact_bytes(figures.traffic_bytes)),
    ]


def _latency_words(cycles: int, milliseconds: float | None, parts: LatencyParts) -> str:
    spent = "" if milliseconds is None else f" ({milliseconds:,.3f} ms)"
    return f"{cycles:,} cycles{spent}: {latency_words(parts)}"


def _both(read_pj: float | None, write_pj: float | None) -> str:
    return f"{short_energy(read_pj)} reading and {short_energy(write_pj)} writing"


FACTOR: Final = 2
"""Factor by which a change multiplies a resource."""
MOST_CHANGES: Final = 5


class ChangeKind(StrEnum):
    """The enlarged resource: bandwidth of DRAM or of a memory's ports, capacity, DMA queues, or array throughput."""

    BANDWIDTH = "bandwidth"
    CAPACITY = "capacity"
    QUEUES = "queues"
    ARRAY = "array"
    PORTS = "ports"


@dataclass(frozen=True, slots=True)
class MachineChange:
    """A machine with twice a resource, or with enough capacity in `memory`, the enlarged memory if any."""

    kind: ChangeKind
    memory: str | None = None

    @property
    def words(self) -> str:
        """Description of the change in words."""
        return {
            ChangeKind.BANDWIDTH: "twice the DRAM bandwidth",
            ChangeKind.CAPACITY: f"capacity of {self.memory} without stalls for destinations in use",
            ChangeKind.QUEUES: "twice the DMA queues",
            ChangeKind.ARRAY: "half the cycles for each operator",
            ChangeKind.PORTS: f"twice the bandwidth of {self.memory}",
        }[self.kind]

    @property
    def roomy(self) -> frozenset[str]:
        """Memories in which no residency waits for a free place."""
        return frozenset() if self.memory is None or self.kind is not ChangeKind.CAPACITY else frozenset((self.memory,))

    def cycles(self, cycles: int) -> int:
        """Return the cycles of an operator on the changed array, apart from its memories."""
        return -(-cycles // FACTOR) if self.kind is ChangeKind.ARRAY else cycles

    def machine(self, accelerator: Accelerator) -> Accelerator:
        """Return the accelerator with this change."""
        if self.kind is ChangeKind.BANDWIDTH and accelerator.dram is not None:
            return replace(accelerator, dram=replace(accelerator.dram, ports=_faster(accelerator.dram.ports)))
        if self.kind is ChangeKind.QUEUES:
            dma = accelerator.dma or Dma()
            return replace(accelerator, dma=replace(dma, queues=FACTOR * dma.queues))
        if self.kind is ChangeKind.PORTS:
            levels = (
                replace(level, ports=_faster(level.ports)) if level.memory.name == self.memory else level
                for level in accelerator.levels
            )
            return replace(accelerator, levels=tuple(levels))
        return accelerator

    def problem(self, problem: Problem) -> Problem:
        """Return a problem with stated durations on the changed machine."""
        durations, rates = problem.known_durations, problem.transfers.rates
        if self.kind is ChangeKind.BANDWIDTH:
            faster = {way: _faster_rate(rate) if DRAM in way else rate for way, rate in rates.items()}
            return replace(problem, transfers=Transfers(problem.transfers.links, faster))
        if self.kind is ChangeKind.QUEUES:
            return replace(problem, durations=replace(durations, queues=FACTOR * durations.queues))
        return problem


Timed: TypeAlias = tuple[Sequence[Activity], Sequence[PlaceUse]]
"""A timeline: who runs when, and who lies where."""


@dataclass(frozen=True, slots=True)
class RetimedChange:
    """A change, the latency with it in cycles, and of more room the bytes that are in use at once then."""

    change: MachineChange
    latency_cycles: int
    need_bytes: int | None = None


def changes_on(memories: Iterable[str], ported: Iterable[str]) -> Iterator[MachineChange]:
    """Yield what there may be more of: room of these memories, and bits a cycle of those that have ports."""
    yield MachineChange(ChangeKind.BANDWIDTH)
    yield MachineChange(ChangeKind.QUEUES)
    yield MachineChange(ChangeKind.ARRAY)
    for memory in memories:
        yield MachineChange(ChangeKind.CAPACITY, memory)
    for memory in ported:
        yield MachineChange(ChangeKind.PORTS, memory)


def most_helpful(
    changes: Iterable[MachineChange], latency_cycles: int, timed: Callable[[MachineChange], Timed]
) -> tuple[RetimedChange, ...]:
    """Return the changes that shorten a program, the most helpful first."""
    found = []
    for change in changes:
        activities, places = timed(change)
        latency = max((one.end for one in activities), default=0)
        if latency < latency_cycles:
            own = [one for one in places if one.memory == change.memory]
            need_bytes = most_bytes_at_once(own) if change.kind is ChangeKind.CAPACITY else None
            found.append(RetimedChange(change, latency, need_bytes))
    return tuple(sorted(found, key=lambda one: one.latency_cycles)[:MOST_CHANGES])


def _faster(ports: tuple[Port, ...]) -> tuple[Port, ...]:
    return tuple(replace(port, bits_per_cycle=FACTOR * port.bits_per_cycle) for port in ports)


def _faster_rate(rate: Rate) -> Rate:
    return Rate(rate.setup, tuple((FACTOR * unit_bits, cost) for unit_bits, cost in rate.terms))


LONGEST: Final = 3
"""Number of waits in the text."""


@dataclass(frozen=True, slots=True)
class TimeExplanation:
    """A timeline's activities, and the changes of the machine that help most, each timed."""

    activities: Sequence[Activity]
    changes: tuple[RetimedChange, ...]

    @property
    def latency_cycles(self) -> int:
        """Cycle in which the last activity ends."""
        return max((one.end for one in self.activities), default=0)


def time_object(explanation: TimeExplanation) -> dict[str, object]:
    """Return the latency, its parts, every wait of the array, and the changes."""
    return {
        "latency_cycles": explanation.latency_cycles,
        "latency_parts": latency_parts(explanation.activities).by_name,
        "waits": wait_objects(explanation.activities),
        "changes": [
            {
                "change": one.change.kind,
                "memory": one.change.memory,
                "words": one.change.words,
                "latency_cycles": one.latency_cycles,
                "saved_cycles": explanation.latency_cycles - one.latency_cycles,
                "need_bytes": one.need_bytes,
            }
            for one in explanation.changes
        ],
    }


def time_tables(explanation: TimeExplanation) -> Iterator[RenderableType]:
    """Yield the same in words, the longest waits alone."""
    from rich.text import Text

    latency = explanation.latency_cycles
    yield Text(f"\nlatency {latency:,} cycles: {latency_words(latency_parts(explanation.activities))}")
    waits = sorted(array_waits(explanation.activities), key=lambda one: -one.cycles)
    if waits:
        yield Text("the array waits longest in")
    for wait in waits[:LONGEST]:
        lines = [printable(line) for line in wait_lines(wait, explanation.activities)]
        yield Text("\n    ".join(("  " + lines[0], *lines[1:])))
    if not explanation.changes:
        yield Text("further hardware would not shorten this program")
        return
    rows = [
        (
            one.change.words,
            one.latency_cycles,
            percent((latency - one.latency_cycles) / latency),
            "" if one.need_bytes is None else f"{exact_bytes(one.need_bytes)} in use at once",
        )
        for one in explanation.changes
    ]
    yield DataTable(("change", "cycles", "less", ""), rows, title="changes that shorten this program most")
