"""Exhaustive answers for tiny fusion problems, written from docs/fusion.md and docs/fused.md.

A strategy partitions the layers into stacks, tiles each stack and places the maps between them. All are tried. The
caller supplies the cost of a stack; the space of strategies is enumerated here with other data structures than the
solver's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from math import inf, prod
from typing import Final, TypeAlias

from oracles.fused_pixels import DRAM, Network, Run, Tile

MODES: Final = ("recompute", "h-cached", "fully-cached")
PUBLISHED: Final = {
    "sweep": ((1, 2, 4, 8, 16, 32, 60, 120, 240, 480, 960), (1, 2, 4, 9, 18, 36, 72, 135, 270, 540)),
    "case-study": ((1, 4, 16, 60, 240, 960), (1, 4, 18, 72, 270, 540)),
}

Costs: TypeAlias = tuple[int, ...]
"""The components summed over stacks; the objective is the product of the sums."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `fuse`; `homes` are the single memories that hold inputs and outputs, with their bits."""

    stacks: str
    tile: tuple[int, int] | None
    mode: str | None
    sizes: str
    is_single: bool
    homes: Mapping[str, int]
    greedy_bits: int = 0

    @property
    def modes(self) -> tuple[str, ...]:
        """Return the overlap modes that are tried."""
        return MODES if self.mode is None else (self.mode,)


@dataclass(frozen=True, slots=True)
class Placed:
    """A stack with its tile, the memories of earlier maps on chip by name, and the home of its output."""

    run: Run
    tile: Tile
    homes: tuple[tuple[str, str], ...]
    output_home: str


def partitions(network: Network, asked: Asked) -> Iterator[tuple[Run, ...]]:
    """Yield every partition of the network into stacks that the options allow."""
    count = len(network.layers)
    if asked.stacks == "greedy":
        yield greedy(network, asked.greedy_bits)
        return
    if asked.stacks == "layers":
        yield tuple((at, at + 1) for at in range(count))
        return
    if asked.stacks not in ("optimal", "one"):
        ends = [[int(number) for number in part.split("-")] for part in asked.stacks.split(",")]
        yield tuple((part[0], part[-1] + 1) for part in ends)
        return
    for cuts in [()] if asked.stacks == "one" else _subsets(range(1, count)):
        runs = tuple(pairwise((0, *cuts, count)))
        if all(is_stack(network, one) for one in runs):
            yield runs


def _subsets(items: range) -> Iterator[tuple[int, ...]]:
    for size in range(len(items) + 1):
        yield from combinations(items, size)


def is_stack(network: Network, run: Run) -> bool:
    """Return True if inner outputs are read only inside the stack, have a reader, and are not network outputs.

    A layer that runs alone is in no run of several.
    """
    start, stop = run
    if stop - start > 1 and any(layer.runs_alone for layer in network.layers[start:stop]):
        return False
    for layer in network.layers[start : stop - 1]:
        readers = network.readers(layer.output)
        if layer.is_output or not readers or max(readers) >= stop:
            return False
    return True


def greedy(network: Network, room_bits: int) -> tuple[Run, ...]:
    """Join parts between branch-free cuts while all weights fit; parts that fit nowhere run layer by layer."""
    count, found = len(network.layers), list[list[int]]()
    open_to_more = False
    for part in _parts_without_branch(network):
        joined = [*found[-1], *part] if open_to_more else part
        fits = [_weight_bits(network, some) <= room_bits and _is_run(network, some) for some in (part, joined)]
        if not fits[0]:
            found += [[at] for at in part]
            open_to_more = False
        elif fits[1] and open_to_more:
            found[-1] = joined
        else:
            found.append(part)
            open_to_more = True
    assert [at for some in found for at in some] == list(range(count))
    return tuple((some[0], some[-1] + 1) for some in found)


def _parts_without_branch(network: Network) -> list[list[int]]:
    found, part = [], list[int]()
    for at in range(len(network.layers)):
        part.append(at)
        before = [layer.output for layer in network.layers[:at]]
        if not any(reader > at for name in before for reader in network.readers(name)):
            found.append(part)
            part = []
    return [*found, part] if part else found


def _weight_bits(network: Network, layers: Sequence[int]) -> int:
    return sum(8 * network.layers[at].weights for at in layers)


def _is_run(network: Network, layers: Sequence[int]) -> bool:
    return is_stack(network, (layers[0], layers[-1] + 1))


