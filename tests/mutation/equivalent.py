"""Mutants that change no answer, each with the reason."""

from __future__ import annotations

_FASTER = "a shorter way to the same answer"
_NEARER = "boxes that are not near cover no cell"
EQUIVALENT: dict[str, str] = {
    "if any((_is_inside(wanted, box) for box in boxes)): return True -> if False: return True": _FASTER,
    "if len(boxes) == 1: return boxes[0] == whole -> if False: return boxes[0] == whole": _FASTER,
    "span[0] < across[1] and across[0] < span[1] -> span[0] < across[1] or across[0] < span[1]": _NEARER,
    "span[0] < across[1] and across[0] < span[1] -> span[0] < across[1]": _NEARER,
    "span[0] < across[1] and across[0] < span[1] -> across[0] < span[1]": _NEARER,
}
"""By what stands instead of what, without the place."""
