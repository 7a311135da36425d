"""A small network with optima worked out by hand, and the results of the program for it.

    x(40) -> stem -> s(60) -> left -> l(50) -> join -> y(30)
                           -> right -> r(50) ->

The greatest need is join's: 50 + 50 + 30 = 130 bytes. Without spills the second of left and right finds all of s, l and
r resident: 160. Below that, the first one's 50 bytes are written back and read again: 100.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Json:
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


Program: TypeAlias = Callable[..., Ended]


def diamond_fields() -> Json:
    sizes = {"x": 40, "s": 60, "l": 50, "r": 50, "y": 30}
    roles = {"x": "input", "y": "output"}
    edges = {"stem": ("x", "s"), "left": ("s", "l"), "right": ("s", "r"), "join": ("lr", "y")}
    return {
        "format": "onchip-graph",
        "version": 1,
        "name": "diamond",
        "tensors": [
            {"name": name, "shape": [1, size], "bits": 8, "role": roles.get(name, "activation")}
            for name, size in sizes.items()
        ],
        "operators": [
            {"name": name, "kind": "Conv", "inputs": list(reads), "outputs": [written]}
            for name, (reads, written) in edges.items()
        ],
    }
