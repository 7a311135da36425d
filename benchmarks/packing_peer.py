"""Packing beside MiniMalloc, built from its source, in the same minute: its eleven instances, one thread.

    python benchmarks/packing_peer.py MINIMALLOC [--rounds N]

MINIMALLOC is the program that github.com/google/minimalloc builds (with -O3). Seconds are of the processor, medians
over rounds that alternate: reading the instance and packing it at its capacity, and the whole command with what it
loads and writes. MiniMalloc's are whole commands in both columns: it has nothing to load.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from packing import CAPACITY_BYTES, INSTANCES, MINIMALLOC_SECONDS, TIME_LIMIT_SECONDS, warm_up

from onchip.answer.packing import Packing, PackingProblem
from onchip.formats.minimalloc import read_buffers
from onchip.memory.allocate.exact import Attempt
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_packing

TIMES_AS_FAST = 5.0


def seconds_of_search(path: Path) -> float:
    """Read and pack in this process; ends it where the packing is not legal."""
    started = time.process_time()
    problem = PackingProblem(read_buffers(path).buffers, CAPACITY_BYTES)
    attempt = Attempt(problem, Run(Limits(time_limit_seconds=TIME_LIMIT_SECONDS)))
    attempt.go_on(float("inf"))
    seconds = time.process_time() - started
    if attempt.offsets_bytes is None or verify_packing(problem, Packing(attempt.offsets_bytes)):
        sys.exit(f"{path.name}: it is not packed")
    return seconds


def seconds_of_command(command: Sequence[str | Path]) -> float:
    """Processor seconds of a command that has to end with 0."""
    before = os.times()
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Print a row for each instance; end with 1 where ours is not faster, or in all not five times as fast."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minimalloc", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    warm_up()
    print("instance   read and packed   whole command   MiniMalloc   times as fast")
    sums, are_faster = [0.0, 0.0], True
    with tempfile.TemporaryDirectory() as folder:
        for name in MINIMALLOC_SECONDS:
            path, output = INSTANCES / f"{name}.{CAPACITY_BYTES}.csv", Path(folder) / "out.csv"
            capacity = str(CAPACITY_BYTES)
            own = (sys.executable, "-m", "onchip", "pack", path, "--capacity", capacity, "-o", output)
            peer = (asked.minimalloc, f"--capacity={capacity}", f"--input={path}", f"--output={output}")
            rounds = [
                (seconds_of_search(path), seconds_of_command(own), seconds_of_command(peer))
                for _ in range(asked.rounds)
            ]
            search, whole, theirs = (statistics.median(column) for column in zip(*rounds, strict=True))
            sums = [sums[0] + search, sums[1] + theirs]
            are_faster &= search < theirs
            print(f"{name:8} {search:15.3f} s {whole:13.3f} s {theirs:10.3f} s {theirs / search:12.1f}", flush=True)
    print(f"in all   {sums[0]:15.3f} s {'':15} {sums[1]:10.3f} s {sums[1] / sums[0]:12.1f}")
    sys.exit(0 if are_faster and sums[1] >= TIMES_AS_FAST * sums[0] else 1)


if __name__ == "__main__":
    main()