def sizes_along(pixels: int, sizes: str, axis: int) -> set[int]:
    """Return the tile sizes of the list along columns (0) or rows (1), including the whole axis."""
    if sizes in PUBLISHED:
        some = set(PUBLISHED[sizes][axis])
    elif sizes == "halves":
        some, size = {pixels}, pixels
        while size > 1:
            size = -(-size // 2)
            some.add(size)
    elif sizes == "powers":
        some = {2**power for power in range(20)}
    elif sizes == "divisors":
        some = {size for size in range(1, pixels + 1) if pixels % size == 0}
    else:
        some = set(range(1, pixels + 1))
    return {size for size in some if size < pixels} | {pixels}


def cut(tile: Tile, rows: int, columns: int) -> Tile:
    """Return a tile clipped to a map, in the first mode that caches the same towards its neighbours."""
    width, height = min(tile[0], columns), min(tile[1], rows)
    beside = tile[2] != "recompute" and width < columns
    below = tile[2] == "fully-cached" and height < rows
    return width, height, "fully-cached" if below else "h-cached" if beside else "recompute"


def tiles_of(network: Network, asked: Asked, run: Run) -> list[Tile]:
    """Return the tiles tried for one stack."""
    rows, columns = network.layers[run[1] - 1].size
    alone = [(columns, rows, "recompute")] if run[1] - run[0] == 1 else []
    if network.layers[run[0]].runs_alone:
        return alone
    if asked.tile is not None:
        given = [cut((*asked.tile, mode), rows, columns) for mode in asked.modes]
        return list(dict.fromkeys([*alone, *given]))
    every = product(sizes_along(columns, asked.sizes, 0), sizes_along(rows, asked.sizes, 1), asked.modes)
    return alone or sorted({cut(tile, rows, columns) for tile in every})


def do_share(network: Network, asked: Asked, stacks: Sequence[tuple[Run, Tile]]) -> bool:
    """Return True if one tile, clipped to each map, is used by all stacks; stacks of one layer may be whole instead."""
    sizes = [network.layers[run[1] - 1].size for run, _ in stacks]
    most = max(max(size) for size in sizes)
    every = product(range(1, most + 1), range(1, most + 1)) if asked.tile is None else [asked.tile]
    return any(
        all(
            tile == cut((*one, mode), *size) or (run[1] - run[0] == 1 and tile == (size[1], size[0], "recompute"))
            for (run, tile), size in zip(stacks, sizes, strict=True)
        )
        for one in every
        for mode in asked.modes
    )


def homes_of(network: Network, asked: Asked, runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    """Yield the homes of the stacks' outputs: DRAM, or a memory with capacity next to the maps there meanwhile."""
    choices = []
    for _, stop in runs:
        layer = network.layers[stop - 1]
        stays = not layer.is_output and bool(network.readers(layer.output))
        choices.append((DRAM, *(asked.homes if stays else ())))
    for homes in product(*choices):
        if all(_has_room(network, asked, runs, homes, at) for at in range(len(runs))):
            yield homes


def _has_room(network: Network, asked: Asked, runs: Sequence[Run], homes: Sequence[str], at: int) -> bool:
    lying = [*_kept(network, runs, homes, at), (network.layers[runs[at][1] - 1].output, homes[at])]
    used: dict[str, int] = {}
    for name, memory in lying:
        used[memory] = used.get(memory, 0) + network.bits(name)
    return all(memory == DRAM or bits <= asked.homes[memory] for memory, bits in used.items())


def _kept(network: Network, runs: Sequence[Run], homes: Sequence[str], at: int) -> Iterator[tuple[str, str]]:
    """Yield maps of earlier stacks that this one or a later one reads, with their memories on the chip."""
    for (_, stop), home in zip(runs[:at], homes[:at], strict=True):
        name = network.layers[stop - 1].output
        if home != DRAM and max(network.readers(name)) >= runs[at][0]:
            yield name, home


def placements(network: Network, asked: Asked) -> Iterator[tuple[tuple[Run, ...], list[list[Placed]]]]:
    """Yield every partition with every choice of homes, and all tiles of each of its stacks."""
    for runs in partitions(network, asked):
        for homes in homes_of(network, asked, runs):
            yield (
                runs,
                [
                    [
                        Placed(run, tile, tuple(_kept(network, runs, homes, at)), homes[at])
                        for tile in tiles_of(network, asked, run)
                    ]
                    for at, run in enumerate(runs)
                ],
            )


def least_value(network: Network, asked: Asked, cost: Callable[[Placed], Costs | None], outside: Costs) -> int | None:
    """Return the least value of any strategy, including the cost outside of all stacks; None if there is none."""
    least = inf
    for _, stacks in placements(network, asked):
        if asked.is_single:
            least = min(least, *(_value(way, cost, outside) for way in _shared_ways(network, asked, stacks)), inf)
        else:
            least = min(least, _least_product(stacks, cost, outside))
    return None if least == inf else int(least)


def _shared_ways(network: Network, asked: Asked, stacks: Sequence[Sequence[Placed]]) -> Iterator[tuple[Placed, ...]]:
    for way in product(*stacks):
        if do_share(network, asked, [(one.run, one.tile) for one in way]):
            yield way


def _value(way: Sequence[Placed], cost: Callable[[Placed], Costs | None], outside: Costs) -> float:
    costs = [outside, *(cost(one) for one in way)]
    known = [one for one in costs if one is not None]
    return inf if len(known) < len(costs) else prod(map(sum, zip(*known, strict=True)))


def _least_product(stacks: Sequence[Sequence[Placed]], cost: Callable[[Placed], Costs | None], outside: Costs) -> float:
    """Return the least product of sums; dominated partial sums are dropped."""
    sums = {outside}
    for choices in stacks:
        own = {found for one in choices if (found := cost(one)) is not None}
        every = {tuple(map(int.__add__, one, other)) for one in sums for other in own}
        sums = {one for one in every if not any(other != one and all(map(int.__le__, other, one)) for other in every)}
    return min(map(prod, sums), default=inf)


def is_in_space(network: Network, asked: Asked, strategy: Sequence[tuple[Run, Tile, str]]) -> bool:
    """Return True if a strategy, of stacks with tiles and output homes, is among those tried."""
    runs = tuple(run for run, _, _ in strategy)
    homes = tuple(home for _, _, home in strategy)
    if runs not in set(partitions(network, asked)) or homes not in set(homes_of(network, asked, runs)):
        return False
    if not all(tile in tiles_of(network, asked, run) for run, tile, _ in strategy):
        return False
    return not asked.is_single or do_share(network, asked, [(run, tile) for run, tile, _ in strategy])
