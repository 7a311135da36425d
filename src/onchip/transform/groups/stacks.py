"""Fused groups of layers, their tilings, and the choice of both.

`greedy_stacks` is the rule of DeFiNES (Mei, Goetschalckx et al., HPCA 2023, section III).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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
    expected = f"one, greedy, optimal, layers, or groups of layers 0 to {count - 1} like 0-1,2-{max(count - 1, 2)}"
    raise UsageError(f"{text!r} is not a group of layers", file=network.name, place=PLACE, expected=expected)


def whole(output: FeatureMap) -> Tiling:
    """Return the tiling of one tile, as in layer-by-layer execution."""
    return Tiling(output.columns, output.rows, OverlapMode.RECOMPUTE)


Homes: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of a feature map and the on-chip memory that holds it; other feature maps are in DRAM."""


@dataclass(frozen=True, slots=True)
class StackChoice:
    """A fused group, its tiles, and the memories of its inputs (`homes`) and its output while it runs."""

    span: LayerSpan
    tiling: Tiling
    homes: Homes = ()
    output_home: str = DRAM

    @property
    def without_tiles(self) -> tuple[LayerSpan, Homes, str]:
        """Key that choices share if they differ in their tiles only."""
        return self.span, self.homes, self.output_home
