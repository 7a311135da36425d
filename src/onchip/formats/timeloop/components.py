"""Components of a Timeloop architecture file, and the YAML of Timeloop.

Flat (`arch`, 0.1): a list of memories, nearest the MACs first. Nested (`architecture`, 0.2 and 0.3): branches, each
with `local` components and one inner branch; `PE[0..15]` is sixteen branches. Nodes (0.4): the list that Timeloop's
front end reads, with arithmetic in attributes.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from re import fullmatch, search
from typing import Any, Final, NotRequired, Required, TypeAlias

from typing_extensions import TypedDict

from onchip.arch.memory import Operand
from onchip.errors import AcceleratorError, InputError
from onchip.formats.files import read_file
from onchip.formats.validation import Format, ShapeT, as_utf8, field_path, placed, quoted, validate
from onchip.formats.yaml_documents import Dialect, YamlDocument, parse_yaml

CONSTRAINTS: Final = (
    "mapspace",
    "mapspace_constraints",
    "architecture_constraints",
    "constraints",
    "extra_mapping_constraints",
)
"""Parts with constraints on kept operands, orders and factors."""
OTHERS: Final = (
    *("architecture", "arch", "problem", "variables", "globals", "mapper", "mapping", "layout"),
    *("components", "compound_components", "sparse_optimizations", "ERT", "ART"),
)
IGNORED: Final = "_ignore"
"""Suffix of parts that Timeloop's front end ignores."""


def check_parts(document: object, file_format: Format, expected: str) -> Mapping[str, object]:
    """Return the parts of a file; raises the format's error unless it is a mapping of parts that Timeloop knows."""
    if not isinstance(document, dict):
        raise file_format.error(f"it is {quoted(document)}", "", "an object")
    for name in document:
        if name not in (*CONSTRAINTS, *OTHERS) and not name.endswith(IGNORED):
            raise file_format.error("the field is unknown", name, expected)
    return document


TIMELOOP: Final = Dialect(shared_nodes=True)
GREATEST_BYTES: Final = 2**22
"""Largest file that a template includes."""
DEEPEST_INCLUDE: Final = 10
NODES: Final = frozenset(
    {"Template", "Output", "TemplateData", "Call", "Name", "Const", "Filter", "If", "Assign", "Concat", "Compare"}
    | {"Operand", "Test", "Not", "And", "Or", "Keyword"}
)
"""Nodes that a template may contain, so that it ends and is not much longer than the included files."""


def read_document(text: str | bytes, file_format: Format, file: str) -> YamlDocument:
    """Return the value of a file with the lines of its parts. Raises the format's error with a line.

    A template is rendered first; lines are then those of the rendered text.
    """
    return parse_yaml(without_templates(text, file_format, file), file_format, file, TIMELOOP)


def without_templates(text: str | bytes, file_format: Format, file: str) -> bytes:
    """Return the text as UTF-8, rendered if it is a template. Raises InputError."""
    return _rendered(as_utf8(text, file_format, file).decode(), Path(file), ()).encode()


def _rendered(text: str, file: Path, outer: tuple[Path, ...]) -> str:
    """Render a text with parts in `{{ }}` or `{% %}` outside of comments; `outer` are the files that include it.

    Files to include are searched in the folders of the including files, its own first. Raises InputError.
    """
    if not search(r"(?m)^[^#\n]*(\{\{|\{%)", text):
        return text
    try:
        from jinja2 import StrictUndefined, TemplateError, nodes
        from jinja2.sandbox import SandboxedEnvironment
    except ImportError:
        raise InputError("it is a Jinja template", expected="jinja2, which onchip[report] installs") from None
    folders = [file.parent, *(one.parent for one in outer)]

    def refusal(what: str, line: int | None = None) -> InputError:
        functions = "cwd, add_to_path, path_exists, find_path, include and include_text"
        place, expected = f"line {line}" if line else None, f"if, set, default, {functions}, names that it sets"
        return InputError(what, file=str(file), place=place, expected=expected)

    def add_to_path(name: object) -> str:
        folders.append(file.parent / str(name))
        return ""

    def found(name: object) -> Path | None:
        return next((path for folder in folders if (path := folder / str(name)).is_file()), None)

    def path_of(name: object) -> Path:
        if (path := found(name)) is None:
            raise refusal(f"its template (version 0.4) includes {name!r}, which is not there")
        return path

    def include_text(name: object) -> str:
        if len(outer) == DEEPEST_INCLUDE:
            raise refusal("its includes do not end")
        path = path_of(name)
        return _rendered(read_file(path, GREATEST_BYTES).decode(errors="replace"), path, (file, *outer))

    def include(name: object, key: object = "") -> str:
        """Return a part of a file, named by keys with points between them, as JSON, which is YAML in one line."""
        value = parse_yaml(include_text(name), TIMELOOP_FILE, str(name), TIMELOOP).value
        for part in str(key).split(".") if key else ():
            if not isinstance(value, dict) or part not in value:
                raise refusal(f"{name!r} has no {key!r}")
            value = value[part]
        return json.dumps(value)

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    try:
        for node in environment.parse(text).find_all(nodes.Node):
            if type(node).__name__ not in NODES:
                raise refusal(f"it uses {type(node).__name__} of Jinja", node.lineno)
        return environment.from_string(text).render(
            cwd=lambda: str(file.parent),
            add_to_path=add_to_path,
            path_exists=lambda name: found(name) is not None,
            find_path=lambda name: str(path_of(name)),
            include_text=include_text,
            include=include,
        )
    except (TemplateError, TypeError, ValueError) as error:
        line = getattr(error, "lineno", None)
        what = "is malformed" if line else "cannot be rendered"
        raise refusal(f"its template (version 0.4) {what}: {error}", line) from None


