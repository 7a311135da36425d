"""A tile graph in the order of a program: its steps, the tensors that each step uses, and the steps of each stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from onchip.ir.graph import Graph
from onchip.ir.tensor import Tensor
from onchip.scheduling.program.runs import Step, step_of
from onchip.transform.groups.tile_graph import TileGraph

TensorInUse: TypeAlias = tuple[Tensor, int | None]
"""A tensor that a step reads or writes, and the number of the next step that reads it; None if none does."""


@dataclass(frozen=True, slots=True)
class TiledNetwork:
    """A tile graph in the order of a program: for each tile operator its step, its tile number, and the tensors in use.

    `steps_of_stack` holds the consecutive steps of each stack, by stack number.
    """

    graph: Graph
    steps: tuple[Step, ...]
    tile_numbers: tuple[int, ...]
    in_use: tuple[tuple[TensorInUse, ...], ...]
    steps_of_stack: tuple[range, ...]

    @classmethod
    def of(cls, tiles: TileGraph) -> TiledNetwork:
        """Return the steps of a tile graph, in its order."""
        steps = tuple(step_of(tiles, operator) for operator in tiles.graph.operators)
        numbers = (_tile_number(step.operator, tiles.operators[step.operator].operator) for step in steps)
        in_use = tuple(_in_use(tiles.graph))[::-1]
        return cls(tiles.graph, steps, tuple(numbers), in_use, tuple(_ranges([step.stack for step in steps])))

    def is_same_group(self, at: int, next_read: int) -> bool:
        """Return True if both steps belong to one group."""
        return self.steps[at].stack == self.steps[next_read].stack

    def is_soon(self, at: int, next_read: int) -> bool:
        """Return True if a later step is in the same tile of the same stack, or in the next tile."""
        is_same_stack = self.steps[at].stack == self.steps[next_read].stack
        return is_same_stack and self.tile_numbers[next_read] <= self.tile_numbers[at] + 1


def base_of(tensor: Tensor) -> str:
    """Return the name of the network tensor of which this tensor is a band, else its own name."""
    return tensor.part_of or tensor.name


def _in_use(graph: Graph) -> Iterator[tuple[TensorInUse, ...]]:
    """Yield the tensors that each step uses, the last step first."""
    next_read: dict[str, int] = {}
    for at in reversed(range(len(graph.operators))):
        operator = graph.operators[at]
        names = dict.fromkeys((*operator.reads, *operator.outputs))
        yield tuple([(graph.tensor[name], next_read.get(name)) for name in names])
        next_read |= dict.fromkeys(operator.reads, at)


def _ranges(stacks: Sequence[int]) -> Iterator[range]:
    """Yield the steps of each stack; `stacks` holds the stack of each step, in ascending order."""
    begin = 0
    for stack in range(stacks[-1] + 1 if stacks else 0):
        end = begin
        while end < len(stacks) and stacks[end] == stack:
            end += 1
        yield range(begin, end)
        begin = end


def _tile_number(name: str, original: str) -> int:
    """Return the tile number in a name like `conv1#12`, or `slice1#12.1` for a view.

    0 for an operator that is not tiled.
    """
    return 0 if name == original else int(name.removeprefix(f"{original}#").partition(".")[0])
