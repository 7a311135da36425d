"""The small C functions that a nest calls: only those that it needs, as others would be warned of."""

from __future__ import annotations

from collections.abc import Iterator

from onchip.backends.nests.nest_kernel import NestKernel
from onchip.backends.nests.nest_loops import CNest
from onchip.ir.layer import LOOPS, WEIGHT

READ_ONCE = "*(const volatile vector *)from"
"""As an instruction of its own: compilers else read it again for each row, and wait for their ports."""
SMALLER = """\
static inline ALWAYS long smaller(long one, long other)
{
    return one < other ? one : other;
}
"""
ELEMENT_VECTOR = """\
static inline ALWAYS vector KIND_vector(const KIND *from)
{
    return WHOLE;
}
"""
SUM_VECTOR = """\
static inline ALWAYS TOTALS sum_vector(const sum *from)
{
    return *(const TOTALS *)from;
}
"""
SOME = """\
static inline ALWAYS TYPE some_KINDs(const KIND *from, long count)
{
    TYPE found = {0};
    if (count == WIDTH)
        return WHOLE;
    UNROLLED
    for (long lane = 0; lane < count; lane++)
        found[lane] = from[lane];
    return found;
}
"""
STORE_SOME = """\
static inline ALWAYS void store_some(sum *to, TOTALS sums, long count)
{
    if (count == WIDTH) {
        *(TOTALS *)to = sums;
        return;
    }
    UNROLLED
    for (long lane = 0; lane < count; lane++)
        to[lane] = sums[lane];
}
"""
COPY_VECTOR = """\
static inline ALWAYS void copy_vector(KIND *restrict to, const element *restrict from, long count)
{
    if (count == WIDTH) {
        for (long lane = 0; lane < WIDTH; lane++)
            to[lane] = from[lane];
        return;
    }
    for (long lane = 0; lane < WIDTH; lane++)
        to[lane] = lane < count ? from[lane] : 0;
}
"""


def helping_functions(nest: CNest, kernel: NestKernel) -> Iterator[str]:
    """The definitions, each followed by an empty line."""
    is_narrow = nest.layer.input_bits == 8
    whole = {
        "element": "__builtin_convertvector(__builtin_convertvector(*(const few *)from, halfway), vector)"
        if is_narrow
        else READ_ONCE,
        "held": READ_ONCE,
        "sum": "*(const TOTALS *)from",
    }
    totals = "totals" if nest.adds_in_floats else "vector"
    in_parts, by_lanes = kernel.has_parts_of_vectors, nest.lane_loop is not None
    reads_whole = WEIGHT in nest.packed or not in_parts
    reads_some = in_parts and (WEIGHT not in nest.packed or nest.lane_loop == "G")
    wanted = [
        (in_parts or any(nest.ends_short(name) for name in LOOPS), SMALLER, ""),
        (by_lanes and reads_whole, ELEMENT_VECTOR, "held" if nest.adds_in_floats else "element"),
        (by_lanes and not in_parts and kernel.returns, SUM_VECTOR, "sum"),
        (reads_some, SOME, "element"),
        (in_parts and kernel.returns, SOME, "sum"),
        (in_parts, STORE_SOME, "sum"),
        (by_lanes and WEIGHT in nest.packed, COPY_VECTOR, "held" if nest.adds_in_floats else "element"),
    ]
    for is_wanted, definition, kind in wanted:
        if is_wanted:
            named = definition.replace("KIND", kind).replace("WIDTH", str(nest.width))
            named = named.replace("TYPE", "TOTALS" if kind == "sum" else "vector")
            yield named.replace("WHOLE", whole.get(kind, "")).replace("TOTALS", totals)