TIMELOOP_FILE: Final = Format("Timeloop file", 4, InputError)
MAPSPACE_FILE: Final = Format("Timeloop mapspace", 3, InputError)
Keeps: TypeAlias = Mapping[str, tuple[Operand, ...]]
"""Map from memory to the operands that it keeps; an absent memory keeps all."""
OPERANDS: Final[Mapping[Operand, tuple[str, ...]]] = {
    Operand.INPUT: ("Inputs", "A"),
    Operand.WEIGHT: ("Weights", "B"),
    Operand.OUTPUT: ("Outputs", "Z"),
}
"""The data spaces of Timeloop's shapes cnn-layer and gemm_ABZ."""
KEEPING: Final = ("datatype", "bypass", "dataspace")
"""Names of the constraint on kept operands in Timeloop's versions."""
ONLY_KEEPING: Final = f"one of {', '.join(KEEPING)}; no search here restricts orders, factors or fanouts"


class SpacesFields(TypedDict, total=False):
    """The constraint at a node of version 0.4."""

    keep: list[str]
    bypass: list[str]
    keep_only: list[str]
    bypass_only: list[str]


class ConstraintFields(SpacesFields):
    """A constraint; an operand that is neither kept nor bypassed is free in Timeloop, and kept here."""

    target: Required[str]
    type: Required[str]


class MapspaceFields(TypedDict):
    """The list of constraints, by either of its names."""

    version: NotRequired[str | int | float]
    constraints: NotRequired[list[Any]]
    targets: NotRequired[list[Any]]


def timeloop_bypass(text: str | bytes, file: str) -> Keeps:
    """Read `text`; `file` is its name in errors. Raises InputError."""
    document = read_document(text, MAPSPACE_FILE, file)
    try:
        parts = check_parts(
            document.value, MAPSPACE_FILE, "mapspace, mapspace_constraints, architecture_constraints or constraints"
        )
        return keeps_of_parts(parts)
    except InputError as error:
        error.place = document.place(error.place or "")
        raise error.in_file(file) from None


def keeps_of_parts(document: Mapping[str, object], unapplied: list[str] | None = None) -> Keeps:
    """Return the operands that each memory keeps by all constraints of a file.

    Constraints of other types are added to `unapplied`, or refused without it. Raises InputError with the field's path.
    """
    keeps: dict[str, tuple[Operand, ...]] = {}
    for name, part in document.items():
        if name not in CONSTRAINTS:
            continue
        fields = {"": part} if isinstance(part, list) else _validated(MapspaceFields, part, name)
        for key in ("", "constraints", "targets"):
            for at, one in enumerate(fields.get(key, ())):  # type: ignore[arg-type, var-annotated]
                place = f"{name}.{key}[{at}]" if key else f"{name}[{at}]"
                kind = one.get("type") if isinstance(one, dict) else None
                if not isinstance(kind, str) or kind in KEEPING:
                    constraint = _validated(ConstraintFields, one, place)
                    spaces = {field: value for field, value in one.items() if field not in ("target", "type")}
                    keeps[constraint["target"]] = operands_kept(spaces, place)
                elif unapplied is None:
                    what = f"a constraint of {quoted(one.get('target'))} is of the type {quoted(kind)}"
                    raise InputError(what, f"{place}.type", ONLY_KEEPING)
                else:
                    unapplied.append(f"{kind} constraint of {one.get('target')}")
    return keeps


