"""Mappings as kernels of CUDA and OpenCL: blocks, threads, shared memory and registers are levels of the mapping."""
