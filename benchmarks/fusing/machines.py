"""One machine and one network in the formats of onchip and of its peers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import onnx
from onnx import TensorProto, helper

BITS: Final = 8
WIDE_PORT: Final = 16384
"""Bits a cycle between array and buffer: never what one waits for."""


def one_mac(buffer_bytes: int, dram_energy: int) -> str:
    """Return a machine of one multiplier, a buffer and DRAM.

    A product and a buffer bit cost 1 pJ each, a DRAM bit costs `dram_energy` pJ.
    """
    return f"""format: onchip-accelerator
version: 1
name: one-mac
array: {{dimensions: {{unit: 1}}, mac_energy_pj: 1}}
memories:
  - {{name: buffer, capacity: {buffer_bytes}B, holds: [input, weight, output], serves: [unit], scratchpad: true,
     access_bits: 8, read_energy_pj: 8, write_energy_pj: 8,
     ports: [{{direction: read, bits_per_cycle: {WIDE_PORT}}}, {{direction: write, bits_per_cycle: {WIDE_PORT}}}]}}
dram: {{access_bits: 8, read_energy_pj: {8 * dram_energy}, write_energy_pj: {8 * dram_energy},
       ports: [{{direction: read_write, bits_per_cycle: {WIDE_PORT}}}]}}
"""


def products(rows: int, columns: int, count: int) -> str:
    """Return a graph file of matrix products in a chain, as 1x1 convolutions: matrices times square matrices."""
    last = count
    roles = {0: "input", last: "output"}
    maps = [
        {"name": f"t{i}", "shape": [1, columns, 1, rows], "bits": BITS, "role": roles.get(i, "activation")}
        for i in range(last + 1)
    ]
    weights = [
        {"name": f"w{i}", "shape": [columns, columns, 1, 1], "bits": BITS, "role": "parameter"} for i in range(count)
    ]
    operators = [
        {"name": f"product{i}", "kind": "Conv", "inputs": [f"t{i}"], "parameters": [f"w{i}"]}
        | {"outputs": [f"t{i + 1}"], "attributes": {"kernel_shape": [1, 1]}, "members": [f"product{i}"]}
        for i in range(count)
    ]
    graph = {"format": "onchip-graph", "version": 1, "name": "products"}
    return json.dumps(graph | {"tensors": [*maps, *weights], "operators": operators})


def grid(buffer_bytes: int, dram_bits: int) -> str:
    """Return a machine of 32 x 32 multipliers with a byte of weights each, one double buffer, and DRAM."""
    return f"""format: onchip-accelerator
version: 1
name: grid
array: {{dimensions: {{column: 32, row: 32}}, mac_energy_pj: 0.5}}
memories:
  - {{name: weight_register, capacity: 1B, holds: [weight], serves: [],
     access_bits: 8, read_energy_pj: 0.01, write_energy_pj: 0.01,
     ports: [{{direction: read, bits_per_cycle: 8}}, {{direction: write, bits_per_cycle: 8}}]}}
  - {{name: sram, capacity: {buffer_bytes}B, holds: [input, weight, output], serves: [column, row], scratchpad: true,
     double_buffered: true, access_bits: {WIDE_PORT}, shortest_access_bits: 8, read_energy_pj: 20, write_energy_pj: 20,
     ports: [{{direction: read, bits_per_cycle: {WIDE_PORT}}}, {{direction: write, bits_per_cycle: {WIDE_PORT}}}]}}
dram: {{access_bits: {dram_bits}, read_energy_pj: 1000, write_energy_pj: 1000,
       ports: [{{direction: read_write, bits_per_cycle: {dram_bits}}}]}}
"""


def grid_of_stream(buffer_bytes: int, dram_bits: int, folder: Path) -> Path:
    """Write the same machine as Stream's files: a core, DRAM's core, and a bus between them as wide as DRAM."""
    cores = folder / "cores"
    cores.mkdir(parents=True, exist_ok=True)
    register = _stream_memory("weight_register", BITS, BITS, {"I2": ("tl", "fh")}, "[]")
    both = {"I1": ("tl", "fh"), "I2": ("tl", "fh"), "O": ("tl th", "fh fl")}
    buffer = _stream_memory("sram", 8 * buffer_bytes, WIDE_PORT, both, "[D1, D2]")
    (cores / "grid_core.yaml").write_text(
        f"""name: grid_core
type: zigzag.compute
memories:
{register}{buffer}operational_array: {{unit_energy: 0.5, unit_area: 0, dimensions: [D1, D2], sizes: [32, 32]}}
operand_precision: {{input: int8, accumulator: int32}}
"""
    )
    (cores / "grid_dram.yaml").write_text(
        f"""name: grid_dram
type: zigzag.offchip
memories:
  dram:
    {{size: 10000000000, r_cost: 1000, w_cost: 1000, area: 0, latency: 1, operands: [I1, I2, O],
     served_dimensions: [D1, D2],
     ports: [{{name: rw_port_1, type: read_write, bandwidth_min: {dram_bits}, bandwidth_max: {dram_bits}, allocation:
       ["I1, fh", "I1, tl", "I2, fh", "I2, tl", "O, fh", "O, tl", "O, fl", "O, th"]}}]}}
operational_array: {{unit_energy: 0, unit_area: 0, dimensions: [D1, D2], sizes: [0, 0]}}
"""
    )
    whole = folder / "grid.yaml"
    whole.write_text(
        f"""name: grid
cores: {{0: grid_core.yaml, 1: grid_dram.yaml}}
offchip_core_id: 1
unit_energy_cost: 0
core_connectivity: [{{type: bus, cores: [0, 1], bandwidth: {dram_bits}}}]
"""
    )
    return whole


def _stream_memory(name: str, bits: int, port_bits: int, moves: dict[str, tuple[str, str]], serves: str) -> str:
    """Return a memory with a read port and a write port; `moves` maps operands to their reads and writes."""
    reads, writes = (
        [f'"{operand}, {way}"' for operand, both in moves.items() for way in both[side].split()] for side in (0, 1)
    )
    width = f"bandwidth_min: {port_bits}, bandwidth_max: {port_bits}"
    return f"""  {name}:
    {{size: {bits}, r_cost: 1, w_cost: 1, area: 0, latency: 1, auto_cost_extraction: false,
     operands: [{", ".join(moves)}], served_dimensions: {serves},
     ports: [{{name: r_port_1, type: read, {width}, allocation: [{", ".join(reads)}]}},
             {{name: w_port_1, type: write, {width}, allocation: [{", ".join(writes)}]}}]}}
"""


def two_convolutions(pixels: int, channels: int, window: int, element_type: int, path: Path) -> None:
    """Write a model of two convolutions on square feature maps; weights have only shapes."""
    shape, weights = [1, channels, pixels, pixels], [channels, channels, window, window]
    ends = [helper.make_tensor_value_info(name, element_type, shape) for name in ("input", "output")]
    between = helper.make_tensor_value_info("between", element_type, shape)
    held = [TensorProto(name=f"weight{i}", data_type=element_type, dims=weights) for i in (1, 2)]
    steps = [("input", "weight1", "between", "Conv1"), ("between", "weight2", "output", "Conv2")]
    nodes = [
        helper.make_node(
            "Conv", [read, weight], [written], name=name, kernel_shape=[window] * 2, pads=[window // 2] * 4
        )
        for read, weight, written, name in steps
    ]
    graph = helper.make_graph(nodes, "two", ends[:1], ends[1:], held, value_info=[between])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
