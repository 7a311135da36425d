"""The spaces of fused groups and their tilings, and given groups.

A node of the search graph is a cut together with the home of each live feature map; docs/fusion.md proves that this
suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, TypeAlias

from onchip.answer.options.fusion_options import LAYERS, OPTIMAL, Combination, FusionOptions
from onchip.answer.options.tile_sizes import SWEEP_COLUMNS, SWEEP_ROWS
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ops.fusable import FeatureMap, FusableNetwork
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.choice.ways import Arc, ensure_time
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import (
    FEW_TILINGS,
    PLACE,
    Homes,
    LayerSpan,
    StackChoice,
    TileBox,
    boxes_of,
    choice_of,
    given_stacks,
    greedy_stacks,
    legal_spans,
    one_stack,
    single_layers,
    stack_of,
    weight_capacity_bits,
    whole,
)

TilingsOf: TypeAlias = Callable[[LayerSpan], Sequence[Tiling | TileBox]]
MOST_HOMES: Final = 256
"""Maximum number of home assignments of the maps live at a cut; it multiplies the number of nodes."""


@dataclass(frozen=True, slots=True)
class StackSpace:
    """The fused groups from `spans`, each in its candidate tilings.

    With `may_stay` a map between groups may reside in any single-instance memory that holds inputs and outputs and has
    capacity for it and the other maps there. Network outputs are in DRAM, even if they are read. So are the maps
    that wait longest, if otherwise the maps live at a cut had more than `most_homes` assignments.
    """

    network: FusableNetwork
    accelerator: Accelerator
    spans: Sequence[LayerSpan]
    tilings: TilingsOf
    may_stay: bool = True
    most_homes: int = MOST_HOMES
    in_dram: frozenset[str] = field(init=False, repr=False, compare=False)
    """Maps that would fit on the chip, but are in DRAM because too many others are live."""
    _alive: dict[int, list[FeatureMap]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _homes: dict[int, list[Homes]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _room_bits: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Capacity of the memories that may hold maps, the lowest first."""

    def __post_init__(self) -> None:
        homes = [level.memory for level in self.accelerator.levels if is_home(level, self.accelerator)]
        object.__setattr__(self, "_room_bits", {memory.name: memory.capacity_bytes * 8 for memory in homes})
        ways = {one.output.name: len(self._homes_with_room(one.output)) for one in self.network.layers}
        object.__setattr__(self, "in_dram", waiting_longest(self.network, ways, self.most_homes))

    def arcs(self, run: Run | None = None) -> tuple[list[Arc[StackChoice]], int]:
        """Return the arcs from the start of the network (node 0) to its end, and the end node.

        Raises NoBoundError if the run stops first.
        """
        places = [(cut, homes) for cut in range(len(self.network.layers) + 1) for homes in self._homes_at(cut)]
        numbers = {place: number for number, place in enumerate(places)}
        arcs = []
        for span in self.spans:
            if run is not None:
                ensure_time(run)
            tilings = tuple(self.tilings(span))
            for homes in self._homes_at(span.start):
                for home in self._homes_of_output(span):
                    after = self._after(span, homes, home)
                    if after is None or (span.stop, after) not in numbers:
                        continue
                    choices = tuple(choice_of(span, tiling, homes, home) for tiling in tilings)
                    arcs.append(Arc(numbers[span.start, homes], numbers[span.stop, after], choices))
        return arcs, len(places) - 1

    def in_all_tiles(self, choice: StackChoice) -> Iterator[StackChoice]:
        """Yield a choice's group in each candidate tiling, except for long lists."""
        for tiling in self.tilings(choice.span):
            if isinstance(tiling, Tiling) or tiling.count <= FEW_TILINGS:
                yield from choice_of(choice.span, tiling, choice.homes, choice.output_home).singly()

    def _alive_at(self, cut: int) -> list[FeatureMap]:
        """Return the maps that layers before the cut write and layers after it read."""
        if cut not in self._alive:
            outputs, until = (layer.output for layer in self.network.layers[:cut]), self.network.last_readers
            self._alive[cut] = [one for one in outputs if until.get(one.name, 0) >= cut]
        return self._alive[cut]

    def _homes_at(self, cut: int) -> list[Homes]:
        if cut not in self._homes:
            self._homes[cut] = list(self._all_homes_of(self._alive_at(cut)))
        return self._homes[cut]

    def _all_homes_of(self, alive: Sequence[FeatureMap]) -> Iterator[Homes]:
        for memories in product(*(self._memories_for(one) for one in alive)):
            homes = [(one, memory) for one, memory in zip(alive, memories, strict=True) if memory != DRAM]
            if self._have_room(homes):
                yield tuple((one.name, memory) for one, memory in homes)

    def _homes_of_output(self, span: LayerSpan) -> list[str]:
        output = self.network.layers[span.stop - 1].output
        return self._memories_for(output) if output in self._alive_at(span.stop) else [DRAM]

    def _after(self, span: LayerSpan, homes: Homes, output_home: str) -> Homes | None:
        """Return the homes of live maps after the group; None if its output does not fit together with earlier ones."""
        maps, output = self.network.maps, self.network.layers[span.stop - 1].output
        own = [(output, output_home)] if output_home != DRAM else []
        if not self._have_room([*((maps[name], memory) for name, memory in homes), *own]):
            return None
        alive = [one.name for one in self._alive_at(span.stop)]
        where = {**dict(homes), output.name: output_home}
        return tuple((name, where[name]) for name in alive if where.get(name, DRAM) != DRAM)

    def _memories_for(self, feature_map: FeatureMap) -> list[str]:
        return [DRAM] if feature_map.name in self.in_dram else self._homes_with_room(feature_map)

    def _homes_with_room(self, feature_map: FeatureMap) -> list[str]:
        if not self.may_stay or feature_map.name in self.network.outputs:
            return [DRAM]
        fitting = [name for name, room in self._room_bits.items() if feature_map.size_bits <= room]
        return [*fitting, DRAM]

    def _have_room(self, homes: Sequence[tuple[FeatureMap, str]]) -> bool:
        taken = dict.fromkeys(self._room_bits, 0)
        for one, memory in homes:
            taken[memory] += one.size_bits
        return all(bits <= room for bits, room in zip(taken.values(), self._room_bits.values(), strict=True))


