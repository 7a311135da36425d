"""A plan as a C project without a runtime: arenas, constants, kernels, and the plan as straight-line calls.

What an operator calls is said by the formats of models; here it is written down.
"""
