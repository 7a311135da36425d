"""Packing beside its peers in one run: MiniMalloc's program, and the greedy packers of compilers.

    PYTHONPATH=tests python benchmarks/packing_peer.py MINIMALLOC [--iree-opt PROGRAM] [--rounds N] [--seconds S]

MINIMALLOC is the program that github.com/google/minimalloc builds (with -O3). Both it and `onchip-minimalloc` run as
commands, start included; seconds are of the processor, medians over rounds that alternate. First MiniMalloc's eleven
instances at their capacity; then the smallest arenas of ExecuTorch's networks and of cut rectangles, whose least arena
is known. Arenas of the greedy packers are multiples of the load.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packing import CAPACITY_BYTES, INSTANCES
from packing_scale import peers_of

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.commands.minimalloc import PROGRAM
from onchip.formats.minimalloc import packing_to_csv, read_buffers
from onchip.memory.allocate.exact import least_arena_bytes
from onchip.verify.packing import verify_packing
from support.perfect_packings import cut_rectangle

NETWORKS = Path(__file__).parent.parent / "tests" / "data" / "executorch"
GREEDY = ("best fit", "by life", "TFLite", "TFLM", "ExecuTorch", "TelaMalloc", "IREE")


@dataclass(frozen=True, slots=True)
class Peer:
    """A program with MiniMalloc's command line."""

    name: str
    program: Path

    def packed(self, path: Path, flags: Sequence[str]) -> tuple[float, int | None]:
        """Return the processor seconds of the command, and the verified arena; None without a packing."""
        with tempfile.TemporaryDirectory() as folder:
            out, before = Path(folder) / "out.csv", os.times()
            command: list[str | Path] = [self.program, f"--input={path}", f"--output={out}", *flags]
            ended = subprocess.run(command, check=False, capture_output=True)
            after = os.times()
            seconds = after.children_user + after.children_system - before.children_user - before.children_system
            if ended.returncode != 0:
                return seconds, None
            with out.open() as lines:
                offsets = {row["id"]: int(row["offset"]) for row in csv.DictReader(lines)}
        table = read_buffers(path)
        packing = Packing(tuple(offsets[name] for name in table.ids))
        problem = PackingProblem(table.buffers, 1 << 60)
        if violations := verify_packing(problem, packing):
            sys.exit(f"{self.name}, {path.name}: {violations[0]}")
        ends = zip(packing.offsets_bytes, table.buffers, strict=True)
        return seconds, max(at + one.size_bytes for at, one in ends)


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
    lives = [one.stop - one.start for one in buffers]
    sizes = [one.size_bytes for one in buffers]
    areas = [life * size for life, size in zip(lives, sizes, strict=True)]
    arenas = []
    for keys in (lives, sizes, areas):
        ranked = sorted(zip(contention, keys, range(len(buffers)), strict=True), key=lambda one: (-one[0], -one[1]))
        order = [at for _, _, at in ranked]
        placed: list[tuple[int, Buffer]] = []
        for one in (buffers[at] for at in order):
            offset = 0
            for low, other in sorted((pair for pair in placed if pair[1].overlaps(one)), key=lambda pair: pair[0]):
                if low - offset >= one.size_bytes:
                    break
                offset = max(offset, low + other.size_bytes)
            placed.append((offset, one))
        arenas.append(max(at + one.size_bytes for at, one in placed))
    return min(arenas)


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


def greedy_arenas(buffers: tuple[Buffer, ...], iree_opt: Path | None) -> Iterator[float]:
    """Yield the arenas of the greedy packers in the order of GREEDY, as multiples of the load."""
    load = least_arena_bytes(PackingProblem(buffers, 0))
    yield from peers_of(PackingProblem(buffers, sum(one.size_bytes for one in buffers)), load)
    yield executorch_greedy(buffers) / load
    yield telamalloc_heuristics(buffers) / load
    if iree_opt is not None:
        yield iree_greedy(buffers, iree_opt) / load


def instances(folder: Path, seconds: float) -> Iterator[tuple[Path, list[str]]]:
    """Yield files, and the flags of their question."""
    for path in sorted(INSTANCES.glob("?.1048576.csv")):
        yield path, [f"--capacity={CAPACITY_BYTES}"]
    least = ["--minimize_capacity", f"--capacity={1 << 50}", f"--timeout={seconds:g}s"]
    for path in sorted(NETWORKS.glob("*.csv")):
        yield path, least
    for count in (50, 200, 1000):
        buffers = cut_rectangle(count, 4 * count, 1 << 20, 1)
        ids, path = tuple(map(str, range(count))), folder / f"cut {count}.csv"
        text = packing_to_csv(ids, PackingProblem(buffers, 1), Packing((0,) * count))
        path.write_text("\n".join(line.rpartition(",")[0] for line in text.splitlines()) + "\n")
        yield path, least


def main() -> None:
    """Print a row for each instance; end with 1 where ours is higher, or slower on one of the eleven."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minimalloc", type=Path)
    parser.add_argument("--iree-opt", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of a smallest arena")
    asked = parser.parse_args()
    ours, theirs = Peer("onchip", PROGRAM), Peer("MiniMalloc", asked.minimalloc)
    greedy = GREEDY if asked.iree_opt else GREEDY[:-1]
    print(f"{'':12} {'onchip s':>9} {'MiniMalloc s':>12} {'arena':>10} {'theirs':>10}  {'  '.join(greedy)}")
    sums, is_met = [0.0, 0.0], True
    with tempfile.TemporaryDirectory() as folder:
        for path, flags in instances(Path(folder), asked.seconds):
            is_fit = "--minimize_capacity" not in flags
            count = asked.rounds if is_fit else 1
            rounds = [(ours.packed(path, flags), theirs.packed(path, flags)) for _ in range(count)]
            own, other = (statistics.median(one[at][0] for one in rounds) for at in (0, 1))
            arena, peer_arena = rounds[0][0][1], rounds[0][1][1]
            if is_fit:
                sums = [sums[0] + own, sums[1] + other]
                is_met &= own < other
            is_met &= arena is not None and (is_fit or peer_arena is None or arena <= peer_arena)
            columns = [
                f"{each:{len(name)}.3f}"
                for name, each in zip(greedy, greedy_arenas(read_buffers(path).buffers, asked.iree_opt), strict=True)
            ]
            print(
                f"{path.stem[:12]:12} {own:9.3f} {other:12.3f} {arena or '-':>10} {peer_arena or '-':>10}"
                f"  {'  '.join(columns)}",
                flush=True,
            )
    print(f"the eleven   {sums[0]:9.3f} {sums[1]:12.3f}")
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
