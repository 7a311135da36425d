"""A plan of a `.pt2` file runs with torch's own values, operator by operator, as the whole program does."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count
from onchip.api.networks import read_network
from onchip.api.run import RunValues
from onchip.errors import InputError
from onchip.ir.operator import SEEN_PARTS
from onchip.ir.tensor import Role
from onchip.ops.entries import geometry_of
from simulate.test_tflite_runs import executed

torch = pytest.importorskip("torch", reason="torch is not installed (extra `torch`)")

from onchip.simulate.kernels.torch_kernels import TorchKernels  # noqa: E402 (only if torch is installed)
from support.small_programs import Cached, Module, QuantisedNetwork, Small, Value, dynamic_file, saved  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
PIXELS = (1, 3, 8, 8)


class Moving(Module):  # type: ignore[misc]
    """A module with slices, permutations, partial writes, several outputs, a partial output, and an input as output."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 12))

    def forward(self, x: Value) -> Value:
        turned = x.permute(0, 2, 3, 1)
        first, second = (turned * 2).chunk(2, dim=1)
        joined = torch.cat([first, second.flip(2)], dim=2).clone()
        joined[:, 1] += 3
        product = joined.reshape(-1, 6) @ self.weight[:, 2:8]
        values, places = product.topk(2, dim=1)
        return product[1:3], values + torch.exp(self.weight[:2, :2]).sum(), places, x


class Counting(Module):  # type: ignore[misc]
    """A module with two buffers: one is overwritten, one is added to in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4))
        self.register_buffer("total", torch.ones(4))

    def forward(self, x: Value) -> Value:
        before = self.last * 2
        self.last.copy_(x)
        self.total.add_(x)
        return before + self.total


class Shuffled(Module):  # type: ignore[misc]
    """A module as in ShuffleNet: half of the channels pass, half are computed, and all change places."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Value) -> Value:
        shuffled = torch.relu(x).view(1, 2, 4, 16, 16).transpose(1, 2).reshape(1, 8, 16, 16)
        first, second = shuffled.chunk(2, dim=1)
        return torch.cat([first, self.convolution(second)], dim=1) + shuffled[:, 3:4]


def small_file(module: Value, path: Path, *inputs: Value) -> Path:
    torch.manual_seed(0)
    saved(path, module, *inputs)
    return path


CASES = {
    "small": (Small, (torch.zeros(PIXELS),)),
    "cached": (Cached, (torch.zeros(1, 1, 8), torch.zeros(1, dtype=torch.int64))),
    "quantised": (QuantisedNetwork, (torch.zeros(1, 8, 4, 4),)),
    "moving": (Moving, (torch.zeros(1, 3, 4, 4),)),
    "counting": (Counting, (torch.zeros(4),)),
    "half": (lambda: Small().to(torch.bfloat16), (torch.zeros(PIXELS, dtype=torch.bfloat16),)),
    "attention": (lambda: torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (torch.zeros(1, 5, 16),)),
    "lstm": (lambda: torch.nn.LSTM(4, 3, batch_first=True), (torch.zeros(1, 5, 4),)),
}


@pytest.mark.parametrize("granularity", list(Granularity))
@pytest.mark.parametrize("count", list(Count))
@pytest.mark.parametrize("case", CASES)
def test_programs_run_with_the_values_of_the_whole(
    case: str, count: Count, granularity: Granularity, tmp_path: Path
) -> None:
    module, inputs = CASES[case]
    path = small_file(module(), tmp_path / f"{case}.pt2", *inputs)
    execution = executed(path, tmp_path, Reading(granularity=granularity, count=count))
    assert execution.kernels == "torch"
    assert execution.is_right
    assert execution.relative_difference is not None
    assert execution.relative_difference < 1e-6


@pytest.mark.slow
def test_parts_of_maps_are_read_tile_by_tile_with_the_values_of_the_whole(tmp_path: Path) -> None:
    path = small_file(Shuffled(), tmp_path / "shuffled.pt2", torch.zeros(1, 8, 16, 16))
    graph = read_network(str(path))
    join, total = (next(one for one in graph.operators if one.kind == kind) for kind in ("Concat", "Add"))
    whole: list[int] = []
    assert join.attributes[SEEN_PARTS] == [[0, 2048, 256, 16, 1], whole]
    assert total.attributes[SEEN_PARTS] == [whole, [3 * 256, 2048, 256, 16, 1]]
    execution = executed(path, tmp_path, Reading(), 6144)
    tiled = {one.tile.operator for one in execution.check.problem.graph.operators if one.tile is not None}
    assert {join.name, total.name} <= tiled
    assert execution.is_right


