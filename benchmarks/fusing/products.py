"""Chains of matrix products and attention on one buffer, as products and as 1x1 convolutions.

    PYTHONPATH=benchmarks python -m fusing.products [--seconds S] [--counts 2 4 8] [--buffers 4 8 16] [--json FILE]

One lane, one buffer and DRAM: the figures are bytes from and to DRAM, and the processor seconds of the search. The
buffer holds every operand. All elements and partial sums have 8 bits. `python -m fusing` runs AccelForge beside other
chains.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.search.budget.limits import Limits

SIDE = 128
"""Rows, columns and depth of the products."""
TOKENS, WIDTH = 256, 64
"""Size of the attention."""
MACHINE = """
format: onchip-accelerator
version: 1
name: one-buffer
array: {{dimensions: {{lane: 1}}, mac_energy_pj: 0.0}}
memories:
  - {{name: buffer, capacity: {kib}KiB, scratchpad: true, serves: [lane],
     access_bits: 8, shortest_access_bits: 8, read_energy_pj: 0.0, write_energy_pj: 0.0,
     ports: [{{direction: read, bits_per_cycle: 1000000}}, {{direction: write, bits_per_cycle: 1000000}}]}}
dram: {{access_bits: 8, shortest_access_bits: 8, read_energy_pj: 8, write_energy_pj: 8,
       ports: [{{direction: read_write, bits_per_cycle: 1000000}}]}}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """The best schedule found for one workload and one buffer."""

    workload: str
    buffer_kib: int
    traffic_bytes: int
    bound_bytes: int
    groups: int
    processor_seconds: float


def saved(
    folder: Path, name: str, nodes: list[onnx.NodeProto], sizes: Mapping[str, tuple[int, ...]], last: str
) -> Path:
    """Write a model; `sizes` are those of inputs, weights (whose names begin with w) and the output."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal(size).astype(np.float32), one)
        for one, size in sizes.items()
        if one.startswith("w")
    ]
    inputs = [
        helper.make_tensor_value_info(one, TensorProto.FLOAT, size)
        for one, size in sizes.items()
        if one != last and not one.startswith("w")
    ]
    outputs = [helper.make_tensor_value_info(last, TensorProto.FLOAT, sizes[last])]
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    path = folder / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def products(folder: Path, count: int) -> Path:
    """Return a chain of square products with weights."""
    nodes = [helper.make_node("MatMul", [f"t{at}", f"w{at}"], [f"t{at + 1}"], name=f"p{at}") for at in range(count)]
    sizes = dict.fromkeys(["t0", f"t{count}", *(f"w{at}" for at in range(count))], (SIDE, SIDE))
    return saved(folder, f"products_{count}", nodes, sizes, f"t{count}")


def convolutions(folder: Path, count: int) -> Path:
    """Return the same products as 1x1 convolutions over one column."""
    nodes = [helper.make_node("Conv", [f"t{at}", f"w{at}"], [f"t{at + 1}"], name=f"c{at}") for at in range(count)]
    sizes = dict.fromkeys((f"w{at}" for at in range(count)), (SIDE, SIDE, 1, 1))
    sizes |= dict.fromkeys(["t0", f"t{count}"], (1, SIDE, SIDE, 1))
    return saved(folder, f"convolutions_{count}", nodes, sizes, f"t{count}")


def attention(folder: Path) -> Path:
    """Return one head of attention, with whole rows of the softmax."""
    nodes = [
        helper.make_node("MatMul", ["q", "kt"], ["scores"], name="scores"),
        helper.make_node("Softmax", ["scores"], ["probabilities"], name="softmax", axis=-1),
        helper.make_node("MatMul", ["probabilities", "v"], ["o"], name="context"),
    ]
    sizes = {"q": (1, TOKENS, WIDTH), "kt": (1, WIDTH, TOKENS), "v": (1, TOKENS, WIDTH), "o": (1, TOKENS, WIDTH)}
    return saved(folder, "attention", nodes, sizes, "o")


def measured(network: Path, buffer_kib: int, seconds: float, folder: Path) -> Row:
    """Schedule a network for minimum traffic within a time limit."""
    machine = folder / f"buffer_{buffer_kib}.yaml"
    machine.write_text(MACHINE.format(kib=buffer_kib))
    begun = time.process_time()
    request = ScheduleRequest(
        str(network),
        str(machine),
        ScheduleObjective.TRAFFIC,
        bits=8,
        partial_bits=8,
        limits=Limits(time_limit_seconds=seconds),
        uses_cache=False,
    )
    result = schedule_network(request).result
    value, answer = result.objective_value, result.answer
    assert value is not None
    assert answer is not None
    spent = time.process_time() - begun
    return Row(network.stem, buffer_kib, value, result.lower_bound, len(answer.stacks), round(spent, 1))


def rows(counts: Sequence[int], buffers: Sequence[int], seconds: float) -> Iterator[Row]:
    """Yield a row for each workload and buffer."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        networks = [each(folder, count) for count in counts for each in (products, convolutions)]
        for network in (*networks, attention(folder)):
            for buffer_kib in buffers:
                yield measured(network, buffer_kib, seconds, folder)


def main() -> None:
    """Print a table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--counts", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--buffers", type=int, nargs="+", default=[4, 8, 16, 32, 64])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = []
    print("| workload | buffer, KiB | traffic, bytes | bound | groups | processor s |")
    print("|---|---|---|---|---|---|")
    for row in rows(options.counts, options.buffers, options.seconds):
        found.append(row)
        cells = row.workload, row.buffer_kib, f"{row.traffic_bytes:,}", f"{row.bound_bytes:,}", row.groups
        print(f"| {' | '.join(map(str, cells))} | {row.processor_seconds} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
