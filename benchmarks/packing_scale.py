"""Packing tens of thousands of buffers: the least arena in a limit, beside greedy allocators in the same run.

    PYTHONPATH=tests python benchmarks/packing_scale.py [--seconds 20] [--processor] [--counts N ...] [--json]
                                                        [FILE.csv ...]

FILE.csv are buffers as MiniMalloc's CSV has them, for example those of github.com/cappadokes/idealloc. Without files:
windows drawn, whose load is a bound, and rectangles cut into buffers, whose least arena is known. Arenas are
shown as multiples of the load; one thread. With `--processor` seconds are of the processor, and not of a wall clock, so
that what else the machine does changes less.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from onchip.answer.packing import Buffer, PackingProblem
from onchip.errors import InternalError
from onchip.formats.minimalloc import read_buffers
from onchip.memory.allocate.construct import order_by_size
from onchip.memory.allocate.exact import least_arena_bytes
from onchip.memory.allocate.pack import blocks_of, least_capacity
from onchip.native import ArenaSearch, StopToken
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_packing
from support.perfect_packings import cut_rectangle, drawn_windows


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """Arenas as multiples of the load; seconds of ours, checking included."""

    name: str
    buffers: int
    load_bytes: int
    ours: float
    status: str
    seconds: float
    best_fit_by_size: float
    best_fit_by_life: float
    tflite: float
    tflite_micro: float


def generated(counts: Sequence[int]) -> Iterator[tuple[str, tuple[Buffer, ...]]]:
    """Yield the instances that need no file."""
    for count in counts:
        yield f"windows {count}, short", drawn_windows(count, 200, 1)
        yield f"windows {count}, long", drawn_windows(count, count // 10, 1)
        yield f"cut rectangle {count}", cut_rectangle(count, 10 * count, 1 << 30, 1)


def row_of(name: str, buffers: tuple[Buffer, ...], seconds: float) -> ScaleRow:
    """Pack and check; raises InternalError if the packing is not legal."""
    problem = PackingProblem(buffers, sum(one.size_bytes for one in buffers))
    load, begun = least_arena_bytes(problem), time.perf_counter()
    result = least_capacity(problem, Run(Limits(time_limit_seconds=seconds)))
    if result.answer is None or verify_packing(problem, result.answer, result.objective_value):
        raise InternalError("the packing is not legal", place=name)
    taken = time.perf_counter() - begun
    return ScaleRow(
        name, len(buffers), load, (result.objective_value or 0) / load, result.status, taken, *peers_of(problem, load)
    )


def peers_of(problem: PackingProblem, load: int) -> Iterator[float]:
    """Yield the arenas of the greedy allocators."""
    buffers = problem.buffers
    numbers = range(len(buffers))
    orders: Sequence[tuple[list[int], bool]] = (
        (sorted(numbers, key=lambda i: (-buffers[i].size_bytes, buffers[i].start)), True),
        (sorted(numbers, key=lambda i: (buffers[i].start - buffers[i].stop, -buffers[i].size_bytes)), True),
        (order_by_size(problem), True),
        (sorted(numbers, key=lambda i: (-buffers[i].size_bytes, -i)), False),
    )
    for order, in_smallest_gap in orders:
        search = ArenaSearch(blocks_of(problem), 0)
        search.place(order, in_smallest_gap=in_smallest_gap, stop=StopToken())
        yield search.arena / load


def main() -> None:
    """Print a row for each instance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--processor", action="store_true", help="count seconds of the processor")
    parser.add_argument("--counts", type=int, nargs="+", default=[1_000, 20_000, 100_000], help="of what is generated")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    asked = parser.parse_args()
    if asked.processor:
        vars(time)["perf_counter"] = time.process_time
    given = ((path.stem, read_buffers(path).buffers) for path in asked.files)
    for name, buffers in given if asked.files else generated(asked.counts):
        row = row_of(name, buffers, asked.seconds)
        if asked.json:
            print(json.dumps(asdict(row)), flush=True)
            continue
        peers = (row.best_fit_by_size, row.best_fit_by_life, row.tflite, row.tflite_micro)
        print(
            f"{name:24} {row.buffers:7} {row.ours:8.5f} {row.status:9} {row.seconds:6.1f} s  "
            + " ".join(f"{peer:8.5f}" for peer in peers),
            flush=True,
        )


if __name__ == "__main__":
    main()
