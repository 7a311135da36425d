"""`onchip schedule` beside tools that fuse layers: AccelForge's bytes of DRAM, Stream's cycles, on machines of both.

    PYTHONPATH=benchmarks python -m fusing [--accelforge PYTHON] [--stream PYTHON] [--seconds 60] [--results FILE.json]

PYTHON are interpreters (3.12) that have `accelforge` 1.0.467 or `stream-dse` 2.1.1; what is not given is left out.
AccelForge also needs Graphviz's `dot` in PATH. It maps chains of products on a multiplier with one buffer, where a
bit of DRAM costs as much as a thousand of the buffer; Stream two convolutions on 32 x 32 multipliers with one buffer.
What differs beside the mapspaces is in docs/schedule.md.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from fusing.machines import grid, grid_of_stream, one_mac, products, two_convolutions
from onnx import TensorProto
from shared.runner import Row, asked_of, onchip, options_of, report, run

DRAM_ENERGY: Final = 1000
CHAINS: Final = ((128, 128, 3, 8), (128, 128, 3, 16), (128, 128, 3, 24), (128, 128, 3, 40), (512, 64, 3, 8))
"""Rows, columns, products, KiB of the buffer."""
CONVOLUTIONS: Final = ((64, 64, 3, 16), (64, 64, 1, 16), (32, 128, 3, 16), (64, 64, 3, 64))
"""Pixels along an edge, channels, window, bits of DRAM a cycle."""
GRID_BUFFER_BYTES: Final = 256 * 1024


def chains(asked: Namespace) -> Iterator[Row]:
    """Yield the bytes of DRAM of chains of products."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows, columns, count, kibibytes in CHAINS:
            (folder / "machine.yaml").write_text(one_mac(1024 * kibibytes, DRAM_ENERGY))
            (folder / "products.json").write_text(products(rows, columns, count))
            sizes = [str(number) for number in (rows, columns, count, 1024 * kibibytes, DRAM_ENERGY)]
            theirs = _peer(asked.accelforge, "accelforge_program.py", sizes, folder)
            ours = _schedule(folder / "products.json", folder / "machine.yaml", "traffic", asked.seconds)
            figures = {"rows": rows, "columns": columns, "products": count, "kibibytes": kibibytes}
            yield {**figures, "theirs": theirs, "ours": ours}


def convolutions(asked: Namespace) -> Iterator[Row]:
    """Yield the cycles of two convolutions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for pixels, channels, window, dram_bits in CONVOLUTIONS:
            machine = grid_of_stream(GRID_BUFFER_BYTES, dram_bits, folder / f"dram{dram_bits}")
            (folder / "machine.yaml").write_text(grid(GRID_BUFFER_BYTES, dram_bits))
            theirs_is, ours_is = folder / "int8.onnx", folder / "float.onnx"
            two_convolutions(pixels, channels, window, TensorProto.INT8, theirs_is)
            two_convolutions(pixels, channels, window, TensorProto.FLOAT, ours_is)
            known = [str(machine), str(theirs_is), str(folder / "out"), str(asked.seconds)]
            fused, apart = (
                _peer(asked.stream, "stream_program.py", [*known, way], folder) for way in ("fused", "layers")
            )
            ours = _schedule(ours_is, folder / "machine.yaml", "latency", asked.seconds)
            figures = {"pixels": pixels, "channels": channels, "window": window, "dram_bits": dram_bits}
            yield {**figures, "theirs_fused": fused, "theirs_by_layer": apart, "ours": ours}


def _peer(python: Path, program: str, arguments: list[str], folder: Path) -> Row:
    """Return the output of the peer's program, or the last line of its errors as `error`."""
    ended = run([python.absolute(), Path(__file__).with_name(program).resolve(), *arguments], folder)
    return ended.answer if ended.code == 0 else {"error": (ended.errors.strip().splitlines() or ["no word"])[-1]}


def _schedule(network: Path, machine: Path, objective: str, seconds: float) -> Row:
    """Return the answer of `onchip schedule`, with elements of 8 bits."""
    options = ("--objective", objective, "--bits", 8, "--partial-bits", 8, "--time-limit", seconds, "--json")
    ended = onchip("schedule", network, "--accelerator", machine, *options)
    answer = ended.answer
    stacks = [f"{len(one['operators'])} in {one['tile']} {one['mode']}" for one in answer.get("stacks") or ()]
    figures = {"value": answer.get("objective_value"), "bound": answer.get("lower_bound")}
    status = answer.get("status") or answer.get("error")
    return {**figures, "status": status, "stacks": "; ".join(stacks), "seconds": ended.cpu_seconds}


def main() -> None:
    """Print a table for each available peer."""
    parser = options_of(__doc__)
    parser.add_argument("--accelforge", type=Path, metavar="PYTHON")
    parser.add_argument("--stream", type=Path, metavar="PYTHON")
    parser.add_argument("--seconds", type=float, default=60.0, help="for one answer of onchip, and of Stream's solver")
    asked = asked_of(parser)
    tables = {"accelforge": chains, "stream": convolutions}
    report(asked, {peer: partial(table, asked) for peer, table in tables.items() if getattr(asked, peer) is not None})


if __name__ == "__main__":
    main()
