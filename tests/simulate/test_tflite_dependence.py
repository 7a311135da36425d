"""The inputs on which a part of an output depends, by the verifier, are all that TFLite's kernels read."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from onchip.formats.networks import read_tflite
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tile import Region
from onchip.simulate.kernels.tflite_kernels import TfliteKernels
from onchip.verify.schedule.windows import seen
from support.tflite_models import TfliteModel, a_network_of_many_kinds, a_network_of_what_moves_elements

REGIONS = 25
Maps = dict[str, npt.NDArray[np.float32]]


def part(shape: tuple[int, ...], chance: random.Random) -> Region:
    cuts = [sorted(chance.sample(range(size + 1), 2)) for size in shape]
    return tuple((start, stop) for start, stop in cuts)


def outputs(kernels: TfliteKernels, operator: Operator, graph: Graph, maps: Maps) -> npt.NDArray[np.float32]:
    content = {name: array.reshape(-1).view(np.uint8) for name, array in maps.items()}
    name = operator.outputs[0]
    return kernels.run(operator, content)[name].view(np.float32).reshape(graph.tensor[name].shape or ())


def places(region: Region) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in region)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (a_network_of_many_kinds, {"Conv", "ConvTranspose", "MaxPool", "Mul", "Add", "Pad", "Slice"}),
        (a_network_of_what_moves_elements, {"AveragePool", "Slice", "Sub"}),
    ],
)
def test_nothing_outside_of_what_is_seen_changes_a_part_of_an_output(
    model: Callable[[], TfliteModel], expected: set[str], tmp_path: Path
) -> None:
    path = model().write(tmp_path / "m.tflite")
    graph = read_tflite(path)
    kernels, array, chance = TfliteKernels(graph, path), np.random.default_rng(1), random.Random(1)
    in_parts = set()
    for operator in graph.operators:
        shapes = {name: graph.tensor[name].shape or () for name in (*operator.inputs, *operator.outputs)}
        sources = [shapes[name] for name in operator.inputs]
        weight = (graph.tensor[operator.parameters[0]].shape or ()) if operator.parameters else None
        maps = {name: array.standard_normal(shapes[name]).astype(np.float32) for name in operator.inputs}
        whole = outputs(kernels, operator, graph, maps)
        for _ in range(REGIONS):
            region = part(shapes[operator.outputs[0]], chance)
            try:
                needs = seen(operator, sources, weight, shapes[operator.outputs[0]], region)
            except LookupError:
                break  # the operator runs whole: its kind has no rule for parts
            in_parts.add(operator.kind)
            changed = {}
            for name, need in zip(operator.inputs, needs, strict=True):
                changed[name] = array.standard_normal(shapes[name]).astype(np.float32)
                if need is not None:
                    changed[name][places(need)] = maps[name][places(need)]
            found = outputs(kernels, operator, graph, changed)
            assert np.array_equal(found[places(region)], whole[places(region)]), (operator.kind, region)
    assert in_parts >= expected
