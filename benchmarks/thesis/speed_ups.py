"""The multi-scratchpad thesis's table 7.1 (Jang, Drexel 2023), from cycles of our own timeline.

    PYTHONPATH=benchmarks python -m thesis.speed_ups [--only NAME ...] [--sizes KB ...] [--results FILE.json]

Each network is planned as in `thesis.pinning`: three scratchpads of one size, 16 bits, all tensors, the given order,
tensors capped at a scratchpad, but for infinite ones. Cycles are those of `nvdla-like`, where an operator takes its
multiply-accumulates over the array. `in turns`: transfers and operators one after the other, as in SMAUG; `beside`:
as the timeline has them, transfers beside operators that do not wait for them. A speed-up is the naive plan's cycles
over those of `exact`. `by count`: the thesis's formula, with its boundness, and transfers counted whatever their bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from shared.results import write_results
from thesis.pinning import INFINITE, SIZES_KB, problem_of, speed_up
from thesis.published import GREATEST_SPEED_UP, LEAST_SPEED_UP, RESNET_SHARE_AT_32_KB, TABLE_7_1

from onchip.answer.problem import Order
from onchip.answer.program import Copy
from onchip.api.plan import plan_problem
from onchip.api.time_plan import timeline_of
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.search.budget.limits import Limits

MACHINE, LIMIT_SECONDS = "nvdla-like", 60.0
NAIVE, EXACT = "naive", "exact"


@dataclass(frozen=True, slots=True)
class Timed:
    """A plan's transfers, cycles of them and of operators, and cycles from its beginning to its end."""

    transfers: int
    transfer_cycles: int
    compute_cycles: int
    total_cycles: int

    @property
    def in_turns(self) -> int:
        """Return the cycles if nothing runs concurrently."""
        return self.transfer_cycles + self.compute_cycles


@dataclass(frozen=True, slots=True)
class SpeedUps:
    """A network at a size: how many times faster `exact` is than the naive plan, less one."""

    network: str
    size_kb: int
    boundness: float
    in_turns: float
    beside: float
    by_count: float
    is_proven: bool


def timed(network: str, size_kb: int, method: str) -> tuple[Timed, bool]:
    """Return the plan's times, and whether it is proven; end the program if there is no plan in time."""
    problem = problem_of(network, "capped", size_kb, Order.GIVEN)
    result = plan_problem(problem, method, Limits(LIMIT_SECONDS))
    if result.answer is None:
        raise SystemExit(f"{network} at {size_kb} KB: {method} has no plan in {LIMIT_SECONDS:.0f} s")
    found = timeline_of(problem, result.answer, load_accelerator(MACHINE))
    transfers = sum(isinstance(one, Copy) for one in result.answer.instructions)
    return Timed(transfers, found.transfer_cycles, found.compute_cycles, found.total_cycles), result.status == "OPTIMAL"


def speed_ups(network: str, size_kb: int) -> SpeedUps:
    """Both plans, and what lies between them."""
    (naive, _), (exact, is_proven) = timed(network, size_kb, NAIVE), timed(network, size_kb, EXACT)
    reduction = 1 - exact.transfers / naive.transfers
    return SpeedUps(
        network,
        size_kb,
        naive.transfer_cycles / naive.in_turns,
        naive.in_turns / exact.in_turns - 1,
        naive.total_cycles / exact.total_cycles - 1,
        speed_up(reduction, TABLE_7_1[network].boundness),
        is_proven,
    )


def lines(rows: Mapping[tuple[str, int], SpeedUps], sizes: Sequence[int]) -> Iterator[str]:
    """Yield table 7.1 with our columns next to the thesis's; averages are over sizes."""
    yield (
        f"{'':14} {'boundness':>15} {'without DMA':>15} {'infinite, in turns':>20} {'beside':>7} {'by count':>9}"
        f" {'average, in turns':>20} {'beside':>7} {'by count':>9}   least, greatest"
    )
    for network in dict.fromkeys(network for network, _ in rows):
        thesis, infinite = TABLE_7_1[network], rows[network, INFINITE]
        finite = [rows[network, size_kb] for size_kb in sizes]
        average = [fmean(getattr(one, how) for one in finite) for how in ("in_turns", "beside", "by_count")]
        extremes = min(one.in_turns for one in finite), max(one.in_turns for one in finite)
        without = 1 / (1 - infinite.boundness) - 1
        yield (
            f"{network:14} {infinite.boundness:7.1%} {thesis.boundness:7.1%} {without:7.1%} {thesis.theoretical:7.1%}"
            f" {infinite.in_turns:12.1%} {thesis.infinite:7.1%} {infinite.beside:7.1%} {infinite.by_count:9.1%}"
            f" {average[0]:12.1%} {thesis.average:7.1%} {average[1]:7.1%} {average[2]:9.1%}"
            f"   {extremes[0]:.1%}, {extremes[1]:.1%}"
        )


def shares(rows: Mapping[tuple[str, int], SpeedUps], sizes: Sequence[int]) -> Iterator[str]:
    """Figure 7.2: of the speed-up of infinite scratchpads, how much each size has; capped tensors shrink the work."""
    yield f"{'of infinite, %':14}" + "".join(f"{size_kb:>7}" for size_kb in sizes) + "  (in turns; then by count)"
    for network in dict.fromkeys(network for network, _ in rows):
        infinite = rows[network, INFINITE]
        turns = [rows[network, size_kb].in_turns / infinite.in_turns for size_kb in sizes]
        count = [rows[network, size_kb].by_count / infinite.by_count for size_kb in sizes]
        told = "".join(f"{100 * one:7.1f}" for one in turns), "".join(f"{100 * one:7.1f}" for one in count)
        yield f"{network:14}{told[0]}  {told[1]}"


def main() -> int:
    """Print table 7.1 and figure 7.2; 1 where a plan of `exact` is not proven."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(TABLE_7_1), default=list(TABLE_7_1))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES_KB), metavar="KB")
    parser.add_argument("--results", type=Path, metavar="FILE.json", help="write the rows, with commit and machine")
    arguments = parser.parse_args()
    rows = {}
    for network in arguments.only:
        for size_kb in (*arguments.sizes, INFINITE):
            rows[network, size_kb] = speed_ups(network, size_kb)
    print("speed-ups beyond 1, ours then the thesis's")
    print("\n".join(lines(rows, arguments.sizes)))
    print(f"the thesis: from {LEAST_SPEED_UP - 1:.0%} to {GREATEST_SPEED_UP - 1:.0%} over all sizes\n")
    print("\n".join(shares(rows, arguments.sizes)))
    print(f"the thesis: ResNet at 32 KB {RESNET_SHARE_AT_32_KB:.1%}, the four smallest 100 % from 128 KB on")
    if arguments.results is not None:
        write_results(arguments.results, [asdict(one) for one in rows.values()])
    return 0 if all(one.is_proven for one in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
