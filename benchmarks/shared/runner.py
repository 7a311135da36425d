"""Run a benchmark: its options, processes with the resources they took, and a table of rows printed as they come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, TypeAlias

from shared.results import write_results

Row: TypeAlias = dict[str, Any]
"""Figures of a benchmark by name, as JSON writes them."""
ROOT: Final = Path(__file__).parents[2]


def options_of(description: str | None) -> ArgumentParser:
    """Return a parser with the options that all benchmarks have: `--results` and `--processor`."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, metavar="FILE.json", help="write the rows, with commit and machine")
    parser.add_argument("--processor", action="store_true", help="count seconds of the processor")
    return parser


def asked_of(parser: ArgumentParser) -> Namespace:
    """Parse the command line, and count seconds as it says."""
    asked = parser.parse_args()
    if asked.processor:
        count_processor_seconds()
    return asked


def count_processor_seconds() -> None:
    """Let time limits and stopwatches count the CPU seconds of this process from now on."""
    vars(time)["perf_counter"] = time.process_time


def shown(rows: Iterable[Row]) -> list[Row]:
    """Print rows as a Markdown table while they are measured; a new table begins where the columns change."""
    found: list[Row] = []
    for row in rows:
        if not found or found[-1].keys() != row.keys():
            print(f"\n| {' | '.join(row)} |\n{'|---' * len(row)}|")
        print(f"| {' | '.join(map(_text, row.values()))} |", flush=True)
        found.append(row)
    return found


def report(asked: Namespace, sections: Mapping[str, Callable[[], Iterable[Row]]]) -> dict[str, list[Row]]:
    """Print the rows of each section, and write all rows if the user asked for a file."""
    found = {}
    for name, rows in sections.items():
        print(f"\n{name}", flush=True)
        found[name] = shown(rows())
    if asked.results is not None:
        write_results(asked.results, found)
    return found


def kept(path: Path | None, names: Iterable[str], measure: Callable[[str], Row]) -> Iterator[Row]:
    """Yield a row for each name: from a file of JSON lines if it is there, else measured and added to the file."""
    known = {row["name"]: row for row in lines_of(path)}
    for name in names:
        if name not in known:
            known[name] = {"name": name} | measure(name)
            if path is not None:
                with path.open("a") as file:
                    file.write(json.dumps(known[name]) + "\n")
        yield known[name]


def lines_of(path: Path | None) -> list[Row]:
    """Return the rows of a file of JSON lines; none without a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path is not None and path.exists() else []


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process: its exit code, what it printed, its seconds, CPU seconds and peak memory."""

    code: int
    output: str
    errors: str
    seconds: float
    cpu_seconds: float
    peak_mib: int

    @property
    def answer(self) -> Row:
        """What `--json` printed, or the last line of a peer's program; raises SystemExit with its errors if nothing."""
        if not self.output.strip():
            raise SystemExit(self.errors.strip() or f"exit code {self.code} without output")
        try:
            found: Row = json.loads(self.output)
        except json.JSONDecodeError:
            found = json.loads(self.output.strip().splitlines()[-1])
        return found

    @property
    def resources(self) -> Row:
        """Seconds, CPU seconds and MiB as figures of a row."""
        return {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds, "peak_mib": self.peak_mib}


def run(
    command: Sequence[str | Path], folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a program to its end."""
    began = time.monotonic()
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        own = {**os.environ, **(environment or {})}
        process = subprocess.Popen(command, cwd=folder, env=own, stdout=output, stderr=errors, text=True)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        texts = output.read(), errors.read()
    seconds, cpu_seconds = round(time.monotonic() - began, 2), round(used.ru_utime + used.ru_stime, 2)
    return Ended(process.returncode, texts[0], texts[1], seconds, cpu_seconds, used.ru_maxrss // 1024)


def onchip(*arguments: object, folder: Path | None = None) -> Ended:
    """Run a command of onchip."""
    return run([sys.executable, "-m", "onchip", *map(str, arguments)], folder)


def _text(figure: object) -> str:
    if figure is None:
        return "-"
    if isinstance(figure, bool | str):
        return str(figure)
    if isinstance(figure, int):
        return f"{figure:,}"
    return f"{figure:,.4g}" if isinstance(figure, float) else str(figure)
