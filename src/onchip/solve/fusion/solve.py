"""From what is asked to the best fusion strategy: where to cut, in which tiles, in which mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onchip.analysis.fusable import FusableNetwork
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.cost.fused import StackCost
from onchip.errors import UsageError
from onchip.plan.result import Result
from onchip.plan.strategy import FusionStrategy, OverlapMode, StackStrategy, Tiling
from onchip.solve.fusion.costs import StackCosts
from onchip.solve.fusion.guided import Estimates, GuidedSearch
from onchip.solve.fusion.ledger import Ledger
from onchip.solve.fusion.objective import Criteria
from onchip.solve.fusion.options import OPTIMAL, Combination, FusionOptions
from onchip.solve.fusion.search import LazySearch, best_of
from onchip.solve.fusion.space import StackChoice, StackSpace
from onchip.solve.fusion.stacks import (
    Span,
    given_stacks,
    greedy_stacks,
    legal_spans,
    one_stack,
    single_layers,
    stack_of,
    weight_capacity_bits,
)
from onchip.solve.fusion.tilings import tilings_of, whole
from onchip.solve.fusion.ways import Way
from onchip.solve.limits import Run

BEST_OF_DEFINES: Final = Tiling(4, 72, OverlapMode.FULLY_CACHED)
"""The best tiles of its case study 1."""


@dataclass(frozen=True, slots=True)
class FusionResult:
    """The strategy, its stacks with what they cost, and how many stacks have been costed for it.

    `values` are of its stacks in all tiles: in the unit of the objective, and whether that is the cost or only a bound.
    """

    result: Result[FusionStrategy]
    stacks: tuple[tuple[StackChoice, StackCost], ...]
    costed: int
    space: str
    values: Mapping[StackChoice, tuple[int, bool]]


def solve_fusion(
    network: FusableNetwork, accelerator: Accelerator, options: FusionOptions, costs: StackCosts, run: Run
) -> FusionResult:
    """The strategy of least objective value in the space that the options span; raises UsageError for bad ones."""
    spans = spans_of_option(network, accelerator, options.stacks)
    _ensure_a_tile_fits(network, spans, options)
    ledger = Ledger[StackChoice](costs)
    zero = costs.objective.zero
    spaces = list(_spaces(network, accelerator, spans, options))
    is_best = options.combination is Combination.BEST
    start = _first_way(spaces[0], ledger, zero, options.ahead, run) if is_best else None
    searches = [LazySearch(*space.arcs(), zero, ledger, options.ahead, run) for space in spaces]
    if is_best:
        few = _few_stacks(spaces[0])
        for space in (few, spaces[0]):
            start = _better_way(space, ledger, zero, options.ahead, run, start)
        start = _no_worse_way(few, ledger, zero, options.ahead, run, start)
        searches[0].refresh()
    found = best_of(searches, run, "strategies", start)
    choices = found.way.choices if found.way else ()
    result = Result(
        found.status,
        strategy_of(network, choices) if found.way else None,
        found.way.value if found.way else None,
        found.lower_bound,
        run.seconds,
        OPTIMAL,
        found.stopped_by,
    )
    return FusionResult(
        result,
        tuple((choice, costs.found[choice]) for choice in choices),
        len(ledger.known),
        _described(network, spans, options),
        _values_beside(choices, ledger),
    )


def _values_beside(
    choices: Sequence[StackChoice], ledger: Ledger[StackChoice]
) -> Mapping[StackChoice, tuple[int, bool]]:
    """Of the stacks that are chosen, in whatever tiles."""
    chosen = {(one.span, one.homes, one.output_home) for one in choices}
    return {one: value for one, value in ledger.values().items() if (one.span, one.homes, one.output_home) in chosen}


def _first_way(
    space: StackSpace, ledger: Ledger[StackChoice], zero: Criteria, ahead: int, run: Run
) -> Way[StackChoice] | None:
    """The best of few stacks in DeFiNES's best tiles."""
    few = replace(_few_stacks(space), tilings=_FewTilings(space))
    way = _better_way(few, ledger, zero, ahead, run, None)
    return _no_worse_way(few, ledger, zero, ahead, run, way)


def _no_worse_way(
    space: StackSpace,
    ledger: Ledger[StackChoice],
    zero: Criteria,
    ahead: int,
    run: Run,
    best: Way[StackChoice] | None,
) -> Way[StackChoice] | None:
    """No worse than any of the space, proven if there is time; what is proven of it is not of a larger one."""
    own = replace(run, listener=lambda heard: run.listener(replace(heard, lower_bound=0)))
    search = LazySearch(*space.arcs(), zero, ledger, ahead, run)
    return best_of([search], own, "first strategies", best).way or best


def _few_stacks(space: StackSpace) -> StackSpace:
    """Layers alone and greedy stacks."""
    greedy = greedy_stacks(space.network, weight_capacity_bits(space.accelerator))
    spans = dict.fromkeys([*single_layers(space.network), *greedy])
    return replace(space, spans=tuple(span for span in spans if span in space.spans))


