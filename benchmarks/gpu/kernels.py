"""Mappings of products and ResNet-50's layers on two GPUs: what they claim, and what NVIDIA's compiler finds.

    PYTHONPATH=benchmarks python -m gpu.kernels [--seconds 5] [--all] [--ptxas PROGRAM] [--results FILE]

Needs nvcc and no GPU. Kernels for `h100-like` are compiled for sm_90, those for `k80-like` for the oldest architecture
that nvcc has; with PROGRAM, the assembler of CUDA 11.8 (in PyPI's `nvidia-cuda-nvcc-cu11`), for the K80's own, sm_37.
To be shown: shared memory and threads are as claimed, registers at least as many and at most 255, nothing is spilled.
`--all` are all layers of the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpu.gpu_compiler import CompiledKernel, gpu_compiler
from gpu.older_assembler import OlderAssembler
from shared.results import write_results

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.api.map import MappingRequest, map_layers
from onchip.backends.nests.gpu_source import CUDA, GpuKernel, gpu_kernel
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.search.budget.limits import Limits

ARCHITECTURES: Final = {"h100-like": "sm_90", "k80-like": None}
METHODS: Final = ("exact", "cosa", "random")
PRODUCTS: Final = ("gemm:m1024n1024k1024", "gemm:m256n512k512", "gemm:m100n1000k300", "gemm:m33n127k65")
GREATEST_REGISTERS: Final = 255


def main() -> None:
    """Print a row for each GPU, layer and method; exit with 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--ptxas", type=Path, metavar="PROGRAM")
    parser.add_argument("--only", choices=ARCHITECTURES, help="kernels for this one alone")
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    try:
        gpu_compiler()
    except InputError as error:
        parser.error(str(error))
    layers = [name for name, layer in layer_table("resnet50").items() if layer.r == 3 or arguments.all]
    sources = (*PRODUCTS, *(f"cosa:resnet50:{name}" for name in layers))
    print(
        f"{'GPU':10} {'layer':32} {'method':7} {'iterations':>10} {'blocks':>6} {'threads':>7} {'shared':>7} registers"
    )
    gpus = [arguments.only] if arguments.only else list(ARCHITECTURES)
    rows = [row for gpu in gpus for source in sources for row in _rows(gpu, source, arguments)]
    if arguments.results is not None:
        write_results(arguments.results, rows)
    print(f"{sum(bool(row['is_as_claimed']) for row in rows)} of {len(rows)} are as claimed")
    if not all(row["is_as_claimed"] for row in rows):
        raise SystemExit(1)


def _rows(gpu: str, source: str, arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    accelerator, architecture = load_accelerator(gpu), ARCHITECTURES[gpu]
    is_older = arguments.ptxas is not None and architecture is None
    compiler = OlderAssembler(arguments.ptxas) if is_older else gpu_compiler(architecture)
    for method in METHODS:
        request = MappingRequest(
            source,
            gpu,
            MappingObjective.EDP,
            method,
            32,
            limits=Limits(arguments.seconds),
            use_cache=False,
            partial_bits=32,
        )
        outcome = map_layers(request)
        for one, layer in zip(outcome.document.answer, outcome.layers.layers.values(), strict=False):
            kernel = gpu_kernel(layer, one.mapping, accelerator, CUDA, "nest", source)
            found = compiler.compiled(kernel.source)
            is_right = is_as_claimed(kernel, found)
            print(
                f"{gpu:10} {source:32} {method:7} {one.mapping.temporal_iterations:10} {kernel.blocks:6} "
                f"{found.threads:7} {found.shared_bytes:7} {kernel.registers} of {found.registers}"
                f"{'' if is_right else f'  NOT AS CLAIMED: {kernel.threads} {kernel.shared_bytes} {found}'}",
                flush=True,
            )
            yield {
                "gpu": gpu,
                "layer": source,
                "method": method,
                "iterations": one.mapping.temporal_iterations,
                "blocks": kernel.blocks,
                "threads": found.threads,
                "shared_bytes": found.shared_bytes,
                "registers_claimed": kernel.registers,
                "registers": found.registers,
                "is_as_claimed": is_right,
                "spilled_bytes": found.spilled_bytes,
            }


def is_as_claimed(kernel: GpuKernel, found: CompiledKernel) -> bool:
    """Return True if the compiler confirms the claims of the mapping."""
    return (
        (found.threads, found.shared_bytes, found.spilled_bytes) == (kernel.threads, kernel.shared_bytes, 0)
        and kernel.registers <= found.registers <= GREATEST_REGISTERS
        and not found.warnings
    )


if __name__ == "__main__":
    main()
