"""DeFiNES's figure 11: networks on DepFiN, a chip that runs layers depth-first, line by line, and was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import prod
from typing import Final

from defines import published
from defines.fsrcnn import MILLION, conventions_of
from defines.mappers import PARTIAL_BITS, Answers, Clock, TileMapper, machine, network

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.fusion_options import FusionOptions
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.accounting.conventions import Conventions
from onchip.model.group.cost import stack_cost
from onchip.model.group.sums import FusedLatency, FusedSums
from onchip.ops.fusable import FusableNetwork, Stack
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.choice.solve import solve_fusion
from onchip.scheduling.fronts.costs import StackCosts
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.stacks import LayerSpan, stack_of

MACHINE: Final = "depfin"
REFERENCE: Final = "reference"
NETWORKS: Final = ("fsrcnn", "mc-cnn", REFERENCE)
MODE: Final = OverlapMode.FULLY_CACHED
PARTS: Final = ("ideal", "unused", "stall", "drain", "preload_and_offload", "copies")


@dataclass(frozen=True, slots=True)
class Line:
    """A network in one stack; cycles by their parts. `status` and `gap` are a search's, empty for a given tile."""

    network: str
    mapper: str
    tiling: str
    parts: dict[str, float]
    status: str = ""
    gap: float = 0.0

    @property
    def cycles(self) -> float:
        """Return the cycles of all parts together."""
        return sum(self.parts.values())


def reference_graph() -> Graph:
    """Return the paper's network (section IV): ten layers of 32 filters of 3x3, then 16 of 1x1, on 1280 x 720 x 3."""
    rows, columns, channels = 720, 1280, 3
    tensors = [_map("image", (channels, rows, columns), Role.INPUT)]
    operators = []
    for at, (filters, taps) in enumerate([*([(32, 3)] * 10), (16, 1)]):
        source, weight = tensors[-1].name, f"weight{at}"
        pads: AttributeValue = [taps // 2] * 4
        operators.append(Operator(f"conv{at}", "Conv", (source,), (f"map{at}",), (weight,), {"pads": pads}))
        tensors.append(_map(weight, (filters, channels, taps, taps), Role.PARAMETER))
        role = Role.ACTIVATION if at < 10 else Role.OUTPUT
        tensors.append(_map(f"map{at}", (filters, rows, columns), role))
        channels = filters
    return Graph(REFERENCE, tuple(tensors), tuple(operators))


def _map(name: str, shape: tuple[int, ...], role: Role) -> Tensor:
    whole = shape if role is Role.PARAMETER else (1, *shape)
    return Tensor(name, prod(whole), role, whole, 8)


def depfin(mapper: TileMapper, seconds: float) -> list[Line]:
    """Print each network line by line, as the chip runs it, and in the tile that a search with LOMA finds.

    Mapping every tile exactly takes longer than the search has, so `exact` maps the lines alone.
    """
    by_latency = TileMapper(mapper.name, MappingObjective.LATENCY, mapper.limit)
    print(f"\nfigure 11 on {MACHINE}, latency by {mapper.name}: Mcycles, and each part's share of what was measured")
    print(
        f"{'network':10} {'tile':24} {'Mcycles':>8}  " + " ".join(f"{part:>20}" for part in PARTS) + "  of the chip's"
    )
    lines = []
    for name in NETWORKS:
        clock = Clock()
        for line in _lines(name, by_latency, seconds):
            lines.append(line)
            print(_told(line), flush=True)
        print(f"{'':10} {clock}")
    return lines


def _lines(name: str, mapper: TileMapper, seconds: float) -> Iterator[Line]:
    layers = _layers(name)
    stack, conventions, answers = (
        stack_of(layers, LayerSpan(0, len(layers.layers))),
        conventions_of(mapper),
        Answers(mapper),
    )
    line = Tiling(stack.output.columns, 1, MODE)
    yield _line(name, mapper, line, _sums(stack, line, answers, conventions))
    if not seconds or mapper.name == "exact":
        return
    accelerator = machine(MACHINE)
    costs = StackCosts(layers, accelerator, FusionObjective.LATENCY, answers, conventions, mapper.sharing(accelerator))
    options, run = FusionOptions(groups="one"), Run(Limits(time_limit_seconds=seconds))
    found = solve_fusion(layers, accelerator, options, costs, run)
    for choice, cost in found.stacks:
        told = _line(name, mapper, choice.tiling, cost.sums)
        yield Line(told.network, told.mapper, told.tiling, told.parts, found.result.status, found.result.gap or 0.0)


def _layers(name: str) -> FusableNetwork:
    return fusable_of(reference_graph(), Precision(8, PARTIAL_BITS)) if name == REFERENCE else network(name)


def _sums(stack: Stack, tiling: Tiling, answers: Answers, conventions: Conventions) -> FusedSums:
    return stack_cost(stack, machine(MACHINE), tiling, answers, conventions).sums


def _line(name: str, mapper: TileMapper, tiling: Tiling, sums: FusedSums) -> Line:
    return Line(name, mapper.name, str(tiling), _parts(sums.latency))


def _parts(latency: FusedLatency) -> dict[str, float]:
    return {part: float(value) for part, value in asdict(latency).items()}


def _told(line: Line) -> str:
    chip = published.DEPFIN_CYCLES.get(line.network)
    whole = chip or line.cycles
    parts = " ".join(f"{line.parts[part] / MILLION:12.3f} {line.parts[part] / whole:7.1%}" for part in PARTS)
    beside = f"{line.cycles / chip - 1:+.1%}" if chip else "drawn, not printed"
    searched = f"  searched: {line.status}, gap {line.gap:.1%}" if line.status else ""
    return f"{line.network:10} {line.tiling:24} {line.cycles / MILLION:8.3f}  {parts}  {beside}{searched}"
