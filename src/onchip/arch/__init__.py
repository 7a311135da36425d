"""Where it runs: memories, the array, DRAM and DMA of an accelerator, and the bundled accelerators as files.

Only frozen data that refuses nonsense lives here.
What follows from it for a network or a layer stands on higher floors.
"""
