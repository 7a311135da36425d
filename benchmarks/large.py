"""Large inputs: seconds and memory of whole commands on files of 100,000 operators, layers or buffers.

    python benchmarks/large.py [--json] [--size N]

Networks are chains with some skips, one tensor and one operator a step, or (wide) as many operators beside each other
as can be; buffers live over a few of as many steps as there are buffers. Searches get one second: what is measured is
reading, a first answer, its verification and writing. Kept is what ends well within a minute and a GiB; a check of
mappings may take longer: it reads as many layers, as many mappings of them, and costs each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

SIZE = 100_000
SECONDS_ALLOWED = 60.0
SECONDS_ALLOWED_TO_COST_MAPPINGS = 150.0
MIB_ALLOWED = 1024
SECONDS_BEFORE_KILLED = 300
SHAPE = [1, 8, 8, 8]


@dataclass(frozen=True, slots=True)
class Row:
    """One command; `code` is its exit code, negative if it was killed after SECONDS_BEFORE_KILLED CPU seconds."""

    command: str
    code: int
    seconds: float
    cpu_seconds: float
    peak_mib: int

    @property
    def is_met(self) -> bool:
        """Whether it succeeded in time, and in so much memory."""
        costs_mappings = self.command.startswith("check large-mapping")
        seconds_allowed = SECONDS_ALLOWED_TO_COST_MAPPINGS if costs_mappings else SECONDS_ALLOWED
        return self.code == 0 and self.seconds <= seconds_allowed and self.peak_mib <= MIB_ALLOWED


def operators(size: int) -> Iterator[tuple[str, list[str]]]:
    """The kind and the inputs of each; operator i writes tensor ti."""
    for at in range(size):
        inputs = [f"t{at - 1}" if at else "x"]
        if at > 3 and at % 3 == 0:
            inputs.append(f"t{at - 3}")
        yield ("Add" if len(inputs) > 1 else "Relu"), inputs


def wide_operators(size: int) -> Iterator[tuple[str, list[str]]]:
    """The same, but that a third of them can run first, then a third after one of these each; the rest joins all."""
    width = size // 3
    for at in range(size):
        if at < 2 * width:
            yield "Relu", ["x" if at < width else f"t{at - width}"]
        elif at == 2 * width or at - width >= 2 * width:
            yield "Relu", [f"t{at - 1}"]
        else:
            yield "Add", [f"t{at - 1}", f"t{at - width}"]


def write_graph_file(path: Path, kinds_and_inputs: Iterable[tuple[str, list[str]]]) -> None:
    """A network as onchip's own graph file has it."""
    tensors = [{"name": "x", "shape": SHAPE, "bits": 8, "role": "input"}]
    runs = []
    for at, (kind, inputs) in enumerate(kinds_and_inputs):
        tensors.append({"name": f"t{at}", "shape": SHAPE, "bits": 8, "role": "activation"})
        runs.append({"name": f"o{at}", "kind": kind, "inputs": inputs, "outputs": [f"t{at}"]})
    tensors[-1]["role"] = "output"
    head = {"format": "onchip-graph", "version": 1, "name": "large"}
    path.write_text(json.dumps({**head, "tensors": tensors, "operators": runs}))


def write_onnx_file(path: Path, size: int) -> None:
    """The same network as an ONNX model."""
    nodes = [make_node(kind, inputs, [f"t{at}"], name=f"o{at}") for at, (kind, inputs) in enumerate(operators(size))]
    value = onnx.TensorProto.FLOAT
    first = make_tensor_value_info("x", value, SHAPE)
    last = make_tensor_value_info(f"t{size - 1}", value, None)
    graph = make_graph(nodes, "large", [first], [last])
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", 20)], ir_version=9), path)


def write_buffers(path: Path, size: int) -> None:
    """Buffers of which some thirty live at once."""
    choices = random.Random(0)
    with path.open("w") as file:
        file.write("id,lower,upper,size\n")
        for at in range(size):
            start = choices.randrange(size)
            file.write(f"b{at},{start},{start + choices.randrange(1, 60)},{choices.randrange(1, 5000)}\n")


