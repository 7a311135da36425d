"""Mappings as OpenCL compute the values of the naive nest, for layers and mappings of every kind."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.arch.memory import Operand
from onchip.backends.nests.gpu_source import OPENCL, GpuKernel, gpu_kernel
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Layer
from onchip.verify.mapping import needed_bits
from oracles.loop_nest import PlainNest
from support.gpu_mappings import ROOMY_GPU, gpu_layer, gpu_mapping
from support.opencl_runs import opencl_queue, run_kernel
from support.series import series

CASES = 5
WITH_OPENCL = pytest.mark.skipif(
    opencl_queue() is None, reason="no OpenCL: apt install pocl-opencl-icd, pip install pyopencl"
)


@WITH_OPENCL
@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("group", series(range(20), 1))
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


@pytest.mark.parametrize("seed", series(range(300), 100))
def test_a_kernel_claims_what_the_verifier_measures(seed: int) -> None:
    """The claimed threads, blocks and bytes of shared memory are the mapping's."""
    random = Random(seed)
    layer = gpu_layer(random, 32)
    mapping = gpu_mapping(random, layer)
    kernel: GpuKernel = gpu_kernel(layer, mapping, ROOMY_GPU, OPENCL, "nest")
    used = dict.fromkeys(("thread", "block"), 1)
    for loop in mapping.nest:
        if loop.along is not None:
            used[loop.along] *= loop.size
    shared = needed_bits(layer, mapping, ROOMY_GPU.levels[1])
    assert (kernel.threads, kernel.blocks) == (used["thread"], used["block"])
    assert kernel.shared_bytes * 8 == sum(shared.values())
    assert Operand.OUTPUT not in shared


@pytest.mark.parametrize("seed", series(range(100), 33))
def test_registers_are_claimed_for_what_is_multiplied(seed: int) -> None:
    """Registers hold all weights and sums, and those inputs that are neither padding nor skipped by a stride."""
    random = Random(seed)
    layer = gpu_layer(random, 32)
    mapping = gpu_mapping(random, layer)
    kept = {operand: mapping.kept(operand)[:1] for operand in (INPUT, WEIGHT, OUTPUT)}
    own = {operand: one[0].loops for operand, one in kept.items() if one and one[0].memory == "registers"}
    claimed = 0
    for operand, cut in own.items():
        inside = [at for at, loop in enumerate(mapping.nest[:cut]) if loop.along is None]
        if operand == INPUT:
            claimed += most_inputs(layer, mapping, inside)
        else:
            claimed += prod(mapping.nest[at].size for at in inside if mapping.nest[at].dimension in RELEVANT[operand])
    assert gpu_kernel(layer, mapping, ROOMY_GPU, OPENCL, "nest").registers == claimed


def most_inputs(layer: Layer, mapping: LayerMapping, inside: list[int]) -> int:
    """Return the largest number of inputs in a tile that any product of these loops reads, exhaustively."""
    tiles: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    steps: list[int] = []
    for at, loop in enumerate(mapping.nest):
        steps.append(prod(one.size for one in mapping.nest[:at] if one.dimension == loop.dimension))
    read = [at for at, loop in enumerate(mapping.nest) if loop.dimension in RELEVANT[INPUT]]
    for digits in product(*(range(mapping.nest[at].size) for at in read)):
        places = dict.fromkeys(LOOPS, 0)
        for at, digit in zip(read, digits, strict=True):
            places[mapping.nest[at].dimension] += digit * steps[at]
        outer = tuple(digit for at, digit in zip(read, digits, strict=True) if at not in inside)
        rows = [
            places[axis.output_loop] * axis.stride + places[axis.filter_loop] * axis.dilation - axis.padding
            for axis in layer.axes
        ]
        is_there = all(0 <= row < axis.size for row, axis in zip(rows, layer.axes, strict=True))
        if is_there and all(places[dimension] < layer.bounds[dimension] for dimension in "PQRS"):
            tiles.setdefault(outer, set()).add((places["N"], places["G"], places["C"], *rows))
    return max(map(len, tiles.values()), default=0)
