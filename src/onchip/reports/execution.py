"""Runs of plans and schedules, on real bytes or timed, and the machine changes that would shorten them most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.answer.problem import Problem, Rate, Transfers
from onchip.answer.words import exact_bytes, percent, picked, printable
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import unknown_energy
from onchip.arch.memory import DRAM, Dma, Port
from onchip.model.program.figures import ScheduleFigures, TrafficParts
from onchip.model.timeline.activity import Activity, PlaceUse, array_waits, latency_parts, most_bytes_at_once
from onchip.reports.program.outcome import Check, Json, check_object
from onchip.reports.schedule.outcome import ScheduleCheck, schedule_check_object, schedule_check_tables, traffic_object
from onchip.reports.shared.words import activity_object, latency_rows, latency_words, wait_lines, wait_objects
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


def execution_object(execution: Execution) -> Json:
    """Return the result of `run` for `--json`, with the object of `onchip check`."""
    run, check = execution.run, check_object(execution.check)
    if run is None:
        return _not_run(execution, check)
    moved, planned = (_bytes_object(execution, one) for one in (run, execution.check.verdict.figures))
    return {
        "right": execution.is_right,
        "kernels": execution.kernels,
        "inferences": len(execution.runs),
        "run": _run_object(execution, run, moved, planned),
        "check": check,
    }


def schedule_execution_object(execution: ScheduleExecution) -> dict[str, object]:
    """Return the result of `run` for `--json`, with the object of `onchip check`."""
    run, check = execution.run, schedule_check_object(execution.check)
    if run is None:
        return _not_run(execution, check)
    moved = {"loads": run.loads, "write_backs": run.write_backs, "between_memories": run.moved}
    planned = None if execution.planned is None else traffic_object(execution.planned)
    return {
        "right": execution.is_right,
        "kernels": execution.kernels,
        "run": _run_object(execution, run, moved, planned),
        "check": check,
    }


def _not_run(execution: Execution | ScheduleExecution, check: Json) -> dict[str, object]:
    return {"right": False, "kernels": execution.kernels, "run": None, "check": check}


def _run_object(
    execution: Execution | ScheduleExecution, run: MachineRun, moved: Json, planned: Json | None
) -> dict[str, object]:
    """Return values, moved bytes and seconds; an infinite difference is the word `inf`, as JSON has no infinity."""
    relative, difference = execution.relative_difference, run.difference
    return {
        "compared": run.compared,
        "difference": difference and picked(difference, "tensor", "found", "operator", "step", "instruction"),
        "relative_difference": relative if relative != float("inf") else "inf",
        "moved": moved,
        "planned": planned,
        "seconds": execution.seconds,
    }


def _bytes_object(execution: Execution, counted: MachineRun | Figures) -> Json:
    """Return the traffic; bytes moved between scratchpads, if links exist, are not part of `total`."""
    total = counted.loads + counted.write_backs
    traffic = {"total": total, "loads": counted.loads, "write_backs": counted.write_backs}
    return {**traffic, "moved": counted.moved} if execution.check.problem.transfers.links else traffic


def execution_report(execution: Execution) -> tuple[RenderableType, ...]:
    """Return the tables of the result of `run`: values, moved bytes, seconds."""
    from rich.text import Text

    from onchip.reports.program.outcome import check_report, facts

    run, figures = execution.run, execution.check.verdict.figures
    if run is None:
        return (*check_report(execution.check), Text("the plan is not legal: it was not run"))
    rows = [
        ("network", repr(execution.check.problem.graph.name)),
        ("kernels", execution.kernels or "none"),
        ("inferences", f"{len(execution.runs):,}"),
        ("values", _values_text(run)),
        ("loads", _moved_text(run.loads, figures.loads, "plan")),
        ("write-backs", _moved_text(run.write_backs, figures.write_backs, "plan")),
        ("traffic", _moved_text(run.loads + run.write_backs, figures.total, "plan")),
    ]
    if execution.check.problem.transfers.links:
        rows.append(("between scratchpads", _moved_text(run.moved, figures.moved, "plan")))
    verdict = "the plan runs, and gives the right values" if execution.is_right else "values or bytes differ"
    return facts([*rows, *_last_rows(execution, "whole model")]), Text(verdict)


def schedule_execution_tables(execution: ScheduleExecution) -> Iterator[RenderableType]:
    """Yield the result of `run`, or the violations of a schedule that was not run."""
    from rich.text import Text

    from onchip.reports.program.outcome import facts

    run, planned = execution.run, execution.planned
    if run is None or planned is None:
        yield from schedule_check_tables(execution.check)
        yield Text("the schedule is not legal: it was not run")
        return
    rows = [
        ("network", repr(execution.check.network.name)),
        ("kernels", execution.kernels or "none"),
        ("values", _values_text(run)),
        ("loads", _moved_text(run.loads, planned.loads, "schedule")),
        ("write-backs", _moved_text(run.write_backs, planned.write_backs, "schedule")),
        ("streamed", f"{planned.streamed_reads:,} bytes in and {planned.streamed_writes:,} out, by the cost model"),
        ("between memories", f"{run.moved:,} bytes"),
    ]
    yield facts([*rows, *_last_rows(execution, "whole network")])
    yield Text("the schedule runs, and gives the right values" if execution.is_right else "values or bytes differ")


def _last_rows(execution: Execution | ScheduleExecution, whole: str) -> Iterator[tuple[str, str]]:
    relative = execution.relative_difference
    if relative is not None:
        yield whole, f"greatest relative difference {relative:.3g} (allowed {GREATEST_RELATIVE_DIFFERENCE:g})"
    yield "seconds", f"{execution.seconds:.3f}"


def _values_text(run: MachineRun) -> str:
    return f"{run.compared:,} tensors equal bit for bit" if run.difference is None else str(run.difference)


def _moved_text(moved_bytes: int, planned_bytes: int, answer: str) -> str:
    if moved_bytes == planned_bytes:
        return f"{moved_bytes:,} bytes, as planned"
    return f"{moved_bytes:,} bytes, the {answer} says {planned_bytes:,}"


NOT_COUNTED = (
    "transfers within the array and its own memories: plans have no loop mappings; `onchip schedule` finds them"
)


def _milliseconds(cycles: int | None, clock_mhz: float | None) -> float | None:
    return None if cycles is None or clock_mhz is None else cycles / clock_mhz / 1000


@dataclass(frozen=True, slots=True)
class Timing:
    """A verified plan and, if it is legal, its timeline."""

    check: Check
    accelerator: Accelerator
    timeline: Timeline | None = None

    @property
    def milliseconds(self) -> float | None:
        """Return the latency in milliseconds, or None without a timeline or a clock."""
        cycles = None if self.timeline is None else self.timeline.total_cycles
        return _milliseconds(cycles, self.accelerator.clock_mhz)


@dataclass(frozen=True, slots=True)
class ScheduleTiming:
    """A verified schedule and, if it is legal, its figures."""

    check: ScheduleCheck
    figures: ScheduleFigures | None = None

    @property
    def milliseconds(self) -> float | None:
        """Return the latency in milliseconds, or None without figures or a clock."""
        cycles = None if self.figures is None else self.figures.latency_cycles
        return _milliseconds(cycles, self.check.document.accelerator.clock_mhz)

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates of all tile operators."""
        tiles = self.check.tiles
        return 0 if tiles is None else sum(nest.macs for one in tiles.operators.values() for nest in one.nests)

    @property
    def mac_utilisation(self) -> float | None:
        """Multiply-accumulates done, divided by those that the array could have done; None without an array."""
        array = self.check.document.accelerator.array
        if self.figures is None or array is None:
            return None
        return self.macs / (array.macs * self.figures.latency_cycles) if self.figures.latency_cycles else 0.0

    @property
    def dma_utilisation(self) -> float | None:
        """Share of the time in which a DMA queue is busy, set-up included."""
        if self.figures is None:
            return None
        busy = sum(one.cycles for one in self.figures.timeline.activities if one.queue is not None)
        all_cycles = (self.check.document.accelerator.dma or Dma()).queues * self.figures.latency_cycles
        return busy / all_cycles if all_cycles else 0.0


