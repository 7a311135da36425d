"""Fused groups, and tiles, that the options name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from onchip.answer.options.verb_options import LAYERS, OPTIMAL, FusionOptions
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.bounds.layer.needed import JOINS, VIEWS, has_heads, is_view
from onchip.errors import InputError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ops.fusable import MATRIX_RANKS, FusableNetwork, Layout, layout_needed
from onchip.ops.fusable_reading import fusable_of, partly_fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.program.from_strategy import stacks_of_strategy
from onchip.transform.groups.stacks import (
    PLACE,
    LayerSpan,
    StackChoice,
    given_stacks,
    greedy_stacks,
    one_stack,
    single_layers,
    weight_capacity_bits,
)
from onchip.transform.groups.tile_graph import part_of_network

SEARCHED: Final = frozenset({OPTIMAL, LAYERS, "one", "greedy"})
"""Values of the option that name no layer."""


def ensure_given_exist(graph: Graph, precision: Precision, accelerator: Accelerator, options: FusionOptions) -> None:
    """Raise UsageError for layers or groups that a network lacks, and for a tile that is larger than every map."""
    if options.groups not in SEARCHED or options.tile is not None:
        network = partly_fusable_of(graph, precision).network
        groups = LAYERS if options.groups in SEARCHED else options.groups
        ensure_a_tile_fits(network, spans_of_option(network, accelerator, groups), options)


def spans_of_option(network: FusableNetwork, accelerator: Accelerator, groups: str) -> tuple[LayerSpan, ...]:
    """Return the groups of an option that names them, each layer alone for `optimal`.

    Raises UsageError for layers or groups that the network lacks.
    """
    if not network.layers and groups not in SEARCHED:
        raise UsageError(f"{groups!r} are no stacks: no operator is a layer", file=network.name, place=PLACE)
    match groups:
        case "one":
            return one_stack(network)
        case "optimal" | "layers":
            return single_layers(network)
        case "greedy":
            return greedy_stacks(network, weight_capacity_bits(accelerator))
        case _:
            return given_stacks(network, groups)


def ensure_a_tile_fits(network: FusableNetwork, spans: Iterable[LayerSpan], options: FusionOptions) -> None:
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


@dataclass(frozen=True, slots=True)
class FusableRun:
    """Consecutive operators as a separate graph, and the same operators as a fusable network."""

    graph: Graph
    network: FusableNetwork


@dataclass(frozen=True, slots=True)
class FusableRuns:
    """The runs of consecutive operators of a network that can be fused; runs of one layer are left out."""

    network: Graph
    precision: Precision

    def __iter__(self) -> Iterator[FusableRun]:
        """Yield the runs in order."""
        names: list[str] = []
        layout: Layout | None = None
        for operator in self.network.operators:
            is_inside = self._is_view_inside(operator) or self._may_be_fused(operator)
            own = layout_needed(self.network, operator.name) if is_inside else None
            if not is_inside and self._is_of_heads(operator):
                is_inside, own = True, Layout.MATRIX
            if not is_inside or (own is not None and layout not in (None, own)):
                yield from self._cut(names)
                names, layout = [], None
            if is_inside:
                names.append(operator.name)
                layout = layout or own
        yield from self._cut(names)

    def _is_view_inside(self, operator: Operator) -> bool:
        """Return True if the operator is a view through which groups may see: not one that reshapes a matrix."""
        if operator.kind == "Transpose":
            return is_view(self.network, operator)
        if operator.kind not in VIEWS:
            return False
        shapes = {self.network.tensor[name].shape or () for name in (*operator.inputs[:1], *operator.outputs)}
        return len(shapes) == 1 or not any(len(one) in MATRIX_RANKS and one[-2] > 1 for one in shapes)

    def _is_of_heads(self, operator: Operator) -> bool:
        """Return True if the operator can be fused where its maps are matrices with heads, beside a product of them."""
        return has_heads(self.network, operator) and self._fusable([operator.name], Layout.MATRIX) is not None

    def _may_be_fused(self, operator: Operator) -> bool:
        """Return True if the operator can be fused; a concatenation or sum is tested together with its readers."""
        readers = self.network.readers[operator.outputs[0]] if operator.kind in JOINS else ()
        return self._fusable([operator.name, *(one.name for one in readers)]) is not None

    def _cut(self, names: Sequence[str]) -> Iterator[FusableRun]:
        """Yield the run of these operators; if they cannot be fused together, the runs of each half."""
        found = self._fusable(names) if names else None
        if found is not None and len(found.network.layers) > 1:
            yield found
        elif found is None and len(names) > 1:
            middle = len(names) // 2
            yield from self._cut(names[:middle])
            yield from self._cut(names[middle:])

    def _fusable(self, names: Sequence[str], layout: Layout | None = None) -> FusableRun | None:
        part = part_of_network(self.network, names)
        try:
            return FusableRun(part, fusable_of(part, self.precision, layout))
        except InputError:
            return None


def given_stacks_of(
    graph: Graph, precision: Precision, accelerator: Accelerator, options: FusionOptions
) -> tuple[Sequence[ScheduledStack], Sequence[tuple[str, str]]]:
    """Return the groups that options name, in order; those with a tiling are to run in tiles, of any size.

    Also return the ends of each run of operators that cannot be the groups of `one`: its operators run alone. Raises
    UsageError for a group whose layers belong to several runs of operators that can be fused.
    """
    runs = list(FusableRuns(graph, precision))
    named = _names_of(graph, precision, options.groups, runs)
    inside = {operator.name for run in runs for operator in run.graph.operators}
    first = {run.graph.operators[0].name: run for run in runs}
    found: list[ScheduledStack] = []
    left_alone: list[tuple[str, str]] = []
    for operator in graph.operators:
        if operator.name in first:
            run = first[operator.name]
            groups = options.groups if named is None else _of_run(run.network, named)
            try:
                spans = spans_of_option(run.network, accelerator, groups)
            except UsageError:
                if named is not None:
                    raise
                names = [one.name for one in run.graph.operators]
                found += [ScheduledStack((name,)) for name in names]
                left_alone.append((names[0], names[-1]))
                continue
            choices = [StackChoice(span, Tiling(1, 1, OverlapMode.RECOMPUTE)) for span in spans]
            found += stacks_of_strategy(run.graph, run.network, choices)
        elif operator.name not in inside:
            found.append(ScheduledStack((operator.name,)))
    return found, left_alone


def _names_of(
    graph: Graph, precision: Precision, groups: str, runs: Sequence[FusableRun]
) -> Sequence[Sequence[str]] | None:
    """Return the layers of each group that an option lists; None if it lists none."""
    if groups in SEARCHED:
        return None
    whole = partly_fusable_of(graph, precision).network
    listed = [[layer.name for layer in whole.layers[span.start : span.stop]] for span in given_stacks(whole, groups)]
    of_layer = {layer.name: at for at, run in enumerate(runs) for layer in run.network.layers}
    for stack in listed:
        if len(stack) > 1 and len({of_layer.get(name, name) for name in stack}) > 1:
            what = f"the stack {stack[0]!r} to {stack[-1]!r} is over operators that cannot run in tiles"
            raise UsageError(what, file=graph.name, place=PLACE, expected="stacks on one side of these")
    return listed


def _of_run(run: FusableNetwork, groups: Sequence[Sequence[str]]) -> str:
    """Return the groups of a run of operators as a text of layer numbers within the run."""
    number = {layer.name: at for at, layer in enumerate(run.layers)}
    own = [[number[name] for name in stack if name in number] for stack in groups]
    return ",".join(f"{min(one)}-{max(one)}" for one in own if one)
