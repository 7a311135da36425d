"""The reasons for the transfers of a plan, as a JSON object and as sentences for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.answer.problem import Placement
from onchip.answer.program import Transfer
from onchip.answer.result import SearchResult, Status
from onchip.answer.words import amount, counted, exact_bytes, picked
from onchip.arch.memory import Memory
from onchip.model.capacity.bounds import OperatorNeed, greatest_needs
from onchip.reports.explain.history import (
    FullStep,
    History,
    ReloadCause,
    ReloadPurpose,
    full_steps,
    moves,
    reload_causes,
)
from onchip.reports.program.outcome import Json, least_need_words, links_object, memory_object, memory_words

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explained legal plan; `least_peak` is the result for M_P, None if it was not requested."""

    history: History
    reload_causes: tuple[ReloadCause, ...]
    full_steps: tuple[FullStep, ...]
    needs: tuple[OperatorNeed, ...]
    moves: tuple[Transfer, ...]
    least_peak: SearchResult[tuple[int, ...]] | None = None

    @classmethod
    def of(cls, history: History, least_peak: SearchResult[tuple[int, ...]] | None = None) -> Explanation:
        """Explain the plan of `history`."""
        found = reload_causes(history)
        needs = greatest_needs(history.problem)
        return cls(history, found, full_steps(history, found), needs, moves(history), least_peak)

    @property
    def min_peak_bytes(self) -> int | None:
        """M_P in bytes, or None if it is not proven."""
        peak = self.least_peak
        return peak.objective_value if peak is not None and peak.status is Status.OPTIMAL else None


def explanation_object(explanation: Explanation) -> Json:
    """Return the causes of all transfers for `--json`."""
    history = explanation.history
    steps = {operator.name: step for step, operator in reversed(tuple(enumerate(history.operators)))}
    return {
        "network": history.problem.graph.name,
        "memories": [memory_object(memory) for memory in history.problem.memories],
        "links": links_object(history.problem),
        "objective_unit": history.problem.objective.unit,
        "required_bytes": explanation.needs[0].need_bytes,
        "required_by": [{"operator": n.operator.name, "step": steps[n.operator.name]} for n in explanation.needs],
        "full_steps": [
            {
                "step": full.step,
                "operator": full.operator.name,
                "memory": full.memory.name,
                **picked(full, "footprint_bytes", "free_bytes"),
            }
            for full in explanation.full_steps
        ],
        "absences": [_cause_object(history, cause) for cause in explanation.reload_causes],
        "moves": [
            {
                "tensor": move.tensor,
                "bytes": move.size_bytes,
                **picked(move, "source", "target", "step"),
                "cost": history.cost(move),
            }
            for move in explanation.moves
        ],
        "runs_again": [
            {"operator": operator.name, "step": step, "cost": history.problem.cost_again(operator)}
            for step, operator in history.runs_again
        ],
        "spill_free_bytes": {"this_order": history.bytes_without_spills, "any_order": explanation.min_peak_bytes},
    }


def _cause_object(history: History, cause: ReloadCause) -> Json:
    step = cause.tightest_step
    return {
        "tensor": cause.tensor.name,
        "bytes": cause.tensor.size_bytes,
        "memory": cause.memory.name,
        "target": cause.target,
        "way": cause.way,
        "left_step": cause.left,
        "returned_step": cause.returned,
        **picked(cause, "cost", "spill_cost", "reload_cost"),
        "forced": cause.is_forced,
        "tightest_step": step,
        "tightest_operator": None if step is None else history.operators[step].name,
        "pushed_out_by": [
            {"tensor": one.tensor, "bytes": one.size_bytes, "operand": one.tensor in operands_in(history, step)}
            for one in cause.pushed_out_by
        ],
        "stays_with_bytes": cause.bytes_to_stay,
    }


def operands_in(history: History, step: int | None) -> frozenset[str]:
    """Return the names of the operands of a step's operator, or none without a step."""
    if step is None:
        return frozenset()
    return frozenset(tensor.name for tensor in history.problem.operands(history.operators[step]))


MOST_SHOWN = 10


def explanation_lines(explanation: Explanation) -> tuple[RenderableType, ...]:
    """Return the figures, then the most expensive spills one by one."""
    from rich.text import Text

    from onchip.reports.shared.facts import facts

    sentences = (Text(line) for line in (*_spills(explanation), *_moves(explanation), *_runs_again(explanation)))
    return (facts(_rows(explanation)), Text(""), *sentences)


