"""The operators of ExecuTorch's edge programs in an order of least peak: arenas before and after, outputs equal.

    python benchmarks/executorch_order.py [NETWORK ...] [--json FILE]

Both programs run in ExecuTorch's Python runtime; their outputs have to be equal bit for bit.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from corpus_exports import Module
from executorch_memory import document
from executorch_models import NETWORKS, Network, network

from onchip.backends.executorch import memory_planner, reorder_operators


@dataclass(frozen=True, slots=True)
class Row:
    """Peaks as the operators' order has them, and the arenas that are planned for both orders, in bytes."""

    network: str
    given_peak_bytes: int
    peak_bytes: int
    bound_bytes: int
    seconds: float
    given_arena_bytes: int
    arena_bytes: int
    outputs_are_equal: bool

    @property
    def is_met(self) -> bool:
        """Return True if the arena did not grow and the outputs are equal."""
        return self.arena_bytes <= self.given_arena_bytes and self.outputs_are_equal

    def __str__(self) -> str:
        less = 1 - self.arena_bytes / self.given_arena_bytes
        proven = "" if self.peak_bytes == self.bound_bytes else "*"
        return (
            f"{self.network:20} {self.given_peak_bytes:11,} {self.peak_bytes:11,}{proven} {self.given_arena_bytes:11,} "
            f"{self.arena_bytes:11,} {-less:6.1%} {self.seconds:5.2f} {'equal' if self.outputs_are_equal else 'DIFFER'}"
        )


def row_of(name: str) -> Row:
    """Export, reorder, plan and run both."""
    import torch
    from executorch.exir import to_edge

    asked = network(name, int8=False)
    with torch.no_grad():
        edge = to_edge(torch.export.export(asked.module, asked.inputs))
    started = time.perf_counter()
    reordered = reorder_operators(edge)
    seconds = time.perf_counter() - started
    method = reordered.methods[0]
    arena, output = _planned_and_run(copy.deepcopy(reordered.edge), asked)
    given_arena, given_output = _planned_and_run(edge, asked) if method.is_reordered else (arena, output)
    return Row(
        name,
        method.given_peak_bytes or 0,
        method.peak_bytes or 0,
        method.lower_bound_bytes,
        seconds,
        given_arena,
        arena,
        bool(torch.equal(output, given_output)),
    )


def _planned_and_run(edge: Module, asked: Network) -> tuple[int, Module]:
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.runtime import Runtime

    planner = memory_planner()
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(memory_planning_algo=planner))
    program = edge.to_executorch(config)
    outputs = Runtime.get().load_program(program.buffer).load_method("forward").execute(asked.inputs)
    return planner.planned[0].value_bytes, outputs[0].clone()


def main() -> None:
    """Run, print, and end with 1 if something is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="all of them where none is named")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows, with commit and machine")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    print("network               peak given        ours arena given        ours   less     s outputs")
    rows: list[Row] = []
    for name in arguments.networks or [each.name for each in NETWORKS]:
        rows.append(row_of(name))
        print(rows[-1], flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(document([asdict(row) for row in rows]), indent=2) + "\n")
    sys.exit(0 if all(row.is_met for row in rows) else 1)


if __name__ == "__main__":
    main()
