"""Results of the plan verbs, and of checks, as JSON objects and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from rich.text import Text

from onchip.answer.document import RECOMPUTED_MACS, Claim, PlanDocument
from onchip.answer.problem import Count, Objective, Order, Placement, Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status
from onchip.answer.words import amount, counted, exact_bytes, percent, picked, printable, short_bytes
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import unstated_energies, working_verbs, working_verbs_words
from onchip.arch.memory import Access, Memory, Operand
from onchip.arch.sharing import Share
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.bounds import InfeasibleOperator, OperatorNeed, Oversize, infeasible_operator
from onchip.model.timeline.activity import LatencyParts
from onchip.model.timeline.mac_count import MacCount, recomputed_macs
from onchip.model.timeline.plan_timeline import Timeline, stated_timeline
from onchip.reports.explain.history import History, ReloadCause, reload_causes
from onchip.reports.shared.facts import DataTable, MethodOutcome, Proof, Rows, element_words, facts, picked_seconds
from onchip.reports.shared.words import latency_words
from onchip.verify.figures import Figures
from onchip.verify.rules import Violation
from onchip.verify.verifier import Verdict

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds of each part; `budget` is the time for M_P if the capacity asked for it."""

    read: float
    budget: float
    solve: float
    verify: float


@dataclass(frozen=True, slots=True)
class Outcome(MethodOutcome[Plan]):
    """A planned network; `document` and `figures` are None without a plan.

    `required` is M_R; `min_peak_bytes` is M_P, None if it was not computed.
    """

    problem: Problem
    result: SearchResult[Plan]
    seed: int
    seconds: Seconds
    required: OperatorNeed
    min_peak_bytes: int | None
    figures: Figures | None = None
    document: PlanDocument | None = None

    @property
    def capacity_bytes(self) -> int:
        """Bytes of all scratchpads together."""
        return sum(memory.capacity_bytes for memory in self.problem.memories)

    @property
    def history(self) -> History | None:
        """History of the scratchpads, or None without a plan."""
        return None if self.document is None else History(self.problem, self.document.answer)

    @property
    def latency_parts(self) -> LatencyParts | None:
        """Parts of the latency of a plan with stated durations; None for other plans."""
        if self.document is None or self.problem.durations is None:
            return None
        return stated_timeline(self.problem, self.document.answer).parts

    @property
    def need_bytes(self) -> int:
        """Lowest capacity that is not ruled out: M_R, or the proven minimum arena if no tensor may spill.

        Tensors that do not fit in several scratchpads may fit in one of their total size.
        """
        proven = 0
        if self.problem.objective is Objective.PEAK:
            beyond = self.capacity_bytes + 1 if len(self.problem.memories) == 1 else 0
            proven = max(self.result.lower_bound, beyond)
        return max(self.required.need_bytes, proven)


@dataclass(frozen=True, slots=True)
class Check:
    """A plan file held against its network, whose graph has the hash `sha256`."""

    document: PlanDocument
    problem: Problem
    sha256: str
    verdict: Verdict

    @property
    def graph_differs(self) -> bool:
        """True if the plan names another graph."""
        return self.document.graph.sha256 not in (None, self.sha256)

    @property
    def is_legal(self) -> bool:
        """True if the plan has no violation and names this graph."""
        return not self.verdict.violations and not self.graph_differs


@dataclass(frozen=True, slots=True)
class SharedNeed:
    """M_R and M_P in bytes (None if not proven) of a network in which outputs share bytes with inputs."""

    share: Share
    required_bytes: int
    min_peak_bytes: int | None


@dataclass(frozen=True, slots=True)
class RecomputingNeed:
    """The least peak in bytes of tilings that recompute at most a share of the multiply-accumulates, or any number."""

    most_percent: float | None
    min_peak_bytes: int
    recomputed_macs: int


