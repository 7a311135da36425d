"""A plan's timeline as a trace that Chrome and Perfetto open.

One row for each memory, queue and the array.
Times come from `cost/timeline`.
"""
