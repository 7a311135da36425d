"""A plan's order as places of a file's operators: those for which a plan runs nothing stand where they are needed."""

from __future__ import annotations

from collections.abc import Sequence

from onchip.formats.tflite.graph import ReadNetwork
from onchip.formats.tflite.network import NetworkOperator


def places_in_order(read: ReadNetwork, names: Sequence[str]) -> tuple[int, ...]:
    """The places of all operators of the file, in the order in which a plan runs those of `names`.

    Copies that a plan makes and the file does not have are passed over. Views and what constants give come as late as
    they can, or where the file has them if nothing else moves.
    """
    operators = read.network.operators
    place = {operator.name: at for at, operator in enumerate(operators)}
    run = [place[name] for name in names if name in read.source]
    if run == sorted(run):
        return tuple(range(len(operators)))
    writer = {index: at for at, operator in enumerate(operators) for index in operator.outputs}
    done: set[int] = set()
    order: list[int] = []
    for at in (*run, *range(len(operators))):
        if at not in done:
            needed = _not_done_before(at, operators, writer, done)
            order += sorted(needed)
            done |= needed
    return tuple(order)


def _not_done_before(
    place: int, operators: Sequence[NetworkOperator], writer: dict[int, int], done: set[int]
) -> set[int]:
    """An operator and what has to run for it; the file has these in an order in which they can."""
    needed, open_ones = {place}, [place]
    while open_ones:
        for index in operators[open_ones.pop()].inputs:
            before = writer.get(index)
            if before is not None and before not in done and before not in needed:
                needed.add(before)
                open_ones.append(before)
    return needed
