"""What `explain` says of a schedule, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.box import SIMPLE
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from onchip.answer.residencies import Residency
from onchip.arch.energies import summed, unknown_energy
from onchip.arch.memory import DRAM
from onchip.reports.explain.schedule_movements import MovementKind, MovementReason
from onchip.reports.explain.schedule_room import Crowding
from onchip.reports.program.terminal import facts
from onchip.reports.schedule.explanation import SHORT_OF_ROOM, MovementSum, ScheduleExplanation
from onchip.reports.schedule.operator_figures import OperatorFigures
from onchip.reports.schedule.stack_figures import COPIES, MACS
from onchip.reports.shared.latency import latency_words
from onchip.reports.shared.words import amount, counted, exact_bytes, percent, printable, short_energy

MOST_SHOWN: Final = 10
_CAUSES: Final = ("input", "weight", "output", COPIES)


def schedule_explanation_tables(explanation: ScheduleExplanation) -> Iterator[RenderableType]:
    """The figures, where the energy goes, what is most expensive, what moves and why, what would have to be smaller."""
    if explanation.tensor is not None:
        yield from _of_tensor(explanation, explanation.tensor)
        return
    yield facts(_rows(explanation))
    yield _energy_table(explanation)
    if explanation.figures.stated_energy_fj is None:
        yield Text(unknown_energy(explanation.outcome.accelerator))
    yield _operators_table(explanation)
    yield from _movements(explanation.sums)
    yield from _smaller(explanation)


def _rows(explanation: ScheduleExplanation) -> Iterator[tuple[str, str]]:
    outcome, figures = explanation.outcome, explanation.figures
    result, traffic, latency = outcome.result, figures.traffic, figures.latency
    operators, tiles = len(outcome.network.operators), explanation.history.step_count
    gap = "" if result.gap is None else f", gap {percent(result.gap)}"
    yield "network", f"{printable(outcome.network.name)}, {counted(operators, 'operator')}, {counted(tiles, 'step')}"
    yield "accelerator", printable(outcome.accelerator.name)
    yield "least", f"{outcome.objective}: {amount(result.objective_value or 0, outcome.unit)}, {result.status}"
    yield "lower bound", f"{amount(result.lower_bound, outcome.unit)}{gap}"
    yield (
        "traffic",
        f"{exact_bytes(figures.traffic_bytes)}: "
        + ", ".join(
            f"{name} {size:,}"
            for name, size in (
                ("loads", traffic.loads),
                ("write-backs", traffic.write_backs),
                ("streamed in", traffic.streamed_reads),
                ("streamed out", traffic.streamed_writes),
            )
        ),
    )
    yield "latency", f"{figures.latency_cycles:,} cycles: {latency_words(latency)}"


def _energy_table(explanation: ScheduleExplanation) -> Table:
    """A row for each memory, a column for each cause, with the share of all."""
    energy, total_pj = explanation.figures.energy, explanation.figures.energy_pj
    table = _table("energy", *_CAUSES, "all", "share", texts=1)
    names = [*(level.memory.name for level in explanation.outcome.accelerator.levels), DRAM]
    table.add_row(MACS, *[""] * len(_CAUSES), *_with_share(energy.mac_pj, total_pj))
    for name in names:
        parts = {cause: energy.compute_access_pj.get((name, cause), 0.0) for cause in _CAUSES[:-1]}
        parts[COPIES] = energy.copy_access_pj.get(name, 0.0)
        cells = [short_energy(part) if part else "-" for part in parts.values()]
        table.add_row(printable(name), *cells, *_with_share(sum(parts.values()), total_pj))
    return table


def _operators_table(explanation: ScheduleExplanation) -> Table:
    """The most expensive operators; Copies are of tensors, so they are none of theirs."""
    total_pj = explanation.figures.energy_pj
    table = _table("operator", "most of it is", "steps", "energy", "share", "cycles", texts=2)
    for one in explanation.operators[:MOST_SHOWN]:
        table.add_row(
            printable(one.name),
            _most_of(one),
            f"{one.tile_operators:,}",
            *_with_share(one.stated_energy_pj, total_pj),
            f"{one.cycles:,}",
        )
    rest = explanation.operators[MOST_SHOWN:]
    if rest:
        energy = _with_share(summed(one.stated_energy_pj for one in rest), total_pj)
        steps, cycles = sum(one.tile_operators for one in rest), sum(one.cycles for one in rest)
        table.add_row(f"{len(rest):,} more", "", f"{steps:,}", *energy, f"{cycles:,}")
    return table


def _most_of(one: OperatorFigures) -> str:
    if not one.energy_pj:
        return "-"
    (memory, cause), part = max(one.energy_pj.items(), key=lambda each: each[1])
    total = sum(one.energy_pj.values())
    where = MACS if memory == MACS else f"{cause} in {printable(memory)}"
    return f"{where}, {percent(part / total)}" if total else "-"


def _movements(sums: Sequence[MovementSum]) -> Iterator[RenderableType]:
    if not sums:
        yield Text("nothing is copied or streamed: all moves between homes and MACs alone")
        return
    table = _table("tensor", "moves", "why", "times", "bytes", "energy", texts=3)
    for one in sums[:MOST_SHOWN]:
        table.add_row(
            printable(one.tensor),
            _how(one),
            _why(one),
            f"{one.times:,}",
            f"{one.size_bytes:,}",
            short_energy(one.energy_pj),
        )
    yield table
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
        MovementReason.NOT_HELD: "no memory may hold it",
        MovementReason.TOO_LARGE: f"larger than {memory}",
        MovementReason.NO_ROOM: f"no room in {memory}",
        MovementReason.CHOSEN: f"chosen: {memory} has room" if memory else "chosen",
        MovementReason.MOVED: "on the chip",
    }[one.reason]


def _smaller(explanation: ScheduleExplanation) -> Iterator[RenderableType]:
    """What would have to be smaller, or which memory larger, by bytes and with all else as it is."""
    short = [one for one in explanation.sums if one.reason in SHORT_OF_ROOM]
    if not short:
        yield Text("no tensor passes DRAM for want of room")
        return
    yield Text("what lacks room to stay on the chip, by bytes, all else as it is:")
    for one in short[:MOST_SHOWN]:
        crowding = one.worst.crowding
        if crowding is not None:
            yield Text(f"  {printable(one.tensor)}, {_how(one)}: {_lacks(explanation, one, crowding)}")
    if len(short) > MOST_SHOWN:
        yield Text(f"  and {len(short) - MOST_SHOWN:,} more; --json has all")


def _lacks(explanation: ScheduleExplanation, one: MovementSum, crowding: Crowding) -> str:
    memory, capacity = printable(crowding.memory.name), crowding.memory.capacity_bytes
    lacking = f"{memory} ({capacity:,}) would have to be {crowding.missing_bytes:,} larger, or something smaller"
    need = f"it takes {exact_bytes(crowding.need_bytes)}"
    if crowding.is_too_large and not crowding.others_bytes:
        return f"{need}; {lacking}"
    step = f"step {crowding.step:,} ({printable(explanation.history.operators[crowding.step])})"
    others = _listed(explanation.movements.room.others(crowding, one.worst.bands))
    return f"{need} beside {crowding.others_bytes:,} in {step}: {others}; {lacking}"


def _listed(others: Sequence[Residency]) -> str:
    words = [f"{printable(one.tensor)} ({one.size_bytes:,})" for one in others[:3]]
    more = [f"{len(others) - 3:,} more"] if len(others) > 3 else []
    return ", ".join([*words, *more])


def _of_tensor(explanation: ScheduleExplanation, tensor: str) -> Iterator[RenderableType]:
    network, history = explanation.outcome.network, explanation.history
    bands = {one.name: one for one in history.tiles.graph.tensors if tensor in (one.name, one.part_of)}
    whole = network.tensor.get(tensor) or bands[tensor]
    producer, readers = network.producer.get(tensor), network.readers.get(tensor, ())
    read_by = ", ".join(printable(one.name) for one in readers) or "nobody"
    here = [one for one in history.residencies if one.tensor in bands]
    yield facts(
        [
            ("tensor", f"{printable(tensor)}, {whole.role}, {exact_bytes(whole.size_bytes)}"),
            ("in", "one piece" if len(bands) == 1 else counted(len(bands), "band")),
            ("written by", "nobody: it comes from outside" if producer is None else printable(producer.name)),
            ("read by", read_by),
        ]
    )
    if here:
        table = _table("band", "memory", "offset", "bytes", "steps", "came there", texts=2)
        for one in here[:MOST_SHOWN]:
            steps = f"{one.start_step:,} to {max(one.stop_step - 1, one.start_step):,}"
            cells = (f"{one.offset_bytes:,}", f"{one.size_bytes:,}", steps, str(one.began))
            table.add_row(printable(one.tensor), printable(one.memory), *cells)
        yield table
        if len(here) > MOST_SHOWN:
            yield Text(f"and {len(here) - MOST_SHOWN:,} more residencies; --json has all")
    else:
        yield Text("it never lies on the chip")
    yield from _movements(explanation.sums)
    yield from _smaller(explanation)


def _with_share(energy_pj: float | None, total_pj: float | None) -> tuple[str, str]:
    return short_energy(energy_pj) if energy_pj else "-", percent(
        energy_pj / total_pj
    ) if energy_pj is not None and total_pj else "-"


def _table(*columns: str, texts: int) -> Table:
    """The first columns are texts, the others numbers."""
    table = Table(box=SIMPLE, collapse_padding=True, pad_edge=False)
    for at, name in enumerate(columns):
        table.add_column(name, justify="left" if at < texts else "right", no_wrap=at >= texts)
    return table
