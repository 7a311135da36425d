"""A plan with what it was made from and what its maker claims: what a plan file holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from onchip.answer.problem import Count, Objective, Order, Placement, Transfers
from onchip.answer.program import Plan
from onchip.answer.result import Status


class Granularity(StrEnum):
    """Fused operators, or every operator a node."""

    FUSED = "fused"
    RAW = "raw"


class Split(StrEnum):
    """When operators are split into tiles."""

    NEVER = "never"
    AUTO = "auto"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a network file becomes a graph: the same file, read the same way, is the same graph.

    `bits` per element instead of the model's own (None); `dims` binds symbolic dimensions. `split` and
    `cap_tensors` (the thesis's way with tensors that fit no scratchpad) depend on the scratchpads, too.
    """

    bits: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict, hash=False)
    granularity: Granularity = Granularity.FUSED
    count: Count = Count.ACTIVATIONS
    split: Split = Split.NEVER
    cap_tensors: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """What the maker of a plan says of it; `check` recomputes it."""

    method: str
    status: Status
    objective: Objective
    objective_value: int
    lower_bound: int


@dataclass(frozen=True, slots=True)
class Source:
    """The name and, if known, the SHA-256 of the canonical JSON of what a plan was made from."""

    name: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """Everything a plan file says. `claim` may be absent in plans of other tools.

    `transfers`, `placement` and `order` are those of the problem it answers: the claim is one about that problem.
    """

    graph: Source
    accelerator: Source
    reading: Reading
    plan: Plan
    claim: Claim | None = None
    transfers: Transfers = field(default_factory=Transfers)
    placement: Placement = Placement.DYNAMIC
    order: Order = Order.FREE
