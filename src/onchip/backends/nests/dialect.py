"""The words in which CUDA and OpenCL differ; all else of a kernel is the same C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip.reports.exports import MappingFormat


@dataclass(frozen=True, slots=True)
class GpuDialect:
    """How a language writes a kernel; `THREADS` stands for the threads of a block.

    `held` stands after an ELEMENT of a tile was read into a register of KIND f or r, and `all_held` after all were: a
    compiler moves no read beyond, so that the whole tile is in registers, as the mapping has it.
    """

    ending: str
    kernel: str
    memory: str
    restrict: str
    shared: str
    barrier: str
    held: str
    all_held: str
    thread: str
    block: str
    small_integer: str


CUDA: Final = GpuDialect(
    ".cu",
    'extern "C" __global__ void __launch_bounds__(THREADS, 1)',
    "",
    "__restrict__",
    "volatile __shared__",
    "__syncthreads();",
    'asm volatile("" : "+KIND"(ELEMENT) :: "memory");',
    "__syncwarp();",
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
    "",
    "",
    "(int)get_local_id(0)",
    "(int)get_group_id(0)",
    "char",
)
DIALECTS: Final = {MappingFormat.CUDA: CUDA, MappingFormat.OPENCL: OPENCL}
