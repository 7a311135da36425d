"""From a network and the stacks of a schedule to its tile graph: the operators that a program runs, and their nests.

The same network and stacks give the same tile graph, for whoever makes, checks or runs a schedule (docs/schedule.md).
Which stacks and tiles are best, where tensors lie and what anything costs is decided elsewhere.
"""
