"""Which states stay on the chip for life, and plans around those that do (docs/state.md).

What stays takes its bytes from the scratchpad for good, and nothing else of it is left to plan.
"""