def _better_way(
    space: StackSpace,
    ledger: Ledger[StackChoice],
    zero: Criteria,
    ahead: int,
    run: Run,
    best: Way[StackChoice] | None,
) -> Way[StackChoice] | None:
    """The best that estimates lead to, or that there is."""
    estimates = Estimates(ledger, _kind)
    search = GuidedSearch(*space.arcs(), zero, estimates, ahead, best)
    return search.improve(run, "first strategies")


@dataclass(frozen=True, slots=True)
class _FewTilings:
    """The whole map and DeFiNES's best tiles."""

    space: StackSpace

    def __call__(self, span: Span) -> tuple[Tiling, ...]:
        output = stack_of(self.space.network, span).output
        some = {BEST_OF_DEFINES.within(output.columns, output.rows), whole(output)}
        return tuple(tiling for tiling in self.space.tilings(span) if tiling in some)


def _kind(choice: StackChoice) -> tuple[OverlapMode, int]:
    """Bounds of choices of a kind are about equally far below costs."""
    return choice.tiling.mode, choice.span.length.bit_length()


def spans_of_option(network: FusableNetwork, accelerator: Accelerator, stacks: str) -> tuple[Span, ...]:
    """Stacks that may be used: for `optimal` all, else those that are used."""
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


def strategy_of(network: FusableNetwork, choices: Sequence[StackChoice]) -> FusionStrategy:
    """By names."""
    return FusionStrategy(
        tuple(
            StackStrategy(
                tuple(layer.name for layer in network.layers[one.span.start : one.span.stop]),
                one.tiling,
                one.output_home,
            )
            for one in choices
        )
    )


def choices_of(network: FusableNetwork, strategy: FusionStrategy, spans: Sequence[Span]) -> Iterator[StackChoice]:
    """The stacks of a strategy, which are `spans`, each with the maps that lie on chip while it runs."""
    homes: dict[str, str] = {}
    for span, stack in zip(spans, strategy.stacks, strict=True):
        read = {read.source for layer in network.layers[span.start :] for read in layer.reads}
        alive = {layer.output.name for layer in network.layers[: span.start]} & read
        kept = tuple((name, memory) for name, memory in homes.items() if name in alive)
        yield StackChoice(span, stack.tiling, kept, stack.output_home)
        if stack.output_home != DRAM:
            homes[network.layers[span.stop - 1].output.name] = stack.output_home


def _spaces(
    network: FusableNetwork, accelerator: Accelerator, spans: Sequence[Span], options: FusionOptions
) -> Iterator[StackSpace]:
    """One, or for each tiling that all stacks share one."""
    space = StackSpace(network, accelerator, spans, _Tilings(network, options), options.maps_stay)
    if options.combination is Combination.BEST:
        yield space
        return
    shared = dict.fromkeys(tiling for span in spans if span.length > 1 for tiling in _Tilings(network, options)(span))
    for tiling in shared:
        own = replace(options, tile=(tiling.columns, tiling.rows), mode=tiling.mode)
        yield replace(space, tilings=_Tilings(network, own))
    if not shared:
        yield space


@dataclass(frozen=True, slots=True)
class _Tilings:
    """Of each stack those that are tried; a stack of one layer runs as one tile, too."""

    network: FusableNetwork
    options: FusionOptions

    def __call__(self, span: Span) -> tuple[Tiling, ...]:
        output, options = stack_of(self.network, span).output, self.options
        if options.tile is not None:
            given = [Tiling(*options.tile, mode).within(output.columns, output.rows) for mode in options.modes]
            alone = [whole(output)] if span.length == 1 else []
            return tuple(dict.fromkeys([*alone, *given]))
        return (whole(output),) if span.length == 1 else tilings_of(output, options.sizes, options.modes)


def _ensure_a_tile_fits(network: FusableNetwork, spans: Sequence[Span], options: FusionOptions) -> None:
    if options.tile is None:
        return
    outputs = [network.layers[span.stop - 1].output for span in spans]
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


def _described(network: FusableNetwork, spans: Sequence[Span], options: FusionOptions) -> str:
    """The strategies among which the answer is the best."""
    stacks = f"{len(spans)} stack{'' if len(spans) == 1 else 's'}"
    cuts = f"{stacks} that no branch leaves, cut anywhere" if options.stacks == OPTIMAL else f"{stacks} as given"
    if options.tile is not None:
        tiles = f"tiles of {options.tile[0]} x {options.tile[1]}"
    else:
        lists = dict[str, tuple[int, ...]]()
        largest = max((network.layers[span.stop - 1].output for span in spans), key=lambda one: one.columns * one.rows)
        lists["columns"] = options.sizes.along_columns(largest.columns)
        lists["rows"] = options.sizes.along_rows(largest.rows)
        sizes = "; ".join(f"{axis} {', '.join(map(str, sizes))}" for axis, sizes in lists.items())
        tiles = f"tiles of the list {options.sizes} (of the largest map: {sizes})"
    shared = "" if options.combination is Combination.BEST else ", the same in all stacks"
    homes = "on the chip or in DRAM" if options.maps_stay else "in DRAM"
    return (
        f"{cuts}; {tiles}{shared}, {', '.join(options.modes)}; a stack of one layer as one tile; maps between stacks "
        f"{homes}; memory levels of a tile by the model's rule, and each layer of a tile as the mapper maps it"
    )
