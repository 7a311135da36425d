"""Deeploy's four MLPerf Tiny networks with our allocator and with MiniMalloc's: arenas, and the programs' outputs.

    PYTHONPATH=benchmarks python -m deeploy DEEPLOY MINIMALLOC OUT [--python PYTHON]

DEEPLOY is a copy of github.com/pulp-platform/Deeploy, MINIMALLOC the program that github.com/google/minimalloc builds,
OUT a new folder, PYTHON a Python with Deeploy's requirements. `built` generates C for the platform Generic with either
allocator, builds it by Deeploy's CMake (with clang, lld and ccache), runs it and counts the wrong outputs. `tiled`
generates code for the platform Siracusa, builds nothing, and gives each allocation to both programs.
"""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from packing import packed_by
from shared.runner import ROOT, Row, asked_of, options_of, report, run

from onchip.answer.packing import PackingProblem
from onchip.commands.minimalloc import PROGRAM
from onchip.formats.minimalloc import read_buffers
from onchip.memory.allocate.exact import least_arena_bytes

NETWORKS: Final = ("AnomalyDetection", "ImageClassification", "KeywordSpotting", "VisualWakeWords")
MODELS: Final = "Tests/Models/MLPerf"
RECORDER: Final = """#!/bin/sh
cp "${{2#--input=}}" "{folder}/${{1#--capacity=}}-$(ls "{folder}" | wc -l).csv" && exec "{program}" "$@"
"""


def built_rows(asked: Namespace) -> Iterator[Row]:
    """Generate, build and run each network with either allocator."""
    script = ROOT / "benchmarks" / "deeploy" / "generic.py"
    for name in NETWORKS:
        row: Row = {"name": name}
        for whose, program in (("our", PROGRAM), ("their", asked.minimalloc)):
            out = asked.out / whose / name
            (path,) = _generated(asked, [script, f"{MODELS}/{name}", out], program, out)
            buffers = read_buffers(path).buffers
            row |= {"buffers": len(buffers), "load": least_arena_bytes(PackingProblem(buffers, 0))}
            allocated = re.search(r"MEMORYARENA_L2 = .*malloc\(.*?(\d+)\)", (out / "Network.c").read_text())
            row[f"{whose}_arena"] = allocated and int(allocated[1])
            row[f"{whose}_wrong"], row["outputs"] = _wrong_outputs(asked.deeploy, out)
        yield row


def tiled_rows(asked: Namespace) -> Iterator[Row]:
    """Give all allocations of each network's tiled code to both programs."""
    for name in NETWORKS:
        out = asked.out / "tiled" / name
        command = ["testMVP.py", "-d", out, "-t", f"{MODELS}/{name}", "-p", "Siracusa"]
        pairs = []
        for path in _generated(asked, command, PROGRAM, out):
            flags = [f"--capacity={path.stem.partition('-')[0]}"]
            pairs.append([packed_by(program, path, flags)[1] or 0 for program in (PROGRAM, asked.minimalloc)])
        packed, larger = sum(0 not in pair for pair in pairs), sum(ours > theirs for ours, theirs in pairs)
        yield {"name": name, "allocations": len(pairs), "packed by both": packed, "larger": larger}


def _generated(asked: Namespace, command: list[str | Path], program: Path, out: Path) -> list[Path]:
    """Run a generator of Deeploy with a program as its allocator, and return the files that the program was given."""
    (calls := out / "calls").mkdir(parents=True)
    (out / "minimalloc").write_text(RECORDER.format(folder=calls, program=program))
    (out / "minimalloc").chmod(0o755)
    tests = asked.deeploy / "DeeployTest"
    environment = {"PYTHONPATH": f"{asked.deeploy}:{tests}", "MINIMALLOC_INSTALL_DIR": str(out)}
    _must_end_well([asked.python, *command], tests, environment)
    return list(calls.iterdir())


def _wrong_outputs(deeploy: Path, out: Path) -> tuple[int, int]:
    """Build and run a generated program; return the number of its wrong outputs, and of all outputs."""
    kind = ["-DTOOLCHAIN=LLVM", "-DTOOLCHAIN_INSTALL_DIR=/usr", "-Dplatform=Generic", "-DTESTNAME=mlperf"]
    _must_end_well(["cmake", *kind, f"-DGENERATED_SOURCE={out}", "-B", out / "build", deeploy])
    _must_end_well(["cmake", "--build", out / "build", "--target", "mlperf"])
    wrong, count = re.findall(r"Errors: (\d+) out of (\d+)", run([out / "build" / "bin" / "mlperf"]).output)[0]
    return int(wrong), int(count)


def _must_end_well(command: list[str | Path], folder: Path | None = None, environment: Row | None = None) -> None:
    if (ended := run(command, folder, environment)).code != 0:
        raise SystemExit(ended.output[-2000:] + ended.errors[-2000:])


def main() -> int:
    """Print the tables; return 1 if an output is wrong or an arena is larger than MiniMalloc's."""
    parser = options_of(__doc__)
    for name in ("deeploy", "minimalloc", "out"):
        parser.add_argument(name, type=lambda text: Path(text).absolute(), metavar=name.upper())
    parser.add_argument("--python", default=sys.executable)
    asked = asked_of(parser)
    found = report(asked, {"built": partial(built_rows, asked), "tiled": partial(tiled_rows, asked)})
    is_met = all(row["our_wrong"] == 0 and row["our_arena"] <= row["their_arena"] for row in found["built"])
    return int(not is_met or any(row["larger"] for row in found["tiled"]))


if __name__ == "__main__":
    raise SystemExit(main())
