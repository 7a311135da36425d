"""Packing: MiniMalloc's instances, schedules of the NAS networks, large instances, and peers in the same run.

    PYTHONPATH=benchmarks:tests python benchmarks/packing.py [instances] [networks] [scale] [peer] [--seconds 20]
        [--minimalloc PROGRAM] [--iree-opt PROGRAM] [--rounds 3] [--counts N ...] [--files FILE.csv ...] [--processor]

`instances`: MiniMalloc's eleven instances at their capacity. `networks`: schedules in the given order at M_R, M_H and
M_P are packed, or proven unpackable with the steps that do not pack. `scale`: the least arena of tens of thousands of
buffers, from files (for example those of github.com/cappadokes/idealloc) or generated: drawn windows, whose load is a
bound, and cut rectangles, whose least arena is known. `peer`: MiniMalloc's and our program as commands; seconds are of
the processor, medians of rounds that alternate; then least arenas next to the greedy packers of compilers, whose arenas
are multiples of the load. PROGRAM is what github.com/google/minimalloc builds with -O3.
"""

from __future__ import annotations

import csv
import re
import statistics
import subprocess
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from shared.runner import ROOT, Row, asked_of, options_of, report, run

from onchip.answer.document import Granularity, Reading
from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.problem import Order, Problem
from onchip.api.networks import read_network
from onchip.api.target import CapacityBudget, budgets_of, roomy_problem
from onchip.arch.memory import Memory
from onchip.commands.minimalloc import PROGRAM
from onchip.formats.minimalloc import packing_to_csv, read_buffers
from onchip.ir.graph import Graph
from onchip.memory.allocate.exact import Attempt, least_arena_bytes, requests_of
from onchip.memory.allocate.pack import least_capacity, order_by_size
from onchip.memory.allocate.residencies import packing_problem
from onchip.memory.allocate.sections import has_too_many_pairs
from onchip.memory.decisions import schedule_of_moves
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import place_in_order
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_packing

DATA: Final = ROOT / "tests" / "data"
CAPACITY_BYTES: Final = 1048576
NETWORKS: Final = ("pnasnet5large", "nasnetalarge", "amoebanetd_18_256", "darts_v2")
LIMITS: Final = Limits(time_limit_seconds=60.0)
MINIMALLOC_SECONDS: Final = {
    "A": 3.86, "B": 2.80, "C": 0.55, "D": 1.89, "E": 2.72, "F": 4.30, "G": 0.89, "H": 1.27, "I": 2.54, "J": 0.71,
    "K": 0.49,
}  # fmt: skip
"""Seconds of one thread of a machine of this kind: github.com/google/minimalloc at 9f5cf81."""


def instance(name: str) -> PackingProblem:
    """Return one of MiniMalloc's instances."""
    path = DATA / "minimalloc" / f"{name}.{CAPACITY_BYTES}.csv"
    return PackingProblem(read_buffers(path).buffers, CAPACITY_BYTES)


def row_of(name: str, problem: PackingProblem, peer_seconds: float | None = None) -> Row:
    """Pack, verify and time; `unpackable_steps` are the steps, half open, that are proven not to pack."""
    started = time.perf_counter()
    attempt = Attempt(problem, Run(LIMITS))
    finding = attempt.go_on(float("inf"))
    seconds = time.perf_counter() - started
    if attempt.offsets_bytes is not None:
        _must_be_legal(name, problem, Packing(attempt.offsets_bytes))
    return {
        "name": name,
        "buffers": len(problem.buffers),
        "capacity_bytes": problem.capacity_bytes,
        "finding": finding.value,
        "seconds": seconds,
        "peer_seconds": peer_seconds,
        "unpackable_steps": attempt.stretch and (attempt.stretch.start, attempt.stretch.stop),
    }


def _must_be_legal(name: str, problem: PackingProblem, packing: Packing) -> None:
    if violations := verify_packing(problem, packing):
        raise SystemExit(f"{name}: {violations[0]}")


def instance_rows() -> Iterator[Row]:
    """Pack MiniMalloc's instances; the first is packed twice, so that all is loaded."""
    row_of("A", instance("A"))
    for name, peer_seconds in MINIMALLOC_SECONDS.items():
        yield row_of(name, instance(name), peer_seconds)


