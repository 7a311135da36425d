"""`onchip schedule` beside tools that fuse layers: AccelForge's bytes of DRAM, Stream's cycles, on machines of both.

    PYTHONPATH=benchmarks python -m fusing [--accelforge PYTHON] [--stream PYTHON] [--seconds 60] [--json RESULTS.json]

PYTHON are interpreters (3.12) that have `accelforge` 1.0.467 or `stream-dse` 2.1.1; what is not given is left out.
AccelForge also needs Graphviz's `dot` in PATH. It maps chains of products on a multiplier with one buffer, where a
bit of DRAM costs as much as a thousand of the buffer; Stream two convolutions on 32 x 32 multipliers with one buffer.
What differs beside the mapspaces is in docs/schedule.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from fusing.machines import grid, grid_of_stream, one_mac, products, two_convolutions
from onnx import TensorProto
from shared.processor import cpu_seconds_of_programs
from shared.results import write_results

Row: TypeAlias = dict[str, Any]
DRAM_ENERGY: Final = 1000
CHAINS: Final = ((128, 128, 3, 8), (128, 128, 3, 16), (128, 128, 3, 24), (128, 128, 3, 40), (512, 64, 3, 8))
"""Rows, columns, products, KiB of the buffer."""
CONVOLUTIONS: Final = ((64, 64, 3, 16), (64, 64, 1, 16), (32, 128, 3, 16), (64, 64, 3, 64))
"""Pixels along an edge, channels, window, bits of DRAM a cycle."""
GRID_BUFFER_BYTES: Final = 256 * 1024


def main() -> int:
    """Print a table for each available peer."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--accelforge", type=Path, metavar="PYTHON")
    parser.add_argument("--stream", type=Path, metavar="PYTHON")
    parser.add_argument("--seconds", type=float, default=60.0, help="for one answer of onchip, and of Stream's solver")
    parser.add_argument("--json", type=Path, metavar="RESULTS.json")
    asked = parser.parse_args()
    tables: dict[str, Callable[[Namespace, Path], list[Row]]] = {"accelforge": _chains, "stream": _convolutions}
    results = {}
    for peer, table in tables.items():
        if getattr(asked, peer) is None:
            print(f"{peer}: no --{peer} is given, left out")
            continue
        with tempfile.TemporaryDirectory() as folder:
            results[peer] = table(asked, Path(folder))
    if asked.json is not None:
        write_results(asked.json, results)
    return 0


def _chains(asked: Namespace, folder: Path) -> list[Row]:
    """Bytes of DRAM of chains of products."""
    print("| rows | columns | products | KiB | AccelForge, bytes | CPU s | onchip | bound | status | tile | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    found = []
    for rows, columns, count, kibibytes in CHAINS:
        (folder / "machine.yaml").write_text(one_mac(1024 * kibibytes, DRAM_ENERGY))
        (folder / "products.json").write_text(products(rows, columns, count))
        sizes = [str(number) for number in (rows, columns, count, 1024 * kibibytes, DRAM_ENERGY)]
        theirs = _run_peer(asked.accelforge, "accelforge_program.py", sizes, folder)
        ours = _schedule(folder / "products.json", folder / "machine.yaml", "traffic", asked.seconds)
        sizes_of_row = {"rows": rows, "columns": columns, "products": count, "kibibytes": kibibytes}
        found.append({**sizes_of_row, "theirs": theirs, "ours": ours})
        cells = (rows, columns, count, kibibytes, theirs.get("dram_bytes", theirs.get("error")))
        _print_row((*cells, theirs.get("seconds"), ours["value"], ours["bound"], ours["status"], ours["stacks"]), ours)
    return found


def _convolutions(asked: Namespace, folder: Path) -> list[Row]:
    """Cycles of two convolutions."""
    print("| map | channels | window | DRAM bits | Stream, fused | by layer | CPU s", end="")
    print(" | onchip | bound | status | stacks | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    found = []
    for pixels, channels, window, dram_bits in CONVOLUTIONS:
        machine = grid_of_stream(GRID_BUFFER_BYTES, dram_bits, folder / f"dram{dram_bits}")
        (folder / "machine.yaml").write_text(grid(GRID_BUFFER_BYTES, dram_bits))
        theirs_is, ours_is = folder / "int8.onnx", folder / "float.onnx"
        two_convolutions(pixels, channels, window, TensorProto.INT8, theirs_is)
        two_convolutions(pixels, channels, window, TensorProto.FLOAT, ours_is)
        known = [str(machine), str(theirs_is), str(folder / "out"), str(asked.seconds)]
        fused, apart = (
            _run_peer(asked.stream, "stream_program.py", [*known, way], folder) for way in ("fused", "layers")
        )
        ours = _schedule(ours_is, folder / "machine.yaml", "latency", asked.seconds)
        sizes = {"pixels": pixels, "channels": channels, "window": window, "dram_bits": dram_bits}
        found.append({**sizes, "theirs_fused": fused, "theirs_by_layer": apart, "ours": ours})
        theirs = [one.get("cycles", one.get("error")) for one in (fused, apart)]
        cells = (f"{pixels}x{pixels}", channels, window, dram_bits, *theirs, fused.get("seconds"))
        _print_row((*cells, ours["value"], ours["bound"], ours["status"], ours["stacks"]), ours)
    return found


def _run_peer(python: Path, program: str, arguments: list[str], folder: Path) -> Row:
    """Return the output of the peer's program, or the last line of its errors as `error`."""
    command = [str(python.absolute()), str(Path(__file__).with_name(program).resolve()), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if ended.returncode != 0:
        return {"error": (ended.stderr.strip().splitlines() or ["no word"])[-1]}
    answer: Row = json.loads(ended.stdout.strip().splitlines()[-1])
    return answer


def _schedule(network: Path, machine: Path, objective: str, seconds: float) -> Row:
    """Return the answer of `onchip schedule`, with elements of 8 bits."""
    options = ["--objective", objective, "--bits", "8", "--partial-bits", "8", "--time-limit", str(seconds), "--json"]
    command = [sys.executable, "-m", "onchip", "schedule", str(network), "--accelerator", str(machine), *options]
    before = cpu_seconds_of_programs()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(ended.stdout)
    if "objective_value" not in answer:
        return {"value": None, "bound": None, "status": answer.get("status") or answer["error"], "stacks": None}
    stacks = [(len(one["operators"]), one["tile"], one["mode"]) for one in answer["stacks"]]
    return {
        "value": answer["objective_value"],
        "bound": answer["lower_bound"],
        "status": answer["status"],
        "stacks": "; ".join(
            f"{n} in {t['columns']}x{t['rows']} {mode}" if t else f"{n} whole" for n, t, mode in stacks
        ),
        "seconds": round(cpu_seconds_of_programs() - before, 1),
    }


def _print_row(cells: tuple[object, ...], ours: Row) -> None:
    shown = [f"{one:,.0f}" if isinstance(one, float) and one > 100 else one for one in (*cells, ours.get("seconds"))]
    told = (
        f"{one:,}" if isinstance(one, int) else f"{one:.1f}" if isinstance(one, float) else str(one) for one in shown
    )
    print("| " + " | ".join(told) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
