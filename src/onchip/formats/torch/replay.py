"""Runs an exported program on the meta device: no values, but true storages.

Two values share bytes exactly when they share a storage, so every operator's result says by
itself whether it is a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind
from torch.utils._pytree import tree_leaves, tree_map

from onchip.errors import GraphError
from onchip.formats.torch import kinds as torch_kinds
from onchip.formats.torch.kinds import Arguments
from onchip.formats.torch.recording import Recording
from onchip.formats.torch.storage import bytes_of, covers_its_storage, slice_label, storage_of
from onchip.ir.operator import AttributeValue
from onchip.ir.tensor import Role

OVERWRITING = frozenset({"copy", "fill", "zero"})


def exported(
    module: torch.nn.Module | torch.export.ExportedProgram, example_inputs: Sequence[object]
) -> torch.export.ExportedProgram:
    """The program of a module as at inference, or an `ExportedProgram` as it is; raises GraphError."""
    if isinstance(module, torch.export.ExportedProgram):
        return module
    parameter = next(iter(module.parameters()), None)
    device = parameter.device if parameter is not None else None
    inputs = tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, tuple(example_inputs))
    with _as_at_inference(module):
        try:
            return torch.export.export(module, inputs, strict=False)
        except Exception as error:
            place = f"module {type(module).__name__!r}"
            raise GraphError(f"torch.export refuses it: {_first_line(error)}", place=place) from error


@contextmanager
def _as_at_inference(module: torch.nn.Module) -> Iterator[None]:
    """In eval mode, without gradients, and without attention's fast path, which hides its operators."""
    training = [each for each in module.modules() if each.training]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for each in training:
            each.training = True


