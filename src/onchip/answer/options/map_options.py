"""Options of a search for layer mappings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOptions:
    """Options of `map_layer` and `map_network`.

    Attributes
    ----------
    method
        Name of the search: `exact`, `exact-even`, `dive`, `cosa`, `random`, `hybrid`, `loma` or `uneven`.
    partial_bits
        Width of a partial sum; by default 16 bits more than an element, up to 32, limited by the memories.
    accounting
        How energy and cycles are counted: by `interpreter`, or as `zigzag` or `defines` does.
    mapspace
        File of a Timeloop architecture that says which memory keeps which operand.
    uses_cache
        Whether mappings that earlier runs proved are used again.

    """

    method: str = "exact"
    partial_bits: int | None = None
    accounting: str = "interpreter"
    mapspace: str | None = None
    uses_cache: bool = True