def operands_kept(spaces: Mapping[str, Any], place: str, *, only_kept: bool = False) -> tuple[Operand, ...]:
    """Return the operands that a memory keeps: all except bypassed ones, or with `only_kept` the kept ones.

    Raises InputError with the field's path.
    """
    fields = _validated(SpacesFields, spaces, place)
    kept, bypassed = (
        {operand for end in ("", "_only") for operand in _operands(fields, f"{way}{end}", place)}
        for way in ("keep", "bypass")
    )
    if both := sorted(kept & bypassed):
        raise InputError(f"{OPERANDS[both[0]][0]} is kept and bypassed", place, "one of both")
    if only_kept or "keep_only" in fields:
        return tuple(operand for operand in Operand if operand in kept)
    return tuple(operand for operand in Operand if operand not in bypassed)


def _operands(fields: Mapping[str, Any], name: str, place: str) -> Iterator[Operand]:
    operand_of = {name: operand for operand, spellings in OPERANDS.items() for name in spellings}
    for one in fields.get(name, ()):
        if one not in operand_of:
            raise InputError(f"it lists {quoted(one)}", f"{place}.{name}", f"some of {', '.join(operand_of)}")
        yield operand_of[one]


def _validated(shape: type[ShapeT], fields: object, place: str) -> ShapeT:
    try:
        return validate(shape, fields, MAPSPACE_FILE, "")
    except InputError as error:
        raise placed(InputError(error.what, error.place, error.expected), place) from None


LONGEST: Final = 200
"""Largest number of characters of an expression."""
FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {
    one.__name__: one for one in (max, min, round, int, float, math.ceil, math.floor, math.sqrt, math.log2)
}
ARITHMETIC: Final = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Load, ast.USub),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
)


def evaluated(text: str, names: Mapping[str, object]) -> object:
    """Return the value of an arithmetic expression over `names`, or the text itself if it is none."""
    numbers = {name: value for name, value in names.items() if _is_number(value)}
    try:
        tree = ast.parse(text, mode="eval") if len(text) <= LONGEST else None
        for node in ast.walk(tree) if tree else [None]:
            if not isinstance(node, ARITHMETIC) and not (isinstance(node, ast.Constant) and _is_number(node.value)):
                return text
        value = eval(compile(tree or "", "", "eval"), {"__builtins__": {}}, {**FUNCTIONS, **numbers})
    except (SyntaxError, ValueError, ArithmeticError, TypeError, NameError, RecursionError, MemoryError):
        return text
    return value if _is_number(value) and math.isfinite(value) else text


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


ARCHITECTURE: Final = Format("Timeloop architecture", 3, AcceleratorError)
Attributes = Mapping[str, Any]
AttributeFields = dict[str, str | int | float | bool | None]

ComponentFields = TypedDict(
    "ComponentFields", {"name": str, "class": NotRequired[str], "attributes": NotRequired[AttributeFields]}
)
"""A memory or the MACs; `technology` marks DRAM if `class` does not."""


class BranchFields(TypedDict):
    """Components that occur once in each of `name`, and one inner branch; its own attributes are ignored."""

    name: str
    attributes: NotRequired[AttributeFields]
    local: NotRequired[list[ComponentFields]]
    subtree: NotRequired[list[BranchFields]]


class FlatFields(TypedDict):
    """`arch`: the MACs and the memories, nearest the MACs first; each entry is a name and attributes."""

    arithmetic: AttributeFields
    storage: list[AttributeFields]