class ExportReplay:
    """One run of an exported program, and what it records."""

    def __init__(self, program: torch.export.ExportedProgram, *, expand_attention: bool) -> None:
        self._program = program
        self._expand_attention = expand_attention
        self._recording = Recording()
        self._values: dict[torch.fx.Node, Any] = {}
        self._shadows: dict[int, torch.Tensor] = {}

    def recording(self) -> Recording:
        """Runs every node; raises GraphError for what depends on values or unknown shapes."""
        inputs = iter(self._program.graph_signature.input_specs)
        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                self._values[node] = self._placeholder(node, next(inputs))
            elif node.op == "get_attr":
                value = getattr(self._program.graph_module, node.target)
                is_tensor = isinstance(value, torch.Tensor)
                self._values[node] = self._parameter(node.target, value, value) if is_tensor else value
            elif node.op == "call_function":
                self._values[node] = self._call(node)
            elif node.op == "output":
                self._note_outputs(node)
        return self._recording

    def _placeholder(self, node: torch.fx.Node, spec: InputSpec) -> object:
        """A network input or a parameter without its values; a constant argument itself."""
        if isinstance(spec.arg, ConstantArgument):
            return spec.arg.value
        value = node.meta.get("val")
        place = f"input {spec.target or node.name!r}"
        if not isinstance(value, torch.Tensor):
            raise GraphError("it is no tensor", place=place, expected="tensors and constants")
        if any(not isinstance(size, int) for size in value.shape):
            raise GraphError(f"its shape {list(value.shape)} is not fixed", place=place, expected="fixed shapes")
        if spec.kind is not InputKind.USER_INPUT:
            held = self._program.state_dict.get(spec.target, self._program.constants.get(spec.target))
            return self._parameter(spec.target, value, held)
        shadow = _shadow(value)
        self._recording.add_tensor(node.name, shadow, Role.INPUT)
        return shadow

    def _parameter(self, name: str, value: torch.Tensor, held: object) -> torch.Tensor:
        """`held` is the real tensor: two parameters that hold the same storage are one."""
        storage = storage_of(held) if isinstance(held, torch.Tensor) else None
        known = self._shadows.get(storage) if storage is not None else None
        if known is not None and known.numel() == value.numel():
            return known.as_strided(value.shape, value.stride())
        shadow = _shadow(value)
        if storage is not None:
            self._shadows[storage] = shadow
        if shadow.numel() > 0:
            self._recording.add_tensor(name, shadow, Role.PARAMETER)
        return shadow

    def _call(self, node: torch.fx.Node) -> object:
        args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), lambda each: self._values[each])
        target, place = node.target, f"node {node.name!r}"
        if isinstance(target, torch._ops.HigherOrderOperator):
            raise GraphError(f"the operator {target} runs other graphs", place=place, expected="a program without")
        if not isinstance(target, torch._ops.OpOverload):
            return target(*args, **kwargs)
        arguments = _by_name(target._schema, args, kwargs)
        try:
            result = target(*tree_map(_on_meta, args), **tree_map(_on_meta, kwargs))
        except Exception as error:
            what = f"{target} cannot run without values: {_first_line(error)}"
            raise GraphError(what, place=place, expected="operators that need shapes only") from error
        if torch.Tag.inplace_view not in target.tags and not _is_dropout_at_inference(target, arguments):
            self._record(node, arguments, result)
        return result

    def _record(self, node: torch.fx.Node, arguments: Arguments, result: object) -> None:
        """Notes the operator, unless its results are views."""
        schema = node.target._schema
        written = [arguments[each.name] for each in schema.arguments if each.is_write]
        mutated = [value for value in written if isinstance(value, torch.Tensor)]
        fresh = {
            index: leaf
            for index, leaf in enumerate(tree_leaves(result))
            if isinstance(leaf, torch.Tensor) and leaf.numel() > 0 and not self._recording.knows(leaf)
        }
        if not mutated and self._folds_by_its_schema(schema, arguments, list(fresh.values())):
            return
        operation = schema.name.rpartition("::")[2].rstrip("_")
        name = self._recording.unique_name(_readable_name(node, operation))
        if self._expand_attention and torch_kinds.is_attention(operation):
            self._record_attention(name, arguments, fresh[0])
            return
        overwritten = mutated[:1] if operation in OVERWRITING and mutated and covers_its_storage(mutated[0]) else []
        reads = [value for value in arguments.values() if not any(value is each for each in overwritten)]
        operands = self._recording.operands(reads)
        outputs = [self._recording.add_version(f"{name}.{i}" if i else name, value) for i, value in enumerate(mutated)]
        outputs += [self._recording.add_tensor(f"{name}.{i}" if i else name, leaf) for i, leaf in fresh.items()]
        if torch_kinds.outputs_beyond_the_first_are_optional(operation):
            self._recording.optional.update(outputs[1:])
        kind, attributes = torch_kinds.kind_and_attributes(operation, arguments)
        self._recording.add_operator(name, kind, operands, outputs, attributes)

    def _folds_by_its_schema(
        self, schema: torch.FunctionSchema, arguments: Arguments, results: list[torch.Tensor]
    ) -> bool:
        """Whether there is nothing new, or the schema lets the results be the argument and they have its bytes."""
        sources = [arguments[each.name] for each in schema.arguments if each.alias_info is not None]
        may_alias = any(each.alias_info is not None for each in schema.returns) and _is_one_tensor(sources)
        if results and not (may_alias and all(self._recording.is_same_bytes(sources[0], each) for each in results)):
            return False
        for result in results:
            self._recording.hold_the_same(sources[0], result)
        return True

    def _record_attention(self, name: str, arguments: Arguments, result: torch.Tensor) -> None:
        """softmax(query key^T + mask) value, as operators of their own; the scale is part of the first."""
        query, key, value = arguments["query"], arguments["key"], arguments["value"]
        scores = (*query.shape[:-1], key.shape[-2])
        mask = arguments.get("attn_mask", arguments.get("attn_bias"))
        matmul: dict[str, AttributeValue] = {"input_shapes": torch_kinds.shapes(query, key)}
        steps: list[tuple[str, str, list[torch.Tensor], dict[str, AttributeValue]]] = [
            (f"{name}.scores", "MatMul", [query, key], matmul),
            *([(f"{name}.masked", "Add", [mask], {})] if mask is not None else []),
            (f"{name}.weights", "Softmax", [], {"axis": -1}),
        ]
        before: list[str] = []
        for label, kind, values, attributes in steps:
            step = self._recording.unique_name(label)
            reads = [*before, *self._recording.operands(values)]
            weights = torch.empty(scores, dtype=query.dtype, device="meta")
            before = [self._recording.add_tensor(step, weights)]
            self._recording.add_operator(step, kind, reads, before, attributes)
        reads = [*before, *self._recording.operands([value])]
        attributes = {"input_shapes": torch_kinds.shapes(weights, value)}
        self._recording.add_operator(name, "MatMul", reads, [self._recording.add_tensor(name, result)], attributes)

    def _note_outputs(self, node: torch.fx.Node) -> None:
        """What is an input or a parameter, or a view of one, is copied by an Identity, once."""
        copies: dict[tuple[str, str, int], str] = {}
        specs = self._program.graph_signature.output_specs
        for spec, result in zip(specs, node.args[0], strict=True):
            value = self._values.get(result) if isinstance(result, torch.fx.Node) else None
            if spec.kind is not OutputKind.USER_OUTPUT or not isinstance(value, torch.Tensor):
                continue
            tensor = self._recording.operand(value)
            if self._recording.tensors[tensor].role in (Role.INPUT, Role.PARAMETER):
                elements = (tensor, slice_label(value), bytes_of(value))
                if elements not in copies:
                    copies[elements] = self._recording.add_copy(tensor, _shadow(value))
                tensor = copies[elements]
            self._recording.outputs.append((spec.arg.name, tensor))


def _readable_name(node: torch.fx.Node, operation: str) -> str:
    """The path of the module the node runs in, then the operation unless the module is named for it."""
    stack: Mapping[str, tuple[str, object]] = node.meta.get("nn_module_stack") or {}
    path, module_type = list(stack.values())[-1] if stack else ("", "")
    path = path.removeprefix("L['self']").removeprefix(".")
    type_name = module_type.__name__ if isinstance(module_type, type) else str(module_type).rpartition(".")[2]
    if path and type_name.lower().startswith(operation.replace("_", "")):
        return path
    return f"{path}.{operation}" if path else operation


def _by_name(schema: torch.FunctionSchema, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Any]:
    given = dict(zip((each.name for each in schema.arguments), args, strict=False)) | dict(kwargs)
    return {each.name: given.get(each.name, each.default_value) for each in schema.arguments}


def _is_one_tensor(values: list[object]) -> bool:
    return len(values) == 1 and isinstance(values[0], torch.Tensor)


def _is_dropout_at_inference(target: torch._ops.OpOverload, arguments: Arguments) -> bool:
    return "dropout" in target._schema.name and arguments.get("train") is False


def _shadow(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def _on_meta(leaf: object) -> object:
    return torch.device("meta") if isinstance(leaf, torch.device) else leaf


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
