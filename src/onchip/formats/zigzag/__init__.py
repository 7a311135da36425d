"""Hardware and workloads of ZigZag.

What has no counterpart here is refused by name.
Nothing is written in its format.
"""
