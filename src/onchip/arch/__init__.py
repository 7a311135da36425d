"""Accelerators: memories, compute array, DRAM and DMA."""
