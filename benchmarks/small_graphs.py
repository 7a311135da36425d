"""Small random graphs with tight budgets, proven with addresses: 8 to 20 operators, in any order and in the given one.

    PYTHONPATH=tests python benchmarks/small_graphs.py [--graphs N] [--seed S] [--workers N] [--no-oracle] [--json]

Every plan is verified. That nothing is cheaper is asked of the second prover (`onchip audit`), which shares no code
with the search, and of every state of the scratchpad where these are few. Seconds are of the solve alone, by the clock,
in one process that has solved one graph before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from generated_small import small_problem

from onchip.answer.problem import Order, Problem
from onchip.api.audit import audit
from onchip.api.plan import plan_problem
from onchip.audits.finding import Ruling
from onchip.search.budget.limits import Limits
from oracles.one_plan import Question
from oracles.one_plan_model import bounds_of_traffic
from oracles.packing import TooLargeError
from oracles.placed_states import costs_less

SECONDS_ALLOWED, SHARE_ALLOWED = 2.0, 0.99
SECONDS_OF_AUDIT = 60.0
OFFSETS_TRIED, PATIENT_OFFSETS = 50_000, 20_000_000
ORDERS = (Order.FREE, Order.GIVEN)


@dataclass(frozen=True, slots=True)
class Row:
    """One answer; `ruling` is the second prover's, `by_states` what trying every state says (None: too many)."""

    seed: int
    order: str
    operators: int
    capacity_bytes: int
    status: str
    objective_bytes: int | None
    bound_bytes: int
    seconds: float
    cpu_seconds: float
    ruling: str | None
    by_states: bool | None

    @property
    def is_wrong(self) -> bool:
        """Whether an oracle has a better plan."""
        return self.ruling == Ruling.REFUTED or self.by_states is False

    @property
    def is_right(self) -> bool:
        """Whether it is proven, and an oracle agrees."""
        return self.status == "OPTIMAL" and not self.is_wrong and (self.ruling == Ruling.CONFIRMED)


def row_of(seed: int, order: Order, workers: int, *, has_oracle: bool) -> Row:
    """Solve, verify, and ask the oracles about the bound."""
    problem = small_problem(seed, order)
    started, used = time.perf_counter(), time.process_time()
    result = plan_problem(problem, limits=Limits(workers=workers))
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - used
    bound = result.lower_bound
    return Row(
        seed,
        order,
        len(problem.graph.operators),
        problem.memories[0].capacity_bytes,
        result.status,
        result.objective_value,
        bound,
        seconds,
        cpu_seconds,
        ruling_on(problem, bound) if has_oracle else None,
        is_least_of_states(problem, bound) if has_oracle else None,
    )


def ruling_on(problem: Problem, bound: int) -> Ruling:
    """Return the second prover's ruling; of what it leaves open what other oracles say, with more patience.

    Of a given order the tests' own model is asked, of a free one every state of the scratchpad.
    """
    ruling = audit(problem, bound, seconds=SECONDS_OF_AUDIT).ruling
    if ruling is not Ruling.UNDECIDED:
        return ruling
    if problem.order is not Order.GIVEN:
        least = is_least_of_states(problem, bound, PATIENT_OFFSETS)
        return ruling if least is None else Ruling.CONFIRMED if least else Ruling.REFUTED
    capacity = problem.memories[0].capacity_bytes
    low, high = bounds_of_traffic(question_of(problem), capacity, SECONDS_OF_AUDIT)
    if low >= bound:
        return Ruling.CONFIRMED
    return Ruling.REFUTED if high is not None and high < bound else Ruling.UNDECIDED


def is_least_of_states(problem: Problem, bound: int, offsets: int = OFFSETS_TRIED) -> bool | None:
    """Whether no state of the scratchpad leads to less than the bound; None if there are too many."""
    capacity, is_given = problem.memories[0].capacity_bytes, problem.order is Order.GIVEN
    try:
        return not costs_less(question_of(problem), capacity, bound, offsets, is_given=is_given)
    except TooLargeError:
        return None


def question_of(problem: Problem) -> Question:
    """Return the problem in the oracle's numbers."""
    graph = problem.graph
    number = {tensor.name: index for index, tensor in enumerate(graph.tensors)}
    return Question(
        tuple(tensor.size_bytes for tensor in graph.tensors),
        tuple(str(tensor.role) for tensor in graph.tensors),
        tuple(tuple(number[name] for name in operator.inputs) for operator in graph.operators),
        tuple(tuple(number[name] for name in operator.outputs) for operator in graph.operators),
        problem.memories[0].alignment_bytes,
    )


def rows(seeds: Sequence[int], workers: int, *, has_oracle: bool) -> Iterator[Row]:
    """Yield a row for each graph and order, once everything is loaded."""
    plan_problem(small_problem(seeds[0], Order.FREE), limits=Limits(workers=workers))
    for order in ORDERS:
        for seed in seeds:
            yield row_of(seed, order, workers, has_oracle=has_oracle)


def line_of(order: Order, found: list[Row]) -> str:
    """Return a line of the table."""
    seconds = sorted(row.seconds for row in found)
    proven = sum(row.status == "OPTIMAL" for row in found)
    return (
        f"{order:6} {len(found):6} {proven:8} {sum(row.is_right for row in found):6} "
        f"{sum(row.is_wrong for row in found):6} {len(found) - proven:9} "
        f"{sum(row.by_states is not None for row in found):10} "
        f"{statistics.median(seconds):8.3f} {seconds[int(SHARE_ALLOWED * (len(seconds) - 1))]:7.3f} {seconds[-1]:7.3f} "
        f"{sum(row.cpu_seconds for row in found):8.1f}"
    )


def is_met(found: list[Row], *, has_oracle: bool) -> bool:
    """Whether all are proven and right, and nearly all in the time allowed."""
    in_time = sum(row.seconds <= SECONDS_ALLOWED for row in found)
    is_all = all(row.is_right if has_oracle else row.status == "OPTIMAL" for row in found)
    return is_all and in_time >= SHARE_ALLOWED * len(found)


def main() -> None:
    """Run, print, and end with 1 if something is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--graphs", type=int, default=2_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the first graph")
    parser.add_argument("--workers", type=int, default=1, metavar="N")
    parser.add_argument("--no-oracle", action="store_true", help="solve and verify only")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    has_oracle = not arguments.no_oracle
    found: list[Row] = []
    for row in rows(range(arguments.seed, arguments.seed + arguments.graphs), arguments.workers, has_oracle=has_oracle):
        found.append(row)
        if not arguments.json and (row.is_wrong or row.status != "OPTIMAL" or row.seconds > SECONDS_ALLOWED):
            print(row, flush=True)
    if arguments.json:
        print(json.dumps({"small_graphs": [asdict(row) for row in found]}, indent=2))
    else:
        print("order  graphs  OPTIMAL  right  wrong  unproven  by states   median    99 %     max  CPU sum")
        for order in ORDERS:
            print(line_of(order, [row for row in found if row.order == order]))
    sys.exit(0 if is_met(found, has_oracle=has_oracle) else 1)


if __name__ == "__main__":
    main()
