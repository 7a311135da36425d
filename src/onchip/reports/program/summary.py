"""The words and tables of the page: what was found, and which tensors cost most."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from platform import python_version

from onchip.answer.problem import Objective, Placement
from onchip.answer.residencies import TransferKind
from onchip.arch.memory import Memory, Operand
from onchip.ir.tensor import Tensor
from onchip.reports.program.findings import Findings
from onchip.reports.program.memories import arenas_words, least_need_words, links_words, operand_words
from onchip.reports.program.outcome import beyond_traffic
from onchip.reports.shared.latency import latency_rows
from onchip.reports.shared.page import Card
from onchip.reports.shared.words import amount, counted, exact_bytes, percent, short_amount, short_bytes

MOST_EXPENSIVE = 10
NOT_COMPULSORY = (TransferKind.SPILL, TransferKind.RELOAD, TransferKind.MOVE)


@dataclass(slots=True)
class TensorCost:
    """What the transfers of one tensor add up to, in bytes."""

    tensor: Tensor
    compulsory: int = 0
    spilled: int = 0
    reloaded: int = 0
    moved: int = 0

    @property
    def total(self) -> int:
        """All bytes that it moves."""
        return self.compulsory + self.beyond_compulsory

    @property
    def beyond_compulsory(self) -> int:
        """The bytes beyond the compulsory ones."""
        return self.spilled + self.reloaded + self.moved


def cards(findings: Findings) -> tuple[Card, ...]:
    """What the reader wants to know first."""
    figures, problem = findings.figures, findings.problem
    capacity = sum(memory.capacity_bytes for memory in problem.memories)
    return (
        *_claims(findings),
        *_costs(findings),
        Card("Spilled and reloaded", short_bytes(figures.non_compulsory), exact_bytes(figures.non_compulsory)),
        Card("Compulsory traffic", short_bytes(figures.compulsory), exact_bytes(figures.compulsory)),
        Card(
            "Peak", short_bytes(figures.peak_bytes), f"{figures.peak_bytes / capacity:.1%} of {short_bytes(capacity)}"
        ),
        Card("Operators", f"{len(problem.graph.operators):,}", counted(len(problem.counted_tensors), "tensor")),
    )


def _costs(findings: Findings) -> tuple[Card, ...]:
    """What is least, where that is something else than the traffic; what moves on the chip."""
    figures, objective = findings.figures, findings.problem.objective
    shown = []
    if objective in (Objective.DMA_CYCLES, Objective.DMA_ENERGY):
        cost = figures.non_compulsory_cost
        exact = amount(cost, objective.unit)
        shown.append(Card("Non-compulsory cost", short_amount(cost, objective.unit), exact))
    if findings.problem.recomputation is not None:
        again = short_amount(figures.recomputation_cost, objective.unit)
        shown.append(Card("Computed again", again, counted(figures.runs_again, "time")))
    if figures.moved:
        shown.append(Card("Between scratchpads", short_bytes(figures.moved), exact_bytes(figures.moved)))
    return tuple(shown)


def _claims(findings: Findings) -> tuple[Card, ...]:
    claim = findings.claim
    if claim is None:
        return (Card("Status", "not claimed", "the plan file makes no claim", "quiet"),)
    gap = (claim.objective_value - claim.lower_bound) / claim.objective_value if claim.objective_value else 0.0
    tone = "good" if claim.status == "OPTIMAL" else "fair"
    bound = short_amount(int(claim.lower_bound), Objective(claim.objective).unit)
    return (
        Card("Status", str(claim.status), f"claimed by {claim.method}", tone),
        *_value_beyond_traffic(findings),
        Card("Lower bound", bound, f"gap {percent(gap)}"),
    )


def _value_beyond_traffic(findings: Findings) -> tuple[Card, ...]:
    """Return the objective value if it counts more than the non-compulsory transfers."""
    objective = findings.problem.objective
    if not beyond_traffic(findings.figures) or not objective.counts_transfers:
        return ()
    value = short_amount(findings.figures.objective_value(objective), objective.unit)
    return (Card("Objective value", value, f"with {' and '.join(beyond_traffic(findings.figures))}"),)


def summary_rows(findings: Findings) -> tuple[tuple[str, str], ...]:
    """Return each figure of the plan with its name, in every digit."""
    problem, figures, claim, required = findings.problem, findings.figures, findings.claim, findings.required
    reading, source = findings.document.reading, findings.document.graph
    element = "the model's own element sizes" if reading.bits is None else f"{reading.bits} bits per element"
    rows = [
        ("network", f"{problem.graph.name}, {counted(len(problem.graph.operators), 'operator')}"),
        ("read as", f"{element}, {reading.granularity} operators, {reading.count} counted"),
    ]
    rows += [("scratchpad", _scratchpad(memory)) for memory in problem.memories]
    if problem.transfers.links:
        rows.append(("links", links_words(problem)))
    rows += _placement(findings)
    if claim is not None:
        unit = Objective(claim.objective).unit
        rows += [
            ("status", f"{claim.status}, as claimed by method {claim.method}"),
            ("objective", f"least {_what_is_least(findings)}: {amount(int(claim.objective_value), unit)}"),
            ("lower bound", amount(int(claim.lower_bound), unit)),
            ("gap", next(card.note for card in _claims(findings) if card.label == "Lower bound").removeprefix("gap ")),
        ]
    rows += [
        ("verified", "every rule of a legal plan, recomputed by the verifier"),
        ("traffic", f"{exact_bytes(figures.total)}: loads {figures.loads:,}, write-backs {figures.write_backs:,}"),
        *([("moved on chip", exact_bytes(figures.moved))] if problem.transfers.links else []),
        (
            "peak, arena",
            f"{exact_bytes(figures.peak_bytes)}, {exact_bytes(figures.arena_bytes)}{arenas_words(figures)}",
        ),
        ("M_R", least_need_words(required, required.operator.name)),
        *findings.facts,
        ("versions", f"onchip {version('onchip')}, plotly {version('plotly')}, Python {python_version()}"),
        ("command line", findings.command_line),
    ]
    if source.sha256 is not None:
        rows.append(("graph, sha256", source.sha256))
    return tuple(rows)


def _scratchpad(memory: Memory) -> str:
    holds = "" if set(memory.holds) == set(Operand) else f", holds {operand_words(memory)}"
    return f"{memory.name}: {exact_bytes(memory.capacity_bytes)}, aligned to {memory.alignment_bytes}{holds}"


def _placement(findings: Findings) -> list[tuple[str, str]]:
    if findings.problem.placement is Placement.DYNAMIC:
        return []
    kept, outside = findings.history.with_place_for_life, findings.history.without_place_for_life
    sizes = [sum(tensor.size_bytes for tensor in tensors) for tensors in (kept, outside)]
    words = f"{counted(len(kept), 'tensor')} ({exact_bytes(sizes[0])}) have a place for life"
    return [("placement", f"static: {words}, {len(outside):,} ({exact_bytes(sizes[1])}) have none")]


def _what_is_least(findings: Findings) -> str:
    beyond = "non-compulsory traffic and moves" if findings.problem.transfers.links else "non-compulsory traffic"
    counted_too = beyond_traffic(findings.figures)
    beyond += f", with {' and '.join(counted_too)}" if counted_too else ""
    return {
        Objective.TRAFFIC: beyond,
        Objective.PEAK: "arena, without spills",
        Objective.DMA_CYCLES: f"cycles of {beyond}",
        Objective.DMA_ENERGY: f"energy of {beyond}",
        Objective.LATENCY: "latency",
        Objective.RECOMPUTATION: "cycles of what runs again",
    }[findings.problem.objective]


def most_expensive(findings: Findings) -> tuple[TensorCost, ...]:
    """The tensors with the most traffic beyond the compulsory, then the most at all."""
    graph = findings.problem.graph
    costs: dict[str, TensorCost] = {}
    for transfer in findings.history.transfers:
        cost = costs.setdefault(transfer.tensor, TensorCost(graph.tensor[transfer.tensor]))
        if transfer.kind is TransferKind.SPILL:
            cost.spilled += transfer.size_bytes
        elif transfer.kind is TransferKind.RELOAD:
            cost.reloaded += transfer.size_bytes
        elif transfer.kind is TransferKind.MOVE:
            cost.moved += transfer.size_bytes
        else:
            cost.compulsory += transfer.size_bytes
    by_cost = sorted(costs.values(), key=lambda cost: (-cost.beyond_compulsory, -cost.total, cost.tensor.name))
    return tuple(by_cost[:MOST_EXPENSIVE])


def timeline_rows(findings: Findings) -> tuple[tuple[str, str], ...]:
    """Return the cycles and shares of use of the timeline; nothing without one."""
    timed = findings.timeline
    if timed is None:
        return ()
    rows = [
        ("time", f"{timed.total_cycles:,} cycles"),
        *latency_rows(timed.parts),
        *([("MACs in use", f"{timed.mac_utilisation:.1%}")] if timed.macs else []),
        ("DMA in use", f"{timed.dma_utilisation:.1%}"),
    ]
    energy = timed.energy.total_pj
    return (*rows, ("energy", "not known" if energy is None else f"{energy / 1e6:,.1f} uJ"))


def shape_of(tensor: Tensor) -> str:
    """Say a shape like 1x3x224x224."""
    return "not known" if tensor.shape is None else "\u00d7".join(map(str, tensor.shape)) or "scalar"


def costs_of_residencies(findings: Findings) -> dict[int, tuple[int, int, int]]:
    """What a residency's spill, its reload and the move to it cost, of each that had any, by its index."""
    history = findings.history
    by_place: dict[tuple[str, str], list[int]] = {}
    for index, one in enumerate(history.residencies):
        by_place.setdefault((one.tensor, one.memory), []).append(index)
    costs: dict[int, tuple[int, int, int]] = {}
    for transfer in history.transfers:
        if transfer.kind in NOT_COMPULSORY:
            memory = transfer.source if transfer.kind is TransferKind.SPILL else transfer.target
            index = next(
                index
                for index in by_place[transfer.tensor, memory]
                if history.residencies[index].start_instruction
                < transfer.instruction
                < history.residencies[index].stop_instruction
            )
            before, cost = costs.get(index, (0, 0, 0)), history.cost(transfer)
            spilled, reloaded, moved = (cost if transfer.kind is kind else 0 for kind in NOT_COMPULSORY)
            costs[index] = (before[0] + spilled, before[1] + reloaded, before[2] + moved)
    return costs
