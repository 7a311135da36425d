"""How long a model of many buffers takes to be planned by onchip, and by ExecuTorch's own pass.

    python benchmarks/executorch_buffers.py [--blocks 330] [--capacity 8KiB]

Blocks of three operators widen a row, and some of their results are read five blocks later: with 330 blocks about 2,000
buffers. Seconds are those of the planning algorithms alone. Ends with 1 where ours takes two seconds and longer than
ExecuTorch's, or is not proven.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import warnings
from importlib import import_module
from typing import Any, TypeAlias

from onchip.answer.result import Status
from onchip.backends.executorch import memory_planner

Untyped: TypeAlias = Any
"""What torch and ExecuTorch hand out."""
PROMISED_SECONDS = 2.0
torch, exir = import_module("torch"), import_module("executorch.exir")


class Blocks(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch is imported by its name
    """Each block widens a row by its own number of rows, and adds their mean to it."""

    def __init__(self, count: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        rows = (8 + (at * 37) % 29 for at in range(count))
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(1, one, 1) * 0.1) for one in rows])

    def forward(self, x: Untyped) -> Untyped:
        """Run the blocks one after the other."""
        held: list[Untyped] = []
        for at, weight in enumerate(self.weights):
            wide = torch.relu(weight * x[:, :1])
            x = torch.tanh(x + wide.mean(1, keepdim=True))
            if at % 7 == 0:
                held.append(wide)
            if at % 7 == 5 and held:
                x = x + held.pop(0).mean(1, keepdim=True)
        return x


class Timed:
    """A planning algorithm that counts its seconds."""

    def __init__(self, algorithm: Untyped) -> None:
        self.algorithm = algorithm
        self.seconds = 0.0

    def __call__(self, *arguments: Untyped, **named: Untyped) -> Untyped:
        """Run the algorithm, and count its seconds."""
        started = time.perf_counter()
        result = self.algorithm(*arguments, **named)
        self.seconds += time.perf_counter() - started
        return result


def seconds_of(edge: Untyped, algorithm: Untyped) -> float:
    """How long an algorithm takes within the whole of ExecuTorch's passes."""
    timed = Timed(algorithm)
    passes = import_module("executorch.exir.passes")
    planning = passes.MemoryPlanningPass(memory_planning_algo=timed)
    copy.deepcopy(edge).to_executorch(exir.ExecutorchBackendConfig(memory_planning_pass=planning))
    return timed.seconds


def main() -> None:
    """Print the seconds of each planner."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=330)
    parser.add_argument("--capacity", default="8KiB")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    edge = exir.to_edge(torch.export.export(Blocks(asked.blocks).eval(), (torch.randn(1, 4, 64),)))
    own = import_module("executorch.exir.memory_planning")
    theirs = seconds_of(edge, own.MemoryPlanningAlgorithmSuite(algo_list=[own.greedy]))
    print(f"greedy: {theirs:.2f} seconds")
    is_kept = True
    for word, capacity in (("arena", None), (asked.capacity, asked.capacity)):
        planner = memory_planner(capacity=capacity)
        seconds = seconds_of(edge, planner)
        (planned,) = planner.planned
        buffers = sum(memory.buffers for memory in planned.memories)
        print(f"ours, {word}: {buffers} buffers, {planned.status}, {seconds:.2f} seconds")
        is_kept = is_kept and planned.status == Status.OPTIMAL and seconds <= max(PROMISED_SECONDS, theirs)
    sys.exit(0 if is_kept else 1)


if __name__ == "__main__":
    main()
