"""Random small graphs for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor

SIZES = st.integers(min_value=1, max_value=9)


@st.composite
def graphs(draw: st.DrawFn, max_operators: int = 7, *, with_parameters: bool = True) -> Graph:
    """Draw DAGs of 1 to `max_operators` operators over tensors of 1 to 9 bytes.

    They have several network inputs and outputs, operators with two outputs and with an input named twice, unread
    outputs, and network outputs with readers. Examples shrink to a chain.
    """
    inputs = [f"x{index}" for index in range(draw(st.integers(1, 3)))]
    parameters = [f"w{index}" for index in range(draw(st.integers(0, 2)))] if with_parameters else []
    readable, operators = list(inputs), []
    for index in range(draw(st.integers(1, max_operators))):
        operator = Operator(
            name=f"op{index}",
            kind=draw(st.sampled_from(("Conv", "Add", "Concat"))),
            inputs=tuple(draw(st.lists(st.sampled_from(readable[::-1]), min_size=1, max_size=3))),
            outputs=tuple(f"t{index}.{output}" for output in range(draw(st.sampled_from((1, 1, 1, 2))))),
            parameters=tuple(
                draw(st.lists(st.sampled_from(parameters), max_size=2, unique=True)) if parameters else ()
            ),
        )
        operators.append(operator)
        readable.extend(operator.outputs)
    read = {name for operator in operators for name in operator.inputs}
    roles = dict.fromkeys(inputs, Role.INPUT) | dict.fromkeys(parameters, Role.PARAMETER)
    for name in readable[len(inputs) :]:
        is_output = draw(st.sampled_from((False, False, False, True) if name in read else (True, True, False)))
        roles[name] = Role.OUTPUT if is_output else Role.ACTIVATION
    tensors = tuple(_tensor(name, draw(SIZES), role, in_bits=draw(st.booleans())) for name, role in roles.items())
    return Graph("random", tensors, tuple(operators))


def _tensor(name: str, size_bytes: int, role: Role, *, in_bits: bool) -> Tensor:
    return Tensor.of_shape(name, (size_bytes,), 8, role) if in_bits else Tensor(name, size_bytes, role)