def _rows(explanation: Explanation) -> list[tuple[str, str]]:
    history = explanation.history
    problem = history.problem
    rows = [("network", f"{problem.graph.name}, {counted(len(problem.graph.operators), 'operator')}")]
    for memory in problem.memories:
        footprint = history.footprint(memory.name)
        step = max(range(len(footprint)), key=lambda step: footprint[step])
        rows.append(("scratchpad", memory_words(memory, exact_bytes(memory.capacity_bytes))))
        rows.append(("fullest", f"{exact_bytes(footprint[step])} in {_step(history, step)}"))
    rows.append(("M_R", least_need_words(explanation.needs[0], _setters(explanation))))
    rows.append(("full steps", _full(explanation)))
    return rows


def _setters(explanation: Explanation) -> str:
    history = explanation.history
    graph, operator = history.problem.graph, explanation.needs[0].operator
    sizes = ", ".join(f"{tensor.name} ({tensor.size_bytes:,})" for tensor in history.problem.operands(operator))
    others = explanation.needs[1:]
    more = f"; as much is needed by {_listed(need.operator.name for need in others)}" if others else ""
    return f"{operator.name} ({graph.operator[operator.name].kind}) with {sizes}{more}"


def _full(explanation: Explanation) -> str:
    full = explanation.full_steps
    if not full:
        return "0: every step fits the tensors needed later, by bytes"
    several = len(explanation.history.problem.memories) > 1
    return f"{len(full):,}: {_listed(_full_step(one, is_named=several) for one in full)}"


def _full_step(full: FullStep, *, is_named: bool) -> str:
    where = f" in {full.memory.name}" if is_named else ""
    return f"{full.step} ({full.operator.name}, {full.free_bytes:,} free{where})"


def _spills(explanation: Explanation) -> Iterator[str]:
    found, history = explanation.reload_causes, explanation.history
    if not found:
        where = "the scratchpad" if len(history.problem.memories) == 1 else "the scratchpads"
        yield f"All tensors stay in {where} until their last use."
        return
    tensors = len({cause.tensor.name for cause in found})
    cost = _cost(history, sum(cause.cost for cause in found))
    times = counted(len(found), "time")
    yield f"{counted(tensors, 'tensor')} evicted and read again, {times}, at a cost of {cost}:"
    groups = _by_tensor(found)
    for causes in groups[:MOST_SHOWN]:
        yield ""
        yield from _spills_of_tensor(history, causes)
    if len(groups) > MOST_SHOWN:
        rest = [cause for causes in groups[MOST_SHOWN:] for cause in causes]
        yield f"\nAnd {counted(len(rest), 'time')} more, at {sum(cause.cost for cause in rest):,}; --json has all."
    if all(cause.way is not ReloadPurpose.BACK for cause in found):
        return
    least = exact_bytes(history.bytes_without_spills)
    where = "" if len(history.problem.memories) == 1 else " over all scratchpads"
    yield f"\nWithout spills this order needs at least {least}{where}{_any_order(explanation)}."


def _by_tensor(found: Iterable[ReloadCause]) -> list[list[ReloadCause]]:
    """Group the causes by tensor, tiles of one tensor together, the most expensive group first."""
    groups: dict[str, list[ReloadCause]] = {}
    for cause in found:
        groups.setdefault(cause.tensor.part_of or cause.tensor.name, []).append(cause)
    return sorted(groups.values(), key=lambda causes: -sum(cause.cost for cause in causes))


def _spills_of_tensor(history: History, causes: Sequence[ReloadCause]) -> Iterator[str]:
    """Yield the count and the cost of several spills, and the most expensive spill."""
    if len(causes) > 1:
        tensor, bands = causes[0].tensor, len({cause.tensor.name for cause in causes})
        of = f"{bands} tiles of {tensor.part_of}" if bands > 1 else tensor.name
        yield f"{of}, {counted(len(causes), 'time')} at {sum(cause.cost for cause in causes):,}; the most expensive:"
    yield from _spill(history, causes[0])


def _moves(explanation: Explanation) -> Iterator[str]:
    history, moved = explanation.history, explanation.moves
    if not moved:
        return
    cost = _cost(history, sum(history.cost(move) for move in moved))
    tensors = counted(len({move.tensor for move in moved}), "tensor")
    yield f"\n{tensors} moved between scratchpads, {counted(len(moved), 'time')}, at a cost of {cost}:"
    for move in moved[:MOST_SHOWN]:
        place = f"{move.source} to {move.target} before step {move.step}"
        yield f"  {move.tensor} ({exact_bytes(move.size_bytes)}) from {place}, {history.cost(move):,}"
    if len(moved) > MOST_SHOWN:
        yield f"  and {counted(len(moved) - MOST_SHOWN, 'time')} more; --json has all"


