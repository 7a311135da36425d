"""Options of a search for layer mappings."""

from __future__ import annotations

from dataclasses import dataclass, field

from onchip.answer.options.choices import CACHE, PARTIAL_BITS, described


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

    method: str = field(
        default="exact",
        metadata=described("Search: exact, exact-even, dive, cosa, random, hybrid, loma or uneven.", "NAME"),
    )
    partial_bits: int | None = field(default=None, metadata=PARTIAL_BITS)
    accounting: str = field(
        default="interpreter",
        metadata=described(
            "Cost model: onchip's interpreter, or that of ZigZag or DeFiNES.", "interpreter|zigzag|defines"
        ),
    )
    mapspace: str | None = field(
        default=None,
        metadata=described(
            "Mapspace file of a Timeloop architecture: the operands of each memory.", "FILE", is_swept=False
        ),
    )
    uses_cache: bool = field(default=True, metadata=CACHE)
