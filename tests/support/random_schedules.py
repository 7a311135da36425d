"""Seeded random networks on random machines for `schedule`: tiny ones for the oracle of all schedules, and small ones.

`tiny_case`: 2 to 5 operators over a few elements, and a scratchpad of 8 to 32 bytes. `small_case`: 2 to 8 operators
over some hundred elements, and a scratchpad near the need of the largest operator, so that addresses, orders and
evictions matter. `joining_case`: the same with many concatenations. `shuffled_case`: tiny networks that reorder
channels and join maps. `channel_case`: tiny networks of several channels. `matrix_case`: tiny products of matrices.
`parts_case`: matrices with Slices and
Concats of their columns. `heads_case`: parts of attention with heads.

No operator is folded into another when the network is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

import pytest

from adversary.fusing import KINDS, graph_file, random_network
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.bounds.network.relaxation import relaxation
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.formats.own.graph_json import graph_from_json
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ops.fusable import FusableNetwork, pixels_in_tiles
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision
from onchip.simulate.arithmetic_kernels import ArithmeticKernels, values_in_given_order
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from oracles.every_schedule import EverySchedule
from oracles.packing import TooLargeError
from oracles.schedule import Work
from support.small_schedules import all_whole
from transform.test_tile_graph import assert_both_agree

Fields = dict[str, Any]
WINDOWS = ("Conv", "Depthwise", "MaxPool")


@dataclass(frozen=True)
class Case:
    """A network and a machine as the texts of their files."""

    name: str
    network_text: str
    machine_text: str

    @property
    def network(self) -> Graph:
        """Return the network, read from its text."""
        return graph_from_json(self.network_text.encode(), f"{self.name}.json")

    @property
    def machine(self) -> Accelerator:
        """Return the machine, read from its text."""
        return accelerator_from_yaml(self.machine_text, f"{self.name}.yaml")


def tiny_case(seed: int) -> Case:
    """Return 2 to 5 operators; maps of the longer networks have one row."""
    chance = Random(f"tiny {seed}")
    count = chance.choice((2, 2, 3, 3, 4, 5))
    made = _Made(
        chance, (1, chance.choice((1, 2, 2, 3)), chance.randint(1, 1 if count > 3 else 2), chance.randint(1, 2))
    )
    while len(made.operators) < count:
        made.add(chance.choice(("Conv", "Conv", "Conv", "Exp", "Add", "Softmax")), (1, 2, 2, 3), (1, 1, 2))
    registers = [_register(chance, ("weight",), (4,)), _register(chance, ("output",), (4, 8)), None, None]
    one, capacity = chance.choice(registers), chance.choice((8, 12, 16, 20, 24, 32))
    array = {chance.choice("KC"): 2}
    return _case(f"tiny{seed}", made, _machine(chance, array, [one] if one else [], capacity, (1, 2, 3), (20, 50)))


def channel_case(seed: int) -> Case:
    """Return 2 operators on maps of a few channels and one or two pixels, for slices of channels."""
    chance = Random(f"channels {seed}")
    made = _Made(chance, (1, chance.choice((1, 2, 2, 3)), 1, chance.choice((1, 1, 2))))
    while len(made.operators) < 2:
        made.add(chance.choice(("Conv", "Conv", "Depthwise", "Exp", "Add")), (2, 2, 3), (1, 1, 2))
    capacity = chance.choice((3, 4, 5, 6, 8))
    return _case(f"channels{seed}", made, _machine(chance, {chance.choice("KC"): 2}, [], capacity, (1, 2, 3), (20, 50)))


def small_case(seed: int) -> Case:
    """Return 2 to 8 operators that branch and join occasionally."""
    kinds = ("Conv", "Conv", "Conv", "Depthwise", "MaxPool", "Exp", "Add", "Add", "Softmax", "Concat")
    return _small_case(f"small{seed}", Random(f"small {seed}"), kinds, (2, 8))


def joining_case(seed: int) -> Case:
    """Return 4 to 8 operators, with many that join maps along the channels, or read a concatenation."""
    kinds = ("Conv", "Conv", "Conv", "MaxPool", "Exp", "Softmax", "Concat", "Concat", "Concat", "Concat")
    return _small_case(f"joining{seed}", Random(f"joining {seed}"), kinds, (4, 8))


def shuffled_case(seed: int) -> Case:
    """Return 2 to 4 tiny operators, among them shuffles of channels and concatenations."""
    chance = Random(f"shuffled {seed}")
    made = _Made(chance, (1, chance.choice((2, 4)), chance.randint(1, 3), chance.randint(1, 2)))
    count = chance.choice((2, 2, 3, 3, 4))
    while len(made.operators) < count:
        made.add(chance.choice(("Conv", "Depthwise", "Exp", "Add", "Shuffle", "Shuffle", "Concat")), (2, 4), (1, 1, 2))
    registers = [_register(chance, ("weight",), (4,)), _register(chance, ("output",), (4, 8)), None, None]
    one, capacity = chance.choice(registers), chance.choice((8, 12, 16, 20, 24, 32))
    array = {chance.choice("KC"): 2}
    return _case(f"shuffled{seed}", made, _machine(chance, array, [one] if one else [], capacity, (1, 2, 3), (20, 50)))


def matrix_case(seed: int) -> Case:
    """Return 2 to 4 operators on tiny matrices, mostly rows times weights, that branch and join occasionally."""
    chance = Random(f"matrix {seed}")
    batch = chance.choice(((), (), (1,), (2,), (1, 2), (2, 1)))
    made = _Matrices(chance, (*batch, chance.randint(1, 3), chance.randint(1, 3)))
    count = chance.choice((2, 2, 3, 3, 4))
    kinds = ("MatMul", "MatMul", "Product", "Product", "Gemm", "Exp", "Add", "Scaled", "Softmax", "Softmax")
    while len(made.operators) < count:
        made.add(chance.choice(kinds), (1, 2, 3), ())
    registers = [_register(chance, ("weight",), (4,)), _register(chance, ("output",), (4, 8)), None, None]
    one, capacity = chance.choice(registers), chance.choice((6, 8, 12, 16, 20, 24))
    array = {chance.choice("KC"): 2}
    return _case(f"matrix{seed}", made, _machine(chance, array, [one] if one else [], capacity, (1, 2, 3), (20, 50)))


def parts_case(seed: int) -> Case:
    """Return 2 to 4 operators on tiny matrices, among them Slices of columns and Concats of them, mostly a product."""
    chance = Random(f"parts {seed}")
    made = _Matrices(chance, (*chance.choice(((1,), (2,), (1, 2), (2, 1))), chance.randint(1, 3), chance.randint(2, 3)))
    count = chance.choice((2, 3, 3, 4))
    while len(made.operators) < count:
        made.add(chance.choice(("MatMul", "Product", "Softmax", "Exp", *("Slice", "Concat") * 3)), (1, 2, 3), ())
    one, capacity = chance.choice((_register(chance, ("weight",), (4,)), None)), chance.choice((6, 8, 12, 16, 20))
    array = {chance.choice("KC"): 2}
    return _case(f"parts{seed}", made, _machine(chance, array, [one] if one else [], capacity, (1, 2, 3), (20, 50)))


def factors_case(seed: int) -> Case:
    """Return a product of two matrices of which one is computed and the other is an input of the network."""
    chance = Random(f"factors {seed}")
    made = _Heads(chance, (1, chance.randint(1, 2), chance.randint(1, 3)))
    is_left, right = chance.random() < 0.5, (1, made.shape[-1], chance.randint(1, 3))
    made.shapes["y"] = right
    computed = "x" if is_left else "y"
    kind = chance.choice(("Softmax", "Exp"))
    found = made.step(kind, [computed], made.shapes[computed], {"axis": -1} if kind == "Softmax" else {})
    made.step("MatMul", [found, "y"] if is_left else ["x", found], (*made.shape[:2], right[-1]), {})
    one, capacity = chance.choice((_register(chance, ("weight",), (4,)), None)), chance.choice((8, 12, 16, 24))
    array = {chance.choice("KC"): 2}
    return _case(f"factors{seed}", made, _machine(chance, array, [one] if one else [], capacity, (1, 2, 3), (20, 50)))


def heads_case(seed: int, *, is_tiny: bool = False) -> Case:
    """Return parts of an attention with heads, which are taken apart and put together by Transposes.

    A tiny case has 2 or 3 operators.
    """
    chance = Random(f"heads {seed}")
    heads, depth = chance.choice(((1, 2), (2, 1), (2, 2), (1, 1)))
    made = _Heads(chance, (1 if is_tiny else chance.choice((1, 2)), chance.randint(1, 3), heads * depth))
    part = chance.choice(("scores", "context") if is_tiny else ("scores", "context", "all", "all"))
    left = made.split(made.source(is_tiny=is_tiny), heads, turned=False)
    if part != "context":
        right = made.split(made.source(is_tiny=is_tiny), heads, turned=True) if chance.random() < 0.7 else None
        left = made.multiply(left, right)
        if chance.random() < 0.5:
            left = made.masked(left)
        if not is_tiny and chance.random() < 0.7:
            left = made.step("Softmax", [left], made.shapes[left], {"axis": -1})
    if part == "all":
        left = made.multiply(left, made.split(made.source(is_tiny=False), heads, turned=False))
    if part != "scores":
        made.project(made.step("Transpose", [left], made.turned(left, (0, 2, 1, 3)), {"perm": [0, 2, 1, 3]}))
    registers = [_register(chance, ("weight",), (4,)), None]
    one, capacity = chance.choice(registers), chance.choice((8, 12, 16, 24, 32))
    array = {chance.choice("KC"): 2}
    return _case(f"heads{seed}", made, _machine(chance, array, [one] if one else [], capacity, (1, 2, 3), (20, 50)))


def grouped_case(seed: int, *, is_tiny: bool = False) -> Case:
    """Return parts of a grouped-query attention: Expands repeat the heads of keys and values; Casts copy matrices.

    A tiny case has 2 or 3 operators.
    """
    chance = Random(f"grouped {seed}")
    heads, times = chance.choice(((1, 2), (2, 1), (1, 3)) if is_tiny else ((1, 2), (2, 2), (1, 3), (2, 1), (2, 3)))
    depth, batch = chance.randint(1, 2), 1 if is_tiny else chance.choice((1, 1, 2))
    made = _Heads(chance, (batch, heads * times, chance.randint(1, 3), depth))
    keys, part = chance.randint(1, 3), chance.choice(("scores", "context", "all", "all"))
    left = "x"
    if not is_tiny and chance.random() < 0.5:
        left = made.step("Cast", [left], made.shape, {"to": 1})
    if is_tiny or part != "context":
        is_turned = not is_tiny and chance.random() < 0.7
        made.shapes["k"] = (batch, heads, keys, depth) if is_turned else (batch, heads, depth, keys)
        right = made.repeated("k", times)
        if is_turned:
            right = made.step("Transpose", [right], made.turned(right, (0, 1, 3, 2)), {"perm": [0, 1, 3, 2]})
        left = made.multiply(left, right)
        if chance.random() < 0.5:
            left = made.step("Cast", [left], made.shapes[left], {"to": 1})
        if not is_tiny and chance.random() < 0.7:
            left = made.step("Softmax", [left], made.shapes[left], {"axis": -1})
    if not is_tiny and part != "scores":
        made.shapes["v"] = (batch, heads, made.shapes[left][-1], depth)
        made.multiply(left, made.repeated("v", times))
    one, capacity = chance.choice((_register(chance, ("weight",), (4,)), None)), chance.choice((8, 12, 16, 24, 32))
    array = {chance.choice("KC"): 2}
    return _case(f"grouped{seed}", made, _machine(chance, array, [one] if one else [], capacity, (1, 2, 3), (20, 50)))


def _small_case(name: str, chance: Random, kinds: Sequence[str], counts: tuple[int, int]) -> Case:
    side = chance.choice((1, 2, 4, 6))
    made = _Made(chance, (1, chance.choice((4, 8, 12)), side, chance.choice((1, side))))
    count = chance.randint(*counts)
    while len(made.operators) < count:
        made.add(chance.choice(kinds), (2, 4, 8, 12, 16), (1, 1, 3))
    registers = [_register(chance, ("weight",), (1, 2))]
    if chance.random() < 0.8:
        registers.append(_register(chance, ("output",), (4, 16)))
    capacity = max(4, round(max(map(made.need_bytes, made.operators)) * chance.choice((0.7, 1, 1.2, 1.5, 2, 3))))
    array = {"K": chance.choice((1, 2, 4)), "C": chance.choice((1, 2, 4))}
    return _case(name, made, _machine(chance, array, registers, capacity, (1, 4, 8), (50, 400)))


@dataclass
class _Made:
    """A builder of a network; `ends` are maps that no operator reads yet."""

    chance: Random
    shape: tuple[int, ...]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    weights: dict[str, tuple[int, ...]] = field(default_factory=dict)
    operators: list[Fields] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shapes["x"] = self.shape

    def add(self, kind: str, channels: Sequence[int], kernels: Sequence[int]) -> None:
        """Append an operator that mostly reads the last map; without a suitable second map it is a convolution."""
        names = list(self.shapes)
        source = names[-1] if self.chance.random() < 0.7 else self.chance.choice(names)
        shape = self.shapes[source]
        beside = [one for one, own in self.shapes.items() if one != source and _fit_together(kind, own, shape)]
        if kind in ("Add", "Concat") and not beside:
            kind = "Conv"
        at = len(self.operators)
        operator: Fields = {
            "name": f"op{at}",
            "kind": kind,
            "inputs": [source],
            "outputs": [f"t{at}"],
            "attributes": {},
        }
        made = shape
        if kind in WINDOWS:
            rows, columns = (min(self.chance.choice(kernels), size) for size in shape[2:])
            pads = [(rows - 1) // 2, (columns - 1) // 2, rows // 2, columns // 2]
            operator["attributes"] = {"kernel_shape": [rows, columns], "pads": pads, "strides": [1, 1]}
            if kind != "MaxPool":
                made = (1, self.chance.choice(channels), *shape[2:]) if kind == "Conv" else shape
                self.weights[f"w{at}"] = (made[1], shape[1] if kind == "Conv" else 1, rows, columns)
                operator |= {"kind": "Conv", "parameters": [f"w{at}"]}
                operator["attributes"]["group"] = 1 if kind == "Conv" else shape[1]
        elif kind in ("Add", "Concat"):
            operator["inputs"].append(self.chance.choice(beside))
            if kind == "Concat":
                operator["attributes"] = {"axis": 1}
                made = (1, shape[1] + self.shapes[operator["inputs"][1]][1], *shape[2:])
        elif kind == "Softmax":
            operator["attributes"] = {"axis": -1}
        elif kind == "Shuffle":
            groups = 2 if shape[1] % 2 == 0 else 1
            seen = [1, groups, shape[1] // groups, *shape[2:]]
            operator |= {"kind": "Transpose", "attributes": {"perm": [0, 2, 1, 3, 4], "seen_shapes": [seen]}}
        self.operators.append(operator)
        self.shapes[f"t{at}"] = made

    def need_bytes(self, operator: Fields) -> int:
        """Return the bytes of all operands of an operator."""
        names = {*operator["inputs"], *operator["outputs"], *operator.get("parameters", ())}
        return sum(prod((self.shapes | self.weights)[name]) for name in names)

    def fields(self, name: str) -> Fields:
        """Return the graph file: maps that no operator reads are outputs."""
        read = {one for operator in self.operators for one in operator["inputs"]}
        made = {one for operator in self.operators for one in operator["outputs"]}
        roles = {one: "input" if one not in made else "activation" if one in read else "output" for one in self.shapes}
        roles |= dict.fromkeys(self.weights, "parameter")
        shapes = self.shapes | self.weights
        tensors = [{"name": one, "shape": list(shapes[one]), "bits": 8, "role": roles[one]} for one in shapes]
        return {
            "format": "onchip-graph", "version": 1, "name": name, "tensors": tensors, "operators": self.operators,
        }  # fmt: skip


class _Matrices(_Made):
    """A builder of a network of matrices, whose last dimension is the columns."""

    def add(self, kind: str, channels: Sequence[int], kernels: Sequence[int]) -> None:
        """Append an operator that mostly reads the last matrix; without a suitable second one it is a product."""
        names = list(self.shapes)
        source = names[-1] if self.chance.random() < 0.7 else self.chance.choice(names)
        *rows, columns = self.shapes[source]
        beside = [one for one, own in self.shapes.items() if one != source and own == self.shapes[source]]
        if kind == "Concat":
            beside = [one for one, own in self.shapes.items() if one != source and own[:-1] == (*rows,)]
            kind = "Concat" if beside and columns < 4 else "Slice"
        if kind == "Slice" and columns < 2:
            kind = "Exp"
        if (kind == "Add" and not beside) or (kind == "Gemm" and len(rows) > 1):
            kind = "MatMul"
        if kind == "Product":
            self._multiply(source)
            return
        at, width = len(self.operators), self.chance.choice(channels)
        operator: Fields = {
            "name": f"op{at}",
            "kind": kind,
            "inputs": [source],
            "outputs": [f"t{at}"],
            "attributes": {},
        }
        made = self.shapes[source]
        if kind in ("MatMul", "Gemm"):
            turned = kind == "Gemm" and self.chance.random() < 0.5
            self.weights[f"w{at}"] = (width, columns) if turned else (columns, width)
            operator["parameters"] = [f"w{at}"]
            if kind == "Gemm":
                operator["attributes"]["transB"] = int(turned)
            if self.chance.random() < 0.8:
                operator["attributes"]["weight_factor"] = "right"
            made = (*rows, width)
        elif kind == "Scaled":
            self.weights[f"w{at}"] = (columns,)
            operator |= {"kind": "Mul", "parameters": [f"w{at}"]}
        elif kind == "Add":
            operator["inputs"].append(self.chance.choice(beside))
        elif kind == "Softmax":
            operator["attributes"] = {"axis": -1}
        elif kind == "Slice":
            start = self.chance.randint(0, columns - 1)
            stop = self.chance.randint(start + 1, columns - (start == 0))
            operator["attributes"] = {"starts": [start], "ends": [stop], "axes": [-1], "steps": [1]}
            made = (*rows, stop - start)
        elif kind == "Concat":
            operator["inputs"].append(self.chance.choice(beside))
            operator["attributes"] = {"axis": self.chance.choice((-1, len(rows)))}
            made = (*rows, columns + self.shapes[operator["inputs"][1]][-1])
        self.operators.append(operator)
        self.shapes[f"t{at}"] = made

    def _multiply(self, source: str) -> None:
        """Append a product with another matrix, or with a new input of the network."""
        *batch, _, columns = self.shapes[source]
        at = len(self.operators)
        right = [one for one, own in self.shapes.items() if one != source and own[:-1] == (*batch, columns)]
        name = self.chance.choice(right) if right and self.chance.random() < 0.5 else f"y{at}"
        self.shapes.setdefault(name, (*batch, columns, self.chance.randint(1, 3)))
        self.operators.append(
            {"name": f"op{at}", "kind": "MatMul", "inputs": [source, name], "outputs": [f"t{at}"], "attributes": {}}
        )
        self.shapes[f"t{at}"] = (*self.shapes[source][:-1], self.shapes[name][-1])


class _Heads(_Matrices):
    """A builder of an attention with heads over rows of the input `x`."""

    def step(
        self,
        kind: str,
        sources: Sequence[str],
        made: tuple[int, ...],
        attributes: Fields,
        parameters: Sequence[str] = (),
    ) -> str:
        """Append an operator, and return its output."""
        at = len(self.operators)
        operator = {"name": f"op{at}", "kind": kind, "inputs": [*sources], "outputs": [f"t{at}"]}
        self.operators.append({**operator, "parameters": [*parameters], "attributes": attributes})
        self.shapes[f"t{at}"] = made
        return f"t{at}"

    def source(self, *, is_tiny: bool) -> str:
        """Return the input, a projection of it, or another input of the same shape."""
        if is_tiny or self.chance.random() < 0.3:
            name = "x" if self.chance.random() < 0.5 else f"x{len(self.operators)}"
            self.shapes.setdefault(name, self.shape)
            return name
        self.weights[f"w{len(self.operators)}"] = (self.shape[-1], self.shape[-1])
        return self.step("MatMul", ["x"], self.shape, {"weight_factor": "right"}, [f"w{len(self.operators)}"])

    def split(self, source: str, heads: int, *, turned: bool) -> str:
        """Take the columns of a matrix apart into heads; each head may be turned."""
        batch, rows, columns = self.shapes[source]
        order = (0, 2, 3, 1) if turned else (0, 2, 1, 3)
        seen = (batch, rows, heads, columns // heads)
        return self.step(
            "Transpose", [source], tuple(seen[at] for at in order), {"perm": [*order], "seen_shapes": [[*seen]]}
        )

    def turned(self, source: str, order: Sequence[int]) -> tuple[int, ...]:
        """Return a shape in another order."""
        return tuple(self.shapes[source][at] for at in order)

    def multiply(self, left: str, right: str | None) -> str:
        """Append a product, of a new input if there is no right factor."""
        *batch, rows, columns = self.shapes[left]
        if right is None:
            right = f"y{len(self.operators)}"
            self.shapes[right] = (*batch, columns, self.chance.randint(1, 3))
        return self.step("MatMul", [left, right], (*batch, rows, self.shapes[right][-1]), {})

    def masked(self, source: str) -> str:
        """Append a sum with a new input, or a parameter, that has all or one of each dimension."""
        shape = tuple(self.chance.choice((1, size)) for size in self.shapes[source])[self.chance.choice((0, 0, 1, 2)) :]
        at = len(self.operators)
        if self.chance.random() < 0.3:
            self.weights[f"w{at}"] = shape
            return self.step("Add", [source], self.shapes[source], {}, [f"w{at}"])
        self.shapes[f"m{at}"] = shape
        sources = [source, f"m{at}"] if self.chance.random() < 0.7 else [f"m{at}", source]
        return self.step("Add", sources, self.shapes[source], {})

    def repeated(self, source: str, times: int) -> str:
        """Append an Expand that repeats each head."""
        batch, heads, rows, columns = self.shapes[source]
        seen: Fields = {"seen_shapes": [[batch, heads, 1, rows, columns]]}
        return self.step("Expand", [source], (batch, heads * times, rows, columns), seen)

    def project(self, source: str) -> None:
        """Append a product of rows whose heads are put together."""
        batch, rows, heads, depth = self.shapes[source]
        weight, width = f"w{len(self.operators)}", self.chance.randint(1, 3)
        self.weights[weight] = (heads * depth, width)
        attributes: Fields = {"seen_shapes": [[batch, rows, heads * depth]], "weight_factor": "right"}
        self.step("MatMul", [source], (batch, rows, width), attributes, [weight])


def _fit_together(kind: str, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one[2:] == other[2:] if kind == "Concat" else one == other


def _register(chance: Random, holds: Sequence[str], capacities: Sequence[int]) -> Fields:
    serves = ["C"] if "output" in holds else []
    access = {"access_bits": 8, "read_energy_pj": 0.1, "write_energy_pj": 0.1}
    return {"name": holds[0], "capacity": chance.choice(capacities), "holds": list(holds), "serves": serves, **access}


def _machine(
    chance: Random, array: Fields, registers: list[Fields], capacity: int, near: Sequence[int], far: Sequence[int]
) -> Fields:
    registers = [{**one, "serves": [name for name in one["serves"] if name in array]} for one in registers]

    def memory(energies: Sequence[int]) -> Fields:
        bits = chance.choice((8, 16, 32))
        ports = [{"direction": "read_write", "bits_per_cycle": bits}]
        read, write = chance.choice(energies), chance.choice(energies)
        access = {"access_bits": chance.choice((8, 16)), "shortest_access_bits": 8}
        return {**access, "read_energy_pj": read, "write_energy_pj": write, "ports": ports}

    sram = {"name": "sram", "capacity": capacity, "scratchpad": True, **memory(near)}
    return {
        "format": "onchip-accelerator", "version": 1, "name": "random",
        "array": {"dimensions": array, "mac_energy_pj": 0.1}, "memories": [*registers, sram], "dram": memory(far),
    }  # fmt: skip


def _case(name: str, made: _Made, machine: Fields) -> Case:
    return Case(name, json.dumps(made.fields(name)), json.dumps(machine))


def random_groups(network: Graph, chance: Random) -> tuple[ScheduledStack, ...]:
    """Return runs of operators in their order, each in tiles or whole."""
    names, stacks = [one.name for one in network.operators], list[ScheduledStack]()
    while names:
        count = chance.randint(1, len(names))
        group, names = names[:count], names[count:]
        rows, columns = pixels_in_tiles(network, group)
        if count == 1 and chance.random() < 0.5:
            stacks.append(ScheduledStack(tuple(group)))
        else:
            tiling = Tiling(chance.randint(1, columns), chance.randint(1, rows), chance.choice(list(OverlapMode)))
            stacks.append(ScheduledStack(tuple(group), tiling.within(columns, rows)))
    return tuple(stacks)


def tiles_that_agree(network: Graph, seed: int, times: int) -> Iterator[TileGraph]:
    """Yield tile graphs of random groups, after the verifier has derived the same; illegal groups are left out."""
    chance = Random(seed)
    for _ in range(times):
        stacks = random_groups(network, chance)
        try:
            tiles = tile_graph(network, stacks, Precision(8))
        except ScheduleError:
            continue
        assert_both_agree(network, stacks, tiles, 24)
        yield tiles


def assert_values_are_equal(network: Graph, tiles: Graph) -> None:
    """Run a network and its tiles in integer arithmetic."""
    kernels = ArithmeticKernels(tiles, 3, network)
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiles.with_role(Role.INPUT)}
    leaving = frozenset(tensor.name for tensor in tiles.with_role(Role.OUTPUT))
    outputs = values_in_given_order(tiles, kernels, inputs, leaving)
    assert kernels.difference_from_whole_model(inputs, outputs) == 0


def assert_bound_holds(case: Case, objective: str) -> None:
    """Hold the bound of a network's schedules against the best of all; a network that is too large is skipped."""
    precision = Precision(8, None).on(case.machine)
    try:
        best = EverySchedule(case.network, case.machine, precision).best(objective, Work(5_000))
    except TooLargeError:
        pytest.skip("too large for the oracle")
    whole = tile_graph(case.network, all_whole(case.network), precision)
    found = relaxation(whole.graph, whole.nests, case.machine, every_memory_keeps=True, operands=whole.nest_operands)
    assert (found.traffic_bytes if objective == "traffic" else found.energy_fj) <= best.cost


