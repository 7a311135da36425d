"""Mappers for the layers of tiles in DeFiNES's tables, run in parallel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Final

from onchip.answer.document import Reading
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.api.networks import read_network
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.baselines.loma import solve_as_loma
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.mapping.tile_search.uneven import FixedUnrolling, TemporalMethod, unrolling_groups
from onchip.model.group.machine import Mapper
from onchip.model.layer.cost import Latency, LayerCost, layer_cost
from onchip.ops.fusable import FusableNetwork
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Run

MAPPERS: Final = ("loma", "uneven", "exact")
PARTIAL_BITS: Final = 16
"""Bits of partial sums in all of DeFiNES's networks."""
FREE: Final = Latency(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class TileMapper:
    """A mapper of tiles: `loma` and `uneven` unroll and count as DeFiNES does, `exact` as docs/mapping.md says.

    `limit` is the number of factors for `loma`.
    """

    name: str
    objective: MappingObjective = MappingObjective.ENERGY
    limit: int = 6

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Map a layer; return None if nothing fits."""
        if self.name == "exact":
            return self._exactly(problem)
        return FixedUnrolling(TemporalMethod(self.name), objective=self.objective, limit=self.limit)(problem)

    def _exactly(self, problem: LayerProblem) -> LayerCost | None:
        """Map by `exact`; a layer with too many tile shapes is mapped by `loma`, in the same accounting."""
        given = problem, self.objective, Run()
        try:
            answer = solve_exactly(*given).answer
        except InputError:
            answer = solve_as_loma(*given, self.limit).answer
        return None if answer is None else layer_cost(problem, answer)


def machine(name: str) -> Accelerator:
    """Return a bundled machine whose array also unrolls groups.

    DeFiNES does this for pools, depthwise layers and additions.
    """
    return unrolling_groups(load_accelerator(name))


def network(name: str) -> FusableNetwork:
    """Return a bundled network with 8 bits."""
    return fusable_of(read_network(name, Reading()), Precision(8, PARTIAL_BITS))


@dataclass(slots=True)
class Answers:
    """A mapper with a cache, which several processes can fill ahead."""

    mapper: TileMapper
    known: dict[LayerProblem, LayerCost | None] = field(default_factory=dict)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return the cached answer of the mapper."""
        if problem not in self.known:
            self.known[problem] = self.mapper(problem)
        return self.known[problem]

    def learn(self, requests: Collection[LayerProblem], workers: int) -> None:
        """Compute the answers to future requests in several processes."""
        unknown = [one for one in requests if one not in self.known]
        with get_context("spawn").Pool(workers) as pool:
            answers = pool.imap(self.mapper, unknown, chunksize=8)
            self.known.update(zip(unknown, answers, strict=True))


def asked_by(cost: Callable[[Mapper], object]) -> Collection[LayerProblem]:
    """Return nearly all requests of a costing to its mapper.

    After a mapping that does not fit, the costing makes further requests.
    """
    requests: dict[LayerProblem, None] = {}

    def recorded(problem: LayerProblem) -> LayerCost:
        requests[problem] = None
        return LayerCost(LayerMapping(()), problem.layer.macs, (), {}, 0.0, FREE, 1)

    cost(recorded)
    return requests


def warm(mappers: Iterable[TileMapper]) -> None:
    """Load compiled code, so that times contain only work."""
    for mapper in mappers:
        mapper(LayerProblem(Layer(k=4, c=4, p=4, q=4, partial_bits=PARTIAL_BITS), machine("meta-prototype-df")))
