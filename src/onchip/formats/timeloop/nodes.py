"""The nodes of an architecture file of version 0.4, outermost first: what Timeloop's front end makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NotRequired

from typing_extensions import TypedDict

from onchip.arch.memory import Operand
from onchip.errors import AcceleratorError
from onchip.formats.timeloop.bypass import operands_kept
from onchip.formats.timeloop.components import Attributes, Component
from onchip.formats.timeloop.expressions import evaluated
from onchip.formats.validation import quoted

BRANCHES: Final = ("Hierarchical", "Parallel", "Pipelined")
LEAVES: Final = ("Component", "Container", "Nothing")
NETWORKS: Final = ("XY_NoC", "Legacy", "ReductionTree", "SimpleMulticast", "network")
APPLIED: Final = "dataspace"


class SpatialFields(TypedDict):
    """How many times a node stands in each instance of what is around it."""

    meshX: NotRequired[int | str]
    meshY: NotRequired[int | str]


NodeFields = TypedDict(
    "NodeFields",
    {
        "!": NotRequired[str],
        "name": NotRequired[str],
        "class": NotRequired[str],
        "subclass": NotRequired[str | None],
        "attributes": NotRequired[dict[str, Any]],
        "spatial": NotRequired[SpatialFields],
        "constraints": NotRequired[dict[str, Any]],
        "sparse_optimizations": NotRequired[Any],
        "enabled": NotRequired[bool | str],
        "networks": NotRequired[Any],
        "required_actions": NotRequired[Any],
        "area_scale": NotRequired[Any],
        "energy_scale": NotRequired[Any],
        "nodes": NotRequired[list["NodeFields"]],
    },
)
"""A node, `!` being its tag. The front end of Timeloop knows these fields; scales of area and energy are not read."""


def numbers_of(variables: Mapping[str, Any]) -> dict[str, object]:
    """Return variables, expressions of earlier ones as numbers."""
    known: dict[str, object] = {}
    for name, value in variables.items():
        known[name] = evaluated(value, known) if isinstance(value, str) else value
    return known


@dataclass(slots=True)
class NodeWalk:
    """Collects the components of a list of nodes, the operands that each keeps, and the features that are left out.

    A container or a component with `spatial` multiplies the instances of itself and of all that follows it; the
    attributes of containers count for what follows and does not state them itself.
    """

    names: dict[str, object]
    components: list[Component] = field(default_factory=list)
    keeps: dict[str, tuple[Operand, ...]] = field(default_factory=dict)
    unapplied: list[str] = field(default_factory=list)
    sparse: list[str] = field(default_factory=list)
    inherited: dict[str, Any] = field(default_factory=dict)
    mesh: tuple[int, int] = (1, 1)

    def add(self, nodes: list[NodeFields], place: str, *, is_parallel: bool = False) -> None:
        """Walk through nodes in order; raises AcceleratorError for a node that is not supported."""
        for at, node in enumerate(nodes):
            where = f"{place}[{at}]"
            kind = node.get("!", "Component")
            if kind in BRANCHES:
                if kind == "Pipelined":
                    raise AcceleratorError(
                        "a !Pipelined branch (version 0.4)", place=where, expected="!Hierarchical or !Parallel"
                    )
                self.add(node.get("nodes", []), f"{where}.nodes", is_parallel=is_parallel or kind == "Parallel")
            elif kind in LEAVES:
                self._add_leaf(node, kind, where, is_parallel=is_parallel)
            else:
                expected = f"one of {', '.join(f'!{name}' for name in (*LEAVES, *BRANCHES))}"
                raise AcceleratorError(f"a node is a !{kind} (version 0.4)", place=where, expected=expected)

    def _add_leaf(self, node: NodeFields, kind: str, place: str, *, is_parallel: bool) -> None:
        if kind == "Nothing" or node.get("enabled", True) in (False, "False", "false"):
            return
        own = self._evaluated(node.get("attributes", {}))
        self.mesh = self._wider(node.get("spatial", {}), own, place)
        self._leave_out(node)
        if kind == "Container":
            self.inherited |= own
            return
        name, of_class = node.get("name"), node.get("class") or node.get("subclass") or "storage"
        if name is None:
            raise AcceleratorError("a component has no name", place=place, expected="name")
        if any(one in of_class for one in NETWORKS):
            return
        attributes = {**self.inherited, **own}
        where = f"{place}.attributes" if "attributes" in node else place
        x, y = self.mesh
        self.components.append(Component(name, of_class, attributes, where, x * y, x))
        spaces = node.get("constraints", {}).get(APPLIED) or {}
        if is_parallel or spaces:
            self.keeps[name] = operands_kept(spaces, f"{place}.constraints.{APPLIED}", only_kept=is_parallel)

    def _leave_out(self, node: NodeFields) -> None:
        """Note constraints and sparse optimisations that change the legal mappings or their cost."""
        name, constraints = node.get("name", node.get("!", "Component")), node.get("constraints", {})
        self.unapplied += [
            f"{kind} constraint of {name}" for kind, part in constraints.items() if part and kind != APPLIED
        ]
        self.sparse += [name] if node.get("sparse_optimizations") else []

    def _evaluated(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes with expressions of variables, containers' attributes and earlier ones as numbers."""
        before = {**self.names, **self.inherited}
        known = numbers_of({**before, **attributes})
        return {name: known[name] for name in attributes}

    def _wider(self, spatial: SpatialFields, own: Attributes, place: str) -> tuple[int, int]:
        sizes = []
        for before, axis in zip(self.mesh, ("meshX", "meshY"), strict=True):
            given = spatial.get(axis, 1)
            size = evaluated(given, {**self.names, **self.inherited, **own}) if isinstance(given, str) else given
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                detail = f"{axis} is {quoted(size)}"
                raise AcceleratorError(detail, place=f"{place}.spatial.{axis}", expected="a whole number from 1")
            sizes.append(before * size)
        return sizes[0], sizes[1]
