"""Mappings with what they were made for and what their maker claims: what a mapping file holds."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.document import Source
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.result import Status
from onchip.ir.layer import Layer


@dataclass(frozen=True, slots=True)
class MappingClaim:
    """What the maker of a mapping says of it.

    Energies are in femtojoules, latencies in cycles, their product in both; CoSA's objective is no whole number.
    """

    method: str
    status: Status
    objective: str
    objective_value: float
    lower_bound: float


@dataclass(frozen=True, slots=True)
class NamedMapping:
    """A mapping, and the layers of the network that it is for: all are alike."""

    names: tuple[str, ...]
    layer: Layer
    mapping: LayerMapping
    claim: MappingClaim | None = None


@dataclass(frozen=True, slots=True)
class MappingDocument:
    """Everything a mapping file says; a layer that was given as text is of no network."""

    accelerator: Source
    mappings: tuple[NamedMapping, ...]
    network: str | None = None
