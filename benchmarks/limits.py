"""Time limits: what every verb that has one makes of them on hard inputs.

    python benchmarks/limits.py [--limits SECONDS ...] [--only NAME ...] [--json]

A limit counts from the verb's start, Python's own included. Kept is one whose verb ends, with an answer and exit code
0, within a tenth of it or half a second more, whichever is greater; or, where reading, the first answer and checking
it take longer than that by themselves, by no more than these. What they take is measured with a limit of a hundredth of
a second.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from generated import hard_random, u_net

from onchip.formats.own.graph_json import write_graph

LIMITS = (1.0, 2.0, 5.0, 20.0)
NO_TIME = 0.01
SHARE, SECONDS = 0.1, 0.5
GIVEN_UP = 300.0
INSTANCES = Path(__file__).parent.parent / "tests" / "data" / "minimalloc"
MANY_BUFFERS = 100_000


@dataclass(frozen=True, slots=True)
class Row:
    """One run. `least_seconds` is the time of the same run with hardly any time limit."""

    name: str
    limit: float
    seconds: float
    least_seconds: float
    exit_code: int | None

    @property
    def is_kept(self) -> bool:
        """Return True if the run ended well, and in time."""
        allowed = max(self.limit, self.least_seconds) + max(SHARE * self.limit, SECONDS)
        return self.exit_code == 0 and self.seconds <= allowed


def commands(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return verbs with hard inputs, by name; what no file has is written to the folder."""
    graphs = {
        "u-net-1950": u_net(5, 26, 512),
        "random-1000": hard_random(1, 1000),
        "random-10000": hard_random(2, 10_000),
    }
    for name, graph in graphs.items():
        write_graph(graph, folder / f"{name}.json")
    _write_buffers(folder / "many.csv")
    small = ("--sram", "400")
    fused = ("--bits", "8", "--accelerator", "meta-prototype-df")
    return {
        "plan u-net-1950": ("plan", str(folder / "u-net-1950.json"), "--sram", "m_r"),
        "plan random-1000": ("plan", str(folder / "random-1000.json"), *small),
        "plan random-10000": ("plan", str(folder / "random-10000.json"), *small),
        "plan amoebanetd_18_256": ("plan", "amoebanetd_18_256", "--sram", "m_r"),
        "info random-10000": ("info", str(folder / "random-10000.json")),
        "pack K": ("pack", str(INSTANCES / "K.1048576.csv"), "--minimize"),
        "pack 100,000 buffers": ("pack", str(folder / "many.csv"), "--minimize"),
        "map n1k512c512p27q27r3s3": (
            "map",
            "conv:n1k512c512p27q27r3s3",
            "--accelerator",
            "simba",
            "--objective",
            "edp",
        ),
        "fuse mobilenetv1": ("fuse", "mobilenetv1", *fused),
        "fuse resnet18": ("fuse", "resnet18", *fused),
        "schedule densenet121": ("schedule", "densenet121", "--bits", "8", "--accelerator", "simba"),
    }


def _write_buffers(path: Path) -> None:
    chance = random.Random(0)
    rows = ["id,lower,upper,size"]
    for number in range(MANY_BUFFERS):
        lower = chance.randrange(MANY_BUFFERS)
        rows.append(f"b{number},{lower},{lower + chance.randint(1, 60)},{64 * chance.randint(1, 400)}")
    path.write_text("\n".join(rows))


def rows(limits: list[float], only: list[str] | None) -> Iterator[Row]:
    """Run one command after the other, each without the cache."""
    with tempfile.TemporaryDirectory() as folder:
        for name, command in commands(Path(folder)).items():
            if only is not None and not any(one in name for one in only):
                continue
            least_seconds, _ = _run(command, NO_TIME)
            for limit in limits:
                seconds, code = _run(command, limit)
                yield Row(name, limit, seconds, least_seconds, code)


def _run(command: tuple[str, ...], limit: float) -> tuple[float, int | None]:
    """Seconds and exit code, None for a verb that did not end."""
    asked = [sys.executable, "-m", "onchip", *command, "--time-limit", str(limit)]
    if command[0] in ("map", "fuse", "schedule"):
        asked.append("--no-cache")
    started = time.perf_counter()
    try:
        code = subprocess.run(asked, capture_output=True, check=False, timeout=GIVEN_UP).returncode
    except subprocess.TimeoutExpired:
        return GIVEN_UP, None
    return time.perf_counter() - started, code


def main() -> None:
    """Print a row for each run, and how many limits were kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limits", type=float, nargs="+", default=LIMITS, metavar="SECONDS")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = []
    for row in rows(asked.limits, asked.only):
        found.append(row)
        if not asked.json:
            kept = "kept" if row.is_kept else "NOT KEPT"
            what = f"{row.seconds:7.2f} s, without time {row.least_seconds:6.2f} s, exit {row.exit_code}"
            print(f"{row.name:28} limit {row.limit:5g}: {what}  {kept}", flush=True)
    if asked.json:
        print(json.dumps([{**asdict(row), "is_kept": row.is_kept} for row in found], indent=2))
    else:
        print(f"{sum(row.is_kept for row in found)} of {len(found)} limits kept")


if __name__ == "__main__":
    main()
