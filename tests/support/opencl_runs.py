"""Kernels of mappings run by OpenCL on the processor; inputs and outputs have the axes of the plain nest."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from onchip.backends.nests.gpu_source import GpuKernel
from onchip.ir.layer import Layer

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
