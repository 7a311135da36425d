"""Faults of depth-first execution."""

from __future__ import annotations

from typing import Final

from adversary.plant import Planted

SEARCH = "src/onchip/scheduling/search/fusion.py"
RELAXATION = "src/onchip/bounds/network/relaxation.py"
LAYERS = "src/onchip/model/group/layers.py"

FAULTS: Final = (
    Planted(
        "a single tiling is imposed on stacks for which it is not tried",
        SEARCH,
        "found.append([one for one in dict.fromkeys((*one_tile, own)) if one in tried[span]])",
        "found.append([own])",
        "fuse",
    ),
    Planted(
        "given groups are proven although maps between them may stay on chip",
        SEARCH,
        "self.is_complete &= not any(self._homes(one) for one in between)",
        "self.is_complete &= True or not any(self._homes(one) for one in between)",
        "fuse",
    ),
    Planted(
        "a map that two stacks read is alive for the first of them alone",
        SEARCH,
        "if until.get(name := layer.output.name, 0) >= choice.span.start",
        "if until.get(name := layer.output.name, 0) == choice.span.start",
        "fuse",
    ),
    Planted(
        "views through which stacks read are paid for, in the bound",
        RELAXATION,
        "if operator.name in self.free or (\n"
        "                operator.outputs[0] in self._joined and not self.nests.get(operator.name)\n"
        "            ):",
        "if operator.outputs[0] in self._joined and not self.nests.get(operator.name):",
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
