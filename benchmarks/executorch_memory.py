"""ExecuTorch's memory, planned by onchip and by ExecuTorch, for ten networks of torchvision and three transformers.

    python benchmarks/executorch_memory.py [NETWORK ...] [--int8] [--json FILE]

Per network: the arena beside `greedy` and the most bytes that live at once; then the bytes that lie outside fast memory
of 25, 50 and 75 % of that beside `BankedGreedy`. The `.pte` that is written with the plan for 50 % runs in ExecuTorch's
Python runtime. Its outputs have to be those of ExecuTorch's own plan, bit for bit; the last column is how far they are
from eager torch's: in int8, where kernels round otherwise, steps of the quantisation. Seconds are of planning alone.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from executorch_models import NETWORKS, NOT_IN_INT8, network

from onchip.backends.executorch import PlannedModule, memory_planner

if TYPE_CHECKING:
    from onchip.backends.executorch.planner import TensorSpec

SHARES_PERCENT: Final = (25, 50, 75)
RUN_AT_PERCENT: Final = 50
SECONDS_ALLOWED: Final = 10.0
UNLIMITED_BYTES: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Outside:
    """Fast memory of a share of the most live bytes: bytes outside, ours and BankedGreedy's."""

    share_percent: int
    capacity_bytes: int
    ours_bytes: int
    bound_bytes: int
    banked_greedy_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """One network; bytes, and seconds of planning."""

    network: str
    int8: bool
    buffers: int
    buffer_bytes: int
    greedy_bytes: int
    greedy_seconds: float
    arena_bytes: int
    bound_bytes: int
    seconds: float
    outside: tuple[Outside, ...]
    greatest_difference: float
    greatest_output: float
    equals_own_plan: bool

    @property
    def is_met(self) -> bool:
        """Return True if everything is proven in time, is never above ExecuTorch's, and the outputs are equal."""
        outside_is = all(
            each.ours_bytes == each.bound_bytes <= each.banked_greedy_bytes and each.seconds <= SECONDS_ALLOWED
            for each in self.outside
        )
        arena_is = self.arena_bytes == self.bound_bytes <= self.greedy_bytes and self.seconds <= SECONDS_ALLOWED
        return arena_is and outside_is and self.equals_own_plan and self._is_eagers

    @property
    def _is_eagers(self) -> bool:
        """Return True if the outputs are eager torch's; in int8, quantisation steps cannot be told from errors."""
        return self.int8 or self.greatest_difference <= 1e-3 * self.greatest_output

    def __str__(self) -> str:
        name = f"{self.network}{' int8' if self.int8 else ''}"
        shares = "  ".join(
            f"{each.ours_bytes / self.buffer_bytes:.3f}{'' if each.ours_bytes == each.bound_bytes else '*'}"
            f" ({each.banked_greedy_bytes / self.buffer_bytes:.3f}, {each.seconds:.1f} s)"
            for each in self.outside
        )
        more = self.greedy_bytes / self.arena_bytes - 1
        proven = "" if self.arena_bytes == self.bound_bytes else "*"
        return (
            f"{name:24} {self.buffers:5} {self.arena_bytes:11,}{proven} {self.greedy_bytes:11,} {more:+6.1%} "
            f"{self.seconds:5.2f} {self.greedy_seconds:5.2f}  {shares}  "
            f"{'equal' if self.equals_own_plan else 'DIFFER'} {self.greatest_difference:.1e}"
        )