@pytest.mark.parametrize("size", [1, 3, 16])
def test_a_tile_needs_nothing_of_a_map_but_what_it_reads(size: int, tmp_path: Path) -> None:
    """Torch computes the tile with NaN in all other places."""
    path = small_file(Shuffled(), tmp_path / "shuffled.pt2", torch.zeros(1, 8, 16, 16))
    graph = read_network(str(path))
    kernels = TorchKernels(graph, path, Bindings())
    seen = [one for one in graph.operators if SEEN_PARTS in one.attributes]
    assert {one.kind for one in seen} == {"Concat", "Conv", "Add"}
    for operator in seen:
        geometry = geometry_of(operator, graph, is_model=True)
        assert geometry is not None
        sizes = [min(axis.size, size) for axis in geometry.axes if not axis.is_reduction]
        sizes += [axis.size for axis in geometry.axes if axis.is_reduction]
        tile = tuple((axis.size - size, axis.size) for axis, size in zip(geometry.axes, sizes, strict=True))
        content = {name: np.full(graph.tensor[name].shape or (), np.nan, np.float32) for name in operator.inputs}
        for access in geometry.reads:
            region = access.region(tile, geometry.axes)
            if region is not None and access.tensor in content:
                content[access.tensor][tuple(slice(*each) for each in region)] = 1
        operands = {name: array.reshape(-1).view(np.uint8) for name, array in content.items()}
        operands |= {name: kernels.parameter(graph.tensor[name]) for name in operator.parameters}
        (output,) = operator.outputs
        written = kernels.run(operator, operands)[output].view(np.float32).reshape(graph.tensor[output].shape or ())
        assert not np.isnan(written[tuple(slice(*each) for each in tile[: written.ndim])]).any()
        assert size == 16 or np.isnan(written).any()


@pytest.mark.slow
def test_a_program_of_open_sizes_runs_at_those_that_are_bound(tmp_path: Path) -> None:
    path = dynamic_file(tmp_path / "dynamic.pt2")
    execution = executed(path, tmp_path, Reading.of(Bindings(shapes={"x": (3, 3, 18, 16)})))
    assert execution.is_right
    assert execution.relative_difference == 0


def test_what_is_handed_in_is_computed_with_and_other_shapes_are_refused(tmp_path: Path) -> None:
    path = small_file(Small(), tmp_path / "small.pt2", torch.zeros(PIXELS))
    graph = read_network(str(path))
    kernels = TorchKernels(graph, path, Bindings())
    (given,) = graph.with_role(Role.INPUT)
    array = np.random.default_rng(1).standard_normal(PIXELS).astype(np.float32)
    contents = {given.name: kernels.given_input(given, array)}
    for operator in graph.operators:
        contents |= kernels.run(operator, {name: contents[name] for name in operator.inputs})
    (output,) = graph.with_role(Role.OUTPUT)
    expected = torch.export.load(path).module()(torch.from_numpy(array)).detach().numpy()
    found = contents[output.name].view(np.float32).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(InputError, match=r"holds float64\[1, 3, 8, 8\]"):
        kernels.given_input(given, array.astype(np.float64))


def test_another_operand_gives_another_result(tmp_path: Path) -> None:
    """The kernels read no data but the operands given to them."""
    path = small_file(Moving(), tmp_path / "moving.pt2", torch.zeros(1, 3, 4, 4))
    graph = read_network(str(path), Reading(count=Count.ALL))
    kernels = TorchKernels(graph, path, Bindings())
    contents = {one.name: kernels.network_input(one) for one in graph.with_role(Role.INPUT)}
    contents |= {one.name: kernels.parameter(one) for one in graph.with_role(Role.PARAMETER)}
    for operator in graph.operators:
        contents |= kernels.run(operator, {name: contents[name] for name in operator.reads})
    for operator in graph.operators:
        for name in operator.inputs:
            operands = {each: contents[each] for each in operator.reads}
            size = operands[name].size
            operands[name] = np.random.default_rng(size).integers(0, 100, size).astype(np.uint8)
            found = kernels.run(operator, operands)
            assert any(not np.array_equal(found[each], contents[each]) for each in found), (operator, name)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    path = small_file(Small(), tmp_path / "small.pt2", torch.zeros(PIXELS))
    bare = tmp_path / "bare.pt2"
    with ZipFile(path) as source, ZipFile(bare, "w") as target:
        for name in source.namelist():
            if not name.endswith("data/weights/weight_0"):
                target.writestr(name, source.read(name))
    assert read_network(str(bare)).operators == read_network(str(path)).operators
    with pytest.raises(InputError, match="weight_0 is not there"):
        executed(bare, tmp_path)


def test_random_weights_are_refused(tmp_path: Path) -> None:
    path = small_file(Small(), tmp_path / "small.pt2", torch.zeros(PIXELS))
    with pytest.raises(InputError, match="an exported program runs on its own weights"):
        executed(path, tmp_path, values=RunValues(random_weights=1))
