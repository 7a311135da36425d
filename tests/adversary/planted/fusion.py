"""Faults of depth-first execution."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

SPACES = "src/onchip/scheduling/candidates/spaces.py"
GRIDS = "src/onchip/bounds/group/stack_grids.py"
TILINGS = "src/onchip/transform/groups/stacks.py"
WAYS = "src/onchip/scheduling/choice/ways.py"
SPACE = "src/onchip/scheduling/candidates/spaces.py"
LAYERS = "src/onchip/model/group/layers.py"

FAULTS: Final = (
    Planted(
        "a single tiling is imposed on stacks for which it is not tried",
        SPACES,
        "return tuple(one for one in own if any(_has(tilings, one) for tilings in tried))",
        "return tuple(own)",
        "fuse",
    ),
    Planted(
        "a stack's output is taken to DRAM wherever it lies, in the bound",
        GRIDS,
        "written = output.size_bits if output_home == DRAM else 0",
        "written = output.size_bits",
        "fuse",
    ),
    Planted(
        "a map from outside is loaded for each layer that reads it, in the bound",
        GRIDS,
        "elements = np.maximum(elements, taken)",
        "elements = elements + taken",
        "fuse",
    ),
    Planted(
        "of a product of sums only the least of the first is kept",
        WAYS,
        "        if len(way.cost) == 1:\n            break",
        "        if len(way.cost) >= 1:\n            break",
        "fuse",
    ),
    Planted(
        "tiles for which the mode asked for bears another name are not tried",
        TILINGS,
        "if same is mode or same not in modes:",
        "if same is mode:",
        "fuse",
    ),
    Planted(
        "a map that two stacks read is alive for the first of them alone",
        SPACE,
        "(layer.output for layer in self.network.layers[:cut]), self.network.last_readers",
        "(layer.output for layer in self.network.layers[:cut]), "
        "{one.source: at for at, layer in reversed([*enumerate(self.network.layers)]) for one in layer.reads}",
        "fuse",
    ),
    Planted(
        "what goes on to the cache of rows is not loaded",
        LAYERS,
        "load = MapCopy(made.computed, made.map.bits",
        "load = MapCopy(made.computed - made.to_rows, made.map.bits",
        "fuse",
    ),
)
