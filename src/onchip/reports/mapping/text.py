"""`onchip map` as people and programs read it: a table, JSON, the loop nests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from rich.box import SIMPLE
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Status, Stop
from onchip.arch.energies import summed, unknown_energy
from onchip.ops.derive.layers_of import LeftOut
from onchip.reports.mapping.loop_nest import loop_nest
from onchip.reports.mapping.outcome import CoveredShare, MappedLayer, MappingOutcome, MovedOperator, Number, Totals
from onchip.reports.shared.words import counted, percent, printable, short_energy


def mapping_table(outcome: MappingOutcome) -> Iterator[RenderableType]:
    """A row for each distinct layer, the total of all, and what was left out or is wrong."""
    totals = outcome.totals
    has_footer = totals is not None and len(outcome.layers.layers) > 1
    table = Table(box=SIMPLE, show_footer=has_footer, collapse_padding=True, pad_edge=False)
    for name, footer, is_number in _columns(outcome, totals):
        table.add_column(name, footer, justify="right" if is_number else "left", no_wrap=is_number)
    for one in outcome.mapped:
        table.add_row(*_cells(one, outcome))
    yield table
    if any(one.cost is not None and one.cost.stated_energy_pj is None for one in outcome.mapped):
        yield Text(unknown_energy(outcome.accelerator))
    for one in outcome.mapped:
        if one.why_not is not None:
            yield Text(f"{printable(one.names[0])}: {one.why_not}")
        elif one.mapping is None:
            yield Text(f"{printable(one.names[0])}: {_why_not(one)}")
    for words, layers in Counter(filter(None, (claim_words(one, outcome) for one in outcome.mapped))).items():
        yield Text(words if outcome.is_one_layer else f"{words}: {counted(layers, 'distinct layer')}")
    yield from (Text(printable(note)) for note in outcome.accelerator.notes)
    if outcome.moved:
        yield _moved_table(outcome.moved)
    if not outcome.is_one_layer:
        yield Text("; ".join(covered_words(one) for one in outcome.coverage))


def claim_words(one: MappedLayer, outcome: MappingOutcome) -> str | None:
    """Return the status with the mappings for which it holds; None for a method that proves nothing."""
    if outcome.mapspace is None:
        return None
    status, space = one.result.status, outcome.mapspace.name
    if status in (Status.OPTIMAL, Status.INFEASIBLE):
        return f"{status} ({space})"
    among = one.result.optimal_among
    return f"{status} (lower bound of {space})" + (f", optimal among {among}" if among else "")


def covered_words(one: CoveredShare) -> str:
    """Say how many operators, and which share of the operations, a way covers."""
    return f"{one.way}: {counted(one.operators, 'operator')}, {percent(one.share)} of the operations"


def _moved_table(moved: Sequence[MovedOperator]) -> Table:
    """A row for each kind and reason, and the totals."""
    cycles, energy_pj = sum(one.latency_cycles for one in moved), summed(one.energy_pj for one in moved)
    columns = (
        ("without a loop nest", f"{counted(len(moved), 'operator')}: data movement", False),
        ("operations", f"{sum(one.operations for one in moved):,}", True),
        ("energy", short_energy(energy_pj), True),
        ("cycles", f"{cycles:,}", True),
        ("why", "", False),
    )
    table = Table(box=SIMPLE, show_footer=True, collapse_padding=True, pad_edge=False)
    for name, footer, is_number in columns:
        table.add_column(name, footer, justify="right" if is_number else "left", no_wrap=is_number)
    for (kind, why), alike in _by_kind_and_reason(moved).items():
        table.add_row(
            f"{printable(kind)} ({len(alike)})",
            f"{sum(one.operations for one in alike):,}",
            short_energy(summed(one.energy_pj for one in alike)),
            f"{sum(one.latency_cycles for one in alike):,}",
            printable(why),
        )
    return table


def _by_kind_and_reason(moved: Sequence[MovedOperator]) -> Mapping[tuple[str, str], Sequence[MovedOperator]]:
    found: dict[tuple[str, str], list[MovedOperator]] = {}
    for one in moved:
        found.setdefault((one.kind, one.why), []).append(one)
    return found


def kinds_counted(left_out: Sequence[LeftOut]) -> str:
    """Return the kinds of operators that were left out, each with how many there are."""
    kinds = Counter(one.kind for one in left_out)
    return ", ".join(f"{printable(kind)} ({count})" for kind, count in kinds.items())


def loop_nests(outcome: MappingOutcome) -> str:
    """Return the loop nests of each distinct layer that is mapped, as text."""
    parts = []
    for one in outcome.mapped:
        if one.mapping is not None:
            head = f"{printable(one.names[0])}{_times(one, outcome)}"
            parts.append(f"{head}\n{loop_nest(LayerProblem(one.layer, outcome.accelerator), one.mapping)}")
    return "\n\n".join(parts)


def mapping_object(outcome: MappingOutcome) -> dict[str, object]:
    """One layer is one object; a network has a list of `layers`, every one in its order, and `totals`."""
    head: dict[str, object] = {
        "accelerator": outcome.accelerator.name,
        "method": outcome.method,
        "objective": outcome.objective,
        "objective_unit": outcome.unit,
        "mapspace": outcome.mapspace and outcome.mapspace.definition,
        "accounting": outcome.accounting,
        "not_modelled": list(outcome.accelerator.notes),
    }
    rows = [_layer_object(name, one, outcome, is_first=is_first) for name, one, is_first in outcome.of_each()]
    if outcome.is_one_layer:
        return rows[0] | head
    return {
        "network": outcome.layers.name,
        **head,
        "layers": rows,
        "totals": _totals_object(outcome),
        "left_out": [asdict(one) for one in outcome.moved],
        "coverage": [asdict(one) for one in outcome.coverage],
    }


def _layer_object(name: str, one: MappedLayer, outcome: MappingOutcome, *, is_first: bool) -> dict[str, object]:
    """A layer like an earlier one has its answer, in no time."""
    cost, claim = one.cost, one.claim
    fields: dict[str, object] = {
        "layer": name,
        "same_as": None if is_first else one.names[0],
        "status": one.result.status,
        "stopped_by": one.result.stopped_by,
        "objective": outcome.objective,
        "objective_value": claim and claim.objective_value,
        "lower_bound": one.lower_bound,
        "gap": one.result.gap,
        "energy_pj": cost and cost.stated_energy_pj,
        "latency_cycles": cost and round(cost.cycles),
        "macs": one.layer.macs,
        "times": outcome.times(name),
        "utilisation": cost and cost.utilisation,
        "bounds": one.layer.bounds,
        "space": outcome.mapspace and outcome.mapspace.name,
        "optimal_among": one.result.optimal_among,
        "lower_bound_of_any": one.lower_bound_of_any,
        "mapping": one.mapping and mapping_fields(one.mapping),
        "seconds": one.result.seconds if is_first else 0.0,
        "error": one.why_not,
    }
    if cost is not None:
        fields["mac_energy_pj"] = cost.mac_energy_pj
        fields["memory_energy_pj"] = [
            {"memory": memory, "operand": operand, "energy_pj": energy_pj}
            for (memory, operand), energy_pj in cost.memory_energy_pj.items()
        ]
        parts = ("ideal", "unused", "stall", "preload", "offload")
        fields["latency_parts"] = {part: getattr(cost.latency, part) for part in parts}
    return fields


def _totals_object(outcome: MappingOutcome) -> dict[str, object]:
    totals = outcome.totals
    count: dict[str, object] = {"layers": len(outcome.layers.layers), "distinct": len(outcome.mapped)}
    moved = {
        "energy_pj": summed(one.energy_pj for one in outcome.moved),
        "latency_cycles": sum(one.latency_cycles for one in outcome.moved),
        "dram_bits": sum(one.read_bits + one.written_bits for one in outcome.moved),
    }
    return count | {
        "mapped": sum(len(one.names) for one in outcome.mapped if one.mapping is not None),
        "objective_value": totals and totals.objective_value,
        "lower_bound": totals and totals.lower_bound,
        "energy_pj": totals and totals.energy_pj,
        "latency_cycles": totals and totals.latency_cycles,
        "energy_delay_pj_cycles": totals and totals.energy_delay_pj_cycles,
        "macs": outcome.layers.macs,
        "utilisation": totals and totals.utilisation,
        "seconds": outcome.seconds,
        "data_movement": moved,
    }


def mapping_fields(mapping: LayerMapping) -> dict[str, object]:
    """The nest, innermost first, a spatial loop as `K4@lane`; for each operand its memories and their cuts.

    `ragged` are the loops that end short; left out where there are none.
    """
    kept = {operand: mapping.kept(operand) for operand in ("input", "weight", "output")}
    return {
        "nest": [str(loop) for loop in mapping.nest],
        **{operand: [{"memory": k.memory, "loops": k.loops} for k in each] for operand, each in kept.items()},
        **({"ragged": list(mapping.ragged)} if mapping.ragged else {}),
    }


def _columns(outcome: MappingOutcome, totals: Totals | None) -> list[tuple[str, str, bool]]:
    """Name, total, and whether it is a number."""
    energy = short_energy(totals.energy_pj) if totals else ""
    cycles = f"{totals.latency_cycles:,}" if totals else ""
    utilisation = f"{totals.utilisation:.1%}" if totals else ""
    count = counted(len(outcome.layers.layers), "layer")
    bound = "" if totals is None or totals.lower_bound is None else objective_words(totals.lower_bound, outcome.unit)
    return [
        ("layer", f"{count} in all", False),
        ("status", "", False),
        ("energy", energy, True),
        ("cycles", cycles, True),
        ("utilised", utilisation, True),
        ("CoSA's\nobjective" if outcome.unit == "bits" else "lower\nbound", bound, True),
        ("gap", "", True),
        ("seconds", f"{outcome.seconds:.3f}", True),
    ]


def _cells(one: MappedLayer, outcome: MappingOutcome) -> list[str]:
    cost, gap = one.cost, one.result.gap
    is_cosa = outcome.unit == "bits" and one.claim is not None
    shown = one.claim.objective_value if is_cosa and one.claim else one.lower_bound
    return [
        f"{printable(one.names[0])}{_times(one, outcome)}",
        f"{one.result.status}{'' if one.why_not is None else ' (refused)'}",
        short_energy(cost.stated_energy_pj) if cost else "",
        f"{round(cost.cycles):,}" if cost else "",
        f"{cost.utilisation:.1%}" if cost else "",
        objective_words(shown, outcome.unit),
        "" if gap is None else percent(gap),
        f"{one.result.seconds:.3f}",
    ]


def _times(one: MappedLayer, outcome: MappingOutcome) -> str:
    """How often layers such as this run."""
    times = sum(map(outcome.times, one.names))
    return f" (x{times})" if times > 1 else ""


def _why_not(one: MappedLayer) -> str:
    if one.result.status is Status.INFEASIBLE:
        return "no mapping fits"
    stop = one.result.stopped_by
    return "no mapping was found" if stop is Stop.COMPLETED else f"no mapping was found ({stop})"


def objective_words(value: Number, unit: str) -> str:
    """Say an objective's value in few digits, with its unit where that is not clear."""
    if unit == "fJ":
        return short_energy(value / 1000)
    return f"{value:,.4f}" if unit == "bits" else f"{value:.4g}" if unit != "cycles" else f"{value:,}"
