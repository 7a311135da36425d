"""A chain of convolutions with a skip connection over one, and a chip with two addressed memories."""

from __future__ import annotations

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Port
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision

PRECISION = Precision(8, 16)
PORTS = (Port(Direction.READ_WRITE, 16),)


def skip_chip(near_bytes: int = 40, far_bytes: int = 90) -> Accelerator:
    """Return a chip whose two memories hold everything, with an array of two units."""
    near = MemoryLevel(Memory("near", near_bytes), access=Access(8, 1, 1), ports=PORTS)
    far = MemoryLevel(Memory("far", far_bytes, 2), is_scratchpad=True, access=Access(8, 5, 5), ports=PORTS)
    array = ComputeArray({"K": 2}, None, 0.5)
    return Accelerator("tiny", (far.memory,), (near, far), None, array, Dram(Access(8, 100, 100), PORTS))


def skip_network(rows: int = 4, columns: int = 4) -> Graph:
    """Return convolutions with a skip connection over one, then a softmax over the channels, which has no tiles."""

    def activation(name: str, role: Role = Role.ACTIVATION) -> Tensor:
        return Tensor.of_shape(name, (1, 2, rows, columns), 8, role)

    weights = tuple(Tensor.of_shape(f"w{at}", (2, 2, 3, 3), 8, Role.PARAMETER) for at in range(2))
    attributes: dict[str, AttributeValue] = {
        "kernel_shape": [3, 3],
        "pads": [1, 1, 1, 1],
        "strides": [1, 1],
        "dilations": [1, 1],
        "group": 1,
    }
    return Graph(
        "skip",
        (activation("x", Role.INPUT), *weights, *map(activation, "abc"), activation("y", Role.OUTPUT)),
        (
            Operator("first", "Conv", ("x",), ("a",), ("w0",), attributes),
            Operator("second", "Conv", ("a",), ("b",), ("w1",), attributes),
            Operator("add", "Add", ("a", "b"), ("c",)),
            Operator("soft", "Softmax", ("c",), ("y",), attributes={"axis": 1}),
        ),
    )
