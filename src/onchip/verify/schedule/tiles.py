"""Check that the tile operators of a schedule compute its network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, product
from math import prod
from typing import Final, TypeAlias

from onchip.answer.schedule import ScheduledStack
from onchip.ir.graph import Graph
from onchip.ir.operator import NOTHING_STATED, VIEWS, Operator
from onchip.ir.tensor import Role, Tensor, size_in_bytes
from onchip.ir.tile import Range, Region, SumPart, whole_region
from onchip.ir.window import integer, integers, shapes_as_read
from onchip.verify.rules import Rule, Violation
from onchip.verify.schedule.nests import SCALED, NestDerivation, multiplies_matrices, multiplies_rows, rows_multiplied
from onchip.verify.schedule.windows import (
    CONVOLUTIONS,
    ELEMENTWISE,
    GLOBAL_POOLS,
    OVERWRITING,
    POOLS,
    ROW_BY_ROW,
    Needs,
    as_stored,
    seen,
    turned,
)


def cover(wanted: Region, boxes: Sequence[Region]) -> bool:
    """Return True if every element of a box is in at least one of the others."""
    parts = [part for box in boxes if (part := _common(wanted, box)) is not None]
    if wanted in parts:
        return True
    number, taken = _cells(wanted, parts)
    return len(set(taken)) == number


def partition(whole: Region, boxes: Sequence[Region]) -> bool:
    """Return True if every element of a box is in exactly one of the others, and these do not reach outside it."""
    if any(_common(whole, box) != box for box in boxes):
        return False
    number, taken = _cells(whole, boxes)
    return len(taken) == len(set(taken)) == number


def _common(one: Region, other: Region) -> Region | None:
    """Return the intersection of two boxes; None if it is empty."""
    found = []
    for (start, stop), (start_other, stop_other) in zip(one, other, strict=True):
        first = start if start > start_other else start_other
        behind = stop if stop < stop_other else stop_other
        if first >= behind:
            return None
        found.append((first, behind))
    return tuple(found)


def _cells(whole: Region, boxes: Sequence[Region]) -> tuple[int, list[tuple[int, ...]]]:
    """Return the number of grid cells of the whole, and the cells in each box.

    The grid has a line wherever a box begins or ends, so each cell is inside or outside each box. Axes that no box cuts
    are left out.
    """
    cut = [axis for axis, span in enumerate(whole) if any(box[axis] != span for box in boxes)]
    number_of_line: list[dict[int, int]] = []
    for axis in cut:
        lines = {line for box in boxes for line in box[axis]}.union(whole[axis])
        number_of_line.append({line: number for number, line in enumerate(sorted(lines))})
    taken: list[tuple[int, ...]] = []
    for box in boxes:
        sides = [box[axis] for axis in cut]
        spans = zip(sides, number_of_line, strict=True)
        taken += product(*[range(numbers[start], numbers[stop]) for (start, stop), numbers in spans])
    return prod(len(numbers) - 1 for numbers in number_of_line), taken


PartsOf: TypeAlias = Mapping[str, Mapping[str, int]]
"""Map from a concatenation to the maps that are read in its place, each with the channel at which it begins there."""
_CHANNELS: Final = 1


def joins_left_out(network: Graph, tiles: Graph) -> PartsOf:
    """Return the concatenations along the channels that run nowhere and need not run, with their parts.

    Such a concatenation joins distinct feature maps that operators write, inside the network, and states no cost. Each
    reader, directly or through another concatenation, reads each part once.
    """
    runs = {operator.tile.operator if operator.tile else operator.name for operator in tiles.operators}
    found: dict[str, dict[str, int]] = {}
    for operator in network.operators:
        if operator.name not in runs and _moves_nothing(network, operator):
            begins = dict(_begins(network, operator, found))
            if len(begins) == sum(len(found.get(name, (name,))) for name in operator.inputs):
                found[operator.outputs[0]] = begins
    sees_twice = {name for operator in network.operators for name in _seen_twice(operator, found)}
    return {name: begins for name, begins in found.items() if name not in sees_twice}


def _seen_twice(operator: Operator, found: PartsOf) -> Iterator[str]:
    """Yield the concatenations with a part that the operator also reads elsewhere."""
    seen = [part for name in dict.fromkeys(operator.inputs) for part in found.get(name, (name,))]
    for name in operator.inputs:
        if any(seen.count(part) > 1 for part in found.get(name, ())):
            yield name


def _begins(network: Graph, operator: Operator, found: PartsOf) -> Iterator[tuple[str, int]]:
    begin = 0
    for name in operator.inputs:
        for part, channel in found.get(name, {name: 0}).items():
            yield part, begin + channel
        begin += (network.tensor[name].shape or ())[_CHANNELS]


def _moves_nothing(network: Graph, operator: Operator) -> bool:
    """Return True if the operator only concatenates feature maps along the channels, at no cost."""
    if operator.kind != "Concat" or operator.parameters or len(operator.outputs) != 1 or not operator.inputs:
        return False
    if operator.workspace_bytes or operator.stated != NOTHING_STATED:
        return False
    if len(operator.members) > 1 or operator.attributes.keys() - {"axis"}:
        return False
    whole = network.tensor[operator.outputs[0]]
    maps = [network.tensor[name] for name in operator.inputs]
    if any(one.role is not Role.ACTIVATION or one.shape is None or one.bits != whole.bits for one in (whole, *maps)):
        return False
    shape = whole.shape or ()
    if len(shape) not in (2, 4) or integer(operator, "axis", len(shape)) not in (_CHANNELS, _CHANNELS - len(shape)):
        return False
    channels = 0
    for one in maps:
        own = one.shape or ()
        if len(own) != len(shape) or own[0] != shape[0] or own[2:] != shape[2:]:
            return False
        channels += own[_CHANNELS]
    return channels == shape[_CHANNELS] and bool(network.readers[whole.name])


OVER_IMAGES: Final = CONVOLUTIONS | POOLS | GLOBAL_POOLS | {"ConvTranspose", "Resize", "Upsample"}
"""Kinds that see rows and columns of images."""


def verify_stacks(network: Graph, stacks: Sequence[ScheduledStack]) -> tuple[Violation, ...]:
    """Return all that is wrong; what leaves a stack and what tiles are is looked into where all operators are known."""
    found = [*_operators(network, stacks)]
    if not found:
        found += [*_stack_order(network, stacks), *_what_leaves(network, stacks), *_tilings(network, stacks)]
    return tuple(found)


def tile_regions(network: Graph, stack: ScheduledStack) -> list[Region]:
    """Return the region of the stack's last output that each tile computes: left to right, then down.

    If the tile size does not divide an axis, the first tile along it is smaller. Stacks of matrices are tiled by rows,
    the last dimension but one, and by heads, the one before it: all rows of some heads, then of the next ones. Tiles of
    channels have all pixels of the map.
    """
    operator = network.operator[stack.operators[-1]]
    shape = network.tensor[operator.outputs[0]].shape or ()
    if stack.tiling is not None and stack.tiling.channels is not None:
        batch, channels, *pixels = shape
        return [((0, batch), own, *whole_region(pixels)) for own in _ranges(channels, stack.tiling.channels, 1)]
    if stack.tiling is not None and are_matrices(network, stack):
        rest = whole_region(shape)
        heads = _ranges(shape[-3], stack.tiling.columns, 1) if len(shape) == 4 else [()]
        return [
            (*rest[:-2], rows, rest[-1]) if not some else (rest[0], some, rows, rest[-1])
            for some in heads
            for rows in _ranges(shape[-2], stack.tiling.rows, 1)
        ]
    if stack.tiling is None or len(shape) != 4:
        return [whole_region(shape)]
    unit = pixel_of(operator)
    down = _ranges(shape[2], stack.tiling.rows, unit[0])
    across = _ranges(shape[3], stack.tiling.columns, unit[1])
    rest = whole_region(shape)
    return [(*rest[:2], rows, columns) for rows in down for columns in across]


def are_matrices(network: Graph, stack: ScheduledStack) -> bool:
    """Return True if tiles of the stack are rows of matrices.

    Its inputs and outputs have two or three dimensions; four if a product of matrices or a normalisation of rows is
    among its operators. One of them has several rows, and nothing is a convolution, a pool, or a resize.
    """
    operators = [network.operator[name] for name in stack.operators]
    kinds = {operator.kind for operator in operators}
    names = {name for operator in operators for name in (*operator.inputs, *operator.outputs)}
    shapes = [network.tensor[name].shape or () for name in names]
    ranks = (2, 3, 4) if kinds & (ROW_BY_ROW | {"MatMul"}) else (2, 3)
    has_rows = all(len(shape) in ranks for shape in shapes) and any(shape[-2] > 1 for shape in shapes)
    return has_rows and not kinds & OVER_IMAGES


def pixel_of(operator: Operator) -> tuple[int, int]:
    """Rows and columns of the output that one pixel of a tile stands for: a transposed convolution's stride, else 1."""
    if operator.kind != "ConvTranspose":
        return 1, 1
    rows, columns = integers(operator, "strides", (1, 1))
    return rows, columns