def schedule_rows() -> Iterator[Row]:
    """Pack the residencies of the search for least traffic, at the given order."""
    for name in NETWORKS:
        for granularity in Granularity:
            graph = read_network(name, Reading(bits=8, granularity=granularity))
            budgets = budgets_of(roomy_problem(graph, Reading().count), LIMITS)
            for budget in CapacityBudget:
                capacity_bytes = budgets.capacity_bytes(budget)
                if capacity_bytes is None:
                    raise SystemExit(f"{name}: {budgets.min_peak_in_words}")
                problem = Problem(graph, (Memory("sram", capacity_bytes),), order=Order.GIVEN)
                indexed = IndexedProblem.of(problem)
                outcome = BestFirstSearch(indexed, Run()).solve()
                if outcome.moves is None:
                    raise SystemExit(f"{name}: {outcome.stop}")
                schedule = schedule_of_moves(indexed, outcome.moves)
                yield row_of(f"{name} {granularity} {budget}", packing_problem(indexed, schedule))


def scale_rows(asked: Namespace) -> Iterator[Row]:
    """Find the least arena of large instances, next to greedy allocators."""
    given = ((path.stem, read_buffers(path).buffers) for path in asked.files)
    for name, buffers in given if asked.files else _generated(asked.counts):
        problem = PackingProblem(buffers, sum(one.size_bytes for one in buffers))
        load, begun = least_arena_bytes(problem), time.perf_counter()
        result = least_capacity(problem, Run(Limits(time_limit_seconds=asked.seconds)))
        assert result.answer is not None
        _must_be_legal(name, problem, result.answer)
        figures = {"ours": (result.objective_value or 0) / load, "status": str(result.status)}
        seconds = {"seconds": time.perf_counter() - begun}
        yield {"name": name, "buffers": len(buffers), "load_bytes": load} | figures | seconds | _placed(problem, load)


