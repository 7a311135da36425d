"""Why there is no plan, and what could be done about it: the same facts in words and as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from onchip.answer.problem import Objective
from onchip.model.capacity.infeasible_operator import InfeasibleOperator, Oversize, infeasible_operator
from onchip.reports.program.outcome import Outcome
from onchip.reports.shared.words import exact_bytes, printable

SPLIT = "--split auto"
MOST_OPERANDS = 10


def infeasible_object(outcome: Outcome) -> Mapping[str, object]:
    """What `plan --json` adds to an answer that there is no plan."""
    infeasible = infeasible_operator(outcome.problem)
    found: dict[str, object] = {"error": infeasible_words(outcome, infeasible)}
    if infeasible is None:
        excess_bytes = max(0, outcome.need_bytes - outcome.capacity_bytes)
        return found | {
            "expected": f"--objective {Objective.TRAFFIC}",
            "operator": outcome.required.operator.name,
            "need_bytes": outcome.need_bytes,
            "excess_bytes": excess_bytes,
            **_oversize_object(None),
        }
    return found | {
        "expected": expected_instead(infeasible),
        "operator": infeasible.operator.name,
        "need_bytes": infeasible.need_bytes,
        "excess_bytes": infeasible.excess_bytes,
        **_oversize_object(infeasible.oversize),
    }


def expected_instead(infeasible: InfeasibleOperator) -> str:
    """What would make room: tiles, unless no scratchpad takes one of the operands at all."""
    oversize = infeasible.oversize
    return SPLIT if oversize is None or oversize.largest is not None else f"a scratchpad that holds {oversize.operand}"


def _oversize_object(oversize: Oversize | None) -> Mapping[str, object]:
    largest = None if oversize is None else oversize.largest
    return {
        "tensor": oversize and oversize.tensor.name,
        "tensor_bytes": oversize and oversize.tensor.size_bytes,
        "largest_scratchpad": largest and largest.name,
        "largest_scratchpad_bytes": oversize and oversize.largest_bytes,
    }


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
    tensor = f"its {oversize.operand} {printable(oversize.tensor.name)} ({exact_bytes(oversize.tensor.size_bytes)})"
    if oversize.largest is None:
        return f"no scratchpad holds {tensor}"
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
