"""Random differential testing through the public formats and commands: `make adversary`.

A level generates odd cases, runs the program, and judges its answers by oracles that share no code with it. A case with
a fault is reduced and written to `tests/found`, where every run of the tests judges it again.
"""
