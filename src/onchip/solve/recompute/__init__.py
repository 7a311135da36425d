"""Plans in which operators may run again: an exact search for small graphs, a guided replay and a bound for large ones.

One scratchpad, nothing in place, no state. What one more run costs stands in the problem (`cost/recomputation` says
it); addresses are the packers' (`solve/allocation`).
"""
