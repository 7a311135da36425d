"""Mappings as OpenCL compute the values of the naive nest, for layers and mappings of every kind."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from itertools import product
from math import prod
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.arch.memory import Operand
from onchip.backends.nests.gpu_source import OPENCL, GpuKernel, gpu_kernel
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Layer
from onchip.verify.mapping import needed_bits
from oracles.loop_nest import PlainNest
from support.gpu_mappings import ROOMY_GPU, gpu_layer, gpu_mapping
from support.series import series

if TYPE_CHECKING:
    import pyopencl

GUARD = -77
OPTIONS = ["-cl-opt-disable"]
"""Options without optimisation: pocl 3.1 on LLVM 15 otherwise loses a store's condition in one of 96 random kernels."""


@lru_cache
def opencl_queue() -> pyopencl.CommandQueue | None:
    """Return a queue of the first device, or None without pyopencl or a device."""
    if find_spec("pyopencl") is None:
        return None
    import pyopencl

    try:
        devices = [device for platform in pyopencl.get_platforms() for device in platform.get_devices()]
    except pyopencl.Error:
        return None
    return pyopencl.CommandQueue(pyopencl.Context(devices[:1])) if devices else None


def run_kernel(
    kernel: GpuKernel, layer: Layer, source: npt.NDArray[np.float64], weight: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the output [n, g, k, p, q] for an input [n, g, c, height, width] and weights [g, k, c, r, s].

    The bytes before and behind the output must stay unchanged.
    """
    import pyopencl

    queue = opencl_queue()
    assert queue is not None
    context = queue.context
    element, total = (np.int8, np.int32) if layer.input_bits == 8 else (np.float32, np.float32)
    arrays = (source.transpose(0, 3, 4, 1, 2), weight.transpose(3, 4, 2, 0, 1))
    read = pyopencl.mem_flags.READ_ONLY | pyopencl.mem_flags.COPY_HOST_PTR
    inputs = [pyopencl.Buffer(context, read, hostbuf=np.ascontiguousarray(one.astype(element))) for one in arrays]
    guarded = np.full(layer.n * layer.p * layer.q * layer.g * layer.k + 2048, GUARD, total)
    both = pyopencl.mem_flags.READ_WRITE | pyopencl.mem_flags.COPY_HOST_PTR
    output = pyopencl.Buffer(context, both, hostbuf=guarded)
    inner = output.get_sub_region(4096, guarded.nbytes - 8192)  # 1024 elements at each end
    program = pyopencl.Program(context, kernel.source).build(options=OPTIONS)
    compiled = pyopencl.Kernel(program, kernel.name)
    compiled(queue, (kernel.blocks * kernel.threads,), (kernel.threads,), *inputs, inner)
    pyopencl.enqueue_copy(queue, guarded, output)
    queue.finish()
    assert (guarded[:1024] == GUARD).all()
    assert (guarded[-1024:] == GUARD).all()
    made = guarded[1024:-1024].reshape(layer.n, layer.p, layer.q, layer.g, layer.k)
    return made.transpose(0, 3, 4, 1, 2).astype(np.float64)


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
