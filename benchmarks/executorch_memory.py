"""ExecuTorch's memory, planned by onchip and by ExecuTorch's own passes; programs run in its Python runtime.

    python benchmarks/executorch_memory.py memory|buffers [NETWORK ...] [--int8] [--results FILE.json]

`memory`: ten networks of torchvision and three transformers with random weights: the arena next to `greedy`, then the
bytes outside fast memory of 25, 50 and 75 % of the greatest live bytes next to `BankedGreedy`. The program with the
plan for 50 % has to give the outputs of ExecuTorch's own plan, bit for bit; `difference` is to eager torch, in int8
steps of the quantisation.
`buffers`: blocks of three operators whose results are partly read five blocks later, about 2,000 buffers. Seconds are
of planning alone.
"""

from __future__ import annotations

import copy
import logging
import time
import warnings
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from corpus_exports import Architecture, made
from shared.runner import Row, asked_of, options_of, report

from onchip.backends.executorch import PlannedModule, memory_planner

if TYPE_CHECKING:
    from onchip.backends.executorch.planner import TensorSpec

Untyped: TypeAlias = Any
"""A value of torch or ExecuTorch."""
NETWORKS: Final = (
    *(Architecture("torchvision", name) for name in ("squeezenet1_1", "mobilenet_v2", "mobilenet_v3_small")),
    *(Architecture("torchvision", name) for name in ("shufflenet_v2_x1_0", "resnet18", "googlenet", "efficientnet_b0")),
    *(Architecture("torchvision", name) for name in ("resnet50", "densenet121", "swin_t")),
    *(Architecture("transformers", name) for name in ("bert_tiny", "gpt2_two_layers", "t5_small_encoder")),
)
NOT_IN_INT8: Final = ("gpt2_two_layers", "t5_small_encoder")
"""Models whose int8 versions by pt2e and XNNPACK's quantizer do not run in eager torch: integers become floats."""
SHARES_PERCENT: Final = (25, 75, 50)
"""The program runs with the plan for the last of them."""
SECONDS_ALLOWED: Final = 10.0
UNLIMITED_BYTES: Final = 1 << 40
BLOCKS: Final = 330


def networks(asked: Namespace) -> Iterator[tuple[str, Untyped, Untyped]]:
    """Yield name, module and inputs of each requested network; in int8 as pt2e makes it of one example."""
    for one in NETWORKS:
        is_asked = one.name in asked.networks or not asked.networks
        if is_asked and not (asked.int8 and one.name in NOT_IN_INT8):
            module, inputs = made(one)
            linear_only = one.package == "transformers"
            yield one.name, _quantized(module, inputs, linear_only) if asked.int8 else module, inputs


def _quantized(module: Untyped, inputs: Untyped, linear_only: bool) -> Untyped:
    """Quantise everything, or only linear layers: the indices of an embedding are not values."""
    import executorch.kernels.quantized  # noqa: F401 (registers the kernels)
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer, config = XNNPACKQuantizer(), get_symmetric_quantization_config()
    quantizer = quantizer.set_module_type(torch.nn.Linear, config) if linear_only else quantizer.set_global(config)
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(), quantizer)
    with torch.no_grad():
        prepared(*inputs)
    return convert_pt2e(prepared)


@dataclass
class Comparison:
    """A planning algorithm that tries all others on the same tensors, and leaves one plan of ours."""

    row: Row = field(default_factory=dict)
    arena: PlannedModule | None = None

    def __call__(
        self, alignment: int, specs: Iterable[TensorSpec], module: object, signature: object, padding: int
    ) -> list[int]:
        """Plan by all planners, as ExecuTorch requests; the result is our plan for the last of SHARES_PERCENT."""
        from executorch.exir.memory_planning import greedy

        asked = list(specs)
        started = time.perf_counter()
        self.row["greedy_bytes"] = sum(greedy(alignment, asked, module, signature, padding).bufsizes)
        self.row["greedy_seconds"] = time.perf_counter() - started
        planner = memory_planner()
        planner(alignment, asked, module, signature, padding)
        arena = self.arena = planner.planned[0]
        self.row |= {"arena_bytes": arena.value_bytes, "bound_bytes": arena.lower_bound_bytes, "seconds": arena.seconds}
        _verified_by_executorch(module, signature)
        sizes: list[int] = []
        for share in SHARES_PERCENT:
            capacity = arena.lower_bound_bytes * share // 100
            for spec in asked:
                spec.mem_id = spec.mem_offset = spec.mem_obj_id = None
            banked = _banked_greedy_outside(alignment, asked, module, signature, capacity)
            planner = memory_planner(capacity=capacity)
            sizes = planner(alignment, asked, module, signature, padding)
            ours = planner.planned[0]
            outside = {"ours_bytes": ours.value_bytes, "bound_bytes": ours.lower_bound_bytes, "seconds": ours.seconds}
            self.row[f"outside at {share} %"] = outside | {"banked_greedy_bytes": banked}
        _verified_by_executorch(module, signature)
        return sizes