def waiting_longest(network: FusableNetwork, ways: Mapping[str, int], most: int) -> frozenset[str]:
    """Return maps to exclude so that the maps live at any cut have at most `most` assignments.

    Maps that wait longest are excluded first, later ones in a tie; others stay while the limit allows.
    """
    until = network.last_readers
    waits = [(until.get(one.output.name, at) - at, at, one.output.name) for at, one in enumerate(network.layers)]
    together = [1] * (len(network.layers) + 1)
    left_out = []
    for wait, at, name in sorted(waits):
        cuts = range(at + 1, at + wait + 1)
        if all(together[cut] * ways[name] <= most for cut in cuts):
            for cut in cuts:
                together[cut] *= ways[name]
        else:
            left_out.append(name)
    return frozenset(name for name in left_out if ways[name] > 1)


def is_home(level: MemoryLevel, accelerator: Accelerator) -> bool:
    """Return True if feature maps may reside whole in a memory: single-instance, for inputs and outputs."""
    dimensions = accelerator.array.dimensions if accelerator.array else {}
    is_one = level.serves is None or set(dimensions) <= set(level.serves)
    return is_one and {Operand.INPUT, Operand.OUTPUT} <= set(level.memory.holds)


MANY_SIZES: Final = 4
"""Lists of sizes longer than this that contain every size are printed as a range."""
MANY_TILINGS: Final = 400
"""Above this number of tilings, only some of a box are used for a first answer."""
BEST_OF_DEFINES: Final = Tiling(4, 72, OverlapMode.FULLY_CACHED)
"""The best tiles in DeFiNES's case study 1."""


def spans_of_option(network: FusableNetwork, accelerator: Accelerator, stacks: str) -> tuple[LayerSpan, ...]:
    """Return the candidate groups: all legal ones for `optimal`, else those of the given partition."""
    match stacks:
        case "optimal":
            return legal_spans(network)
        case "one":
            return one_stack(network)
        case "layers":
            return single_layers(network)
        case "greedy":
            return greedy_stacks(network, weight_capacity_bits(accelerator))
        case _:
            return given_stacks(network, stacks)


def space_of(
    network: FusableNetwork, accelerator: Accelerator, spans: Sequence[LayerSpan], options: FusionOptions
) -> StackSpace:
    """Return the space in which each group has a separate tiling."""
    return StackSpace(network, accelerator, spans, _Tilings(network, options), options.maps_stay)


