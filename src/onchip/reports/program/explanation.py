"""Why a plan is as it is: what sets M_R, where it is full, what each spill costs and who caused it."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.residencies import Transfer
from onchip.answer.result import Result, Status
from onchip.model.capacity.bounds import OperatorNeed, greatest_needs
from onchip.reports.explain.history import History
from onchip.reports.explain.reload_causes import (
    FullStep,
    ReloadCause,
    full_steps,
    moves,
    reload_causes,
)
from onchip.reports.program.json_view import Json, links_object, memory_object


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of a legal plan. `least_peak` is M_P as far as it was found, None where nobody asked."""

    history: History
    reload_causes: tuple[ReloadCause, ...]
    full_steps: tuple[FullStep, ...]
    needs: tuple[OperatorNeed, ...]
    moves: tuple[Transfer, ...]
    least_peak: Result[tuple[int, ...]] | None = None

    @classmethod
    def of(cls, history: History, least_peak: Result[tuple[int, ...]] | None = None) -> Explanation:
        """Explain the plan of `history`."""
        found = reload_causes(history)
        needs = greatest_needs(history.problem)
        return cls(history, found, full_steps(history, found), needs, moves(history), least_peak)

    @property
    def min_peak_bytes(self) -> int | None:
        """M_P, or None where it is not proven."""
        peak = self.least_peak
        return peak.objective_value if peak is not None and peak.status is Status.OPTIMAL else None


def explanation_object(explanation: Explanation) -> Json:
    """Return everything that is known of why the plan moves what it moves, for `--json`."""
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
                "footprint_bytes": full.footprint_bytes,
                "free_bytes": full.free_bytes,
            }
            for full in explanation.full_steps
        ],
        "absences": [_cause_object(history, cause) for cause in explanation.reload_causes],
        "moves": [_move_object(history, move) for move in explanation.moves],
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
        "cost": cause.cost,
        "spill_cost": cause.spill_cost,
        "reload_cost": cause.reload_cost,
        "forced": cause.is_forced,
        "tightest_step": step,
        "tightest_operator": None if step is None else history.operators[step].name,
        "pushed_out_by": [
            {"tensor": one.tensor, "bytes": one.size_bytes, "operand": one.tensor in operands_in(history, step)}
            for one in cause.pushed_out_by
        ],
        "stays_with_bytes": cause.bytes_to_stay,
    }


def _move_object(history: History, move: Transfer) -> Json:
    return {
        "tensor": move.tensor,
        "bytes": move.size_bytes,
        "source": move.source,
        "target": move.target,
        "step": move.step,
        "cost": history.cost(move),
    }


def operands_in(history: History, step: int | None) -> frozenset[str]:
    """Return the names of what the operator of a step works on; none where there is no step."""
    if step is None:
        return frozenset()
    return frozenset(tensor.name for tensor in history.problem.operands(history.operators[step]))
