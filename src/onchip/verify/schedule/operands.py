"""The operands of a tile operator: the tensors of each, and the memories in which it may be held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from onchip.answer.schedule import Homes
from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.verify.schedule.nests import Nests
from onchip.verify.schedule.tiles import TileOfNetwork

LOOKED_UP: Final = frozenset({"EMBEDDING_LOOKUP", "GATHER", "Gather", "GatherElements", "Slice"})


@dataclass(frozen=True, slots=True)
class TileOperand:
    """Bands of one tensor of the network (`base`); its home is a memory that holds operands such as `held_as`.

    `most_read` are the elements that the operator reads of it at most, if it does not read all.
    """

    base: str
    held_as: Operand
    bands: tuple[str, ...]
    most_read: int | None = None


def tile_operands(tiles: Graph, run: TileOfNetwork) -> tuple[TileOperand, ...]:
    """Return the operands that a tile operator reads, then those that it writes, each network tensor once.

    The parts of a concatenation that is not materialised are one operand: the concatenation. Parameters are held where
    weights are, all other inputs where inputs are, also if they are the weight of a loop nest. A lookup reads at most
    as many elements of each operand as it writes.
    """
    found: dict[tuple[str, Operand], list[str]] = {}
    for name in run.operator.reads:
        tensor = tiles.tensor[name]
        held_as = Operand.WEIGHT if tensor.role is Role.PARAMETER else Operand.INPUT
        base = tensor.part_of or name
        operand, _ = run.place_of.get(base, (base, 0))
        found.setdefault((operand, held_as), []).append(name)
    for name in run.operator.outputs:
        found.setdefault((tiles.tensor[name].part_of or name, Operand.OUTPUT), []).append(name)
    looked_up = None
    if run.operator.kind in LOOKED_UP:
        shapes = [tiles.tensor[name].shape for name in run.operator.outputs]
        looked_up = sum(prod(shape or ()) for shape in shapes) if all(shape is not None for shape in shapes) else None
    return tuple(
        TileOperand(base, held_as, tuple(bands), None if held_as is Operand.OUTPUT else looked_up)
        for (base, held_as), bands in found.items()
    )


def homes_of_nests(nests: Nests, output: str, homes: Mapping[str, str | None]) -> Homes:
    """Return the homes of a loop nest's operands from those of the network's tensors; None: streamed, or absent."""
    weight = None if nests.weight is None else homes.get(nests.weight)
    return Homes(homes.get(nests.input), weight, homes.get(output))