def _runs_again(explanation: Explanation) -> Iterator[str]:
    history = explanation.history
    again = history.runs_again
    if not again:
        return
    cost = _cost(history, sum(history.problem.cost_again(operator) for _, operator in again))
    operators = counted(len({operator.name for _, operator in again}), "operator")
    yield f"\n{operators} ran again, {counted(len(again), 'time')}, at a cost of {cost}:"
    dearest = sorted(again, key=lambda one: -history.problem.cost_again(one[1]))
    for step, operator in dearest[:MOST_SHOWN]:
        yield f"  {operator.name} ({operator.kind}) in step {step}, {history.problem.cost_again(operator):,}"
    if len(again) > MOST_SHOWN:
        yield f"  and {counted(len(again) - MOST_SHOWN, 'time')} more; --json has all"


def _cost(history: History, cost: int) -> str:
    unit = history.problem.objective.unit
    return amount(cost, unit)


def _spill(history: History, cause: ReloadCause) -> Iterator[str]:
    paid = f"spill {cause.spill_cost:,} + reload {cause.reload_cost:,}"
    if not cause.spill_cost:
        paid = f"reload {cause.reload_cost:,}; DRAM had a copy"
    yield f"{cause.tensor.name} ({exact_bytes(cause.tensor.size_bytes)}) costs {cause.cost:,}: {paid}"
    step = cause.tightest_step
    if cause.way is not ReloadPurpose.BACK:
        yield f"  {_why_not_back(history, cause)}"
        return
    if step is None:
        what = "address" if len(history.problem.memories) == 1 else "place"
        yield f"  evicted between steps {cause.left - 1} and {cause.left}, only to move to another {what}"
        return
    last = cause.returned - 1
    yield f"  spilled in {f'steps {cause.left} to {last}' if last > cause.left else f'step {cause.left}'}"
    if not cause.is_forced:
        yield f"  the tensor would fit by bytes{_in(history, cause.memory)}: {_unforced(history)}"
        return
    operands = operands_in(history, step)
    needed = [f"{one.tensor} ({one.size_bytes:,})" for one in cause.pushed_out_by if one.tensor in operands]
    kept = [f"{one.tensor} ({one.size_bytes:,})" for one in cause.pushed_out_by if one.tensor not in operands]
    kept_words = f"{_listed(kept)}, needed later" if kept else ""
    by = " and ".join(filter(None, (f"the operands {_listed(needed)}" if needed else "", kept_words)))
    yield f"  evicted{_in(history, cause.memory, 'of')} in {_step(history, step)} for {by}"
    more = cause.bytes_to_stay - cause.memory.capacity_bytes
    with_bytes = f"{exact_bytes(cause.bytes_to_stay)}{_in(history, cause.memory)}"
    yield f"  capacity needed to stay: {with_bytes}, {more:,} more, with all other residents unchanged"


def _why_not_back(history: History, cause: ReloadCause) -> str:
    if cause.way is ReloadPurpose.COPY:
        return f"another scratchpad still holds it: {cause.target} gets a copy before step {cause.returned}"
    writer = history.problem.graph.producer[cause.tensor.name].name
    return (
        f"moved through DRAM between steps {cause.left - 1} and {cause.returned}: no link connects the scratchpads of "
        f"{writer} and of the next reader"
    )


def _unforced(history: History) -> str:
    if history.problem.placement is Placement.STATIC:
        return "the tensor has no static offset, or a better plan exists"
    return "fragmentation left no free address range, or a better plan exists"


def _in(history: History, memory: Memory, preposition: str = "in") -> str:
    return f" {preposition} {memory.name}" if len(history.problem.memories) > 1 else ""


def _any_order(explanation: Explanation) -> str:
    peak = explanation.least_peak
    if peak is None:
        return ""
    if explanation.min_peak_bytes is not None:
        return f"; the best order needs {exact_bytes(explanation.min_peak_bytes)} (M_P)"
    return f"; the best order needs at least {exact_bytes(peak.lower_bound)} (M_P is not proven: {peak.stopped_by})"


def _step(history: History, step: int) -> str:
    return f"step {step} ({history.operators[step].name})"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    rest = f" and {len(every) - MOST_SHOWN:,} more" if len(every) > MOST_SHOWN else ""
    return ", ".join(every[:MOST_SHOWN]) + rest
