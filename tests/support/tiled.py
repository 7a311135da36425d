"""Small networks with shapes, and scratchpads too small for them, for tests of tiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from onchip.answer.problem import Count, Problem
from onchip.arch.memory import Memory, Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor

Shape = tuple[int, ...]
Attributes = dict[str, AttributeValue]


@dataclass
class Network:
    """A builder of a graph; tensors without readers become network outputs."""

    bits: int = 16
    tensors: dict[str, Tensor] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)

    def tensor(self, name: str, shape: Shape, role: Role) -> str:
        self.tensors[name] = Tensor.of_shape(name, shape, self.bits, role)
        return name

    def input(self, *shape: int) -> str:
        return self.tensor(f"x{len(self.tensors)}", shape, Role.INPUT)

    def parameter(self, *shape: int) -> str:
        return self.tensor(f"w{len(self.tensors)}", shape, Role.PARAMETER)

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape or ()

    def add(
        self,
        kind: str,
        inputs: Sequence[str],
        shape: Shape,
        parameters: Sequence[str] = (),
        attributes: Attributes | None = None,
        *,
        is_fused: bool = False,
    ) -> str:
        name = f"{kind.lower()}{len(self.operators)}"
        self.tensor(f"{name}.out", shape, Role.ACTIVATION)
        members = (name, f"{name}.act") if is_fused else ()
        self.operators.append(
            Operator(name, kind, tuple(inputs), (f"{name}.out",), tuple(parameters), attributes or {}, members)
        )
        return f"{name}.out"

    def split(self, source: str, shapes: Sequence[Shape], axis: int) -> tuple[str, ...]:
        """Add a Split and return the parts of a tensor along an axis."""
        name = f"split{len(self.operators)}"
        parts = tuple(f"{name}.out{at}" for at in range(len(shapes)))
        for part, shape in zip(parts, shapes, strict=True):
            self.tensor(part, shape, Role.ACTIVATION)
        self.operators.append(Operator(name, "Split", (source,), parts, (), {"axis": axis}))
        return parts

    def graph(self) -> Graph:
        read = {name for operator in self.operators for name in operator.reads}
        tensors = [
            Tensor.of_shape(tensor.name, tensor.shape or (), self.bits, Role.OUTPUT)
            if tensor.role is Role.ACTIVATION and tensor.name not in read
            else tensor
            for tensor in self.tensors.values()
        ]
        return Graph("small", tuple(tensors), tuple(self.operators))


def problem_of(graph: Graph, *capacities_bytes: int, alignment_bytes: int = 1, count: Count = Count.ALL) -> Problem:
    memories = tuple(Memory(f"s{at}", size, alignment_bytes) for at, size in enumerate(capacities_bytes))
    return Problem(graph, memories, count=count)


def specialised(graph: Graph, capacity_bytes: int) -> Problem:
    """Return the problem with three scratchpads, one per operand."""
    memories = tuple(Memory(operand.value, capacity_bytes, holds=(operand,)) for operand in Operand)
    return Problem(graph, memories, count=Count.ALL)


def convolution(
    network: Network,
    source: str,
    channels: int,
    kernel: Shape,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    pads: Sequence[int] | str = "SAME_UPPER",
    bias: bool = False,
    is_fused: bool = False,
) -> str | None:
    """Add a convolution; return None if the shapes do not permit it."""
    batch, depth, *sizes = network.shape(source)
    attributes: Attributes = {"strides": [stride] * 2, "dilations": [dilation] * 2, "group": groups}
    reaches = [(size - 1) * dilation + 1 for size in kernel]
    if isinstance(pads, str):
        attributes["auto_pad"] = pads
        pixels = [
            -(-size // stride) if pads != "VALID" else (size - reach) // stride + 1
            for size, reach in zip(sizes, reaches, strict=True)
        ]
    else:
        attributes["pads"] = list(pads)
        pixels = [
            (size + pads[at] + pads[at + 2] - reach) // stride + 1
            for at, (size, reach) in enumerate(zip(sizes, reaches, strict=True))
        ]
    if min(pixels) < 1 or depth % groups or channels % groups:
        return None
    weights = [network.parameter(channels, depth // groups, *kernel)]
    if bias:
        weights.append(network.parameter(channels))
    return network.add("Conv", [source], (batch, channels, *pixels), weights, attributes, is_fused=is_fused)


def pool(network: Network, source: str, kind: str, kernel: int, stride: int, pad: int) -> str | None:
    batch, depth, *sizes = network.shape(source)
    pixels = [(size + 2 * pad - kernel) // stride + 1 for size in sizes]
    if min(pixels) < 1 or pad >= kernel:
        return None
    attributes: Attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    return network.add(kind, [source], (batch, depth, *pixels), (), attributes)


def gemm(network: Network, source: str, columns: int, *, is_fused: bool = False, bias: bool = False) -> str:
    rows, *features = network.shape(source)
    width = 1
    for size in features:
        width *= size
    weights = [network.parameter(columns, width)]
    if bias:
        weights.append(network.parameter(columns))
    return network.add("Gemm", [source], (rows, columns), weights, is_fused=is_fused)


@st.composite
def networks(draw: st.DrawFn, most_operators: int = 4) -> Graph:
    """Draw convolutions, pools, products and element-wise operators in a row, some with two readers."""
    network = Network(draw(st.sampled_from((8, 16, 32, 64))))
    channels = st.sampled_from((1, 2, 3, 4, 6))
    size = st.integers(1, 9)
    images = [network.input(draw(st.integers(1, 2)), draw(channels), draw(size), draw(size))]
    for _ in range(draw(st.integers(1, most_operators))):
        source = draw(st.sampled_from(images))
        made = _drawn(draw, network, source, images, channels)
        if made is not None and len(network.shape(made)) == 4:
            images.append(made)
    if not network.operators:
        network.add("Relu", images, network.shape(images[0]))
    return network.graph()


def _drawn(
    draw: st.DrawFn, network: Network, source: str, images: list[str], channels: st.SearchStrategy[int]
) -> str | None:
    shape = network.shape(source)
    kind = draw(
        st.sampled_from(("Conv", "Conv", "Pool", "Gemm", "Relu", "Add", "BatchNorm", "Concat", "Mean", "Transpose"))
    )
    is_fused = draw(st.booleans())
    if kind == "Conv":
        return _drawn_convolution(draw, network, source, channels, is_fused=is_fused)
    if kind == "Pool":
        kinds = st.sampled_from(("MaxPool", "AveragePool"))
        return pool(
            network, source, draw(kinds), draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 1))
        )
    if kind == "Gemm":
        return gemm(network, source, draw(st.integers(1, 7)), is_fused=is_fused, bias=draw(st.booleans()))
    if kind == "Relu":
        return network.add("Relu", [source], shape)
    if kind == "BatchNorm":
        parameters = [network.parameter(shape[1]) for _ in range(4)]
        return network.add("BatchNormalization", [source], shape, parameters)
    if kind == "Mean":
        return network.add("GlobalAveragePool", [source], (*shape[:2], 1, 1))
    if kind == "Transpose":
        order = draw(st.permutations(range(4)))
        return network.add("Transpose", [source], tuple(shape[at] for at in order), (), {"perm": list(order)})
    alike = [name for name in images if network.shape(name) == shape]
    other = draw(st.sampled_from(alike))
    if kind == "Concat":
        axis = draw(st.integers(0, 3))
        joined = tuple(2 * each if at == axis else each for at, each in enumerate(shape))
        return network.add("Concat", [source, other], joined, (), {"axis": axis})
    if draw(st.booleans()):
        return network.add(draw(st.sampled_from(("Add", "Mul", "Div"))), [source, other], shape, is_fused=is_fused)
    return network.add("Add", [source], shape, [network.parameter(shape[1], 1, 1)])


def _drawn_convolution(
    draw: st.DrawFn, network: Network, source: str, channels: st.SearchStrategy[int], *, is_fused: bool
) -> str | None:
    shape = network.shape(source)
    groups = draw(st.sampled_from([1, *(divisor for divisor in (2, 3, shape[1]) if shape[1] % divisor == 0)]))
    pads = draw(
        st.one_of(
            st.sampled_from(("SAME_UPPER", "SAME_LOWER", "VALID")),
            st.lists(st.integers(0, 2), min_size=4, max_size=4),
        )
    )
    return convolution(
        network,
        source,
        draw(channels) * groups,
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        stride=draw(st.integers(1, 3)),
        dilation=draw(st.integers(1, 2)),
        groups=groups,
        pads=pads,
        bias=draw(st.booleans()),
        is_fused=is_fused,
    )
