"""Chains of matrix products and attention on one multiplier with one buffer: bytes of DRAM and their lower bound.

    PYTHONPATH=benchmarks python -m fusing.products [--seconds 20] [--counts 2 4 8] [--buffers 4 8 16 32 64]
                                                    [--processor] [--kept FILE.jsonl] [--results FILE.json]

Each chain of square products of 128 rows stands as MatMul and as 1x1 Conv; the attention has 256 tokens x 64. Elements
and partial sums have 8 bits. With `--kept` rows that are in the file are not measured again.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import onnx
from fusing.machines import one_mac
from onnx import TensorProto, helper, numpy_helper
from shared.runner import Row, asked_of, kept, options_of, report

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.search.budget.limits import Limits

SIDE: Final = 128
"""Rows, columns and depth of the products."""
TOKENS: Final = 256
WIDTH: Final = 64


def saved(path: Path, nodes: list[onnx.NodeProto], sizes: Mapping[str, tuple[int, ...]], last: str) -> Path:
    """Write a model; `sizes` are those of inputs, weights (whose names begin with w) and the output."""
    weights = [
        numpy_helper.from_array(np.zeros(size, np.float32), one) for one, size in sizes.items() if one.startswith("w")
    ]
    info = {one: helper.make_tensor_value_info(one, TensorProto.FLOAT, size) for one, size in sizes.items()}
    inputs = [info[one] for one in sizes if one != last and not one.startswith("w")]
    graph = helper.make_graph(nodes, path.stem, inputs, [info[last]], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def chain(path: Path, count: int, kind: str) -> Path:
    """Write a chain of square products with weights."""
    nodes = [helper.make_node(kind, [f"t{at}", f"w{at}"], [f"t{at + 1}"], name=f"p{at}") for at in range(count)]
    of_weights, of_maps = ((SIDE, SIDE, 1, 1), (1, SIDE, SIDE, 1)) if kind == "Conv" else ((SIDE, SIDE),) * 2
    sizes = dict.fromkeys((f"w{at}" for at in range(count)), of_weights) | dict.fromkeys(("t0", f"t{count}"), of_maps)
    return saved(path, nodes, sizes, f"t{count}")


def attention(path: Path) -> Path:
    """Write one head of attention."""
    nodes = [
        helper.make_node("MatMul", ["q", "kt"], ["scores"], name="scores"),
        helper.make_node("Softmax", ["scores"], ["probabilities"], name="softmax", axis=-1),
        helper.make_node("MatMul", ["probabilities", "v"], ["o"], name="context"),
    ]
    rows, columns = (1, TOKENS, WIDTH), (1, WIDTH, TOKENS)
    return saved(path, nodes, {"q": rows, "kt": columns, "v": rows, "o": rows}, "o")


def measured(folder: Path, seconds: float, name: str) -> Row:
    """Schedule a workload for minimum traffic; `name` is that of the workload, and the KiB of the buffer."""
    workload, kibibytes = name.rsplit(" ", 1)
    kind, _, count = workload.partition(" ")
    path = folder / f"{workload}.onnx"
    network = chain(path, int(count), kind) if count else attention(path)
    machine = folder / f"{kibibytes}.yaml"
    machine.write_text(one_mac(1024 * int(kibibytes), 1000))
    begun, limits = time.process_time(), Limits(time_limit_seconds=seconds)
    options = ScheduleOptions(partial_bits=8, uses_cache=False)
    objective, reading = ScheduleObjective.TRAFFIC, Reading(bits=8)
    request = ScheduleRequest(str(network), str(machine), objective, options, reading=reading, limits=limits)
    result = schedule_network(request).result
    value, bound = result.objective_value, result.lower_bound
    gap = None if value is None else round(1 - bound / value, 4)
    groups = None if result.answer is None else len(result.answer.stacks)
    spent = round(time.process_time() - begun, 1)
    return {"traffic_bytes": value, "bound_bytes": bound, "gap": gap, "groups": groups, "cpu_seconds": spent}


def rows(asked: Namespace) -> Iterator[Row]:
    """Yield a row for each workload and buffer."""
    workloads = [*(f"{kind} {count}" for count in asked.counts for kind in ("MatMul", "Conv")), "attention"]
    names = [f"{workload} {kibibytes}" for workload in workloads for kibibytes in asked.buffers]
    with TemporaryDirectory() as made:
        yield from kept(asked.kept, names, partial(measured, Path(made), asked.seconds))


def main() -> None:
    """Print a table."""
    parser = options_of(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each schedule")
    parser.add_argument("--counts", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--buffers", type=int, nargs="+", default=[4, 8, 16, 32, 64])
    parser.add_argument(
        "--kept", type=Path, metavar="FILE.jsonl", help="rows measured before, to which new ones are added"
    )
    asked = asked_of(parser)
    report(asked, {"products": partial(rows, asked)})


if __name__ == "__main__":
    main()
