"""Random differential testing through the public formats and commands: `make adversary`.

A level generates odd cases, asks the program, and judges its answers by oracles that share no code with it. A case
that is judged wrong is made smaller and written to `tests/found`, where it is judged again in every run of the tests.
"""
