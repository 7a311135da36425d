"""Random tiny networks of operators that can be tiled, and some that cannot, for the level `tiles`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from adversary.frame import Facts, Json

Shape = list[int]
ELEMENTWISE = ("Add", "Mul", "Max", "Sub")
UNARY = ("Relu", "Sigmoid", "Identity")
STUBBORN = ("Softmax", "Hardmax")
"""Kinds that have rows which nothing cuts, and that are not taken apart in steps."""


@dataclass
class Sketch:
    """A network under construction: tensors by name with shape and role, operators as in the graph file."""

    chance: random.Random
    bits: int
    tensors: dict[str, tuple[Shape, str]] = field(default_factory=dict)
    operators: list[Facts] = field(default_factory=list)

    def tensor(self, prefix: str, shape: Shape, role: str) -> str:
        """Add a tensor and return its name."""
        name = f"{prefix}{len(self.tensors)}"
        self.tensors[name] = (shape, role)
        return name

    def add(
        self, kind: str, inputs: list[str], outputs: list[Shape], parameters: list[str], **attributes: Json
    ) -> list[str]:
        """Add an operator that writes tensors of these shapes, and return their names."""
        made: Facts = {"name": f"o{len(self.operators)}", "kind": kind, "inputs": inputs}
        made["outputs"] = [self.tensor("t", shape, "activation") for shape in outputs]
        made |= {"parameters": parameters, "attributes": attributes}
        if self.chance.random() < 0.2:
            made["members"] = [made["name"], f"{made['name']}.act"]
        self.operators.append(made)
        return list(made["outputs"])

    def shape(self, name: str) -> Shape:
        """Return a tensor's shape."""
        return self.tensors[name][0]

    def readable(self) -> list[str]:
        """Return the tensors that an operator may read as inputs."""
        return [name for name, (_, role) in self.tensors.items() if role != "parameter"]

    def graph(self) -> Facts:
        """Return the graph file; tensors without readers are network outputs, and some others, too."""
        read = {name for operator in self.operators for name in operator["inputs"]}
        tensors = []
        for name, (shape, role) in self.tensors.items():
            if role == "activation" and (name not in read or self.chance.random() < 0.1):
                role = "output"
            tensors.append({"name": name, "shape": shape, "bits": self.bits, "role": role})
        return {
            "format": "onchip-graph",
            "version": 1,
            "name": "net",
            "tensors": tensors,
            "operators": self.operators,
        }


