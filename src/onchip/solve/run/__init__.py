"""What all methods share: clock and limits, the registry, interruption, a plan from order, residencies and offsets.

A run carries what the user allowed.
No search lives here.
"""
