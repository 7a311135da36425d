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

DRAM: Final = "dram"

Run: TypeAlias = tuple[int, int]
"""A stack: the index of its first layer, and the index after its last."""
Tile: TypeAlias = tuple[int, int, str]
"""Columns, rows, overlap mode."""


@dataclass(frozen=True, slots=True)
class Window:
    """A layer's window over a map along an axis: pixel `x` reads `x * stride - pad + tap * dilation`.

    Positions are counted over pixels that are each repeated `repeat` times in a row.
    """

    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pad: int = 0
    repeat: int = 1

    def taps(self, pixel: int) -> list[int]:
        """Return the positions read, stored or not."""
        places = [pixel * self.stride - self.pad + tap * self.dilation for tap in range(self.kernel)]
        return [place // self.repeat for place in places]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer whose output has `channels` x `size` (rows, columns) elements; `reads` are map names with their windows.

    A layer that `runs_alone` is a stack in one tile. `part` is the first channel and the number of channels that it
    reads.
    """

    name: str
    output: str
    reads: tuple[tuple[str, tuple[Window, Window]], ...]
    channels: int
    size: tuple[int, int]
    macs_per_pixel: int
    weights: int = 0
    is_output: bool = False
    runs_alone: bool = False
    part: tuple[int, int] | None = None

    def channels_of(self, channels: int) -> range:
        """Return the channels that it reads of a map with that many channels."""
        first, count = self.part or (0, channels)
        return range(first, first + count)


@dataclass(frozen=True, slots=True)
class Network:
    """Layers in order; `inputs` gives channels, rows and columns by name. Every element has 8 bits."""

    inputs: Mapping[str, tuple[int, int, int]]
    layers: tuple[Layer, ...]

    def shape(self, name: str) -> tuple[int, int, int]:
        """Return channels, rows and columns of a map."""
        made = {one.output: (one.channels, *one.size) for one in self.layers}
        return made[name] if name in made else self.inputs[name]

    def bits(self, name: str) -> int:
        """Return the bits of a whole map."""
        return 8 * prod(self.shape(name))

    def readers(self, name: str) -> list[int]:
        """Return the indices of the layers that read a map."""
        return [at for at, layer in enumerate(self.layers) if name in [source for source, _ in layer.reads]]


def computed(network: Network, run: Run, tile: int, axis: int, *, is_cached: bool) -> list[dict[str, list[int]]] | None:
    """Return rows (axis 0) or columns (1) of each map that each tile computes or loads; None if one sees only padding.

    The first tile is the smaller one. A tile computes all pixels from the first to the last one seen; with a cache it
    starts at the end of the previous tile.
    """
    layers = network.layers[run[0] : run[1]]
    length = layers[-1].size[axis]
    first = length % tile or tile
    ends = [first + tile * number for number in range((length - first) // tile + 1)]
    tiles = [{layers[-1].output: list(range(max(end - tile, 0), end))} for end in ends]
    names = [*(layer.output for layer in reversed(layers[:-1])), *_from_outside(layers)]
    for name in names:
        done = None
        for own in tiles:
            seen = [_seen(network, layer, windows[axis], own, name, axis) for layer, windows in _readers(layers, name)]
            if any(one is not None and not one for one in seen):
                return None
            positions = [position for one in seen if one for position in one]
            begin = min(positions, default=0) if done is None or not is_cached else done
            end = max(positions, default=-1) + 1
            end = end if done is None or not is_cached else max(end, done)
            own[name] = list(range(begin, end))
            done = end
    return tiles


def _from_outside(layers: Sequence[Layer]) -> list[str]:
    inside = {layer.output for layer in layers}
    return list(dict.fromkeys(name for layer in layers for name, _ in layer.reads if name not in inside))


def _readers(layers: Sequence[Layer], name: str) -> list[tuple[Layer, tuple[Window, Window]]]:
    return [(layer, windows) for layer in layers for source, windows in layer.reads if source == name]


def _seen(
    network: Network, layer: Layer, window: Window, own: Mapping[str, list[int]], name: str, axis: int
) -> list[int] | None:
    """Return the stored positions from the first to the last that a layer reads in a tile.

    Returns None if the layer computes nothing in the tile.
    """
    pixels = own[layer.output]
    if not pixels:
        return None
    begin, end = window.taps(pixels[0])[0], window.taps(pixels[-1])[-1]
    return [position for position in range(begin, end + 1) if 0 <= position < network.shape(name)[1 + axis]]


def tiles_in(network: Network, run: Run, tile: Tile) -> list[tuple[dict[str, list[int]], dict[str, list[int]]]] | None:
    """Return rows and columns of every map in every tile of a stack; None if one sees only padding."""
    down = computed(network, run, tile[1], 0, is_cached=tile[2] == "fully-cached")
    across = computed(network, run, tile[0], 1, is_cached=tile[2] != "recompute")
    return None if down is None or across is None else list(product(down, across))


def macs(network: Network, run: Run, tile: Tile) -> int | None:
    """Return the multiply-accumulates of a stack, recomputation included; checks that tiles cover the output once."""
    tiles = tiles_in(network, run, tile)
    if tiles is None:
        return None
    last = network.layers[run[1] - 1]
    covered = [pixel for down, across in tiles for pixel in product(down[last.output], across[last.output])]
    assert sorted(covered) == list(product(*map(range, last.size)))
    return sum(
        layer.macs_per_pixel * len(down[layer.output]) * len(across[layer.output])
        for down, across in tiles
        for layer in network.layers[run[0] : run[1]]
    )


def dram_bits(network: Network, stacks: Sequence[tuple[Run, Tile, str]], *, is_roomy: bool) -> int:
    """Return the least DRAM traffic: elements read of inputs, weights and outputs once.

    With `is_roomy` it is the traffic with unlimited capacity on chip: each tile loads the pixels that it has not
    cached.
    """
    total, homes = 0, {network.layers[run[1] - 1].output: home for run, _, home in stacks}
    for run, tile, home in stacks:
        layers = network.layers[run[0] : run[1]]
        total += sum(layer.weights for layer in layers)
        total += prod(network.shape(layers[-1].output)) if home == DRAM else 0
        tiles = tiles_in(network, run, tile) or []
        for name in _from_outside(layers):
            if homes.get(name, DRAM) != DRAM:
                continue
            if is_roomy:
                pixels = sum(len(down[name]) * len(across[name]) for down, across in tiles)
                total += pixels * network.shape(name)[0]
            else:
                total += len(_touched(network, layers, name, tiles))
    return 8 * total


def _touched(
    network: Network,
    layers: Sequence[Layer],
    name: str,
    tiles: Sequence[tuple[dict[str, list[int]], dict[str, list[int]]]],
) -> set[tuple[int, int, int]]:
    """Return the elements of a map that are an operand of some product: channel, row and column."""
    channels, rows, columns = network.shape(name)
    return {
        element
        for down, across in tiles
        for layer, (above, beside) in _readers(layers, name)
        for element in product(
            layer.channels_of(channels),
            _taken(down[layer.output], above, rows),
            _taken(across[layer.output], beside, columns),
        )
    }


def _taken(pixels: Sequence[int], window: Window, size: int) -> set[int]:
    return {position for pixel in pixels for position in window.taps(pixel) if 0 <= position < size}


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
