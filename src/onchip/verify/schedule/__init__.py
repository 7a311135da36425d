"""Holds a whole schedule against its network and its accelerator: stacks, tiles, mappings, program and figures.

Every rule is restated here from docs/schedule.md; nothing is taken from the rooms that made the schedule.
What a mapping's accesses cost is handed in, and listed as not checked.
"""