def _verified_by_executorch(module: object, signature: object) -> None:
    """Let ExecuTorch's own verifier raise if tensors that live at once overlap."""
    from executorch.exir.memory_planning import Verifier

    Verifier(module, True, True, True, signature).verify_storage_reuse()


def _banked_greedy_outside(
    alignment: int, specs: list[TensorSpec], module: object, signature: object, capacity: int
) -> int:
    from executorch.exir.banked_memory_planning import Bank, BankedGreedy, TargetMemoryMap

    banks = TargetMemoryMap([Bank("sram", capacity, 1), Bank("dram", UNLIMITED_BYTES, 2)])
    result = BankedGreedy(banks)(alignment, specs, module, signature)
    return sum(spec.allocated_memory for spec in specs if result.spec_dict[spec].mem_id == 2)


def memory(asked: Namespace) -> Iterator[Row]:
    """Yield a row for each network; `is_met` if all is proven in time, never above ExecuTorch's, with equal outputs."""
    from executorch.exir import to_edge

    for name, module, inputs in networks(asked):
        with torch.no_grad():
            expected = module(*inputs)
            edge = to_edge(torch.export.export(module, inputs))
        comparison = Comparison()
        own_output, output = _run(copy.deepcopy(edge), inputs), _run(edge, inputs, comparison)
        row, arena = comparison.row, comparison.arena
        assert arena is not None
        difference = float((output - expected).abs().max())
        is_equal = bool(torch.equal(output, own_output))
        outside = [row[f"outside at {share} %"] for share in SHARES_PERCENT]
        is_met = is_equal and row["arena_bytes"] == row["bound_bytes"] <= row["greedy_bytes"]
        is_met &= all(one["ours_bytes"] == one["bound_bytes"] <= one["banked_greedy_bytes"] for one in outside)
        is_met &= all(one["seconds"] <= SECONDS_ALLOWED for one in (row, *outside))
        is_met &= asked.int8 or difference <= 1e-3 * float(expected.abs().max())
        sizes = {"buffers": arena.buffers, "buffer_bytes": sum(one.buffer_bytes for one in arena.memories)}
        yield {"network": name, **sizes, **row, "difference": difference, "is_equal": is_equal, "is_met": is_met}


def _run(edge: Untyped, inputs: Untyped, algorithm: object = None) -> Untyped:
    """Return the first output of a program, planned by the algorithm or by ExecuTorch's own."""
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.runtime import Runtime

    planning = {"memory_planning_pass": MemoryPlanningPass(memory_planning_algo=algorithm)} if algorithm else {}
    program = edge.to_executorch(ExecutorchBackendConfig(**planning))
    return Runtime.get().load_program(program.buffer).load_method("forward").execute(inputs)[0].clone()


class Blocks(torch.nn.Module):  # type: ignore[misc]
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


def buffers(_: Namespace) -> Iterator[Row]:
    """Yield the seconds of each planner within ExecuTorch's passes."""
    from executorch.exir import to_edge
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy

    inputs = (torch.randn(1, 4, 64),)
    edge = to_edge(torch.export.export(Blocks(BLOCKS).eval(), inputs))
    planners = {"greedy": MemoryPlanningAlgorithmSuite(algo_list=[greedy])}
    planners |= {"ours": memory_planner(), "ours at 8 KiB": memory_planner(capacity="8KiB")}
    for name, planner in planners.items():
        seconds = [0.0]

        def timed(
            *given: Untyped, planner: Untyped = planner, seconds: list[float] = seconds, **named: Untyped
        ) -> Untyped:
            started = time.perf_counter()
            result = planner(*given, **named)
            seconds[0] += time.perf_counter() - started
            return result

        _run(copy.deepcopy(edge), inputs, timed)
        statuses = [str(one.status) for one in getattr(planner, "planned", ())]
        yield {"planner": name, "statuses": statuses, "seconds": seconds[0]}


TABLES: Final = {"memory": memory, "buffers": buffers}


def main() -> int:
    """Print the table; return 1 if a row is not met."""
    parser = options_of(__doc__)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--int8", action="store_true", help="quantised by pt2e")
    asked = asked_of(parser)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    found = report(asked, {asked.table: partial(TABLES[asked.table], asked)})[asked.table]
    return int(not all(row.get("is_met", True) for row in found))


if __name__ == "__main__":
    raise SystemExit(main())
