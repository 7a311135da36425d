"""Loop nests as C, CUDA and OpenCL."""

from __future__ import annotations

from enum import StrEnum


class MappingFormat(StrEnum):
    """A mapping as a function of C, or as a kernel of CUDA or OpenCL."""

    C = "c"
    CUDA = "cuda"
    OPENCL = "opencl"
