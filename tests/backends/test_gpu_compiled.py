"""CUDA kernels through NVIDIA's compiler: they use the GPU resources that their mappings claim, and spill nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from random import Random

import pytest
from gpu.gpu_compiler import gpu_compiler

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.backends.nests.gpu_source import CUDA, GpuKernel, gpu_kernel
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.verify.mapping import verify_mapping
from support.gpu_mappings import ROOMY_GPU, gpu_layer, gpu_mapping
from support.series import series

WITH_NVCC = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc in PATH: it is of NVIDIA's CUDA toolkit")
ARCHITECTURES = {"h100-like": "sm_90", "k80-like": None}
GREATEST_REGISTERS = 255


def floats(layer: Layer) -> Layer:
    return replace(layer, input_bits=32, weight_bits=32, output_bits=32, partial_bits=32)


def product(rows: int, columns: int) -> tuple[Layer, LayerMapping]:
    """Return a product of 256 threads with `rows` x `columns` sums each; shared memory holds 16 terms per sum."""
    nest = (
        *(Loop("N", rows), Loop("K", columns), Loop("C", 16), Loop("K", 16, "thread"), Loop("N", 16, "thread")),
        *(Loop("C", 5), Loop("N", 3, "block"), Loop("K", 2)),
    )
    layer = floats(Layer(n=3 * 16 * rows - 1, k=2 * 16 * columns - 3, c=77))
    own, shared = Kept("registers", 2), Kept("shared", 3)
    return layer, LayerMapping(nest, (own, shared), (own, shared), (own,), ragged=("N", "K", "C"))


def convolution() -> tuple[Layer, LayerMapping]:
    nest = (
        *(Loop("S", 3), Loop("Q", 4), Loop("K", 4), Loop("R", 3), Loop("C", 4), Loop("K", 16, "thread")),
        *(Loop("P", 14, "thread"), Loop("C", 16), Loop("Q", 4), Loop("K", 2, "block")),
    )
    layer = floats(Layer(k=128, c=64, p=14, q=14, r=3, s=3, padding=(1, 1, 1, 1)))
    kept = (Kept("registers", 3), Kept("shared", 5))
    return layer, LayerMapping(nest, kept, kept, (Kept("registers", 5),), ragged=("Q",))


CASES = {
    "product 4x4": product(4, 4),
    "product 8x8": product(8, 8),
    "product 12x12": product(12, 12),
    "3x3": convolution(),
}


@WITH_NVCC
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("case", series(CASES, 1))
def test_the_compiler_finds_what_a_kernel_claims(name: str, case: str) -> None:
    layer, mapping = CASES[case]
    accelerator = load_accelerator(name)
    assert verify_mapping(LayerProblem(layer, accelerator), mapping) == ()
    assert_as_claimed(gpu_kernel(layer, mapping, accelerator, CUDA, "nest"), ARCHITECTURES[name])


@WITH_NVCC
@pytest.mark.parametrize("seed", series(range(6), 2))
def test_random_kernels_compile_without_a_warning(seed: int) -> None:
    random = Random(seed)
    layer = gpu_layer(random, random.choice((8, 32)))
    kernel = gpu_kernel(layer, gpu_mapping(random, layer), ROOMY_GPU, CUDA, "nest")
    compiled = gpu_compiler().compiled(kernel.source)
    assert (compiled.shared_bytes, compiled.threads) == (kernel.shared_bytes, kernel.threads)
    assert compiled.warnings == ()


def test_without_a_compiler_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="no nvcc") as raised:
        gpu_compiler()
    assert "CUDA toolkit" in str(raised.value)


@WITH_NVCC
def test_what_does_not_compile_is_said() -> None:
    with pytest.raises(InputError, match="does not compile"):
        gpu_compiler().compiled("__global__ void broken(")


def assert_as_claimed(kernel: GpuKernel, architecture: str | None) -> None:
    found = gpu_compiler(architecture).compiled(kernel.source)
    assert (found.shared_bytes, found.threads) == (kernel.shared_bytes, kernel.threads)
    assert kernel.registers <= found.registers <= GREATEST_REGISTERS
    assert found.spilled_bytes == 0
    assert found.warnings == ()