def chain_of_windows(chance: random.Random) -> Facts:
    """Return a graph of two to four operators in a row whose windows overlap along the rows; some maps are read twice.

    The borders between tiles then matter more than the tiles.
    """
    sketch = Sketch(chance, 8)
    source = sketch.tensor("x", [1, chance.choice((1, 1, 2)), chance.randint(2, 6), 1], "input")
    for _ in range(chance.randint(2, 4)):
        (_, channels, rows, _), kind = sketch.shape(source), chance.choice(("Conv", "Conv", "Conv", "MaxPool", "Add"))
        alike = [name for name in sketch.readable() if sketch.shape(name) == sketch.shape(source)]
        kernel, stride, padding = chance.choice((1, 2, 3)), chance.choice((1, 1, 1, 2)), chance.choice((0, 1))
        pixels = (rows + 2 * padding - kernel) // stride + 1
        window = {"kernel_shape": [kernel, 1], "strides": [stride, 1], "pads": [padding, 0, padding, 0]}
        if kind == "Add":
            (source,) = sketch.add(kind, [source, chance.choice(alike)], [sketch.shape(source)], [])
        elif pixels >= 1 and padding < kernel:
            written, groups = [[1, channels, pixels, 1]], chance.choice((1, channels))
            if kind == "MaxPool":
                (source,) = sketch.add(kind, [source], written, [], **window)
            else:
                weights = [sketch.tensor("w", [channels, channels // groups, kernel, 1], "parameter")]
                (source,) = sketch.add(kind, [source], written, weights, group=groups, **window)
    if not sketch.operators:
        sketch.add("Relu", [source], [sketch.shape(source)], [])
    return sketch.graph()


def random_network(chance: random.Random) -> Facts:
    """Return a graph of one to four operators over tensors of few elements."""
    sketch = Sketch(chance, chance.choice((8, 8, 16, 32)))
    for _ in range(chance.choice((1, 1, 1, 2))):
        sketch.tensor("x", _odd_shape(chance), "input")
    wanted = chance.choice((1, 2, 2, 3, 3, 4))
    for _ in range(20):
        if len(sketch.operators) == wanted:
            break
        _grow(sketch)
    if not sketch.operators:
        name = sketch.readable()[0]
        sketch.add("Relu", [name], [sketch.shape(name)], [])
    return sketch.graph()


def _odd_shape(chance: random.Random) -> Shape:
    rank = chance.choice((1, 2, 2, 4, 4, 4))
    greatest = {1: 13, 2: 5, 4: 4}[rank]
    shape = [chance.choice((1, 2, 3, greatest)) for _ in range(rank)]
    if rank == 4:
        shape[0] = chance.choice((1, 1, 1, 2))
    return shape


def _grow(sketch: Sketch) -> None:
    source = sketch.chance.choice(sketch.readable()[-3:])
    rank = len(sketch.shape(source))
    makers = [_unary, _binary, _joined, _stubborn, _transposed]
    makers += [_convolution] * 4 + [_pool, _pool, _global_pool, _normalised] if rank == 4 else []
    makers += [_gemm, _gemm, _matmul] if rank == 2 else []
    makers += [_gemm] if rank == 4 else []
    sketch.chance.choice(makers)(sketch, source)


def _unary(sketch: Sketch, source: str) -> None:
    sketch.add(sketch.chance.choice(UNARY), [source], [sketch.shape(source)], [])


def _stubborn(sketch: Sketch, source: str) -> None:
    sketch.add(sketch.chance.choice(STUBBORN), [source], [sketch.shape(source)], [])


def _binary(sketch: Sketch, source: str) -> None:
    """Add a binary operator with another tensor of the shape, the same tensor, or a broadcast parameter."""
    shape, chance = sketch.shape(source), sketch.chance
    alike = [name for name in sketch.readable() if sketch.shape(name) == shape]
    if chance.random() < 0.3:
        broadcast = [size if chance.random() < 0.5 else 1 for size in shape][chance.randrange(len(shape)) :]
        sketch.add("Add", [source], [shape], [sketch.tensor("w", broadcast, "parameter")])
        return
    sketch.add(chance.choice(ELEMENTWISE), [source, chance.choice(alike)], [shape], [])


def _joined(sketch: Sketch, source: str) -> None:
    shape, chance = sketch.shape(source), sketch.chance
    axis = chance.randrange(len(shape))
    others = [
        name
        for name in sketch.readable()
        if len(sketch.shape(name)) == len(shape)
        and all(a == b for at, (a, b) in enumerate(zip(sketch.shape(name), shape, strict=True)) if at != axis)
    ]
    if chance.random() < 0.3 and shape[axis] > 1:
        first = chance.randrange(1, shape[axis])
        parts = [[*shape[:axis], size, *shape[axis + 1 :]] for size in (first, shape[axis] - first)]
        sketch.add("Split", [source], parts, [], axis=axis)
        return
    other = chance.choice(others)
    joined = [*shape[:axis], shape[axis] + sketch.shape(other)[axis], *shape[axis + 1 :]]
    sketch.add("Concat", [source, other], [joined], [], axis=axis)


def _transposed(sketch: Sketch, source: str) -> None:
    shape = sketch.shape(source)
    order = sketch.chance.sample(range(len(shape)), len(shape))
    sketch.add("Transpose", [source], [[shape[at] for at in order]], [], perm=order)


def _normalised(sketch: Sketch, source: str) -> None:
    shape = sketch.shape(source)
    parameters = [sketch.tensor("w", [shape[1]], "parameter") for _ in range(4)]
    sketch.add("BatchNormalization", [source], [shape], parameters)


def _convolution(sketch: Sketch, source: str) -> None:
    chance, (batch, depth, *sizes) = sketch.chance, sketch.shape(source)
    groups = chance.choice([one for one in (1, 1, 2, depth) if depth % one == 0])
    kernel, stride, dilation = (
        [chance.choice(options) for _ in sizes] for options in ((1, 2, 3), (1, 1, 2, 3), (1, 2))
    )
    pads = [chance.choice((0, 0, 1, 2)) for _ in range(4)]
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    pixels = [(size + pads[at] + pads[at + 2] - reach[at]) // stride[at] + 1 for at, size in enumerate(sizes)]
    channels = groups * chance.choice((1, 1, 2, 3))
    if min(pixels) < 1 or channels * pixels[0] * pixels[1] > 40:
        return
    parameters = [sketch.tensor("w", [channels, depth // groups, *kernel], "parameter")]
    if chance.random() < 0.4:
        parameters.append(sketch.tensor("w", [channels], "parameter"))
    attributes = {"strides": stride, "dilations": dilation, "group": groups, "pads": pads}
    sketch.add("Conv", [source], [[batch, channels, *pixels]], parameters, **attributes)


def _pool(sketch: Sketch, source: str) -> None:
    chance, (batch, depth, *sizes) = sketch.chance, sketch.shape(source)
    kernel, stride = ([chance.choice((1, 2, 3)) for _ in sizes] for _ in range(2))
    pads = [chance.randrange(kernel[at % 2]) for at in range(4)]
    pixels = [(size + pads[at] + pads[at + 2] - kernel[at]) // stride[at] + 1 for at, size in enumerate(sizes)]
    if min(pixels) >= 1:
        kind = chance.choice(("MaxPool", "AveragePool"))
        sketch.add(kind, [source], [[batch, depth, *pixels]], [], kernel_shape=kernel, strides=stride, pads=pads)


def _global_pool(sketch: Sketch, source: str) -> None:
    batch, depth, *_ = sketch.shape(source)
    sketch.add("GlobalAveragePool", [source], [[batch, depth, 1, 1]], [])


def _gemm(sketch: Sketch, source: str) -> None:
    chance, (rows, *sizes) = sketch.chance, sketch.shape(source)
    features = 1
    for size in sizes:
        features *= size
    columns, is_transposed = chance.choice((1, 2, 3)), chance.random() < 0.5
    if features > 30:
        return
    matrix = [columns, features] if is_transposed else [features, columns]
    parameters = [sketch.tensor("w", matrix, "parameter")]
    if chance.random() < 0.4:
        parameters.append(sketch.tensor("w", [columns], "parameter"))
    sketch.add("Gemm", [source], [[rows, columns]], parameters, transB=int(is_transposed))


def _matmul(sketch: Sketch, source: str) -> None:
    chance, (rows, features) = sketch.chance, sketch.shape(source)
    fitting = [n for n in sketch.readable() if len(sketch.shape(n)) == 2 and sketch.shape(n)[0] == features]
    if fitting and chance.random() < 0.5:
        other = chance.choice(fitting)
        sketch.add("MatMul", [source, other], [[rows, sketch.shape(other)[1]]], [])
        return
    columns = chance.choice((1, 2, 3))
    sketch.add("MatMul", [source], [[rows, columns]], [sketch.tensor("w", [features, columns], "parameter")])
