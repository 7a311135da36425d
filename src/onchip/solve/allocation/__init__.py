"""Offsets for lives that are known (docs/packing.md).

Heuristics place at once, branching proves.
Lives are never changed here, but that overflow says what to leave out.
"""
