"""Faults of packing."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

ARENA = "src/onchip/formats/tflite/arena.py"
POOLS = "src/onchip/memory/allocate/pools.py"
ATTEMPT = "src/onchip/native/packing_attempt.cpp"
CHECK_ARENA = "src/onchip/backends/tflm/check_arena_plan.py"
EXACT = "src/onchip/memory/allocate/exact.py"

FAULTS: Final = (
    Planted(
        "the least arena pads the topmost buffer, too",
        "src/onchip/native/arena_blocks.cpp",
        "most = std::max(most, live - paddings.rbegin()->first);",
        "most = std::max(most, live);",
        "pack",
    ),
    Planted(
        "bytes surely outside forget that one step's excess is not all steps'",
        POOLS,
        "return too_large + max(0, most - problem.capacity_bytes)",
        "return too_large + max(0, most + 1 - problem.capacity_bytes)",
        "pack",
    ),
    Planted(
        "what ends in the last, partial unit does not count as short",
        EXACT,
        "short = [0 < one.size_bytes % alignment <= partial for one in buffers]",
        "short = [0 < one.size_bytes % alignment < partial for one in buffers]",
        "pack",
    ),
    Planted(
        "what is kept may take one unit less than there is",
        POOLS,
        "for units in (whole, whole + 1))",
        "for units in (whole - 1, whole))",
        "pack",
    ),
    Planted(
        "limits are rounded to sums of sizes although some offsets are fixed",
        EXACT,
        "    if not problem.has_fixed:\n        limits",
        "    if problem.buffers:\n        limits",
        "pack-fixed",
    ),
    Planted(
        "buffers beside fixed ones are postponed",
        ATTEMPT,
        "buffer < count && !has_fixed; ++buffer",
        "buffer < count; ++buffer",
        "pack-fixed",
    ),
    Planted(
        "a fixed buffer may be raised as if it were passed over",
        "src/onchip/native/packing_bounds.cpp",
        "if (state.low == state.support || one.fixed != none) continue;",
        "if (state.low == state.support) continue;",
        "pack-fixed",
    ),
    Planted(
        "variables of an arena plan share bytes",
        ARENA,
        "    lives |= dict.fromkeys(states, (0, len(network.operators) + 1))",
        "",
        "arena",
    ),
    Planted(
        "offsets below -1 of constants pass",
        CHECK_ARENA,
        "for name, offset in plan.negative:",
        "for name, offset in ():",
        "arena",
    ),
)