LAYER = """\
- id: {number}
  name: layer{number}
  operator_type: Conv
  equation: O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]
  dimension_relations: [ix=1*ox+1*fx, iy=1*oy+1*fy]
  loop_dims: [B, K, C, OY, OX, FY, FX]
  loop_sizes: [1, 32, 16, 56, {width}, 3, 3]
  operand_precision: {{O: 16, O_final: 8, W: 8, I: 8}}
  operand_source:
    I: {source}
    W: {number}
  pr_loop_dims: [IX, IY]
  pr_loop_sizes: [{width}, 56]
  padding: [[1, 1], [1, 1]]
"""


def write_workload(path: Path, size: int) -> None:
    """Convolutions as ZigZag writes them."""
    with path.open("w") as file:
        for number in range(size):
            file.write(LAYER.format(number=number, source=max(0, number - 1), width=number % 100 + 1))


MAPPING_HEAD = "format: onchip-mapping\nversion: 1\naccelerator: {name: simba}\nnetwork: large\nlayers:\n"
MAPPING = """\
  - names: [layer{number}]
    layer: {{loops: {{K: 32, C: 16, P: 56, Q: {width}, R: 3, S: 3}}, padding: [1, 1, 1, 1], bits: {bits}}}
    nest: [C8@lane, K8@vector, {columns}R3, S3, P56, K4, C2]
    input: [{{memory: input_buffer, loops: 2}}, {{memory: global_buffer, loops: 2}}]
    weight: [{{memory: register, loops: 2}}, {{memory: weight_buffer, loops: 2}}]
    output: [{{memory: accumulation_buffer, loops: 2}}, {{memory: global_buffer, loops: 2}}]
"""
BITS = "{input: 8, weight: 8, output: 8, partial: 16}"


def write_mappings(path: Path, size: int) -> None:
    """A mapping for each of these convolutions, with one output in the array's buffers."""
    with path.open("w") as file:
        file.write(MAPPING_HEAD)
        for number in range(size):
            width = number % 100 + 1
            columns = f"Q{width}, " if width > 1 else ""
            file.write(MAPPING.format(number=number, width=width, columns=columns, bits=BITS))


COMMANDS = (
    "info large.json",
    "info large.onnx",
    "info wide.json",
    "pack large.csv --minimize --time-limit 1 -o packed.csv",
    "pack large.csv --capacity 128KiB --overflow --time-limit 1",
    "plan large.json --sram 2KiB --method belady --order given --time-limit 1 -o plan.json",
    "check plan.json large.json",
    "plan large.json --sram 2KiB --time-limit 1",
    "plan wide.json --sram 64KiB --time-limit 1",
    "map large.yaml:layer77 --accelerator simba",
    "check large-mapping.yaml large.yaml --accelerator simba",
)


def run(command: str, folder: Path) -> Row:
    """Run it in the folder; Linux counts the memory of a process in KiB."""
    arguments = [sys.executable, "-m", "onchip", *command.split()]
    started = time.perf_counter()
    process = subprocess.Popen(
        ["sh", "-c", f'ulimit -t {SECONDS_BEFORE_KILLED}; exec "$@"', "sh", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    return Row(command, process.returncode, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024)


def main() -> None:
    """Print the table, or the rows as JSON; exit 1 where a command fails or is late."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--size", type=int, default=SIZE)
    given = parser.parse_args()
    rows = []
    if not given.json:
        print(f"{'command':84} {'code':>4} {'s':>6} {'CPU s':>6} {'MiB':>6}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_graph_file(folder / "large.json", operators(given.size))
        write_graph_file(folder / "wide.json", wide_operators(given.size))
        write_onnx_file(folder / "large.onnx", given.size)
        write_buffers(folder / "large.csv", given.size)
        write_workload(folder / "large.yaml", given.size)
        write_mappings(folder / "large-mapping.yaml", given.size)
        for command in COMMANDS:
            row = run(command, folder)
            rows.append(row)
            if not given.json:
                print(
                    f"{row.command:84} {row.code:4} {row.seconds:6.1f} {row.cpu_seconds:6.1f} {row.peak_mib:6}",
                    flush=True,
                )
    if given.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    sys.exit(not all(row.is_met for row in rows))


if __name__ == "__main__":
    main()
