"""Fused groups of layers, their tilings, and the choice of both.

`greedy_stacks` is the rule of DeFiNES (Mei, Goetschalckx et al., HPCA 2023, section III).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.errors import UsageError
from onchip.ops.fusable import FeatureMap, FusableNetwork, Stack

PLACE = "groups"


@dataclass(frozen=True, slots=True, order=True)
class LayerSpan:
    """Layers of a network by their place in its order, half-open."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """Return how many layers the span has."""
        return self.stop - self.start


def escaping(network: FusableNetwork, span: LayerSpan) -> tuple[str, ...]:
    """Return the layers of the run, except its last, whose output is read after the run or leaves the network."""
    inner, leaving, readers = network.layers[span.start : span.stop - 1], set(network.outputs), network.last_readers
    return tuple(
        one.name for one in inner if one.output.name in leaving or readers.get(one.output.name, span.stop) >= span.stop
    )


def is_legal(network: FusableNetwork, span: LayerSpan) -> bool:
    """Return whether the run is a stack: only its last output leaves it, and no layer of several has to run alone."""
    return _alone_in(network, span) is None and not escaping(network, span)


def _alone_in(network: FusableNetwork, span: LayerSpan) -> str | None:
    """Return the first layer that has to run alone, if the run has several layers; else None."""
    layers = network.layers[span.start : span.stop] if span.length > 1 else ()
    return next((layer.name for layer in layers if layer.runs_alone), None)


def stack_of(network: FusableNetwork, span: LayerSpan) -> Stack:
    """Return the run as a stack.

    Raises UsageError for a run with an inner branch, an inner network output, or a layer that cannot run in tiles among
    several.
    """
    if (alone := _alone_in(network, span)) is not None:
        what = f"layer {alone!r} cannot run in tiles"
        raise UsageError(what, file=network.name, place=PLACE, expected="a stack of its own for it")
    if leaving := escaping(network, span):
        first, last = network.layers[span.start].name, network.layers[span.stop - 1].name
        verb = "does" if len(leaving) == 1 else "do"
        written = {layer.output.name for layer in network.layers if layer.name in leaving}
        over = "an output of the network" if written <= set(network.outputs) else "a branch"
        raise UsageError(
            f"the stack {first!r} to {last!r} is over {over}: {', '.join(map(repr, leaving))} {verb} not end in it",
            file=network.name,
            place=PLACE,
            expected="stacks that only their last layer's output leaves",
        )
    layers = network.layers[span.start : span.stop]
    own = {one.output.name for one in layers}
    read = dict.fromkeys(read.source for layer in layers for read in layer.reads if read.source not in own)
    maps = network.maps
    return Stack(tuple(maps[name] for name in read), layers, layers[-1].output.name in network.outputs)


def legal_spans(network: FusableNetwork) -> tuple[LayerSpan, ...]:
    """Return all legal runs, ordered by their first and then their last layer."""
    stops: list[list[int]] = [[] for _ in network.layers]
    for stop, first in enumerate(first_starts(network), start=1):
        for start in range(first, stop):
            stops[start].append(stop)
    return tuple(LayerSpan(start, stop) for start, own in enumerate(stops) for stop in own)


def first_starts(network: FusableNetwork) -> tuple[int, ...]:
    """Return, for each layer, the start of the longest legal run that it ends; later starts are legal, too."""
    readers, leaving, count = network.last_readers, set(network.outputs), len(network.layers)
    read_until = [
        count if one.output.name in leaving else readers.get(one.output.name, count) for one in network.layers
    ]
    open_maps: list[int] = []  # of layers whose output is read later, the last one on top
    starts, behind_alone = [], 0
    for last, layer in enumerate(network.layers):
        while open_maps and read_until[open_maps[-1]] <= last:
            open_maps.pop()
        behind_alone = last if layer.runs_alone else behind_alone
        starts.append(max(open_maps[-1] + 1 if open_maps else 0, behind_alone))
        behind_alone += layer.runs_alone
        open_maps.append(last)
    return tuple(starts)


def stack_count(network: FusableNetwork) -> int:
    """Return how many legal spans there are."""
    return sum(stop - first for stop, first in enumerate(first_starts(network), start=1))


def one_stack(network: FusableNetwork) -> tuple[LayerSpan, ...]:
    """Return one stack of all layers. Raises UsageError if more than the last output leaves the network."""
    if not network.layers:
        return ()
    span = LayerSpan(0, len(network.layers))
    stack_of(network, span)
    return (span,)


def single_layers(network: FusableNetwork) -> tuple[LayerSpan, ...]:
    """Return one span per layer."""
    return tuple(LayerSpan(at, at + 1) for at in range(len(network.layers)))


def greedy_stacks(network: FusableNetwork, capacity_bits: int) -> tuple[LayerSpan, ...]:
    """Return stacks that grow layer by layer while their weights fit into `capacity_bits`.

    Layers between two points without a branch join together or not at all. If they do not fit alone, or more than the
    last output leaves them, each of them is a stack. A network output ends a stack.
    """
    stacks: list[LayerSpan] = []
    start, used = 0, 0
    for unit in units_of(network):
        need = sum(layer.weight_bits for layer in network.layers[unit.start : unit.stop])
        is_one = need <= capacity_bits and is_legal(network, unit)
        if is_one and used + need <= capacity_bits and is_legal(network, LayerSpan(start, unit.stop)):
            used += need
            continue
        if start < unit.start:
            stacks.append(LayerSpan(start, unit.start))
        start, used = unit.start, need
        if not is_one:
            stacks.extend(LayerSpan(at, at + 1) for at in range(unit.start, unit.stop))
            start, used = unit.stop, 0
    if start < len(network.layers):
        stacks.append(LayerSpan(start, len(network.layers)))
    return tuple(stacks)


def units_of(network: FusableNetwork) -> Iterator[LayerSpan]:
    """Runs between neighbouring places where only the output of the layer before is still to be read."""
    start = read_until = 0
    for stop, layer in enumerate(network.layers, start=1):
        if read_until < stop:
            yield LayerSpan(start, stop)
            start = stop
        read_until = max(read_until, network.last_readers.get(layer.output.name, 0))


def weight_capacity_bits(accelerator: Accelerator) -> int:
    """Return the bits of the outermost memory on chip that holds weights; 0 without one."""
    holding = [level for level in accelerator.levels if Operand.WEIGHT in level.memory.holds]
    return holding[-1].memory.capacity_bytes * 8 if holding else 0


def given_stacks(network: FusableNetwork, text: str) -> tuple[LayerSpan, ...]:
    """`0-3,4-7`, or layers' names instead of numbers, one alone for a stack of one layer; raises UsageError."""
    stacks: list[LayerSpan] = []
    for part in text.split(","):
        span = _span(network, part)
        begin = stacks[-1].stop if stacks else 0
        if span.start != begin:
            detail = f"{part!r} begins with layer {span.start}"
            raise UsageError(detail, file=network.name, place=PLACE, expected=f"layer {begin}, as all are in a stack")
        stack_of(network, span)
        stacks.append(span)
    if stacks[-1].stop < len(network.layers):
        detail = f"its last layer is {stacks[-1].stop - 1}"
        raise UsageError(detail, file=network.name, place=PLACE, expected=f"{len(network.layers) - 1}, the network's")
    return tuple(stacks)