@dataclass(frozen=True, slots=True)
class NeedInTiles:
    """The least capacities of a network in tiles, in bytes.

    No tiling fits below `required_bytes`, set by the operator `required_by`. Without spills and recomputation, no
    tiling fits below `lower_bound_bytes`, and one has the peak `min_peak_bytes`; `recomputing` are the peaks of others.
    `macs` are the network's multiply-accumulates.
    """

    required_bytes: int
    required_by: str
    lower_bound_bytes: int
    min_peak_bytes: int
    macs: int = 0
    recomputing: tuple[RecomputingNeed, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """The contents of a network; `required` is M_R, `least_peak` the result for M_P.

    `needs` has both for each way of sharing bytes; empty if no bytes can be shared. `in_tiles` has both in tiles.
    """

    problem: Problem
    required: OperatorNeed
    least_peak: SearchResult[tuple[int, ...]]
    compulsory_bytes: int
    needs: tuple[SharedNeed, ...] = ()
    in_tiles: NeedInTiles | None = None

    @property
    def min_peak_bytes(self) -> int | None:
        """M_P in bytes, or None if it is not proven."""
        return self.least_peak.objective_value if self.least_peak.status is Status.OPTIMAL else None


def beyond_traffic(figures: Figures) -> str:
    """Name what an objective of transfers counts besides non-compulsory transfers; empty for nothing."""
    state = ["state loaded and written"] if figures.states_loaded else []
    return " and ".join([*state, "operators run again"] if figures.recomputation_cost else state)


@dataclass(frozen=True, slots=True)
class BaselinePlan:
    """A baseline's plan for the same problem; `figures` is None without a plan."""

    name: str
    status: Status
    figures: Figures | None


@dataclass(frozen=True)
class Findings:
    """A verified plan, what the verifier counted in it, and whatever else is known.

    `rows` are the facts of the summary if the plan was just found; `no_timeline` says why there is no timeline.
    """

    problem: Problem
    document: PlanDocument
    figures: Figures
    required: OperatorNeed
    command_line: str
    rows: Sequence[tuple[str, str]] = ()
    baselines: tuple[BaselinePlan, ...] = ()
    timeline: Timeline | None = None
    no_timeline: str = "the accelerator is unknown; `report --accelerator NAME` draws one"
    history: History = field(init=False)
    reload_causes: tuple[ReloadCause, ...] = field(init=False)

    def __post_init__(self) -> None:
        history = History(self.problem, self.document.answer)
        object.__setattr__(self, "history", history)
        object.__setattr__(self, "reload_causes", reload_causes(history))

    @property
    def claim(self) -> Claim | None:
        """The claim of the plan's maker, or None."""
        return self.document.claim


def memory_words(memory: Memory, size: str) -> str:
    """Return `left of 4 KiB (aligned to 8, holds input and weight)`, without operands if it holds all."""
    notes = [f"aligned to {memory.alignment_bytes}"] if memory.alignment_bytes > 1 else []
    if set(memory.holds) != set(Operand):
        notes.append(f"holds {operand_words(memory)}")
    return f"{memory.name} of {size}" + (f" ({', '.join(notes)})" if notes else "")


def least_need_words(need: OperatorNeed, setters: str) -> str:
    """Return `864 bytes, set by pool`, or `at most 864 bytes` if a smaller M_R was not ruled out."""
    return f"{'' if need.is_proven else 'at most '}{exact_bytes(need.need_bytes)}, set by {setters}"


def operand_words(memory: Memory) -> str:
    """Name what a memory holds: `input and weight`."""
    return " and ".join(memory.holds)


TILES = "`tiles='auto'`"
MOST_OPERANDS = 10


def infeasible_object(outcome: Outcome) -> Mapping[str, object]:
    """Return the fields that `plan --json` adds if no plan exists."""
    infeasible, required = infeasible_operator(outcome.problem), outcome.required
    oversize = None if infeasible is None else infeasible.oversize
    largest = None if oversize is None else oversize.largest
    return {
        "error": infeasible_words(outcome, infeasible),
        "expected": expected_instead(infeasible) if infeasible else f"`minimize='{Objective.TRAFFIC}'`",
        "operator": (infeasible or required).operator.name,
        "need_bytes": (infeasible or outcome).need_bytes,
        "excess_bytes": infeasible.excess_bytes if infeasible else max(0, outcome.need_bytes - outcome.capacity_bytes),
        "tensor": oversize and oversize.tensor.name,
        "tensor_bytes": oversize and oversize.tensor.size_bytes,
        "largest_scratchpad": largest and largest.name,
        "largest_scratchpad_bytes": oversize and oversize.largest_bytes,
    }


def expected_instead(infeasible: InfeasibleOperator) -> str:
    """Return the remedy: tiles, unless no scratchpad may hold one of the operands."""
    oversize = infeasible.oversize
    return TILES if oversize is None or oversize.largest is not None else f"a scratchpad that holds {oversize.operand}"


def infeasible_words(outcome: Outcome, infeasible: InfeasibleOperator | None) -> str:
    """Say in one sentence which operator does not fit, and by how many bytes."""
    if infeasible is None:
        return _without_spills(outcome)
    operator, needed = printable(infeasible.operator.name), exact_bytes(infeasible.need_bytes)
    if infeasible.oversize is not None:
        return f"operator {operator} needs {needed}{_beyond_all(infeasible)}; {oversize_words(infeasible.oversize)}"
    if infeasible.need_bytes > infeasible.capacity_bytes:
        return f"operator {operator} needs {needed}{_beyond_all(infeasible)}"
    return (
        f"operator {operator} needs {needed} of {infeasible.capacity_bytes:,}, "
        f"but its operands have no places together: "
        f"{_operands(infeasible, outcome)}"
    )


def _beyond_all(infeasible: InfeasibleOperator) -> str:
    excess_bytes = infeasible.need_bytes - infeasible.capacity_bytes
    return f", {exact_bytes(excess_bytes)} too many" if excess_bytes > 0 else ""


def oversize_words(oversize: Oversize) -> str:
    """Say which operand no scratchpad takes, or how large the largest is that may hold it."""
    tensor = f"{oversize.operand} {printable(oversize.tensor.name)} ({exact_bytes(oversize.tensor.size_bytes)})"
    if oversize.largest is None:
        return f"{tensor} fits in no scratchpad"
    largest = f"{oversize.largest.name} ({exact_bytes(oversize.largest_bytes)})"
    return f"{tensor} is larger than {largest}, the largest scratchpad that may hold it"


def _operands(infeasible: InfeasibleOperator, outcome: Outcome) -> str:
    problem, shown = outcome.problem, infeasible.operands[:MOST_OPERANDS]
    operator = infeasible.operator
    words = [f"{printable(one.name)} ({problem.operand(operator, one)}, {one.size_bytes:,})" for one in shown]
    more = len(infeasible.operands) - len(shown)
    return ", ".join(words) + (f" and {more:,} more" if more else "")


def _without_spills(outcome: Outcome) -> str:
    excess_bytes = outcome.need_bytes - outcome.capacity_bytes
    operator = printable(outcome.required.operator.name)
    needs_most = f"the operator that needs most, {operator}, needs {exact_bytes(outcome.required.need_bytes)}"
    if excess_bytes <= 0:
        return f"without spills: the tensors in use have no places together; {needs_most}"
    return (
        f"without spills: at least {exact_bytes(outcome.need_bytes)} are needed, {exact_bytes(excess_bytes)} too many; "
        f"{needs_most}"
    )


Json: TypeAlias = "Mapping[str, object]"

LARGEST_TENSORS = 10


def outcome_object(outcome: Outcome) -> Json:
    """Return the result of `plan` for `--json`; fields of a missing plan are null."""
    problem, result, figures, history = outcome.problem, outcome.result, outcome.figures, outcome.history
    found = {
        "network": problem.graph.name,
        "method": result.method,
        "order": problem.order,
        "count": problem.count,
        "seed": outcome.seed,
        **picked(result, "status", "stopped_by"),
        "operators": len(problem.graph.operators),
        "tensors": len(problem.counted_tensors),
        "memories": [memory_object(memory) for memory in problem.memories],
        "links": links_object(problem),
        "placement": problem.placement,
        "capacity_bytes": outcome.capacity_bytes,
        "objective": problem.objective,
        "objective_unit": problem.objective.unit,
        "objective_value": result.objective_value,
        "lower_bound": result.bound,
        **picked(result, "gap", "space", "optimal_among", "why_not"),
        "traffic": figures and traffic_object(figures),
        "recomputation": figures and recomputation_object(figures),
        RECOMPUTED_MACS: figures and recomputed_macs(problem.graph),
        "states": figures and states_object(figures),
        "peak_bytes": figures and figures.peak_bytes,
        "arena_bytes": figures and figures.arena_bytes,
        "peaks": history and {memory.name: history.peak_bytes(memory.name) for memory in problem.memories},
        "arenas": figures and dict(figures.arenas),
        "outside_bytes": _outside_bytes(outcome),
        "required_bytes": outcome.required.need_bytes,
        "min_peak_bytes": outcome.min_peak_bytes,
        "seconds": picked(outcome.seconds, "read", "budget", "solve", "verify"),
    }
    if outcome.latency_parts is not None:
        found["latency_parts"] = outcome.latency_parts.by_name
    return {**found, **infeasible_object(outcome)} if result.status is Status.INFEASIBLE else found


def _outside_bytes(outcome: Outcome) -> int | None:
    """Return the bytes of tensors without a static place; None for dynamic placement or without a plan."""
    if outcome.history is None or outcome.problem.placement is Placement.DYNAMIC:
        return None
    return sum(tensor.size_bytes for tensor in outcome.history.without_place_for_life)


def check_object(check: Check) -> Json:
    """Return the violations of a plan, and its figures with its maker's claims."""
    claim, figures, graph = check.document.claim, check.verdict.figures, check.document.graph
    objective = check.problem.objective
    return {
        "network": check.problem.graph.name,
        "legal": check.is_legal,
        "graph": {"planned_sha256": graph.sha256, "sha256": check.sha256, "differs": check.graph_differs},
        "violations": [violation_object(violation) for violation in check.verdict.violations],
        "memories": [memory_object(memory) for memory in check.problem.memories],
        "links": links_object(check.problem),
        "placement": check.problem.placement,
        "recomputed": {
            "objective": objective,
            "objective_unit": objective.unit,
            "objective_value": figures.objective_value(objective),
            "traffic": traffic_object(figures),
            "recomputation": recomputation_object(figures),
            RECOMPUTED_MACS: recomputed_macs(check.problem.graph),
            "peak_bytes": figures.peak_bytes,
            "arena_bytes": figures.arena_bytes,
            "arenas": dict(figures.arenas),
            "states": states_object(figures),
        },
        "claimed": claim and picked(claim, "method", "status", "objective", "objective_value", "lower_bound"),
    }


def violation_object(violation: Violation) -> Json:
    """Say which rule is broken where."""
    return picked(violation, "rule", "step", "instruction", "subject", "detail")


def description_object(description: Description) -> Json:
    """Return the contents of a network."""
    graph, peak = description.problem.graph, description.least_peak
    return {
        "network": graph.name,
        "count": description.problem.count,
        "operators": len(graph.operators),
        "tensors": {
            role.value: {"count": len(tensors), "bytes": sum(tensor.size_bytes for tensor in tensors)}
            for role in Role
            for tensors in [graph.with_role(role)]
        },
        "required_bytes": description.required.need_bytes,
        "required_by": description.required.operator.name,
        "min_peak_bytes": description.min_peak_bytes,
        "min_peak_range": [peak.lower_bound, peak.objective_value],
        "in_tiles": description.in_tiles and {**asdict(description.in_tiles), RECOMPUTED_MACS: 0},
        "compulsory_bytes": description.compulsory_bytes,
        "shared": [asdict(one) for one in description.needs],
        "states": [{"old": state.old, "new": state.new} for state in graph.states],
        "largest_tensors": [
            {"name": tensor.name, "role": tensor.role, "shape": tensor.shape, "bytes": tensor.size_bytes}
            for tensor in largest_tensors(description)
        ],
    }


def largest_tensors(description: Description) -> tuple[Tensor, ...]:
    """Return the largest counted tensors, the first of equals first."""
    by_size = sorted(description.problem.counted_tensors, key=lambda tensor: -tensor.size_bytes)
    return tuple(by_size[:LARGEST_TENSORS])


def traffic_object(figures: Figures) -> Json:
    """Return the traffic in bytes; `moved` between scratchpads is not part of the traffic."""
    return picked(figures, "total", "compulsory", "non_compulsory", "loads", "write_backs", "moved")


def recomputation_object(figures: Figures) -> Json:
    """Return the number of repeated Computes, and their cost in the objective's unit."""
    return {"runs_again": figures.runs_again, "cost": figures.recomputation_cost}


def states_object(figures: Figures) -> Json:
    """Return the states that stay on the chip and those that are loaded and written back, by their old tensors."""
    return {"on_chip": list(figures.states_on_chip), "loaded": list(figures.states_loaded)}


def memory_object(memory: Memory) -> Json:
    """Say what a scratchpad is."""
    return {**picked(memory, "name", "capacity_bytes", "alignment_bytes"), "holds": list(memory.holds)}


def links_object(problem: Problem) -> list[Json]:
    """Say what leads from one scratchpad to another."""
    return [{"source": source, "target": target} for source, target in problem.transfers.links]


def accelerator_object(accelerator: Accelerator) -> Json:
    """Return the array, the memories, the missing energies and the working verbs of an accelerator."""
    array = accelerator.array
    return {
        "name": accelerator.name,
        "memories": [memory_object(memory) for memory in accelerator.scratchpads],
        "array": array and {"dimensions": dict(array.dimensions), "macs": array.macs},
        "levels": [
            {**memory_object(one.memory), "access": one.access and picked(one.access, *_ACCESS)}
            for one in accelerator.levels
        ],
        "unstated_energies": list(unstated_energies(accelerator)),
        "verbs": list(working_verbs(accelerator)),
    }


_ACCESS: Final = ("access_bits", "read_energy_pj", "write_energy_pj")


def outcome_tables(outcome: Outcome) -> tuple[RenderableType]:
    """Return the table of what `plan` found."""
    return (facts(outcome_rows(outcome)),)


def outcome_rows(outcome: Outcome) -> Rows:
    """Return the facts of a plan, and of its proof."""
    result, figures = outcome.result, outcome.figures
    bits = 0 if outcome.document is None else outcome.document.reading.bits
    rows = [*_head_rows(outcome.problem, bits), *plan_proof(outcome).rows]
    if result.status is Status.INFEASIBLE:
        rows += _infeasible_rows(outcome)
    if result.why_not is not None:
        rows.append(("reason", result.why_not))
    if figures is not None:
        rows += _figure_rows(outcome.problem, figures, outcome.history, outcome.latency_parts)
    rows.append(("M_R", least_need_words(outcome.required, outcome.required.operator.name)))
    if outcome.min_peak_bytes is not None:
        rows.append(("M_P", exact_bytes(outcome.min_peak_bytes)))
    return [*rows, plan_proof(outcome).time]


def findings_rows(findings: Findings) -> Rows:
    """Return the facts of a verified plan of a file, with the claim of its maker."""
    problem, claim, reading = findings.problem, findings.claim, findings.document.reading
    rows = _head_rows(problem, reading.bits)
    if claim is None:
        rows.append(("status", "unknown: the plan file claims none"))
    else:
        unit, value = Objective(claim.objective).unit, int(claim.objective_value)
        gap = (value - int(claim.lower_bound)) / value if value else 0.0
        order, measure = findings.document.order, _measure(problem, findings.figures)
        covers = "unknown: the file does not state it" if order is None else _ORDERS[order]
        claimed = Proof(claim.status, measure, unit, value, int(claim.lower_bound), gap, covers)
        rows += [
            *claimed.rows,
            ("claim", f"by method {claim.method}; the verifier recomputed the figures, not the bound"),
        ]
    rows += _figure_rows(problem, findings.figures, findings.history, None)
    return [*rows, ("M_R", least_need_words(findings.required, findings.required.operator.name))]


def _head_rows(problem: Problem, bits: int | None) -> Rows:
    rows = [("network", f"{problem.graph.name}, {counted(len(problem.graph.operators), 'operator')}")]
    rows += [("scratchpad", memory_words(memory, exact_bytes(memory.capacity_bytes))) for memory in problem.memories]
    if problem.transfers.links:
        rows.append(("links", ", ".join(f"{source} -> {target}" for source, target in problem.transfers.links)))
    if problem.objective is Objective.LATENCY and problem.count is Count.ACTIVATIONS:
        is_streamed = not any(Operand.WEIGHT in memory.holds for memory in problem.memories)
        streamed = ": no scratchpad holds weights, so operators stream them" if is_streamed else ""
        rows.append(("not planned", f"parameters{streamed}"))
    return rows + (element_words(tensor.bits for tensor in problem.graph.tensors) if bits is None else [])


def _figure_rows(problem: Problem, figures: Figures, history: History | None, parts: LatencyParts | None) -> Rows:
    objective, rows = problem.objective, list[tuple[str, str]]()
    if figures.latency_cycles is not None and parts is not None:
        rows.append(("cycle breakdown", latency_words(parts)))
    if problem.recomputation is not None:
        rows.append(("run again", _runs_again(figures, objective)))
    rows += _recomputed(problem.graph)
    if objective is not Objective.TRAFFIC or figures.moved or beyond_traffic(figures):
        rows.append(("non-compulsory traffic", exact_bytes(figures.non_compulsory)))
    rows.append(("compulsory traffic", exact_bytes(figures.compulsory)))
    if figures.moved:
        rows.append(("between scratchpads", exact_bytes(figures.moved)))
    rows += _states(problem.graph, figures)
    arenas = ", ".join(f"{name} {size:,}" for name, size in figures.arenas) if len(figures.arenas) > 1 else ""
    arena = exact_bytes(figures.arena_bytes)
    rows += [("peak", exact_bytes(figures.peak_bytes)), ("arena", f"{arena}: {arenas}" if arenas else arena)]
    if history is not None and problem.placement is Placement.STATIC:
        kept, away = (
            f"{counted(len(tensors), 'tensor')} ({exact_bytes(sum(tensor.size_bytes for tensor in tensors))})"
            for tensors in (history.with_place_for_life, history.without_place_for_life)
        )
        rows.append(("static placement", f"{kept} have a static offset, {away} have none"))
    return rows


def _measure(problem: Problem, figures: Figures | None) -> str:
    """Name what the objective counts."""
    beyond = "" if figures is None or not problem.objective.counts_transfers else beyond_traffic(figures)
    moves = problem.objective is Objective.TRAFFIC and figures is not None and figures.moved
    measure = "non-compulsory cost" if moves else _MEASURES[problem.objective]
    return f"{measure} and {beyond}:" if beyond else measure


_MEASURES: Final[Mapping[Objective, str]] = {
    Objective.TRAFFIC: "non-compulsory traffic",
    Objective.PEAK: "peak without spills",
    Objective.DMA_CYCLES: "non-compulsory DMA time",
    Objective.DMA_ENERGY: "non-compulsory DMA energy",
    Objective.LATENCY: "latency",
    Objective.RECOMPUTATION: "recomputation without spills",
}
_ORDERS: Final[Mapping[Order, str]] = {
    Order.FREE: "any operator order",
    Order.GIVEN: "the operator order of the file",
    Order.MIN_PEAK: "one operator order of minimum peak",
}


def plan_proof(outcome: Outcome) -> Proof:
    """Return the claim of a plan."""
    problem, result, seconds = outcome.problem, outcome.result, outcome.seconds
    placement = "any residencies" if problem.placement is Placement.DYNAMIC else "static placements"
    covered = result.space or f"{_ORDERS[problem.order]}, {placement} and addresses"
    covered += f"; optimal among {result.optimal_among}" if result.optimal_among else ""
    spent = picked_seconds(seconds.read, seconds.solve, seconds.verify, seconds.budget)
    return Proof.of(result, _measure(problem, outcome.figures), problem.objective.unit, covered, seconds=spent)


def _runs_again(figures: Figures, objective: Objective) -> str:
    return f"{counted(figures.runs_again, 'time')}, {amount(figures.recomputation_cost, objective.unit)}"


def _recomputed(graph: Graph) -> Rows:
    """Return the row of the multiply-accumulates that overlapping tiles recompute; empty without tiles."""
    if (macs := recomputed_macs(graph)) is None:
        return []
    count = MacCount(graph)
    once = sum(map(count.macs, graph.operators)) - macs
    return [("recomputed", recomputed_words(macs, once))]


def recomputed_words(macs: int, once: int) -> str:
    """Return `1,200 MACs (10.0 %)`; `once` are the multiply-accumulates of one run of each operator."""
    return f"{macs:,} MACs" + (f" ({percent(macs / once)})" if macs and once else "")


def _states(graph: Graph, figures: Figures) -> list[tuple[str, str]]:
    rows = []
    for what, names in (("on chip throughout", figures.states_on_chip), ("loaded and written", figures.states_loaded)):
        if names:
            size = exact_bytes(sum(graph.tensor[name].size_bytes for name in names))
            rows.append((f"state {what}", f"{counted(len(names), 'tensor')}, {size}"))
    return rows


def _infeasible_rows(outcome: Outcome) -> Rows:
    """Return the operator that does not fit, and the remedy."""
    infeasible = infeasible_operator(outcome.problem)
    rows = [("infeasible", infeasible_words(outcome, infeasible))]
    if infeasible is None:
        return rows
    expected = expected_instead(infeasible)
    return [*rows, ("remedy", f"{TILES} cuts operators into tiles" if expected == TILES else expected)]


def check_report(check: Check) -> tuple[RenderableType, ...]:
    """Return the violations of a plan, and its figures with the claims."""
    count = len(check.verdict.violations) + check.graph_differs
    lines: list[RenderableType] = [Text(str(violation)) for violation in check.verdict.violations]
    if check.graph_differs:
        planned = check.document.graph
        lines.append(Text(f"graph differs: the plan is for {planned.name!r} {planned.sha256}, this is {check.sha256}"))
    verdict = "the plan is legal" if check.is_legal else f"{count} violation{'s' if count > 1 else ''}"
    return (*lines, _figures_grid(check), Text(verdict))


def _figures_grid(check: Check) -> DataTable:
    """Return the recomputed figures, and those that the file claims."""
    figures, objective = check.verdict.figures, check.problem.objective
    sizes = (
        ("traffic", figures.total),
        ("compulsory traffic", figures.compulsory),
        ("non-compulsory traffic", figures.non_compulsory),
        ("loads", figures.loads),
        ("write-backs", figures.write_backs),
        *([("between scratchpads", figures.moved)] if check.problem.transfers.links else []),
        ("peak", figures.peak_bytes),
        ("arena", figures.arena_bytes),
        *([(f"arena of {name}", size) for name, size in figures.arenas] if len(figures.arenas) > 1 else []),
    )
    rows = [(name, exact_bytes(value)) for name, value in sizes]
    if check.problem.recomputation is not None:
        rows.append(("run again", _runs_again(figures, objective)))
    rows += _recomputed(check.problem.graph)
    rows += _states(check.problem.graph, figures)
    claims = claim_rows(check.document.claim, objective.unit, figures.objective_value(objective), str(objective))
    return DataTable(("", "recomputed", "claimed"), [*((*row, "-") for row in rows), *claims])


def claim_rows(
    claim: Claim | None, unit: str, value: int | None, objective: str | None = None
) -> list[tuple[str, str, str]]:
    """Return the rows of a claim: the recomputed objective, and the bound and the status, which are not checked."""
    recomputed = "-" if value is None else amount(value, unit)
    if claim is None:
        return [] if objective is None else [(f"objective ({objective})", recomputed, "-")]
    return [
        (f"objective ({objective or claim.objective})", recomputed, amount(int(claim.objective_value), unit)),
        ("lower bound", "not checked", amount(int(claim.lower_bound), unit)),
        ("status", "not checked", f"{claim.status}, as claimed"),
    ]


def description_report(description: Description) -> tuple[RenderableType, ...]:
    """Return the tables of a network's contents."""
    graph, required = description.problem.graph, description.required
    rows = [("network", graph.name), ("operators", f"{len(graph.operators):,}")]
    for role in Role:
        tensors = graph.with_role(role)
        size_bytes = sum(tensor.size_bytes for tensor in tensors)
        rows.append((f"{role} tensors", f"{len(tensors):,} ({exact_bytes(size_bytes)})"))
    rows += [
        ("M_R", least_need_words(required, required.operator.name)),
        ("M_P", _min_peak(description)),
        *_rows_in_tiles(description.in_tiles),
        ("compulsory traffic", exact_bytes(description.compulsory_bytes)),
    ]
    if graph.states:
        size_bytes = sum(graph.tensor[state.old].size_bytes for state in graph.states)
        rows.append(("state", f"{counted(len(graph.states), 'tensor')}, {exact_bytes(size_bytes)}"))
    rows += [(f"with share={one.share}", _shared(one)) for one in description.needs if one.share is not Share.NONE]
    largest = [
        (tensor.name, tensor.role, "-" if tensor.shape is None else "x".join(map(str, tensor.shape)), tensor.size_bytes)
        for tensor in largest_tensors(description)
    ]
    return facts(rows), DataTable(("largest tensors", "role", "shape", "bytes"), largest)


def _rows_in_tiles(need: NeedInTiles | None) -> Iterator[tuple[str, str]]:
    """Yield the rows of M_R and M_P in tiles."""
    if need is None:
        return
    peak = exact_bytes(need.min_peak_bytes)
    if need.lower_bound_bytes < need.min_peak_bytes:
        peak = f"at least {exact_bytes(need.lower_bound_bytes)} and at most {peak}"
    yield "M_R in tiles", f"{exact_bytes(need.required_bytes)}, set by {need.required_by}"
    yield "M_P in tiles", f"{peak}, 0 MACs recomputed"
    for one in need.recomputing:
        limit = "any recomputation" if one.most_percent is None else f"{one.most_percent:g} % recomputation"
        words = recomputed_words(one.recomputed_macs, need.macs)
        yield f"with {limit}", f"at most {exact_bytes(one.min_peak_bytes)}, {words} recomputed"


def _shared(need: SharedNeed) -> str:
    peak = "not proven" if need.min_peak_bytes is None else exact_bytes(need.min_peak_bytes)
    return f"M_R {exact_bytes(need.required_bytes)}, M_P {peak}"


def _min_peak(description: Description) -> str:
    peak = description.least_peak
    if description.min_peak_bytes is not None:
        return exact_bytes(description.min_peak_bytes)
    most = "" if peak.objective_value is None else f" and at most {exact_bytes(peak.objective_value)}"
    return f"at least {exact_bytes(peak.lower_bound)}{most} ({peak.stopped_by})"


def accelerators_table(accelerators: Iterable[Accelerator]) -> RenderableType:
    """Return a row for each accelerator: array, memories, energies and working verbs."""
    rows = []
    for one in accelerators:
        others = len(_memories_of(one)) - len(one.scratchpads)
        sizes = ", ".join(f"{memory.name} {short_bytes(memory.capacity_bytes)}" for memory in one.scratchpads)
        memories = f"{sizes} + {counted(others, 'level')}" if others else sizes
        energies = "unstated" if unstated_energies(one) else "stated"
        rows.append((one.name, _array_words(one), memories, energies, working_verbs_words(one)))
    return DataTable(("accelerator", "array", "memories", "energies", "works with"), rows)


def accelerator_tables(accelerator: Accelerator) -> Iterator[RenderableType]:
    """Yield the facts of an accelerator, and a row for each memory from the MACs outwards."""
    array = accelerator.array
    mac_energy = None if array is None else array.mac_energy_pj
    clock = () if accelerator.clock_mhz is None else (("clock", f"{accelerator.clock_mhz:g} MHz"),)
    yield facts(
        [
            ("accelerator", accelerator.name),
            ("array", _array_words(accelerator)),
            ("energy of a MAC", "unstated" if mac_energy is None else f"{mac_energy:.3g} pJ"),
            *clock,
            ("works with", working_verbs_words(accelerator)),
        ]
    )
    levels = {level.memory.name: level.access for level in accelerator.levels}
    rows = [
        (
            memory.name,
            short_bytes(memory.capacity_bytes),
            *_access_words(levels.get(memory.name)),
            operand_words(memory),
        )
        for memory in _memories_of(accelerator)
    ]
    if accelerator.dram is not None:
        rows.append(("dram", "", *_access_words(accelerator.dram.access), ""))
    yield DataTable(("memory", "capacity", "read", "write", "holds"), rows)
    yield from (Text(printable(note)) for note in accelerator.notes)


def _memories_of(accelerator: Accelerator) -> tuple[Memory, ...]:
    """Return the memories from the MACs outwards; the scratchpads if no levels are stated."""
    return tuple(level.memory for level in accelerator.levels) or accelerator.scratchpads


def _array_words(accelerator: Accelerator) -> str:
    array = accelerator.array
    if array is None:
        return "none"
    dimensions = " x ".join(f"{name} {size}" for name, size in array.dimensions.items())
    return dimensions or counted(array.macs, "MAC unit")


def _access_words(access: Access | None) -> tuple[str, str]:
    """Return the energies of a read and of a write of a bit."""
    if access is None:
        return "unstated", "unstated"
    energies = access.read_energy_pj, access.write_energy_pj
    read, write = (f"{energy / access.access_bits:.3g} pJ/bit" for energy in energies)
    return read, write
