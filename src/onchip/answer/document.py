"""An answer with what it was made from and what its maker claims: what a file of an answer holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from onchip.answer.bindings import Bindings
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.problem import Count, Durations, Order, Placement, Transfers
from onchip.answer.program import Plan
from onchip.answer.recomputation import Recomputation, Recompute
from onchip.answer.result import Status
from onchip.answer.schedule import Schedule
from onchip.answer.strategy import FusionStrategy
from onchip.arch.accelerator import Accelerator
from onchip.arch.sharing import NO_SHARING, SharedKinds
from onchip.ir.layer import Layer

AnswerT_co = TypeVar("AnswerT_co", covariant=True)
AcceleratorT_co = TypeVar("AcceleratorT_co", covariant=True)


class Granularity(StrEnum):
    """Fused operators, or every operator a node."""

    FUSED = "fused"
    RAW = "raw"


class Split(StrEnum):
    """When operators are split into tiles."""

    NEVER = "never"
    AUTO = "auto"
    ALWAYS = "always"


class CostModel(StrEnum):
    """How energy and cycles of a layer in a tile are counted; docs/layer_cost.md has both."""

    ONCHIP = "onchip"
    DEFINES = "defines"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a network file becomes a graph: the same file, read the same way, is the same graph.

    `bits` per element instead of the model's own (None); `dims` binds symbolic dimensions, `shapes` and
    `values` stand for those of network inputs (`Bindings`). `split` and `cap_tensors` (the thesis's way with
    tensors that fit no scratchpad) depend on the scratchpads, too.
    `sharing` says which operators may write to bytes of what they read, `states` by network inputs the outputs that
    are their values for the next inference, beside those that the file knows. `bands` says by operator in how many
    equal bands of its channels it runs, where its file states what they cost. `recompute` says whether an operator may
    run more than once.
    `partial_bits` are those of a sum in the making in layers (None: 16 more than an element has, up to 32).
    """

    bits: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict, hash=False)
    granularity: Granularity = Granularity.FUSED
    count: Count = Count.ACTIVATIONS
    split: Split = Split.NEVER
    cap_tensors: bool = False
    partial_bits: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)
    sharing: SharedKinds = NO_SHARING
    states: Mapping[str, str] = field(default_factory=dict, hash=False)
    bands: Mapping[str, int] = field(default_factory=dict, hash=False)
    recompute: Recompute = Recompute.NEVER

    @classmethod
    def of(cls, bindings: Bindings, granularity: Granularity = Granularity.FUSED) -> Reading:
        """A reading at the model's own bits, with what is bound."""
        return cls(None, bindings.dims, granularity, shapes=bindings.shapes, values=bindings.values)

    @property
    def bindings(self) -> Bindings:
        """What stands for what the file leaves open."""
        return Bindings(self.dims, self.shapes, self.values)


@dataclass(frozen=True, slots=True)
class Claim:
    """What the maker of an answer says of it; `check` recomputes it.

    Energies are in femtojoules, latencies in cycles, their product in both, sizes in bytes or bits, as the
    objective says. `figures` are what else is said of the answer, by the names of the file's fields; `space` says
    what the bound is proven among, by what may be chosen. Where the bound holds for all answers and a greater one for
    those of the space, that is `bound_among`.
    """

    method: str
    status: Status
    objective: str
    objective_value: float
    lower_bound: float
    figures: Mapping[str, float] = field(default_factory=dict, hash=False)
    space: Mapping[str, str] = field(default_factory=dict, hash=False)
    bound_among: float | None = None


def as_written(figure: float) -> float:
    """What a file says of a figure: an integer of more than 64 bits, as a product may be, is the nearest double."""
    return figure if abs(figure) < 2**63 else float(figure)


def schedule_claim_figures(energy_fj: int | None, latency_cycles: int, traffic_bytes: int) -> dict[str, float]:
    """Return the figures of a schedule's claim; the energy in picojoules is the nearest double, left out if unknown."""
    energy = {} if energy_fj is None else {"energy_pj": energy_fj / 1000}
    return {**energy, "latency_cycles": latency_cycles, "traffic_bytes": traffic_bytes}


@dataclass(frozen=True, slots=True)
class Source:
    """The name and, if known, the SHA-256 of the canonical JSON of a graph or an accelerator.

    `notes` are those of the accelerator: the features of its file that the answer leaves out.
    """

    name: str
    sha256: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document(Generic[AnswerT_co, AcceleratorT_co]):
    """Everything that a file of an answer says; `claim` may be absent in those of other tools.

    The accelerator is named, or is there as a whole. A graph without a name: the answer is of no network.
    """

    graph: Source
    accelerator: AcceleratorT_co
    reading: Reading
    answer: AnswerT_co
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class PlanDocument(Document[Plan, Source]):
    """A plan; what else the problem says that it answers, and that is claimed of."""

    transfers: Transfers = field(default_factory=Transfers)
    placement: Placement = Placement.DYNAMIC
    order: Order = Order.FREE
    durations: Durations | None = None
    recomputation: Recomputation | None = None


@dataclass(frozen=True, slots=True)
class StrategyDocument(Document[FusionStrategy, Source]):
    """A strategy; layers in tiles were mapped by `mapper`, and by `DEFINES` unrolled by DeFiNES's rule, too."""

    mapper: str = "exact"
    model: CostModel = CostModel.ONCHIP


@dataclass(frozen=True, slots=True)
class NamedMapping:
    """A mapping, and the layers of the network that it is for: all are alike."""

    names: tuple[str, ...]
    layer: Layer
    mapping: LayerMapping
    claim: Claim | None = None


MappingDocument: TypeAlias = Document[tuple[NamedMapping, ...], Source]
"""Mappings, each with its own claim; how the network was read is said by their layers alone."""

ScheduleDocument: TypeAlias = Document[Schedule, Accelerator]
"""A schedule, with the whole accelerator: who checks it needs no other file."""
