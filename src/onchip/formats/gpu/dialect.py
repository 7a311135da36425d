"""The words in which CUDA and OpenCL differ; all else of a kernel is the same C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip.formats.exports import MappingFormat


@dataclass(frozen=True, slots=True)
class GpuDialect:
    """How a language writes a kernel; `THREADS` stands for the threads of a block."""

    ending: str
    kernel: str
    memory: str
    restrict: str
    shared: str
    barrier: str
    thread: str
    block: str
    small_integer: str


CUDA: Final = GpuDialect(
    ".cu",
    'extern "C" __global__ void __launch_bounds__(THREADS)',
    "",
    "__restrict__",
    "__shared__",
    "__syncthreads();",
    "(int)threadIdx.x",
    "(int)blockIdx.x",
    "signed char",
)
OPENCL: Final = GpuDialect(
    ".cl",
    "__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void",
    "__global ",
    "restrict",
    "__local",
    "barrier(CLK_LOCAL_MEM_FENCE);",
    "(int)get_local_id(0)",
    "(int)get_group_id(0)",
    "char",
)
DIALECTS: Final = {MappingFormat.CUDA: CUDA, MappingFormat.OPENCL: OPENCL}
