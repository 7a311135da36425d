"""Accelerators: memories, the array, DRAM and DMA; bundled accelerators as files."""
