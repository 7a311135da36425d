"""An answer document: an answer with its origin and its claim, as stored in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, TypeAlias, TypeVar

from onchip.answer.bindings import Bindings
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Count, Durations, Order, Placement, Recomputation, Recompute, Transfers
from onchip.answer.program import Plan
from onchip.answer.result import Status
from onchip.answer.schedule import Schedule
from onchip.answer.strategy import FusionStrategy
from onchip.arch.accelerator import Accelerator
from onchip.arch.sharing import NO_SHARING, SharedKinds
from onchip.ir.layer import Layer

AnswerT_co = TypeVar("AnswerT_co", covariant=True)
AcceleratorT_co = TypeVar("AcceleratorT_co", covariant=True)


class Granularity(StrEnum):
    """The granularity of the graph: fused operators, or each operator as a node."""

    FUSED = "fused"
    RAW = "raw"


class Runtime(StrEnum):
    """The runtimes for which a network may be planned."""

    MICRO = "tflite-micro"


class CostModel(StrEnum):
    """The cost models for energy and cycles of a layer in a tile; docs/layer_cost.md describes both."""

    ONCHIP = "onchip"
    DEFINES = "defines"


@dataclass(frozen=True, slots=True)
class Reading:
    """The options for reading a network file; the same file and options give the same graph.

    `bits` replaces the model's bits per element (None: the model's own). `dims`, `shapes` and `values` are as in
    `Bindings`. `cap_tensors` (the thesis's treatment of tensors that fit no scratchpad) also depends on the
    scratchpads. `sharing` gives the operators that may write to bytes of their inputs. `states` maps network inputs to
    the outputs that are their next values, in addition to the states in the file. `bands` maps operators to a number of
    equal channel tiles, for operators whose file states the cost of tiles. `recompute` gives whether an operator may
    run more than once. `tiles` are those of the operators, by name, that do not run whole. With a `runtime` the graph
    has the operators, lives and scratch buffers of that runtime. `partial_bits` is the width of a partial sum (None: 16
    bits more than an element, up to 32). `key_slices` is the number of slices in which softmaxes between two products
    run (1: whole rows).
    """

    bits: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict, hash=False)
    granularity: Granularity = Granularity.FUSED
    count: Count = Count.ACTIVATIONS
    cap_tensors: bool = False
    partial_bits: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)
    sharing: SharedKinds = NO_SHARING
    states: Mapping[str, str] = field(default_factory=dict, hash=False)
    bands: Mapping[str, int] = field(default_factory=dict, hash=False)
    recompute: Recompute = Recompute.NEVER
    tiles: Mapping[str, OperatorTiles] = field(default_factory=dict, hash=False)
    runtime: Runtime | None = None
    key_slices: int = 1

    @classmethod
    def of(cls, bindings: Bindings, granularity: Granularity = Granularity.FUSED) -> Reading:
        """Return a reading with the given bindings, at the model's own bits."""
        return cls(None, bindings.dims, granularity, shapes=bindings.shapes, values=bindings.values)

    @property
    def bindings(self) -> Bindings:
        """Return the bindings of the reading."""
        return Bindings(self.dims, self.shapes, self.values)


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of an answer's producer; `check` recomputes it.

    Energies are in fJ, latencies in cycles, energy-delay products in fJ x cycles, sizes in bytes or bits, as the
    objective requires. `figures` are additional figures by their field names in the file. `space` describes the set of
    answers for which the bound is proven, by degree of freedom. If `lower_bound` holds for all answers and a greater
    bound holds for those of the space, the latter is `bound_among`.
    """

    method: str
    status: Status
    objective: str
    objective_value: float
    lower_bound: float
    figures: Mapping[str, float] = field(default_factory=dict, hash=False)
    space: Mapping[str, str] = field(default_factory=dict, hash=False)
    bound_among: float | None = None


RECOMPUTED_MACS: Final = "recomputed_macs"
"""Name of a claimed figure: the multiply-accumulates of overlapping tiles beyond one run of each operator."""


def as_written(figure: float) -> float:
    """Return a figure as written to a file: an integer of more than 64 bits becomes the nearest double."""
    return figure if abs(figure) < 2**63 else float(figure)


def schedule_claim_figures(energy_fj: int | None, latency_cycles: int, traffic_bytes: int) -> dict[str, float]:
    """Return the figures of a schedule's claim, with the energy in pJ as the nearest double unless it is unknown."""
    energy = {} if energy_fj is None else {"energy_pj": energy_fj / 1000}
    return {**energy, "latency_cycles": latency_cycles, "traffic_bytes": traffic_bytes}


@dataclass(frozen=True, slots=True)
class Source:
    """The name of a graph or an accelerator and, if known, the SHA-256 of its canonical JSON.

    `notes` are the accelerator's notes: the features of its file that the answer ignores.
    """

    name: str
    sha256: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document(Generic[AnswerT_co, AcceleratorT_co]):
    """The content of an answer file; `claim` may be None in files of other tools.

    The accelerator is given by name or in full. A graph without a name means that the answer is for no network.
    """

    graph: Source
    accelerator: AcceleratorT_co
    reading: Reading
    answer: AnswerT_co
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class PlanDocument(Document[Plan, Source]):
    """A plan with the parts of the problem that it answers."""

    transfers: Transfers = field(default_factory=Transfers)
    placement: Placement = Placement.DYNAMIC
    order: Order = Order.FREE
    durations: Durations | None = None
    recomputation: Recomputation | None = None


@dataclass(frozen=True, slots=True)
class StrategyDocument(Document[FusionStrategy, Source]):
    """A fusion strategy, with the `mapper` of its tiled layers.

    `DEFINES` also fixes the unrolling by DeFiNES's rule.
    """

    mapper: str = "exact"
    model: CostModel = CostModel.ONCHIP


@dataclass(frozen=True, slots=True)
class NamedMapping:
    """A mapping with the names of the identical layers that it applies to."""

    names: tuple[str, ...]
    layer: Layer
    mapping: LayerMapping
    claim: Claim | None = None


MappingDocument: TypeAlias = Document[tuple[NamedMapping, ...], Source]
"""Mappings, each with its own claim; their layers alone determine how the network was read."""

ScheduleDocument: TypeAlias = Document[Schedule, Accelerator]
"""A schedule with the whole accelerator, so that a check needs no other file."""
