"""CoSA's integer program, its objective and its machine (docs/cosa.md).

It is reproduced as published, with what differs said in the docs.
Its answers are priced by `cost/layer` like all others.
"""