def timing_object(timing: Timing) -> Json:
    """Return the result of `time` for `--json`, with every activity; for an illegal plan, the object of `check`."""
    timeline = timing.timeline
    if timeline is None:
        return {"accelerator": timing.accelerator.name, "timeline": None, "check": check_object(timing.check)}
    parts = ("total", "mac", "scratchpad_read", "scratchpad_write", "dram_read", "dram_write")
    cycles = ("total_cycles", "compute_cycles", "stalled_cycles", "transfer_cycles")
    return {
        "network": timing.check.problem.graph.name,
        "accelerator": timing.accelerator.name,
        **picked(timeline, *cycles, "dma_utilisation", "mac_utilisation", "macs"),
        "milliseconds": timing.milliseconds,
        "not_counted": [NOT_COUNTED],
        "energy_pj": {part: getattr(timeline.energy, f"{part}_pj") for part in parts},
        "latency_parts": timeline.parts.by_name,
        "waits": wait_objects(timeline.activities),
        "timeline": [activity_object(activity, has_dram_turns=False) for activity in timeline.activities],
    }


def timing_report(timing: Timing) -> tuple[RenderableType, ...]:
    """Return the table of the result of `time`: cycles, utilisations, energies."""
    from rich.text import Text

    from onchip.reports.program.outcome import check_report, facts

    timeline = timing.timeline
    if timeline is None:
        return (*check_report(timing.check), Text("the plan is not legal: it was not timed"))
    energy = timeline.energy
    rows = [
        ("network", repr(timing.check.problem.graph.name)),
        ("accelerator", timing.accelerator.name),
        ("time", _time(timeline.total_cycles, timing.milliseconds)),
        *latency_rows(timeline.parts),
        ("MAC utilisation", f"{timeline.mac_utilisation:.1%} ({timeline.macs:,} multiply-accumulates)"),
        ("DMA utilisation", f"{timeline.dma_utilisation:.1%}"),
        ("energy", _microjoules(energy.total_pj)),
        ("  MACs", _microjoules(energy.mac_pj)),
        ("  scratchpads", _both(energy.scratchpad_read_pj, energy.scratchpad_write_pj)),
        ("  DRAM", _both(energy.dram_read_pj, energy.dram_write_pj)),
    ]
    return facts(rows), Text(f"not counted: {NOT_COUNTED}")