@dataclass(frozen=True, slots=True)
class Component:
    """A memory or the MACs: `instances` on the whole chip, in rows of `mesh_x`; `place` is its field path."""

    name: str
    kind: str
    attributes: Attributes
    place: str
    instances: int
    mesh_x: int

    @property
    def is_mac(self) -> bool:
        """True if it computes: Timeloop names these classes after the operation."""
        return any(word in self.kind.lower() for word in ("mac", "compute", "multiplier"))

    @property
    def is_dram(self) -> bool:
        """True if it is the off-chip memory."""
        return "dram" in self.kind.lower()

    def integer(self, *names: str) -> int | None:
        """Return the first of these attributes that is present; raises AcceleratorError for no positive integer."""
        value = self.number(*names)
        if value is not None and value != int(value):
            raise self.refusal(names, f"it is {value}", "a whole number")
        return None if value is None else int(value)

    def number(self, *names: str) -> float | None:
        """Return the first of these attributes that is present; raises AcceleratorError unless it is above 0."""
        return self._number(names, is_zero_allowed=False)

    def energy(self, *names: str) -> float | None:
        """Return an energy, which may be 0; raises AcceleratorError for other values."""
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
        """Return an error at one of its attributes, or at the component without any."""
        found = attribute(self.attributes, names)
        place = f"{self.place}.{found[0]}" if found else self.place
        return AcceleratorError(f"{self.name}: {what}", place, expected)


def attribute(attributes: Attributes, names: tuple[str, ...]) -> tuple[str, object] | None:
    """Return the first attribute that is present, with its spelling: `word-bits` equals `word_bits`."""
    spelled = {name.replace("-", "_"): name for name in attributes}
    return next(((spelled[name], attributes[spelled[name]]) for name in names if name in spelled), None)


def flat_components(fields: FlatFields) -> Iterator[Component]:
    """Return the components of a flat description; raises AcceleratorError for a memory without a name."""
    for at, entry in reversed(list(enumerate(fields["storage"]))):
        place = field_path(("arch", "storage", at))
        name = entry.get("name")
        if not isinstance(name, str):
            raise AcceleratorError("a memory has no name", place, "name")
        technology = entry.get("technology")
        yield _component(name, technology if isinstance(technology, str) else "storage", entry, place, 1)
    yield _component("MAC", "intmac", fields["arithmetic"], "arch.arithmetic", 1)


def nested_components(branches: list[BranchFields], place: str, copies: int = 1) -> Iterator[Component]:
    """Yield the components of nested branches with `copies` instances on the chip; raises AcceleratorError."""
    if len(branches) != 1:
        raise AcceleratorError(f"{len(branches)} branches stand beside each other", place, "one")
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
    """Split `PE[0..15]` into PE and sixteen."""
    match = fullmatch(r"(.*)\[([0-9]{1,9})\.\.([0-9]{1,9})\]", name)
    return (match[1], int(match[3]) - int(match[2]) + 1) if match else (name, 1)


def _component(name: str, kind: str, attributes: Attributes, place: str, copies: int) -> Component:
    """Return a component; `instances` is the number on the whole chip, by default that of its names."""
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


BRANCHES: Final = ("Hierarchical", "Parallel", "Pipelined")
LEAVES: Final = ("Component", "Container", "Nothing")
NETWORKS: Final = ("XY_NoC", "Legacy", "ReductionTree", "SimpleMulticast", "network")
APPLIED: Final = "dataspace"


class SpatialFields(TypedDict):
    """Number of instances of a node in each instance of its parent."""

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
"""A node with the tag `!`, and the fields of Timeloop's front end; scales of area and energy are not read."""


def numbers_of(variables: Mapping[str, Any]) -> dict[str, object]:
    """Return variables, with expressions of earlier ones as numbers."""
    known: dict[str, object] = {}
    for name, value in variables.items():
        known[name] = evaluated(value, known) if isinstance(value, str) else value
    return known


@dataclass(slots=True)
class NodeWalk:
    """Collects the components of a list of nodes, the operands that each keeps, and omitted features.

    A container or a component with `spatial` multiplies the instances of itself and of all later nodes; later nodes
    inherit the attributes of containers that they do not state.
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
                    raise AcceleratorError("a !Pipelined branch (version 0.4)", where, "!Hierarchical or !Parallel")
                self.add(node.get("nodes", []), f"{where}.nodes", is_parallel=is_parallel or kind == "Parallel")
            elif kind in LEAVES:
                self._add_leaf(node, kind, where, is_parallel=is_parallel)
            else:
                expected = f"one of {', '.join(f'!{name}' for name in (*LEAVES, *BRANCHES))}"
                raise AcceleratorError(f"a node is a !{kind} (version 0.4)", where, expected)

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
            raise AcceleratorError("a component has no name", place, "name")
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
                raise AcceleratorError(f"{axis} is {quoted(size)}", f"{place}.spatial.{axis}", "a whole number from 1")
            sizes.append(before * size)
        return sizes[0], sizes[1]
