"""The multi-scratchpad thesis (Jang, Drexel 2023): its networks and sizes, its tables, and its rivals.

    PYTHONPATH=benchmarks python -m thesis.pinning [--tensors capped tiled] [--only NAME ...] [--sizes KB ...]
                                                   [--free] [--speed-ups] [--results FILE.json]

Three scratchpads of 32 to 2048 KB each, or infinite ones (size 0); 16 bits, all tensors counted, raw operators, the
given order. Bytes are all bytes between DRAM and the scratchpads. With `--free`, `exact` plans in any order. With
`--speed-ups`, plans of capped tensors are timed on `nvdla-like`, where an operator takes its multiply-accumulates
divided by the array: `in_turns` executes transfers and operators one after the other, as SMAUG does, `beside` overlaps
them as the timeline does. A speed-up is the cycles of the naive plan divided by those of `exact`, less one. `by_count`
is the thesis's formula with its boundness, and counts transfers whatever their bytes.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import fmean

from shared.runner import Row, asked_of, options_of, report
from thesis.published import TABLE_7_1

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count, Order, Problem
from onchip.answer.program import Copy
from onchip.api.networks import fitted_to_scratchpads, read_network
from onchip.api.plan import plan_problem, tiled_one_by_one
from onchip.api.run import timeline_of
from onchip.arch.memory import Memory
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.model.timeline.plan_timeline import Timeline
from onchip.search.budget.limits import Limits
from onchip.verify.verifier import verify

SIZES_KB = (32, 64, 128, 256, 512, 1024, 2048)
INFINITE = 0
METHODS = ("naive", "onsram", "pinning", "exact")
SCRATCHPADS = ("input_0", "input_1", "output")
TIME_LIMIT_SECONDS = {"capped": 60.0, "tiled": 10.0}
MEAN_SECONDS_ALLOWED, WORST_SECONDS_ALLOWED = 0.5, 10.0


def problem_of(network: str, tensors: str, size_kb: int, order: Order) -> Problem:
    """Return the problem to plan; infinite scratchpads need no capping."""
    reading = Reading(count=Count.ALL, granularity=Granularity.RAW)
    if size_kb:
        reading = replace(reading, cap_tensors=tensors == "capped")
    graph = read_network(network, reading)
    capacity_bytes = size_kb * 1024 or sum(tensor.size_bytes for tensor in graph.tensors)
    memories = tuple(Memory(name, capacity_bytes) for name in SCRATCHPADS)
    problem = Problem(graph, memories, order=order, count=Count.ALL)
    if reading.cap_tensors or not size_kb:
        return fitted_to_scratchpads(problem, network, reading)
    return tiled_one_by_one(problem, network, reading).problem


def row_of(problem: Problem, network: str, tensors: str, size_kb: int, method: str) -> Row:
    """Plan and verify; `moved_bytes` is None without a plan."""
    started = time.perf_counter()
    result = plan_problem(problem, method, Limits(TIME_LIMIT_SECONDS[tensors]))
    seconds = time.perf_counter() - started
    return {
        "network": network,
        "tensors": tensors,
        "size_kb": size_kb,
        "operators": len(problem.graph.operators),
        "order": str(problem.order),
        "method": method,
        "status": str(result.status),
        "moved_bytes": None if result.answer is None else verify(problem, result.answer).figures.total,
        "gap": result.gap,
        "seconds": seconds,
    }


def rows(asked: Namespace) -> Iterator[Row]:
    """Yield a row for each problem and method; for a free order `exact` alone."""
    methods, order = (METHODS[-1:], Order.FREE) if asked.free else (METHODS, Order.GIVEN)
    for network in asked.only:
        for tensors in asked.tensors:
            for size_kb in (*asked.sizes, INFINITE):
                problem = problem_of(network, tensors, size_kb, order)
                yield from (row_of(problem, network, tensors, size_kb, method) for method in methods)


def speed_ups(asked: Namespace) -> Iterator[Row]:
    """Yield the speed-ups of each network at each size (table 7.1 and figure 7.2)."""
    for network in asked.only:
        for size_kb in (*asked.sizes, INFINITE):
            (naive, naive_copies, _), (exact, copies, status) = (
                _timed(network, size_kb, method) for method in ("naive", "exact")
            )
            turns = [one.transfer_cycles + one.compute_cycles for one in (naive, exact)]
            boundness, saved = TABLE_7_1[network].boundness, 1 - copies / naive_copies
            yield {
                "network": network,
                "size_kb": size_kb,
                "boundness": naive.transfer_cycles / turns[0],
                "in_turns": turns[0] / turns[1] - 1,
                "beside": naive.total_cycles / exact.total_cycles - 1,
                "by_count": 1 / (1 - boundness * saved) - 1,
                "is_proven": status == "OPTIMAL",
            }


def _timed(network: str, size_kb: int, method: str) -> tuple[Timeline, int, str]:
    """Return the timeline of a plan, its transfers and its status; end the program if there is no plan in time."""
    problem = problem_of(network, "capped", size_kb, Order.GIVEN)
    result = plan_problem(problem, method, Limits(TIME_LIMIT_SECONDS["capped"]))
    if result.answer is None:
        raise SystemExit(f"{network} at {size_kb} KB: {method} has no plan")
    copies = sum(isinstance(one, Copy) for one in result.answer.instructions)
    return timeline_of(problem, result.answer, load_accelerator("nvdla-like")), copies, str(result.status)


def exact_is_met(found: list[Row]) -> bool:
    """Print the results of `exact`; return True if every problem with capped tensors is proven in time."""
    met = True
    for tensors in dict.fromkeys(row["tensors"] for row in found):
        exact = [row for row in found if (row["method"], row["tensors"]) == ("exact", tensors) and row["size_kb"]]
        proven, seconds = sum(row["status"] == "OPTIMAL" for row in exact), [row["seconds"] for row in exact]
        print(f"{tensors}: {proven} of {len(exact)} proven, mean {fmean(seconds):.2f} s, worst {max(seconds):.2f} s")
        if tensors == "capped":
            in_time = fmean(seconds) <= MEAN_SECONDS_ALLOWED and max(seconds) <= WORST_SECONDS_ALLOWED
            met = proven == len(exact) and in_time
    return met


def main() -> int:
    """Print the tables; return 1 if the capped networks are not proven in time."""
    parser = options_of(__doc__)
    parser.add_argument("--tensors", nargs="+", choices=("capped", "tiled"), default=["capped", "tiled"])
    parser.add_argument("--only", nargs="+", choices=tuple(TABLE_7_1), default=list(TABLE_7_1))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES_KB))
    parser.add_argument("--free", action="store_true", help="exact in any order")
    parser.add_argument("--speed-ups", action="store_true", help="table 7.1 and figure 7.2")
    asked = asked_of(parser)
    if asked.speed_ups:
        found = report(asked, {"speed_ups": partial(speed_ups, asked)})["speed_ups"]
        return int(not all(row["is_proven"] for row in found))
    return int(not exact_is_met(report(asked, {"pinning": partial(rows, asked)})["pinning"]))


if __name__ == "__main__":
    raise SystemExit(main())