def spans_of(network: FusableNetwork, stacks: Sequence[Sequence[str]]) -> tuple[LayerSpan, ...]:
    """Return the spans of stacks given by layer names. Raises UsageError unless they cover the layers in order."""
    names = [layer.name for layer in network.layers]
    given = [name for stack in stacks for name in stack]
    if given != names:
        at = next((at for at, (one, other) in enumerate(zip(given, names, strict=False)) if one != other), len(given))
        what = f"layer {at} is {given[at]!r}" if at < len(given) else f"it ends after {len(given)} layers"
        expected = repr(names[at]) if at < len(names) else f"{len(names)} layers"
        raise UsageError(what, file=network.name, place="stacks", expected=expected)
    ends = [sum(map(len, stacks[: at + 1])) for at in range(len(stacks))]
    return tuple(LayerSpan(stop - len(stack), stop) for stop, stack in zip(ends, stacks, strict=True))


def _span(network: FusableNetwork, text: str) -> LayerSpan:
    """Names may have dashes themselves: each dash is tried."""
    numbers = {str(at): at for at in range(len(network.layers))}
    numbers |= {layer.name: at for at, layer in enumerate(network.layers)}
    ends = [(text, text), *((text[:at], text[at + 1 :]) for at, letter in enumerate(text) if letter == "-")]
    for first, last in ends:
        if first in numbers and last in numbers and numbers[first] <= numbers[last]:
            return LayerSpan(numbers[first], numbers[last] + 1)
    count = len(network.layers)
    expected = f"one, greedy, optimal, or stacks like 0-3,4-{max(count - 1, 4)} of layers 0 to {count - 1}"
    raise UsageError(f"{text!r} is no stack", file=network.name, place=PLACE, expected=expected)


