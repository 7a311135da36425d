"""A small network that benefits from rematerialisation, with optima worked out by hand.

    x(1) -> first -> a(8) -> second -> b(2) -> third -> c(8) -> last -> y(1)
                     a ------------------------------------> last

The greatest need is last's: 8 + 8 + 1 = 17 bytes, and a, b and c together take 18. So at 17 a leaves before third: it
is written back and read again for 16 bytes, or first runs again next to c, x having stayed, for its 5 cycles.
"""

from __future__ import annotations

from typing import Any

FIRST_CYCLES = 5


def remembered_fields() -> dict[str, Any]:
    """Return the graph file's fields."""
    sizes = {"x": 1, "a": 8, "b": 2, "c": 8, "y": 1}
    roles = {"x": "input", "y": "output"}
    operators = {"first": ("x", "a"), "second": ("a", "b"), "third": ("b", "c"), "last": ("c a", "y")}
    return {
        "format": "onchip-graph",
        "version": 1,
        "name": "remembered",
        "tensors": [
            {"name": name, "shape": [1, size], "bits": 8, "role": roles.get(name, "activation")}
            for name, size in sizes.items()
        ],
        "operators": [
            {"name": name, "kind": "Op", "inputs": reads.split(), "outputs": [written], "cycles": FIRST_CYCLES}
            for name, (reads, written) in operators.items()
        ],
    }