def schedule_timing_object(timing: ScheduleTiming) -> dict[str, object]:
    """Return the result of `time` for `--json`, with every activity; for an illegal schedule, the object of `check`."""
    figures, accelerator = timing.figures, timing.check.document.accelerator.name
    if figures is None:
        return {"accelerator": accelerator, "timeline": None, "check": schedule_check_object(timing.check)}
    return {
        "network": timing.check.network.name,
        "accelerator": accelerator,
        "total_cycles": figures.latency_cycles,
        "milliseconds": timing.milliseconds,
        "latency_parts": figures.latency.by_name,
        "waits": wait_objects(figures.timeline.activities),
        **picked(timing, "mac_utilisation", "dma_utilisation"),
        "energy_pj": {
            "total": figures.energy_pj,
            "mac": figures.energy.mac_pj,
            "memories": dict(figures.energy.by_memory_pj),
        },
        "traffic_bytes": figures.traffic_bytes,
        "timeline": [activity_object(activity) for activity in figures.timeline.activities],
    }


def schedule_timing_tables(timing: ScheduleTiming) -> Iterator[RenderableType]:
    """Yield the result of `time`, or the violations of a schedule that was not timed."""
    from rich.text import Text

    from onchip.reports.program.outcome import facts

    figures = timing.figures
    if figures is None:
        yield from schedule_check_tables(timing.check)
        yield Text("the schedule is not legal: it was not timed")
        return
    energy, use, dma = figures.energy, timing.mac_utilisation, timing.dma_utilisation
    yield facts(
        [
            ("network", repr(timing.check.network.name)),
            ("accelerator", timing.check.document.accelerator.name),
            ("time", _time(figures.latency_cycles, timing.milliseconds)),
            *latency_rows(figures.latency),
            *([("MAC utilisation", f"{use:.1%} ({timing.macs:,} multiply-accumulates)")] if use is not None else []),
            *([("DMA utilisation", f"{dma:.1%}")] if dma is not None else []),
            ("energy", _microjoules(figures.energy_pj)),
            ("  MACs", _microjoules(energy.mac_pj)),
            *((f"  {name}", _microjoules(part)) for name, part in energy.by_memory_pj.items()),
            ("traffic", f"{figures.traffic_bytes:,} bytes"),
        ]
    )
    if figures.stated_energy_fj is None:
        yield Text(unknown_energy(timing.check.document.accelerator))


def _time(cycles: int, milliseconds: float | None) -> str:
    return f"{cycles:,} cycles{'' if milliseconds is None else f', {milliseconds:,.3f} ms'}"


def _both(read_pj: float | None, write_pj: float | None) -> str:
    return f"{_microjoules(read_pj)} reading, {_microjoules(write_pj)} writing"


def _microjoules(picojoules: float | None) -> str:
    return "not known" if picojoules is None else f"{picojoules / 1e6:,.3f} uJ"


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
    from rich.table import Table
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
    table = Table(box=None, title="changes that shorten this program most", title_justify="left")
    for name, side in (("change", "left"), ("cycles", "right"), ("less", "right"), ("", "left")):
        table.add_column(name, justify="right" if side == "right" else "left")
    for one in explanation.changes:
        saved = percent((latency - one.latency_cycles) / latency)
        need = "" if one.need_bytes is None else f"{exact_bytes(one.need_bytes)} in use at once"
        table.add_row(printable(one.change.words), f"{one.latency_cycles:,}", saved, need)
    yield table