@dataclass
class Comparison:
    """An algorithm for ExecuTorch that tries all of them on the same tensors, and leaves one plan of ours."""

    greedy_bytes: int = 0
    greedy_seconds: float = 0.0
    arena: PlannedModule | None = None
    outside: list[Outside] = field(default_factory=list)

    def __call__(
        self, alignment: int, specs: Iterable[TensorSpec], module: object, signature: object, padding: int
    ) -> list[int]:
        """Plan by all planners, as ExecuTorch requests; the result is our plan for half of the peak live bytes."""
        from executorch.exir.memory_planning import greedy

        asked = list(specs)
        started = time.perf_counter()
        self.greedy_bytes = sum(greedy(alignment, asked, module, signature, padding).bufsizes)
        self.greedy_seconds = time.perf_counter() - started
        planner = memory_planner()
        planner(alignment, asked, module, signature, padding)
        self.arena = planner.planned[0]
        _verified_by_executorch(module, signature)
        sizes: list[int] = []
        for share in sorted(SHARES_PERCENT, key=lambda each: each == RUN_AT_PERCENT):
            capacity = self.arena.lower_bound_bytes * share // 100
            _forget(asked)
            banked = _banked_greedy_outside(alignment, asked, module, signature, capacity)
            planner = memory_planner(capacity=capacity)
            started = time.perf_counter()
            sizes = planner(alignment, asked, module, signature, padding)
            seconds = time.perf_counter() - started
            ours = planner.planned[0]
            outside = Outside(share, capacity, ours.value_bytes, ours.lower_bound_bytes, banked, seconds)
            self.outside.append(outside)
        self.outside.sort(key=lambda each: each.share_percent)
        _verified_by_executorch(module, signature)
        return sizes


def _forget(specs: Iterable[TensorSpec]) -> None:
    for spec in specs:
        spec.mem_id = spec.mem_offset = spec.mem_obj_id = None


def _verified_by_executorch(module: object, signature: object) -> None:
    """ExecuTorch's own verifier raises where tensors that live at once overlap."""
    from executorch.exir.memory_planning import Verifier

    verifier = Verifier(module, True, True, True, signature)
    verifier.verify_storage_reuse()


def _banked_greedy_outside(
    alignment: int, specs: list[TensorSpec], module: object, signature: object, capacity: int
) -> int:
    from executorch.exir.banked_memory_planning import Bank, BankedGreedy, TargetMemoryMap

    banks = TargetMemoryMap([Bank("sram", capacity, 1), Bank("dram", UNLIMITED_BYTES, 2)])
    result = BankedGreedy(banks)(alignment, specs, module, signature)
    return sum(spec.allocated_memory for spec in specs if result.spec_dict[spec].mem_id == 2)


def row_of(name: str, *, int8: bool) -> Row:
    """Export, plan with all, write the `.pte`, run it."""
    import torch
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.runtime import Runtime

    asked = network(name, int8=int8)
    with torch.no_grad():
        expected = asked.module(*asked.inputs)
        edge = to_edge(torch.export.export(asked.module, asked.inputs))
    comparison = Comparison()
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(memory_planning_algo=comparison))
    programs = copy.deepcopy(edge).to_executorch(), edge.to_executorch(config)
    own, ours = (Runtime.get().load_program(program.buffer).load_method("forward") for program in programs)
    own_output, output = own.execute(asked.inputs)[0].clone(), ours.execute(asked.inputs)[0]
    arena = comparison.arena
    assert arena is not None
    return Row(
        name,
        int8,
        arena.buffers,
        sum(memory.buffer_bytes for memory in arena.memories),
        comparison.greedy_bytes,
        comparison.greedy_seconds,
        arena.value_bytes,
        arena.lower_bound_bytes,
        arena.seconds,
        tuple(comparison.outside),
        float((output - expected).abs().max()),
        float(expected.abs().max()),
        bool(torch.equal(output, own_output)),
    )


def main() -> None:
    """Run, print, and end with 1 if something is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="all of them where none is named")
    parser.add_argument("--int8", action="store_true", help="quantized by pt2e")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows, with commit and machine")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    print(
        "network                  buffers     arena      greedy   more     s greedy  outside at 25, 50, 75 % (Banked)"
    )
    rows: list[Row] = []
    possible = [each.name for each in NETWORKS if not arguments.int8 or each.name not in NOT_IN_INT8]
    for name in arguments.networks or possible:
        rows.append(row_of(name, int8=arguments.int8))
        print(rows[-1], flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(document([asdict(row) for row in rows]), indent=2) + "\n")
    sys.exit(0 if all(row.is_met for row in rows) else 1)


def document(rows: list[dict[str, object]]) -> dict[str, object]:
    """Return the document of a run: its rows, with commit and machine."""
    commit = subprocess.run(("git", "rev-parse", "HEAD"), capture_output=True, text=True, check=False).stdout.strip()
    machine = {"machine": platform.machine(), "system": platform.system(), "python": platform.python_version()}
    return {"commit": commit, "machine": machine, "rows": rows}


if __name__ == "__main__":
    main()
