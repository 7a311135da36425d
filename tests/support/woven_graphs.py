"""Small graphs whose branches meet in an operator that may run band by band in parallel to them."""

from __future__ import annotations

from random import Random

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.stated_cost import ChannelSplits, StatedCost
from onchip.ir.tensor import Role, Tensor


def woven_graph(random: Random, branches: int) -> Graph:
    """Return branches of one input, mostly in bands, the operator that reads them all, and its reader."""
    shaped = [_tensor(random, "x", Role.INPUT)]
    operators, outputs = [], tuple(f"b{number}" for number in range(branches))
    for number, output in enumerate(outputs):
        shaped.append(_tensor(random, output, Role.ACTIVATION))
        parameters: tuple[str, ...] = (f"w{number}",) if random.random() < 0.7 else ()
        shaped += [_tensor(random, name, Role.PARAMETER) for name in parameters]
        stated = _stated(random, 0.8, cuts_inputs=random.random() < 0.2)
        operators.append(Operator(f"o{number}", "Any", ("x",), (output,), parameters, stated=stated))
    named = (("p", Role.ACTIVATION), ("v", Role.PARAMETER), ("y", Role.OUTPUT))
    shaped += [_tensor(random, name, role) for name, role in named]
    operators.append(Operator("meet", "Any", outputs, ("p",), stated=_stated(random, 0.9, cuts_inputs=True)))
    stated = _stated(random, 0.6, cuts_inputs=random.random() < 0.3)
    operators.append(Operator("last", "Any", ("p",), ("y",), ("v",), stated=stated))
    return Graph("woven", tuple(shaped), tuple(operators))


def _tensor(random: Random, name: str, role: Role) -> Tensor:
    return Tensor.of_shape(name, (2, random.choice([1, 1, 2])), 8, role)


def _stated(random: Random, in_bands: float, *, cuts_inputs: bool) -> StatedCost:
    cycles = random.randint(1, 9)
    if random.random() >= in_bands:
        return StatedCost(cycles)
    return StatedCost(cycles, None, ChannelSplits(cuts_inputs, ((2, random.randint(-(-cycles // 2), cycles)),)))