def shared_spaces(space: StackSpace, options: FusionOptions) -> Iterator[StackSpace]:
    """Yield subspaces in which all groups of several layers share one tiling, clipped to their maps.

    The shared tiling is the unclipped one; two that are equal in every group form one subspace. A group is excluded
    from a subspace if the clipped tiling is not a candidate for it. So no subspace leaves the space.
    """
    tried = {span: space.tilings(span) for span in space.spans}
    outputs = {span: stack_of(space.network, span).output for span in space.spans}
    tiled = [outputs[span] for span in space.spans if span.length > 1]
    if options.tile is None and not tiled:
        yield space
        return
    parts = dict.fromkeys(
        tuple(_cut_to_map(shared, span, outputs[span], tried[span]) for span in space.spans)
        for shared in _before_cutting(options, tiled)
    )
    for part in parts:
        yield replace(space, tilings=dict(zip(space.spans, part, strict=True)).__getitem__)


def _before_cutting(options: FusionOptions, outputs: Sequence[FeatureMap]) -> Iterator[Tiling]:
    """Yield the tilings that groups may share: the given tile, or candidate sizes of any of the maps."""
    if options.tile is not None:
        yield from (Tiling(*options.tile, mode) for mode in options.modes)
        return
    columns = sorted({size for one in outputs for size in options.tile_sizes.along_columns(one.columns)})
    rows = sorted({size for one in outputs for size in options.tile_sizes.along_rows(one.rows)})
    yield from (Tiling(*size, mode) for mode in options.modes for size in product(columns, rows))


def _cut_to_map(
    shared: Tiling, span: LayerSpan, output: FeatureMap, tried: Sequence[Tiling | TileBox]
) -> tuple[Tiling, ...]:
    """Return the shared tiling's candidates for a group; a single layer may also run as one tile."""
    own = dict.fromkeys((*([whole(output)] if span.length == 1 else []), shared.within(output.columns, output.rows)))
    return tuple(one for one in own if any(_has(tilings, one) for tilings in tried))


@dataclass(frozen=True, slots=True)
class _Tilings:
    """The candidate tilings of each group, in boxes; a single layer may run as one tile, or in a given tile.

    A layer with `runs_alone` is one tile.
    """

    network: FusableNetwork
    options: FusionOptions

    def __call__(self, span: LayerSpan) -> tuple[Tiling | TileBox, ...]:
        output, options = stack_of(self.network, span).output, self.options
        if self.network.layers[span.start].runs_alone:
            return (whole(output),)
        if options.tile is not None:
            given = [Tiling(*options.tile, mode).within(output.columns, output.rows) for mode in options.modes]
            alone = [whole(output)] if span.length == 1 else []
            return tuple(dict.fromkeys([*alone, *given]))
        return (whole(output),) if span.length == 1 else boxes_of(output, options.tile_sizes, options.modes)


def few_stacks(space: StackSpace) -> StackSpace:
    """Return the space with single layers and greedy groups only."""
    greedy = greedy_stacks(space.network, weight_capacity_bits(space.accelerator))
    spans = dict.fromkeys([*single_layers(space.network), *greedy])
    own = frozenset(space.spans)
    return replace(space, spans=tuple(span for span in spans if span in own))


@dataclass(frozen=True, slots=True)
class FewTilings:
    """The whole map and DeFiNES's best tiles, if they are in the space."""

    space: StackSpace

    def __call__(self, span: LayerSpan) -> tuple[Tiling, ...]:
        """Return the tilings of a group, at most two."""
        output = stack_of(self.space.network, span).output
        some = dict.fromkeys((BEST_OF_DEFINES.within(output.columns, output.rows), whole(output)))
        return tuple(one for one in some if any(_has(tiling, one) for tiling in self.space.tilings(span)))


def _has(tilings: Tiling | TileBox, one: Tiling) -> bool:
    if isinstance(tilings, Tiling):
        return tilings == one
    return one.mode is tilings.mode and one.columns in tilings.columns and one.rows in tilings.rows


def thinned(choice: StackChoice) -> StackChoice:
    """Return the choice with a large box of tilings thinned to the sweep's sizes and the extremes."""
    if choice.box is None or choice.box.count <= MANY_TILINGS:
        return choice
    return replace(choice, box=choice.box.thinned(frozenset((*SWEEP_COLUMNS, *SWEEP_ROWS))))


