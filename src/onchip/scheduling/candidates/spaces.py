"""The candidate groups and tilings: all that the options allow, and a few for a good first answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from onchip.answer.options.fusion_options import OPTIMAL, Combination, FusionOptions
from onchip.answer.options.tile_sizes import SWEEP_COLUMNS, SWEEP_ROWS
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.errors import UsageError
from onchip.ops.fusable import FeatureMap, FusableNetwork
from onchip.scheduling.candidates.space import StackSpace
from onchip.transform.groups.stacks import (
    LayerSpan,
    StackChoice,
    TileBox,
    boxes_of,
    given_stacks,
    greedy_stacks,
    legal_spans,
    one_stack,
    single_layers,
    stack_of,
    weight_capacity_bits,
    whole,
)

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
    columns = sorted({size for one in outputs for size in options.sizes.along_columns(one.columns)})
    rows = sorted({size for one in outputs for size in options.sizes.along_rows(one.rows)})
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
        return (whole(output),) if span.length == 1 else boxes_of(output, options.sizes, options.modes)


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
        place="--tile",
        expected=f"at most {largest.columns}x{largest.rows}, the size of {largest.name!r}",
    )


def space_described(space: StackSpace, options: FusionOptions, count: int | None = None) -> str:
    """Return a description of the strategies covered; `count` is the number of all spans if only some are listed."""
    network, spans = space.network, space.spans
    if not spans:
        return "the one strategy without stacks: every operator runs outside of them"
    stacks = f"{count or len(spans)} stack{'' if (count or len(spans)) == 1 else 's'}"
    cuts = f"{stacks} that no branch leaves, cut anywhere" if options.stacks == OPTIMAL else f"{stacks} as given"
    if options.tile is not None:
        tiles = f"tiles of {options.tile[0]} x {options.tile[1]}"
    else:
        largest = max((network.layers[span.stop - 1].output for span in spans), key=lambda one: one.columns * one.rows)
        columns = _listed(options.sizes.along_columns(largest.columns))
        rows = _listed(options.sizes.along_rows(largest.rows))
        tiles = f"tiles of the list {options.sizes} (of the largest map: columns {columns}; rows {rows})"
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
