"""Mappings as OpenCL give what the naive nest gives, for layers and mappings of every kind."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from onchip.arch.memory import Operand
from onchip.formats.gpu.dialect import OPENCL
from onchip.formats.gpu.gpu_source import GpuKernel, gpu_kernel
from onchip.ir.layer import LOOPS, Layer
from onchip.verify.mapping import needed_bits
from oracles.plain_nest import PlainNest
from support.gpu_mappings import ROOMY_GPU, gpu_layer, gpu_mapping
from support.opencl_runs import opencl_queue, run_kernel
from support.series import series

CASES = 25
WITH_OPENCL = pytest.mark.skipif(
    opencl_queue() is None, reason="no OpenCL: apt install pocl-opencl-icd, pip install pyopencl"
)


@WITH_OPENCL
@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("group", series(range(4), 2))
def test_kernels_give_the_sums_of_the_naive_nest(bits: int, group: int) -> None:
    for seed in range(CASES):
        random = Random(f"{group} {seed} {bits}")
        layer = gpu_layer(random, bits)
        mapping = gpu_mapping(random, layer)
        kernel = gpu_kernel(layer, mapping, ROOMY_GPU, OPENCL, "nest")
        executed = mapping.layer(layer)
        values = np.random.default_rng(seed)
        shapes = (
            (executed.n, executed.g, executed.c, *executed.input_pixels),
            (executed.g, executed.k, executed.c, executed.r, executed.s),
        )
        source, weight = (values.integers(-128, 128, shape).astype(np.float64) for shape in shapes)
        made = run_kernel(kernel, executed, source, weight)
        expected = PlainNest().run(executed, source, weight)
        assert np.array_equal(made, expected), (group, seed, layer, str(mapping))


@WITH_OPENCL
@pytest.mark.parametrize("seed", range(4))
def test_products_of_floats_are_numpys_within_rounding(seed: int) -> None:
    random, values = Random(seed), np.random.default_rng(seed)
    layer = Layer(n=37, k=45, c=50, input_bits=32, weight_bits=32, output_bits=32, partial_bits=32)
    mapping = replace(gpu_mapping(random, layer), ragged=LOOPS)
    rows, columns = values.standard_normal((37, 50)), values.standard_normal((45, 50))
    kernel = gpu_kernel(layer, mapping, ROOMY_GPU, OPENCL, "nest")
    made = run_kernel(kernel, layer, rows.reshape(37, 1, 50, 1, 1), columns.reshape(1, 45, 50, 1, 1))
    assert np.abs(made.reshape(37, 45) - rows @ columns.T).max() < 50 * 2**-20


@pytest.mark.parametrize("seed", range(300))
def test_a_kernel_claims_what_the_verifier_measures(seed: int) -> None:
    """Threads, blocks and bytes of shared memory are the mapping's own; registers may be more, never less."""
    random = Random(seed)
    layer = gpu_layer(random, 32)
    mapping = gpu_mapping(random, layer)
    kernel: GpuKernel = gpu_kernel(layer, mapping, ROOMY_GPU, OPENCL, "nest")
    used = dict.fromkeys(("thread", "block"), 1)
    for loop in mapping.nest:
        if loop.along is not None:
            used[loop.along] *= loop.size
    own, shared, _ = (needed_bits(layer, mapping, level) for level in ROOMY_GPU.levels)
    assert (kernel.threads, kernel.blocks) == (used["thread"], used["block"])
    assert kernel.shared_bytes * 8 == sum(shared.values())
    assert Operand.OUTPUT not in shared
    assert kernel.registers * 32 >= sum(own.values())