def ensure_a_tile_fits(network: FusableNetwork, spans: Sequence[LayerSpan], options: FusionOptions) -> None:
    """Raise UsageError for a given tile that is larger than every map to which it could apply."""
    lasts = [layer for span in spans if not (layer := network.layers[span.stop - 1]).runs_alone]
    if options.tile is None or not lasts:
        return
    outputs = [layer.output for layer in lasts]
    columns, rows = options.tile
    if any(columns <= one.columns and rows <= one.rows for one in outputs):
        return
    largest = max(outputs, key=lambda one: one.rows * one.columns)
    raise UsageError(
        f"a tile of {columns} x {rows} is larger than every stack's last feature map",
        file=network.name,
        place="tile",
        expected=f"at most {largest.columns}x{largest.rows}, the size of {largest.name!r}",
    )


def space_described(space: StackSpace, options: FusionOptions, count: int | None = None) -> str:
    """Return a description of the strategies covered; `count` is the number of all spans if only some are listed."""
    network, spans = space.network, space.spans
    if not spans:
        return "the one strategy without stacks: every operator runs outside of them"
    stacks = f"{count or len(spans)} stack{'' if (count or len(spans)) == 1 else 's'}"
    cuts = f"{stacks} that no branch leaves, cut anywhere" if options.groups == OPTIMAL else f"{stacks} as given"
    if options.tile is not None:
        tiles = f"tiles of {options.tile[0]} x {options.tile[1]}"
    else:
        largest = max((network.layers[span.stop - 1].output for span in spans), key=lambda one: one.columns * one.rows)
        columns = _listed(options.tile_sizes.along_columns(largest.columns))
        rows = _listed(options.tile_sizes.along_rows(largest.rows))
        tiles = f"tiles of the list {options.tile_sizes} (of the largest map: columns {columns}; rows {rows})"
    shared = "" if options.combination is Combination.BEST else ", the same in all stacks, cut to each one's map"
    homes = "on the chip or in DRAM" if options.maps_stay else "in DRAM"
    waiting = f", {len(space.in_dram)} that wait longest in DRAM" if space.in_dram else ""
    alone = "as one tile" if options.tile is None else "in these or as one tile"
    return (
        f"{cuts}; {tiles}{shared}, {', '.join(options.modes)}; a stack of one layer {alone}; maps between stacks "
        f"{homes}{waiting}; memory levels of a tile by the model's rule, and each layer of a tile as the mapper maps it"
    )


def _listed(sizes: Sequence[int]) -> str:
    is_every = len(sizes) > MANY_SIZES and len(sizes) == sizes[-1]
    return f"1 to {sizes[-1]}" if is_every else ", ".join(map(str, sizes))


SEARCHED: Final = frozenset({OPTIMAL, LAYERS, "one", "greedy"})
"""Values of the option that name no layer."""


@dataclass(frozen=True, slots=True)
class GivenStacks:
    """The fused groups that the user gives, as layer names in network order."""

    network: str
    stacks: Sequence[Sequence[str]]

    def of_run(self, run: FusableNetwork) -> str:
        """Return the groups of a run of operators as a string of layer numbers within the run."""
        number = {layer.name: at for at, layer in enumerate(run.layers)}
        own = [[number[name] for name in stack if name in number] for stack in self.stacks]
        return ",".join(f"{min(one)}-{max(one)}" for one in own if one)

    def ensure_runs_have_them(self, runs: Sequence[FusableNetwork]) -> None:
        """Raise UsageError for a group whose layers belong to several runs of operators."""
        of_layer = {layer.name: at for at, run in enumerate(runs) for layer in run.layers}
        for stack in self.stacks:
            if len(stack) > 1 and len({of_layer.get(name, name) for name in stack}) > 1:
                what = f"the stack {stack[0]!r} to {stack[-1]!r} is over operators that cannot run in tiles"
                raise UsageError(what, file=self.network, place=PLACE, expected="stacks on one side of these")


def given_of(network: Graph, precision: Precision, options: FusionOptions) -> GivenStacks | None:
    """Return the groups that the options name, or None if the options leave the fusion open.

    Raises UsageError for layers or groups that the network lacks, and for a tile that is larger than every map.
    """
    if options.groups in SEARCHED and options.tile is None:
        return None
    whole = partly_fusable_of(network, precision).network
    if options.groups in SEARCHED:
        ensure_a_tile_fits(whole, single_layers(whole), options)
        return None
    if not whole.layers:
        raise UsageError(f"{options.groups!r} are no stacks: no operator is a layer", file=network.name, place=PLACE)
    spans = given_stacks(whole, options.groups)
    ensure_a_tile_fits(whole, spans, options)
    stacks = [[layer.name for layer in whole.layers[span.start : span.stop]] for span in spans]
    return GivenStacks(network.name, stacks)
