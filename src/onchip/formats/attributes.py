"""Attributes as a graph file can hold them."""

from __future__ import annotations

from math import isfinite

from onchip.ir.operator import AttributeValue


def writable(value: AttributeValue) -> AttributeValue:
    """The value, with text in place of numbers that JSON has no word for: `inf`, `-inf`, `nan`."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return [writable(element) for element in value] if isinstance(value, list) else value