@dataclass(frozen=True, slots=True)
class TileBox:
    """The tilings with these columns and rows, each in ascending order, in one overlap mode."""

    columns: tuple[int, ...]
    rows: tuple[int, ...]
    mode: OverlapMode

    @property
    def count(self) -> int:
        """Return how many tilings are in the box."""
        return len(self.columns) * len(self.rows)

    @property
    def tilings(self) -> tuple[Tiling, ...]:
        """Return all tilings of the box, by columns, then by rows."""
        return tuple(Tiling(columns, rows, self.mode) for columns in self.columns for rows in self.rows)

    def quarters(self) -> tuple[TileBox, ...]:
        """Return two to four smaller boxes that partition this one, which must have more than one tiling."""
        halves = product(_halves(self.columns), _halves(self.rows))
        return tuple(TileBox(columns, rows, self.mode) for columns, rows in halves if columns and rows)

    def thinned(self, some: Container[int]) -> TileBox:
        """Return the box with only the given sizes, and its least and greatest sizes."""
        columns, rows = (
            tuple(size for size in sizes if size in some or size in (sizes[0], sizes[-1]))
            for sizes in (self.columns, self.rows)
        )
        return TileBox(columns, rows, self.mode)

    def __str__(self) -> str:
        return f"{self.columns[0]}..{self.columns[-1]}x{self.rows[0]}..{self.rows[-1]} {self.mode}"


def boxes_of(
    output: FeatureMap, sizes: TileSizes, modes: Collection[OverlapMode] = tuple(OverlapMode)
) -> tuple[TileBox, ...]:
    """Return boxes that contain each distinct tiling once; of equivalent modes only the first is used."""
    columns, rows = sizes.along_columns(output.columns), sizes.along_rows(output.rows)
    found = []
    for mode in modes:
        for some_columns, some_rows in product((columns[:-1], columns[-1:]), (rows[:-1], rows[-1:])):
            if some_columns and some_rows:
                same = Tiling(some_columns[-1], some_rows[-1], mode).within(output.columns, output.rows).mode
                if same is mode or same not in modes:
                    found.append(TileBox(some_columns, some_rows, same))
    return tuple(dict.fromkeys(found))


def whole(output: FeatureMap) -> Tiling:
    """Return the tiling of one tile, as in layer-by-layer execution."""
    return Tiling(output.columns, output.rows, OverlapMode.RECOMPUTE)


def _halves(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    middle = len(sizes) // 2
    return sizes[:middle], sizes[middle:]


Homes: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of a feature map and the on-chip memory that holds it; other feature maps are in DRAM."""
FEW_TILINGS: Final = 128
"""Number of tilings up to which those of a box are costed one by one."""


@dataclass(frozen=True, slots=True)
class StackChoice:
    """A fused group, its tiles, and the memories of its inputs (`homes`) and its output while it runs.

    With a `box` the choice represents all tilings of the box, and `tiling` is one of them.
    """

    span: LayerSpan
    tiling: Tiling
    homes: Homes = ()
    output_home: str = DRAM
    box: TileBox | None = None

    @property
    def tiles(self) -> Tiling | TileBox:
        """Return the box if there is one, else the tiling."""
        return self.box or self.tiling

    @property
    def without_tiles(self) -> tuple[LayerSpan, Homes, str]:
        """Key that choices share if they differ in their tiles only."""
        return self.span, self.homes, self.output_home

    def parts(self) -> tuple[StackChoice, ...]:
        """Return the tilings of a small box one by one, or a large box in quarters; nothing for a single tiling."""
        if self.box is None:
            return ()
        if self.box.count <= FEW_TILINGS:
            return self.singly()
        return tuple(choice_of(self.span, one, self.homes, self.output_home) for one in self.box.quarters())

    def singly(self) -> tuple[StackChoice, ...]:
        """Return one choice for each tiling of the box, or the choice itself."""
        if self.box is None:
            return (self,)
        return tuple(choice_of(self.span, one, self.homes, self.output_home) for one in self.box.tilings)

    def __str__(self) -> str:
        homes = "".join(f", {name!r} in {memory!r}" for name, memory in self.homes)
        output = "" if self.output_home == DRAM else f", output in {self.output_home!r}"
        return f"layers {self.span.start}-{self.span.stop - 1}, {self.tiles}{homes}{output}"


def choice_of(span: LayerSpan, tiling: Tiling | TileBox, homes: Homes, output_home: str) -> StackChoice:
    """Return the choice of one tiling, or of all tilings of a box."""
    if isinstance(tiling, Tiling):
        return StackChoice(span, tiling, homes, output_home)
    first = Tiling(tiling.columns[0], tiling.rows[0], tiling.mode)
    return StackChoice(span, first, homes, output_home, tiling)