def _generated(counts: Sequence[int]) -> Iterator[tuple[str, tuple[Buffer, ...]]]:
    from support.perfect_packings import cut_rectangle, drawn_windows

    for count in counts:
        yield f"windows {count}, short", drawn_windows(count, 200, 1)
        yield f"windows {count}, long", drawn_windows(count, count // 10, 1)
        yield f"cut rectangle {count}", cut_rectangle(count, 10 * count, 1 << 30, 1)


def _placed(problem: PackingProblem, load: int) -> Row:
    """Return the arenas of greedy allocators, as multiples of the load; none where too many buffers live together."""
    if has_too_many_pairs(problem.buffers):
        return {}
    buffers, numbers = problem.buffers, range(len(problem.buffers))
    orders: Mapping[str, tuple[list[int], bool]] = {
        "best fit": (sorted(numbers, key=lambda i: (-buffers[i].size_bytes, buffers[i].start)), True),
        "by life": (sorted(numbers, key=lambda i: (buffers[i].start - buffers[i].stop, -buffers[i].size_bytes)), True),
        "TFLite": (order_by_size(problem), True),
        "TFLM": (sorted(numbers, key=lambda i: (-buffers[i].size_bytes, -i)), False),
    }
    arenas = {}
    for name, (order, in_smallest_gap) in orders.items():
        offsets = place_in_order(requests_of(problem), order, in_smallest_gap=in_smallest_gap)
        arenas[name] = max(at + one.size_bytes for at, one in zip(offsets, buffers, strict=True)) / load
    return arenas


def peer_rows(asked: Namespace) -> Iterator[Row]:
    """Run both programs on MiniMalloc's instances, networks, given files and cut rectangles."""
    with tempfile.TemporaryDirectory() as folder:
        for path, flags in _files(Path(folder), asked):
            count = 1 if "--minimize_capacity" in flags else asked.rounds
            rounds = [[packed_by(one, path, flags) for one in (PROGRAM, asked.minimalloc)] for _ in range(count)]
            own, other = (statistics.median(one[at][0] for one in rounds) for at in (0, 1))
            arenas = {"arena": rounds[0][0][1], "their_arena": rounds[0][1][1]}
            load = least_arena_bytes(PackingProblem(read_buffers(path).buffers, 0))
            row = {"name": path.stem, "seconds": own, "their_seconds": other, "load": load} | arenas
            yield row | _greedy(path, asked.iree_opt)


def _files(folder: Path, asked: Namespace) -> Iterator[tuple[Path, list[str]]]:
    """Yield files, and the flags of their question."""
    from scale.language import GPT2, training_of

    from support.perfect_packings import cut_rectangle

    for path in sorted((DATA / "minimalloc").glob(f"?.{CAPACITY_BYTES}.csv")):
        yield path, [f"--capacity={CAPACITY_BYTES}"]
    made = {name: live_tensors(read_network(name, Reading(bits=8))) for name in NETWORKS}
    made |= {"GPT-2 training": live_tensors(training_of(GPT2))}
    made |= {f"cut {count}": cut_rectangle(count, 4 * count, 1 << 20, 1) for count in (50, 200, 1000)}
    for name, buffers in made.items():
        ids = tuple(map(str, range(len(buffers))))
        text = packing_to_csv(ids, PackingProblem(buffers, 1), Packing((0,) * len(buffers)))
        lines = (line.rpartition(",")[0] for line in text.splitlines())
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    own = (folder / f"{name}.csv" for name in made)
    for path in (*sorted((DATA / "executorch").glob("*.csv")), *asked.files, *own):
        yield path, ["--minimize_capacity", f"--capacity={1 << 50}", f"--timeout={asked.seconds:g}s"]


def live_tensors(graph: Graph) -> tuple[Buffer, ...]:
    """Return a buffer for each tensor of a network, from its first use to its last in the given order."""
    indexed = IndexedProblem.of(Problem(graph, (Memory("sram", 1 << 50),), order=Order.GIVEN))
    uses = enumerate(indexed.uses(range(indexed.operator_count)))
    return tuple(Buffer(steps[0], steps[-1] + 1, indexed.sizes_bytes[tensor]) for tensor, steps in uses if steps)


def packed_by(program: Path, path: Path, flags: Sequence[str]) -> tuple[float, int | None]:
    """Return the CPU seconds of a program with MiniMalloc's command line, and its verified arena, if it has one."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.csv"
        ended = run([program, f"--input={path}", f"--output={out}", *flags])
        if ended.code != 0:
            return ended.cpu_seconds, None
        with out.open() as lines:
            offsets = {row["id"]: int(row["offset"]) for row in csv.DictReader(lines)}
    table = read_buffers(path)
    packing = Packing(tuple(offsets[name] for name in table.ids))
    _must_be_legal(f"{program.name} {path.name}", PackingProblem(table.buffers, 1 << 60), packing)
    ends = zip(packing.offsets_bytes, table.buffers, strict=True)
    return ended.cpu_seconds, max(at + one.size_bytes for at, one in ends)


def _greedy(path: Path, iree_opt: Path | None) -> Row:
    buffers = read_buffers(path).buffers
    load = least_arena_bytes(PackingProblem(buffers, 0))
    peers = {"ExecuTorch": executorch_greedy, "TelaMalloc": telamalloc_heuristics, "MLIR": mlir_best_fit}
    arenas = {name: packer(buffers) / load for name, packer in peers.items()}
    if iree_opt is not None:
        arenas["IREE"] = iree_greedy(buffers, iree_opt) / load
    return _placed(PackingProblem(buffers, sum(one.size_bytes for one in buffers)), load) | arenas


def executorch_greedy(buffers: Sequence[Buffer]) -> int:
    """Return the bytes of ExecuTorch's greedy packer: buffers share objects whose other buffers live at other times.

    The largest come first; each takes the first object that is free, and an object is as large as its first buffer.
    """
    objects: list[list[Buffer]] = []
    for one in sorted(buffers, key=lambda one: -one.size_bytes):
        free = next((some for some in objects if not any(one.overlaps(other) for other in some)), None)
        if free is None:
            objects.append([one])
        else:
            free.append(one)
    return sum(some[0].size_bytes for some in objects)


def telamalloc_heuristics(buffers: Sequence[Buffer]) -> int:
    """Return the best arena of TelaMalloc's placement order (ASPLOS 2023), without its backtracking.

    Buffers of the phases of highest contention come first; in a phase by lifetime, by size or by area.
    """
    steps = sorted({one.start for one in buffers})
    load = {step: sum(one.size_bytes for one in buffers if one.start <= step < one.stop) for step in steps}
    contention = [max(load[step] for step in steps if one.start <= step < one.stop) for one in buffers]
    lives, sizes = [one.stop - one.start for one in buffers], [one.size_bytes for one in buffers]
    areas = [life * size for life, size in zip(lives, sizes, strict=True)]
    arenas = []
    for keys in (lives, sizes, areas):
        placed: list[tuple[int, Buffer]] = []
        ranked = sorted(zip(contention, keys, range(len(buffers)), strict=True), key=lambda one: (-one[0], -one[1]))
        for one in (buffers[at] for _, _, at in ranked):
            offset = 0
            for low, other in sorted((pair for pair in placed if pair[1].overlaps(one)), key=lambda pair: pair[0]):
                if low - offset >= one.size_bytes:
                    break
                offset = max(offset, low + other.size_bytes)
            placed.append((offset, one))
        arenas.append(max(at + one.size_bytes for at, one in placed))
    return min(arenas)


def mlir_best_fit(buffers: Sequence[Buffer]) -> int:
    """Return the arena of MLIR's planner of static memory: by first step, each buffer in the smallest free range.

    Above the buffers that are alive, the free range ends at the end of the arena so far, which grows only if no range
    is large enough.
    """
    placed: list[tuple[int, int, Buffer]] = []
    arena = 0
    for one in sorted(buffers, key=lambda one: one.start):
        lowest, ranges = 0, []
        for low, high, _ in sorted((part for part in placed if part[2].stop > one.start), key=lambda part: part[:2]):
            ranges.append((low - lowest, lowest))
            lowest = max(lowest, high)
        ranges.append((arena - lowest, lowest))
        _, offset = min((part for part in ranges if part[0] >= one.size_bytes), default=(0, lowest))
        placed.append((offset, offset + one.size_bytes, one))
        arena = max(arena, offset + one.size_bytes)
    return arena


def iree_greedy(buffers: Sequence[Buffer], iree_opt: Path) -> int:
    """Return the total length that the program `iree-opt` gives the buffers as slices of a pack."""
    sizes = sorted({one.size_bytes for one in buffers})
    lines = ["util.func public @pack() -> index {"]
    lines += [f"  %c{size} = arith.constant {size} : index" for size in sizes]
    slices = (f"    [{one.start}, {one.stop - 1}] = %c{one.size_bytes}" for one in buffers)
    lines += [f"  %t:{len(buffers) + 1} = stream.resource.pack slices({{", ",\n".join(slices), "  }) : index"]
    lines += ["  util.return %t#0 : index", "}"]
    pipeline = "--pass-pipeline=builtin.module(util.func(iree-stream-layout-slices,cse))"
    ended = subprocess.run(
        [iree_opt, pipeline, "-"], input="\n".join(lines), check=True, capture_output=True, text=True
    )
    return int(re.findall(r"arith.constant (\d+)", ended.stdout)[-1]) if "return %c" in ended.stdout else 0


def main() -> int:
    """Print the tables; return 1 if an instance is not packed, a schedule is undecided, or a peer is better."""
    parser = options_of(__doc__)
    sections = ("instances", "networks", "scale", "peer")
    parser.add_argument("sections", nargs="*", choices=sections, default=list(sections[:2]), metavar="SECTION")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of a least arena")
    parser.add_argument("--counts", type=int, nargs="+", default=[1_000, 20_000, 100_000], help="of generated buffers")
    parser.add_argument("--files", type=Path, nargs="+", default=[])
    parser.add_argument("--minimalloc", type=Path, metavar="PROGRAM")
    parser.add_argument("--iree-opt", type=Path, metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=3)
    asked = asked_of(parser)
    tables: Mapping[str, Callable[[], Iterator[Row]]] = {
        "instances": instance_rows,
        "networks": schedule_rows,
        "scale": partial(scale_rows, asked),
        "peer": partial(peer_rows, asked),
    }
    found = report(asked, {name: tables[name] for name in asked.sections})
    is_met = all(row["finding"] == "packed" for row in found.get("instances", ()))
    is_met &= all(row["finding"] != "open" for row in found.get("networks", ()))
    for row in found.get("peer", ()):
        is_met &= row["arena"] is not None and row["arena"] <= (row["their_arena"] or row["arena"])
    return int(not is_met)


if __name__ == "__main__":
    raise SystemExit(main())
