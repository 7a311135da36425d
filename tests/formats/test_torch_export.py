"""Small torch modules as graphs: operators, views, and the readers of each tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from onchip.errors import OpenDimensionsError
from onchip.formats.networks import graph_from_torch
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role

torch = pytest.importorskip("torch", reason="torch is not installed (extra `torch`)")
functional = torch.nn.functional
pytestmark = pytest.mark.torch

Value: TypeAlias = Any
"""A torch tensor or module."""
Module: Value = torch.nn.Module


def module_of(forward: Callable[..., Value], **parts: Value) -> Value:
    """Return a module that runs `forward(self, *inputs)`; `parts` are its submodules, parameters and buffers."""

    class Traced(Module):  # type: ignore[misc]
        def forward(self, x: Value, y: Value = None) -> Value:
            return forward(self, x) if y is None else forward(self, x, y)

    module = Traced()
    for name, part in parts.items():
        if isinstance(part, torch.Tensor) and not isinstance(part, torch.nn.Parameter):
            module.register_buffer(name, part)
        else:
            setattr(module, name, part)
    return module


def traced(forward: Callable[..., Value], *shapes: tuple[int, ...], expand: bool = False, **parts: Value) -> Graph:
    inputs = tuple(torch.zeros(shape) for shape in shapes or ((2, 8),))
    return graph_from_torch(module_of(forward, **parts), inputs, "small", expand_attention=expand)


def told(graph: Graph) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(operator.kind, operator.inputs, operator.outputs) for operator in graph.operators]


def roles(graph: Graph, role: Role) -> list[tuple[str, tuple[int, ...] | None]]:
    return [(tensor.name, tensor.shape) for tensor in graph.with_role(role)]


def test_a_plain_chain_keeps_order_sizes_and_roles() -> None:
    graph = traced(lambda self, x: torch.relu(self.fc(x)), fc=torch.nn.Linear(8, 4))
    assert told(graph) == [("Gemm", ("x",), ("fc",)), ("Relu", ("fc",), ("relu",))]
    assert graph.operators[0].parameters == ("fc.weight", "fc.bias")
    assert roles(graph, Role.INPUT) == [("x", (2, 8))]
    assert roles(graph, Role.ACTIVATION) == [("fc", (2, 4))]
    assert roles(graph, Role.OUTPUT) == [("relu", (2, 4))]
    assert roles(graph, Role.PARAMETER) == [("fc.weight", (4, 8)), ("fc.bias", (4,))]
    assert graph.tensor["fc"].size_bytes == 2 * 4 * 4


def test_an_operator_in_place_is_an_ordinary_one_and_later_readers_see_the_new_tensor() -> None:
    def forward(_: Value, x: Value) -> Value:
        y = x + 1
        y.relu_()
        return y * y

    graph = traced(forward)
    assert told(graph) == [
        ("Add", ("x",), ("add",)),
        ("Relu", ("add",), ("relu",)),
        ("Mul", ("relu", "relu"), ("mul",)),
    ]


def test_writing_through_a_view_makes_a_new_version_of_the_whole_tensor() -> None:
    def forward(_: Value, x: Value, y: Value) -> Value:
        z = x * 2
        z[0] = y
        return z.view(-1) + 1

    graph = traced(forward, (2, 8), (8,))
    assert told(graph) == [("Mul", ("x",), ("mul",)), ("copy", ("mul", "y"), ("copy",)), ("Add", ("copy",), ("add",))]
    assert graph.tensor["copy"].shape == (2, 8)


def test_views_fold_whatever_made_them() -> None:
    def forward(_: Value, x: Value) -> Value:
        first, second = torch.relu(x).chunk(2, dim=1)
        return first.transpose(0, 1).unsqueeze(0) @ second.squeeze().view(1, 4, 4)[0]

    graph = traced(forward, (4, 8))
    assert told(graph) == [("Relu", ("x",), ("relu",)), ("MatMul", ("relu", "relu"), ("matmul",))]
    assert graph.operators[1].attributes["input_shapes"] == [[1, 4, 4], [4, 4]]


def test_a_permutation_made_contiguous_folds_but_a_copied_slice_is_an_operator() -> None:
    permuted = traced(lambda _, x: torch.relu(torch.relu(x).permute(1, 0).contiguous()))
    assert [operator.kind for operator in permuted.operators] == ["Relu", "Relu"]
    sliced = traced(lambda _, x: torch.relu(torch.relu(x)[:, :4].contiguous()))
    assert told(sliced)[1] == ("contiguous", ("relu",), ("contiguous",))
    assert sliced.tensor["contiguous"].shape == (2, 4)


def test_writing_into_a_folded_copy_leaves_the_original_as_it_was() -> None:
    def forward(_: Value, x: Value) -> Value:
        y = torch.relu(x)
        z = y.permute(1, 0).contiguous()
        z.add_(1)
        return y.sum() + z.sum()

    graph = traced(forward)
    assert [operator.inputs for operator in graph.operators[:4]] == [("x",), ("relu",), ("relu",), ("add",)]


def test_dropout_at_inference_folds_and_the_module_stays_in_training() -> None:
    module = module_of(lambda self, x: torch.relu(self.drop(x)), drop=torch.nn.Dropout(0.5))
    assert told(graph_from_torch(module, (torch.zeros(2, 8),), "small")) == [("Relu", ("x",), ("relu",))]
    assert module.training
    assert module.drop.training


def test_a_slice_of_a_parameter_is_a_parameter_of_its_own() -> None:
    def forward(self: Value, x: Value) -> Value:
        query, rest = self.weight.split([8, 16])
        return functional.linear(x, query) @ functional.linear(x, rest).view(8, 4) + x @ self.weight[:8].t()[:, :4]

    graph = traced(forward, (2, 8), weight=torch.nn.Parameter(torch.zeros(24, 8)))
    assert [operator.parameters for operator in graph.operators] == [
        ("weight[0:64]",),
        ("weight[64:192]",),
        (),
        ("weight[0:32]",),
        (),
    ]
    assert roles(graph, Role.PARAMETER) == [
        ("weight[0:64]", (8, 8)),
        ("weight[64:192]", (16, 8)),
        ("weight[0:32]", (8, 4)),
    ]


def test_tied_parameters_are_one() -> None:
    first, second = torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)
    second.weight = first.weight
    graph = traced(lambda self, x: self.second(self.first(x)), first=first, second=second)
    assert [operator.parameters for operator in graph.operators] == [("first.weight",), ("first.weight",)]


def test_buffers_are_parameters_and_unread_ones_are_absent() -> None:
    graph = traced(lambda self, x: self.norm(x), (1, 4, 2, 2), norm=torch.nn.BatchNorm2d(4))
    assert [name for name, _ in roles(graph, Role.PARAMETER)] == [
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
    ]
    assert graph.operators[0].kind == "BatchNormalization"


def test_several_outputs_over_one_base_are_one_tensor_with_both_names() -> None:
    graph = traced(lambda _, x: (torch.relu(x), torch.relu(x).view(-1), x * 2))
    assert len(graph.with_role(Role.OUTPUT)) == 3

    def forward(_: Value, x: Value) -> Value:
        y = torch.relu(x)
        return y, y.view(-1)

    shared = traced(forward)
    assert [(tensor.name, tensor.aliases) for tensor in shared.with_role(Role.OUTPUT)] == [("relu", ("view",))]


def test_an_output_that_is_an_input_or_a_parameter_is_made_by_an_identity() -> None:
    graph = traced(lambda self, x: (x, x.view(-1), self.bias), bias=torch.nn.Parameter(torch.zeros(8)))
    assert told(graph) == [("Identity", ("x",), ("x.output",)), ("Identity", (), ("bias.output",))]
    assert graph.operators[1].parameters == ("bias",)
    assert [len(tensor.aliases) for tensor in graph.with_role(Role.OUTPUT)] == [1, 0]


def test_results_for_the_backward_pass_are_tensors_only_if_read() -> None:
    def forward(_: Value, x: Value) -> Value:
        return functional.max_pool2d_with_indices(x, 2)

    assert told(traced(lambda _, x: forward(_, x)[0], (1, 1, 4, 4)))[0][2] == ("max_pool2d_with_indices",)
    assert len(told(traced(forward, (1, 1, 4, 4)))[0][2]) == 2


def attention(_: Value, x: Value, y: Value) -> Value:
    return functional.scaled_dot_product_attention(x, y, y)


def test_attention_is_one_operator_or_three() -> None:
    shapes = ((1, 2, 3, 8), (1, 2, 5, 8))
    whole = traced(attention, *shapes)
    name = "scaled_dot_product_attention"
    assert told(whole) == [("Attention", ("x", "y", "y"), (name,))]
    expanded = traced(attention, *shapes, expand=True)
    assert told(expanded) == [
        ("MatMul", ("x", "y"), (f"{name}.scores",)),
        ("Softmax", (f"{name}.scores",), (f"{name}.weights",)),
        ("MatMul", (f"{name}.weights", "y"), (name,)),
    ]
    assert expanded.tensor[f"{name}.scores"].shape == expanded.tensor[f"{name}.weights"].shape == (1, 2, 3, 5)
    assert expanded.tensor[name] == whole.tensor[name]


def test_convolution_and_pools_have_their_attributes_in_onnx_order() -> None:
    parts = {
        "conv": torch.nn.Conv2d(4, 8, (3, 5), stride=(1, 2), padding=(1, 2), dilation=(2, 1), groups=2),
        "same": torch.nn.Conv2d(8, 8, (2, 3), padding="same"),
        "pool": torch.nn.MaxPool2d(2),
        "average": torch.nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False),
        "last": torch.nn.AdaptiveAvgPool2d(1),
    }

    def chain(self: Value, x: Value) -> Value:
        return self.last(self.average(self.pool(self.same(self.conv(x)))))

    graph = traced(chain, (1, 4, 16, 16), **parts)
    conv, same, pool, average, last = graph.operators
    assert conv.attributes == {
        "strides": [1, 2],
        "pads": [1, 2, 1, 2],
        "dilations": [2, 1],
        "group": 2,
        "kernel_shape": [3, 5],
    }
    assert same.attributes["pads"] == [0, 1, 1, 1]
    assert (pool.kind, pool.attributes["kernel_shape"], pool.attributes["strides"]) == ("MaxPool", [2, 2], [2, 2])
    assert (average.kind, average.attributes["pads"]) == ("AveragePool", [1, 1, 1, 1])
    assert (last.kind, last.name) == ("GlobalAveragePool", "last")


def test_names_are_the_modules_paths_and_unique() -> None:
    block = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(inplace=True))
    graph = traced(lambda self, x: self.block(self.block(x)) + x, block=block)
    assert [operator.name for operator in graph.operators] == ["block.0", "block.1", "block.0_1", "block.1_1", "add"]


def test_a_module_on_the_meta_device_gives_the_same_graph() -> None:
    inputs = (torch.zeros(1, 3, 8, 8),)

    def build() -> Value:
        return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())

    with torch.device("meta"):
        weightless = build()
    assert graph_from_torch(weightless, inputs, "small") == graph_from_torch(build(), inputs, "small")


def test_an_exported_program_gives_the_graph_of_its_module() -> None:
    module = module_of(lambda self, x: torch.relu_(self.fc(x)), fc=torch.nn.Linear(8, 4)).eval()
    inputs = (torch.zeros(2, 8),)
    program = torch.export.export(module, inputs)
    assert graph_from_torch(program, (), "small") == graph_from_torch(module, inputs, "small")


def test_a_shape_that_is_not_fixed_is_asked_for() -> None:
    module = module_of(lambda _, x: torch.relu(x))
    dynamic = {"x": {0: torch.export.Dim("batch")}}
    program = torch.export.export(module, (torch.zeros(2, 8),), dynamic_shapes=dynamic)
    with pytest.raises(
        OpenDimensionsError, match=r"1 open dimension: symbol '(s\d+)' \(axis 0 of 'x'\).*dims=\{'\1': 1\}"
    ):
        graph_from_torch(program, (), "small")


@pytest.mark.slow
def test_of_a_step_of_training_the_loss_and_the_gradients_leave() -> None:
    from torch.export.experimental import _export_forward_backward

    step = module_of(
        lambda self, x, y: functional.cross_entropy(self.fc(torch.relu(self.hidden(x))), y),
        hidden=torch.nn.Linear(8, 5),
        fc=torch.nn.Linear(5, 3),
    )
    inputs = torch.zeros(2, 8), torch.zeros(2, dtype=torch.int64)
    graph = graph_from_torch(_export_forward_backward(torch.export.export(step, inputs)), name="step")

    left = sorted(tensor.size_bytes // 4 for tensor in graph.with_role(Role.OUTPUT))
    assert left == [1, 3, 5, 3 * 5, 5 * 8]
    products = [operator for operator in graph.operators if operator.kind in ("Gemm", "MatMul")]
    assert len(products) == 2 + 3  # the forward pass; the backward passes of both weights and of one map


def test_what_is_wholly_overwritten_is_not_read() -> None:
    def forward(_: Value, x: Value, y: Value) -> Value:
        z = x * 2
        z.copy_(y)
        return z + 1

    assert told(traced(forward, (2, 8), (2, 8))) == [("copy", ("y",), ("copy",)), ("Add", ("copy",), ("add",))]