def _ranges(size: int, tile: int, unit: int) -> list[Range]:
    pixels = -(-size // unit)
    first = pixels % tile or tile
    edges = [0, *range(first, pixels + 1, tile)]
    return [(start * unit, min(stop * unit, size)) for start, stop in pairwise(edges)]


def _operators(network: Graph, stacks: Sequence[ScheduledStack]) -> Iterator[Violation]:
    given = {name for stack in stacks for name in stack.operators}
    for stack in stacks:
        for name in stack.operators:
            if name not in network.operator:
                yield Violation(Rule.UNKNOWN_OPERATOR, name, "no operator of the network has this name")
    for operator in network.operators:
        if operator.name not in given:
            yield Violation(Rule.OPERATOR_IN_NO_STACK, operator.name, "it is in no stack")


def _stack_order(network: Graph, stacks: Sequence[ScheduledStack]) -> Iterator[Violation]:
    """Whatever an operator reads is written before; stacks that wait for each other are not convex."""
    stack_of = {name: number for number, stack in enumerate(stacks) for name in stack.operators}
    writers = {
        name: [network.producer[read].name for read in network.operator[name].reads if read in network.producer]
        for name in stack_of
    }
    before: dict[int, set[int]] = {number: set() for number in range(len(stacks))}
    for name, number in stack_of.items():
        before[number] |= {stack_of[writer] for writer in writers[name]} - {number}
    try:
        tuple(TopologicalSorter(before).static_order())
    except CycleError as error:
        cycle = " -> ".join(f"stack {number}" for number in error.args[1])
        yield Violation(Rule.STACK_NOT_CONVEX, f"stack {error.args[1][0]}", f"they wait for each other: {cycle}")
        return
    places = {name: place for place, name in enumerate(stack_of)}
    for name, place in places.items():
        for writer in writers[name]:
            if places[writer] > place:
                yield Violation(Rule.OUT_OF_ORDER, name, f"it runs before {writer!r}, whose output it reads")


def _what_leaves(network: Graph, stacks: Sequence[ScheduledStack]) -> Iterator[Violation]:
    for stack in stacks:
        for name in stack.operators[:-1]:
            for written in network.operator[name].outputs:
                readers = [operator.name for operator in network.readers[written]]
                if network.tensor[written].role is Role.OUTPUT or not readers:
                    yield Violation(Rule.OUTPUT_LOST, name, f"{written!r} leaves the network")
                for reader in readers:
                    if reader not in stack.operators:
                        detail = (
                            f"{reader!r} reads {written!r} outside the stack that ends with {stack.operators[-1]!r}"
                        )
                        yield Violation(Rule.OVER_A_BRANCH, name, detail)


def _tilings(network: Graph, stacks: Sequence[ScheduledStack]) -> Iterator[Violation]:
    for number, stack in enumerate(stacks):
        if stack.tiling is None:
            continue
        last = network.operator[stack.operators[-1]]
        shape = network.tensor[last.outputs[0]].shape or ()
        unit = pixel_of(last)
        rows, columns = (-(-shape[2] // unit[0]), -(-shape[3] // unit[1])) if len(shape) == 4 else (1, 1)
        if are_matrices(network, stack):
            rows, columns = shape[-2], shape[-3] if len(shape) == 4 else 1
        if stack.tiling.columns > columns or stack.tiling.rows > rows:
            detail = f"tiles of {stack.tiling.columns} x {stack.tiling.rows} in a map of {columns} x {rows}"
            yield Violation(Rule.TILE_EXCEEDS_MAP, f"stack {number}", detail)
        if stack.tiling.channels is None:
            continue
        has_channels = len(shape) == 4 and not are_matrices(network, stack)
        if not has_channels or stack.tiling.channels > shape[_CHANNELS]:
            detail = (
                f"tiles of {stack.tiling.channels} channels in a map of {shape[_CHANNELS] if has_channels else 'none'}"
            )
            yield Violation(Rule.TILE_EXCEEDS_MAP, f"stack {number}", detail)
        elif unit != (1, 1) or (stack.tiling.rows, stack.tiling.columns) != (rows, columns):
            detail = f"tiles of channels have {stack.tiling.columns} x {stack.tiling.rows} of {columns} x {rows} pixels"
            yield Violation(Rule.CHANNELS_OF_SOME_PIXELS, f"stack {number}", detail)


MOST_TILES = 50_000
"""Tilings of more tile operators are outside the space of schedules."""


@dataclass(frozen=True)
class TileOfNetwork:
    """A tile operator, its network operator, its stack, and the number of its tile there.

    `joined` holds the concatenations among its inputs that are not materialised, with the parts that it reads instead.
    """

    operator: Operator
    original: Operator
    stack: int
    number: int
    joined: PartsOf = field(default_factory=dict)

    @cached_property
    def place_of(self) -> Mapping[str, tuple[str, int]]:
        """Map each part of a concatenation to the operand that it is a part of, and the channel where it begins."""
        return {part: (whole, first) for whole, begins in self.joined.items() for part, first in begins.items()}

    @property
    def region(self) -> Region | None:
        """Return the region of the first output that the tile computes; None for all of it."""
        return self.operator.tile.regions[0] if self.operator.tile else None


def tiles_of_network(network: Graph, tiles: Graph, stacks: Sequence[ScheduledStack]) -> tuple[TileOfNetwork, ...]:
    """Return the tile operators of the network's operators, in order; `verify_tiles` reports all others.

    The stacks must be legal: their operators are those of the network. A tile operator is named after its operator and
    its tile number, as in `conv1#3`. If a tile needs a view twice, the second is `slice1#3.1`.
    """
    stack_of = {name: number for number, stack in enumerate(stacks) for name in stack.operators}
    left_out = joins_left_out(network, tiles)
    runs = []
    for operator in tiles.operators:
        name = operator.tile.operator if operator.tile else operator.name
        if name not in stack_of:
            continue
        number = operator.name.removeprefix(f"{name}#").partition(".")[0]
        original = network.operator[name]
        joined = {each: left_out[each] for each in original.inputs if each in left_out}
        at = int(number) if number.isdecimal() else 0
        runs.append(TileOfNetwork(operator, original, stack_of[name], at, joined))
    return tuple(runs)


def verify_tiles(
    network: Graph, tiles: Graph, stacks: Sequence[ScheduledStack], nests: NestDerivation
) -> tuple[Violation, ...]:
    """Return all that is wrong with the network in tiles; the stacks are legal."""
    runs = tiles_of_network(network, tiles, stacks)
    found = [*_number(tiles), *_tensors(network, tiles)]
    known = {run.operator.name for run in runs}
    detail = "the network has no operator that it is a part of"
    strangers = (operator.name for operator in tiles.operators if operator.name not in known)
    found += [Violation(Rule.TILE_DIFFERS, name, detail) for name in strangers]
    if not found:
        regions = [tile_regions(network, stack) for stack in stacks]
        originals = {
            name: _Original(network, stack, regions[number], nests, network.operator[name])
            for number, stack in enumerate(stacks)
            for name in stack.operators
        }
        for run in runs:
            found += _Part(originals[run.original.name], tiles, run).violations()
        found += [
            *_order(stacks, runs, nests),
            *_what_is_computed(network, tiles, stacks, regions, runs),
            *_bands(network, tiles, stacks),
        ]
    return tuple(found)


def _number(tiles: Graph) -> Iterator[Violation]:
    if len(tiles.operators) > MOST_TILES:
        detail = f"{len(tiles.operators)} tile operators; a schedule may have {MOST_TILES}"
        yield Violation(Rule.TOO_MANY_TILES, tiles.name, detail)


def _tensors(network: Graph, tiles: Graph) -> Iterator[Violation]:
    """Yield violations of tensors that are neither network tensors nor bands of one, with its role and bits."""
    for tensor in tiles.tensors:
        base = network.tensor.get(tensor.part_of or tensor.name)
        if base is None:
            detail = f"the network has no tensor {tensor.part_of or tensor.name!r}"
        elif tensor.region is None:
            is_same = (tensor.shape, tensor.size_bytes) == (base.shape, base.size_bytes)
            detail = "" if is_same else f"it has {tensor.size_bytes} bytes, in the network {base.size_bytes}"
        else:
            detail = _why_no_band(tensor, tensor.region, base)
        if base is not None and not detail and tensor.role is not base.role:
            detail = f"its role is {tensor.role}, in the network {base.role}"
        if detail:
            yield Violation(Rule.TENSOR_DIFFERS, tensor.name, detail)


def _why_no_band(tensor: Tensor, region: Region, base: Tensor) -> str:
    if base.shape is None or base.bits is None or len(region) != len(base.shape):
        return f"it is a band of {base.name!r}, which has {len(base.shape or ())} dimensions"
    if any(stop > size for (_, stop), size in zip(region, base.shape, strict=True)):
        return f"its region reaches beyond {base.name!r}"
    size_bytes = size_in_bytes(tuple(stop - start for start, stop in region), base.bits)
    return "" if tensor.size_bytes == size_bytes else f"it has {tensor.size_bytes} bytes, its region {size_bytes}"


def _order(
    stacks: Sequence[ScheduledStack], runs: Sequence[TileOfNetwork], nests: NestDerivation
) -> Iterator[Violation]:
    """Stack by stack, in a stack tile by tile, in a tile in the stack's order; views stand before their readers."""
    places = {name: place for stack in stacks for place, name in enumerate(stack.operators)}
    last = (0, 0, -1)
    for run in runs:
        is_view = stacks[run.stack].tiling is not None and nests.of(run.original) is None
        place = places[run.original.name]
        if is_view:
            place = last[2] if (run.stack, run.number) == last[:2] else 0
        key = (run.stack, run.number, place)
        if key < last or (key == last and not is_view):
            detail = f"tile {key[1]} of stack {key[0]} stands behind one of tile {last[1]} of stack {last[0]}"
            yield Violation(Rule.TILE_OUT_OF_ORDER, run.operator.name, detail)
        last = max(key, last)


def _what_is_computed(
    network: Graph,
    tiles: Graph,
    stacks: Sequence[ScheduledStack],
    regions: Sequence[Sequence[Region]],
    runs: Sequence[TileOfNetwork],
) -> Iterator[Violation]:
    """Yield violations of tiles that compute less of a stack's output than their region.

    Outputs that leave the stack must be computed whole; windows determine the regions of inner tensors. A concatenation
    that may be left out need not be computed.
    """
    left_out = joins_left_out(network, tiles)
    numbers: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        numbers[run.original.name].add(run.number)
    for stack, parts in zip(stacks, regions, strict=True):
        last = stack.operators[-1]
        if network.operator[last].outputs[0] in left_out:
            continue
        for number, region in enumerate(parts):
            if number not in numbers[last]:
                yield Violation(Rule.TILE_MISSING, last, f"nothing computes tile {number}, {_shown(region)}")


def _bands(network: Graph, tiles: Graph, stacks: Sequence[ScheduledStack]) -> Iterator[Violation]:
    """Yield violations of tensors that cross stacks if their bands do not partition them."""
    inside = {
        written for stack in stacks for name in stack.operators[:-1] for written in network.operator[name].outputs
    }
    regions: dict[str, list[Region]] = defaultdict(list)
    for tensor in tiles.tensors:
        shape = network.tensor[tensor.part_of or tensor.name].shape
        regions[tensor.part_of or tensor.name].append(tensor.region or whole_region(shape or ()))
    for name, boxes in regions.items():
        if name not in inside and not partition(whole_region(network.tensor[name].shape or ()), boxes):
            yield Violation(Rule.BANDS_DO_NOT_PARTITION, name, f"its {len(boxes)} bands overlap or leave a gap")


def _shown(region: Region) -> str:
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in region) + "]"


def _behind(region: Region, channels: int) -> Region:
    """Return a region shifted by a number of channels."""
    batch, (start, stop), *pixels = region
    return (batch, (start + channels, stop + channels), *pixels)


def part_of_parameter(operator: Operator, shape: tuple[int, ...], output: tuple[int, ...], region: Region) -> Region:
    """Return the region of a parameter that a region of the first output needs: all of it for all channels.

    A convolution has one filter per output channel. A parameter of an operator element by element has an element
    per channel, or broadcasts.
    """
    whole = whole_region(shape)
    if len(output) != 4:
        return whole
    if operator.kind in CONVOLUTIONS and len(shape) == len(output):
        return (region[_CHANNELS], *whole[1:])
    if operator.kind in SCALED and shape == output[_CHANNELS : _CHANNELS + 1]:
        return (region[_CHANNELS],)
    place = _CHANNELS - (len(output) - len(shape))
    is_cut = operator.kind in ELEMENTWISE | SCALED and place >= 0 and shape[place] == output[_CHANNELS]
    return (*whole[:place], region[_CHANNELS], *whole[place + 1 :]) if is_cut else whole


class _Original:
    """An operator of the network in its stack, of whose last output each tile has one of `tiles_of_stack`."""

    def __init__(
        self,
        network: Graph,
        stack: ScheduledStack,
        tiles_of_stack: Sequence[Region],
        nests: NestDerivation,
        operator: Operator,
    ) -> None:
        self.operator = operator
        self.runs_whole = stack.tiling is None
        self.is_of_matrices = are_matrices(network, stack)
        self.ends_its_stack = operator.name == stack.operators[-1]
        self.tiles_of_stack = tiles_of_stack
        self.shapes = {name: network.tensor[name].shape or () for name in (*operator.reads, *operator.outputs)}
        self.whole = {name: whole_region(shape) for name, shape in self.shapes.items()}
        derived = nests.of(operator)
        self.parameters = tuple(
            name for name in operator.parameters if derived is None or name in (derived.weight, derived.input)
        )

    def part_of_parameter(self, name: str, region: Region) -> Region:
        """Return the region of a parameter that a region of the first output needs."""
        if self.is_of_matrices:
            return self.whole[name]
        return part_of_parameter(self.operator, self.shapes[name], self.shapes[self.operator.outputs[0]], region)

    def sees(self, region: Region) -> Needs:
        """Return the input regions on which a region of the first output depends.

        Raises LookupError if they are unknown.
        """
        operator = self.operator
        inputs = [self.shapes[name] for name in operator.inputs]
        output = self.shapes[operator.outputs[0]]
        if operator.kind == "Transpose" and self.is_of_matrices and len(inputs) == 1:
            return (turned(operator, inputs[0], output, region),)
        is_product = multiplies_rows(operator, self.shapes) or multiplies_matrices(operator, self.shapes)
        if is_product:
            read = shapes_as_read(operator, inputs)[: len(inputs)]
            regions = rows_multiplied(read, output, region)
            return tuple(as_stored(*each) for each in zip(regions, read, inputs, strict=True))
        weights = [shape for name in operator.parameters if len(shape := self.shapes[name]) == len(output)]
        return seen(operator, inputs, weights[0] if weights else None, output, region)


@dataclass(frozen=True, slots=True)
class _Part:
    """A tile operator together with its network operator."""

    original: _Original
    tiles: Graph
    run: TileOfNetwork

    def violations(self) -> Iterator[Violation]:
        """Yield the violations of the tile; its bands are checked only if it is a part of its operator."""
        if detail := self._difference():
            yield Violation(Rule.TILE_DIFFERS, self.run.operator.name, detail)
            return
        yield from self._parameters()
        for at, written in enumerate(self.run.original.outputs):
            boxes = self._boxes(self.run.operator.outputs, written, {})
            if not partition(self._region(at), boxes):
                detail = f"it computes {_shown(self._region(at))} of {written!r}, and writes other bands"
                yield Violation(Rule.REGION_NOT_WRITTEN, self.run.operator.name, detail)
        yield from self._in_place()
        yield from self._windows()

    def _in_place(self) -> Iterator[Violation]:
        """Yield a violation unless each pair that may share bytes is alike, element by element or row by row."""
        original, shapes = self.run.original, self.original.shapes
        for pair in self.run.operator.in_place:
            read, written = self.tiles.tensor[pair.input], self.tiles.tensor[pair.output]
            bases = read.part_of or read.name, written.part_of or written.name
            regions = (one.region or whole_region(one.shape or ()) for one in (read, written))
            is_alike = shapes.get(bases[0]) == shapes[bases[1]] and next(regions) == next(regions)
            is_alike = is_alike and read.size_bytes == written.size_bytes  # so graphs admit no shift
            is_simple = original.kind in OVERWRITING and not VIEWS & original.attributes.keys()
            if not is_alike or not is_simple:
                detail = f"{pair.output!r} may not lie in the bytes of {pair.input!r}"
                yield Violation(Rule.TILE_DIFFERS, self.run.operator.name, detail)

    def _region(self, output: int) -> Region:
        tile = self.run.operator.tile
        return tile.regions[output] if tile else self.original.whole[self.run.original.outputs[output]]

    def _boxes(self, names: Sequence[str], base: str, begins: Mapping[str, int]) -> list[Region]:
        """Return the regions that bands cover of a network tensor; a tensor that is not cut covers all of it.

        For a concatenation that is not materialised, the bands of its parts are shifted by the channel where the part
        `begins`.
        """
        found = []
        for tensor in (self.tiles.tensor[name] for name in names):
            part = tensor.part_of or tensor.name
            if part in begins:
                found.append(_behind(tensor.region or whole_region(tensor.shape or ()), begins[part]))
            elif part == base:
                found.append(tensor.region if tensor.region is not None else self.original.whole[base])
        return found

    def _difference(self) -> str:
        """Return why the tile is no part of its operator, or not the part that its number states; empty if it is."""
        operator, original, tile = self.run.operator, self.run.original, self.run.operator.tile
        if operator.kind != original.kind or operator.attributes != original.attributes:
            return f"kind and attributes are not those of {original.name!r}"
        known = (self.original.shapes.keys() - self.run.joined.keys()) | self.run.place_of.keys()
        for names in (operator.inputs, operator.parameters, operator.outputs):
            for name in names:
                base = self.tiles.tensor[name].part_of or name
                if base not in known:
                    return f"{original.name!r} knows no {base!r}"
        joined = {(one.part, one.whole, one.first_channel) for one in (tile.joined if tile else ())}
        if joined != {(part, *place) for part, place in self.run.place_of.items()}:
            return f"it reads other maps, or channels, than {original.name!r} sees side by side"
        if tile is not None:
            if (tile.inputs, tile.outputs) != (original.inputs, original.outputs):
                return f"its operands are not those of {original.name!r}"
            shapes = tile.shape
            if any(shapes[name] != self.original.shapes[name] for name in (*original.inputs, *original.outputs)):
                return "its operands have other shapes"
            if tile.part is not SumPart.WHOLE or tile.reduction is not None:
                return "it computes a part of a sum"
        return self._place()

    def _place(self) -> str:
        number, regions = self.run.number, self.original.tiles_of_stack
        if number >= len(regions):
            return f"its stack has {len(regions)} tiles"
        if self.original.runs_whole and any(
            self._region(at) != self.original.whole[name] for at, name in enumerate(self.run.original.outputs)
        ):
            return "its stack runs whole"
        if self.original.ends_its_stack and self._region(0) != regions[number]:
            return f"it computes {_shown(self._region(0))}, tile {number} is {_shown(regions[number])}"
        return ""

    def _parameters(self) -> Iterator[Violation]:
        """Yield a violation unless the tile reads its nests' weights, or all parameters without a nest.

        A tile of channels reads the part of each parameter that belongs to its channels.
        """
        names, expected = self.run.operator.parameters, self.original.parameters
        read = tuple(dict.fromkeys(self.tiles.tensor[name].part_of or name for name in names))
        if read != expected:
            detail = f"it reads {list(read)}, and {self.run.original.kind} reads {list(expected)}"
            yield Violation(Rule.PARAMETERS_DIFFER, self.run.operator.name, detail)
            return
        for name in expected:
            need, boxes = self.original.part_of_parameter(name, self._region(0)), self._boxes(names, name, {})
            if not partition(need, boxes):
                detail = f"it needs {_shown(need)} of {name!r}, and reads {', '.join(map(_shown, boxes))}"
                yield Violation(Rule.PARAMETERS_DIFFER, self.run.operator.name, detail)

    def _windows(self) -> Iterator[Violation]:
        """Yield violations of windows that reach beyond the bands that the tile reads."""
        original = self.run.original
        try:
            needs = self.original.sees(self._region(0))
        except LookupError as error:
            detail = f"what a part of {original.kind} sees is not known: {error}"
            yield Violation(Rule.TILE_DIFFERS, self.run.operator.name, detail)
            return
        for name, need in zip(original.inputs, needs, strict=True):
            boxes = self._boxes(self.run.operator.inputs, name, self.run.joined.get(name, {}))
            if need is not None and not cover(need, boxes):
                detail = f"it sees {_shown(need)} of {name!r}, and its bands do not have all of that"
                yield Violation(Rule.WINDOW_NOT_READ, self.run.operator.name, detail)
