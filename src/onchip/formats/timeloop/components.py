"""The components of a Timeloop architecture file of versions 0.1 to 0.3, outermost first.

Flat (`arch`, 0.1): a list of memories, nearest the MACs first. Nested (`architecture`, 0.2 and 0.3): branches,
each with its own `local` components and one branch inside; `PE[0..15]` is sixteen of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from re import fullmatch
from typing import Any, Final, NotRequired

from typing_extensions import TypedDict

from onchip.errors import AcceleratorError
from onchip.formats.validation import Format, field_path, quoted

ARCHITECTURE: Final = Format("Timeloop architecture", 3, AcceleratorError)
Attributes = Mapping[str, Any]
AttributeFields = dict[str, str | int | float | bool | None]

ComponentFields = TypedDict(
    "ComponentFields", {"name": str, "class": NotRequired[str], "attributes": NotRequired[AttributeFields]}
)
"""A memory or the MACs; what `class` does not tell, DRAM's `technology` may."""


class BranchFields(TypedDict):
    """What stands once in each of `name`, then the one branch inside; its own attributes describe no component."""

    name: str
    attributes: NotRequired[AttributeFields]
    local: NotRequired[list[ComponentFields]]
    subtree: NotRequired[list[BranchFields]]


class FlatFields(TypedDict):
    """`arch`: the MACs and, nearest them first, the memories; each entry is a name and attributes."""

    arithmetic: AttributeFields
    storage: list[AttributeFields]


@dataclass(frozen=True, slots=True)
class Component:
    """A memory or the MACs: `instances` of it on the whole chip, in rows of `mesh_x`; `place` is its field path."""

    name: str
    kind: str
    attributes: Attributes
    place: str
    instances: int
    mesh_x: int

    @property
    def is_mac(self) -> bool:
        """Whether it computes: Timeloop's classes for that are named after what they do."""
        return any(word in self.kind.lower() for word in ("mac", "compute", "multiplier"))

    @property
    def is_dram(self) -> bool:
        """Whether it is the memory off the chip."""
        return "dram" in self.kind.lower()

    def integer(self, *names: str) -> int | None:
        """The first of these attributes that there is; raises AcceleratorError for one that is no number from 1."""
        value = self.number(*names)
        if value is not None and value != int(value):
            raise self.refusal(names, f"it is {value}", "a whole number")
        return None if value is None else int(value)

    def number(self, *names: str) -> float | None:
        """Return the first of these attributes that there is; raises AcceleratorError for no number above 0."""
        return self._number(names, is_zero_allowed=False)

    def energy(self, *names: str) -> float | None:
        """Return an energy, which may be 0; raises AcceleratorError for no number from 0."""
        return self._number(names, is_zero_allowed=True)

    def _number(self, names: tuple[str, ...], *, is_zero_allowed: bool) -> float | None:
        found = attribute(self.attributes, names)
        if found is None:
            return None
        name, value = found
        expected = f"a number {'from' if is_zero_allowed else 'above'} 0"
        if isinstance(value, bool) or not isinstance(value, int | float):
            of_name = (
                " (version 0.4: a name has to be in `variables` of the same file)" if isinstance(value, str) else ""
            )
            raise self.refusal((name,), f"it is {quoted(value)}{of_name}", expected)
        if value < 0 or (value == 0 and not is_zero_allowed):
            raise self.refusal((name,), f"it is {quoted(value)}", expected)
        return value

    def refusal(self, names: tuple[str, ...], what: str, expected: str) -> AcceleratorError:
        """An error at one of its attributes, or at the component without any."""
        found = attribute(self.attributes, names)
        place = f"{self.place}.{found[0]}" if found else self.place
        return AcceleratorError(f"{self.name}: {what}", place=place, expected=expected)


def attribute(attributes: Attributes, names: tuple[str, ...]) -> tuple[str, object] | None:
    """The first there is, as it is spelled: `word-bits` and `word_bits` are the same."""
    spelled = {name.replace("-", "_"): name for name in attributes}
    return next(((spelled[name], attributes[spelled[name]]) for name in names if name in spelled), None)


def flat_components(fields: FlatFields) -> Iterator[Component]:
    """Return the components of a flat description; raises AcceleratorError for a memory without a name."""
    for at, entry in reversed(list(enumerate(fields["storage"]))):
        place = field_path(("arch", "storage", at))
        name = entry.get("name")
        if not isinstance(name, str):
            raise AcceleratorError("a memory has no name", place=place, expected="name")
        technology = entry.get("technology")
        yield _component(name, technology if isinstance(technology, str) else "storage", entry, place, 1)
    yield _component("MAC", "intmac", fields["arithmetic"], "arch.arithmetic", 1)


def nested_components(branches: list[BranchFields], place: str, copies: int = 1) -> Iterator[Component]:
    """Return the components of nested branches, of which `copies` stand on the chip; raises AcceleratorError."""
    if len(branches) != 1:
        raise AcceleratorError(f"{len(branches)} branches stand beside each other", place=place, expected="one")
    (branch,) = branches
    inside = copies * _copies(branch["name"])[1]
    for at, entry in enumerate(branch.get("local", ())):
        name, own = _copies(entry["name"])
        attributes = entry.get("attributes", {})
        where = f"{place}[0].local[{at}]"
        where = f"{where}.attributes" if attributes else where
        yield _component(name, entry.get("class", "storage"), attributes, where, inside * own)
    if "subtree" in branch:
        yield from nested_components(branch["subtree"], f"{place}[0].subtree", inside)


def _copies(name: str) -> tuple[str, int]:
    """`PE[0..15]` is sixteen of PE."""
    match = fullmatch(r"(.*)\[([0-9]{1,9})\.\.([0-9]{1,9})\]", name)
    return (match[1], int(match[3]) - int(match[2]) + 1) if match else (name, 1)


def _component(name: str, kind: str, attributes: Attributes, place: str, copies: int) -> Component:
    """`instances` says how many there are on the whole chip; without it, the names do."""
    bare = Component(name, kind, attributes, place, copies, copies)
    if copies < 1:
        raise bare.refusal((), f"the ranges in its names make {copies} of it", "ranges like [0..15]")
    mesh = [bare.integer(f"mesh{axis}", f"mesh_{axis}") for axis in ("X", "Y")]
    given = bare.integer("instances")
    both = prod(size for size in mesh if size is not None) if None not in mesh else None
    instances = given or both or copies
    mesh_x = mesh[0] or instances // (mesh[1] or 1)
    if instances % mesh_x or (mesh[1] is not None and mesh_x * mesh[1] != instances):
        raise bare.refusal(("meshX", "meshY"), f"{instances} of it do not stand in rows of {mesh_x}", "whole rows")
    return Component(name, kind, attributes, place, instances, mesh_x)