def tiny(seed: int, kinds: tuple[str, ...] = KINDS) -> tuple[dict[str, object], FusableNetwork]:
    """Return the facts of a random readable network, and the network."""
    random = Random(seed)
    while True:
        facts = random_network(random, kinds)
        try:
            return facts, fusable_of(graph_from_json(json.dumps(graph_file(facts)).encode(), "tiny.json"))
        except InputError:
            continue


def random_slices(network: Graph, chance: Random) -> tuple[ScheduledStack, ...]:
    """Return runs of up to four operators in their order, most of them in slices of channels."""
    names, stacks = [one.name for one in network.operators], list[ScheduledStack]()
    while names:
        count = min(chance.choice((1, 1, 2, 2, 3, 4)), len(names))
        group, names = names[:count], names[count:]
        rows, columns = pixels_in_tiles(network, group)
        shape = network.tensor[network.operator[group[-1]].outputs[0]].shape or ()
        if count == 1 and chance.random() < 0.3:
            stacks.append(ScheduledStack(tuple(group)))
        elif len(shape) > 1 and chance.random() < 0.8:
            channels = chance.randint(1, max(1, shape[1] - 1))
            stacks.append(ScheduledStack(tuple(group), Tiling(columns, rows, OverlapMode.RECOMPUTE, channels)))
        else:
            tiling = Tiling(chance.randint(1, columns), chance.randint(1, rows), chance.choice(list(OverlapMode)))
            stacks.append(ScheduledStack(tuple(group), tiling.within(columns, rows)))
    return tuple(stacks)
