"""What would happen: programs on real bytes, loop nests element by element.

It counts and computes the obvious way, and the cost models are held against it.
It knows neither files nor solvers; kernels are handed in.
"""
