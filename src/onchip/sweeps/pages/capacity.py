"""The capacity curve of one network, as text and as a JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from onchip.answer.problem import Objective, Problem
from onchip.answer.result import Status
from onchip.api.budgets import Budgets
from onchip.model.capacity.infeasible_operator import InfeasibleOperator
from onchip.reports.program.outcome import oversize_words
from onchip.reports.shared.page import html_table
from onchip.reports.shared.words import counted, exact_bytes, printable
from onchip.sweeps.curve import CurveStep

if TYPE_CHECKING:
    from rich.console import RenderableType


OF_OBJECTIVES: Final = {
    Objective.PEAK: "arena",
    Objective.DMA_CYCLES: "non-compulsory transfers",
    Objective.DMA_ENERGY: "non-compulsory transfers",
    Objective.LATENCY: "latency",
    Objective.RECOMPUTATION: "cycles of what runs again",
}


@dataclass(frozen=True, slots=True)
class CapacityOutcome:
    """The curve of `problem`: its steps, smallest capacity first.

    Values are in the unit of the problem's objective; traffic is the non-compulsory traffic in bytes, which excludes
    `compulsory_bytes`. The curve took `asked` plans. If an operator is `unfit` at every size there are no steps.
    """

    problem: Problem
    budgets: Budgets
    steps: tuple[CurveStep, ...]
    compulsory_bytes: int
    asked: int
    seconds: float
    unfit: InfeasibleOperator | None = None

    @property
    def is_proven(self) -> bool:
        """Return True if every step of the curve is proven."""
        return all(step.is_proven for step in self.steps)

    @property
    def of_traffic(self) -> bool:
        """Return True if the values are bytes of non-compulsory traffic."""
        return self.problem.objective is Objective.TRAFFIC

    @property
    def value_name(self) -> str:
        """Return the name of the values, with their unit."""
        objective = self.problem.objective
        name = "non-compulsory traffic" if self.of_traffic else f"{OF_OBJECTIVES[objective]}, {objective.unit}"
        return f"{name}, with state" if self.problem.graph.states and objective.counts_transfers else name

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        columns = ("from", "to", self.value_name, "at least", "")
        rows = [(one.first, one.last, one.value, one.lower_bound, ", ".join(self.names_at(one))) for one in self.steps]
        return html_table(columns, rows, self.problem.graph.name)

    def names_at(self, step: CurveStep) -> tuple[str, ...]:
        """Return the names of the COSMA budgets within a step."""
        budgets = {"M_R": self.budgets.required_bytes, "M_P": self.budgets.min_peak_bytes}
        return tuple(
            name
            for name, size in budgets.items()
            if size is not None and step.first <= size and (step.last is None or size <= step.last)
        )


def capacity_object(outcome: CapacityOutcome) -> dict[str, object]:
    """Return the curve as a JSON object."""
    return {
        "network": outcome.problem.graph.name,
        "objective": outcome.problem.objective,
        "unit": outcome.problem.objective.unit,
        "order": outcome.problem.order,
        "count": outcome.problem.count,
        "alignment_bytes": outcome.problem.memories[0].alignment_bytes,
        "required_bytes": outcome.budgets.required_bytes,
        "required_by": outcome.budgets.required.operator.name,
        "min_peak_bytes": outcome.budgets.min_peak_bytes,
        "compulsory_bytes": outcome.compulsory_bytes,
        "is_proven": outcome.is_proven,
        "steps": [
            {
                "from_bytes": step.first,
                "to_bytes": step.last,
                "objective_value": step.value,
                "lower_bound": step.lower_bound,
                "traffic_bytes": _traffic(outcome, step),
                "names": list(outcome.names_at(step)),
            }
            for step in outcome.steps
        ],
        "plans": outcome.asked,
        "seconds": outcome.seconds,
        **({} if outcome.unfit is None else _infeasible_object(outcome.unfit)),
    }


def _infeasible_object(unfit: InfeasibleOperator) -> dict[str, object]:
    """Return the JSON fields of an infeasible curve."""
    return {
        "status": Status.INFEASIBLE,
        "error": _unfit_words(unfit),
        "operator": unfit.operator.name,
        "need_bytes": unfit.need_bytes,
        "capacity_bytes": unfit.capacity_bytes,
        "excess_bytes": unfit.excess_bytes,
    }


def _unfit_words(unfit: InfeasibleOperator) -> str:
    if unfit.oversize is None:
        return f"the operands of operator {printable(unfit.operator.name)} have no places together, at any size"
    return f"operator {printable(unfit.operator.name)} fits at no size: {oversize_words(unfit.oversize)}"


def _traffic(outcome: CapacityOutcome, step: CurveStep) -> int | None:
    """Return the total traffic in bytes, if traffic is the objective."""
    return None if step.value is None or not outcome.of_traffic else step.value + outcome.compulsory_bytes


def capacity_tables(outcome: CapacityOutcome) -> Iterator[RenderableType]:
    """Yield the table of steps, and the note below it."""
    from rich.table import Table
    from rich.text import Text

    if outcome.unfit is not None:
        yield Text(f"{Status.INFEASIBLE}: {_unfit_words(outcome.unfit)}")
        return
    table = Table(box=None, title=printable(outcome.problem.graph.name), title_justify="left")
    of_total = ("total traffic",) if outcome.of_traffic else ()
    for name in ("from", "to", outcome.value_name, *of_total, "at least"):
        table.add_column(name, justify="right")
    table.add_column("")
    for step in outcome.steps:
        traffic = _traffic(outcome, step)
        total = ("" if traffic is None else f"{traffic:,}",) if outcome.of_traffic else ()
        notes = ", ".join((*outcome.names_at(step), *(() if step.is_proven else ("not proven",))))
        value = "" if step.value is None else f"{step.value:,}"
        last = "" if step.last is None else f"{step.last:,}"
        table.add_row(f"{step.first:,}", last, value, *total, f"{step.lower_bound:,}", notes)
    yield table
    peak = outcome.budgets.min_peak_in_words
    proof = "every step is proven" if outcome.is_proven else "not every step is proven: more time may do"
    required = exact_bytes(outcome.budgets.required_bytes)
    yield Text(f"M_R is {required}; {peak}; {counted(outcome.asked, 'plan')} in {outcome.seconds:.1f} s, {proof}")
