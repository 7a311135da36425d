"""Kernels that run the operators of a `.pt2` graph in torch.

An operator is the program's calls between its operands and its results: the fused members, and the views and
dequantisations that reading folded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.export.graph_signature import ConstantArgument, InputKind

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, InputError, errors_in_file
from onchip.formats.onnx.program import random_array
from onchip.formats.states_and_loops import NEXT
from onchip.formats.torch.program import ReplayedProgram, load_program, refused_if_damaged, replayed_program
from onchip.formats.torch.recording import RealBytes, RecordedView, Recording, bytes_in_order
from onchip.formats.torch.replay import RESULTS, STATES, ReplayOptions, first_line
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.simulate.kernels.onnx_kernels import relative_difference

Content: TypeAlias = npt.NDArray[np.uint8]
_DRAWN_AS: Final = {torch.bfloat16: torch.float32, torch.float8_e4m3fn: torch.float32, torch.float8_e5m2: torch.float32}
"""Types without a numpy equivalent: their values are drawn in another type, and rounded."""


class TorchKernels:
    """Kernels for the operators of `graph`, read from `path`, with the file's weights."""

    name = "torch"

    def __init__(self, graph: Graph, path: Path, bindings: Bindings, *, seed: int = 0) -> None:
        torch.set_num_threads(1)  # with more threads the order of sums may differ
        self._graph = graph
        self._path = path
        self._seed = seed
        with errors_in_file(str(path)):
            self._program = load_program(path, with_weights=True)
            with refused_if_damaged():
                options = ReplayOptions(as_onnx=True)
                self._replayed: ReplayedProgram = replayed_program(self._program, path.stem, bindings, options)
        self._recording = self._replayed.recording
        self._recorded_name = {new: name for name, new in self._replayed.renamed.items()}
        self._constants: dict[str, RealBytes] = {}

    # Initial contents of DRAM

    def parameter(self, tensor: Tensor) -> Content:
        """Return a parameter's bytes; zeros for one that fusing created and no call reads."""
        name = self._recorded(tensor.name)
        if name in self._recording.slices:
            content = self._part_of(self._recording.slices[name])
        elif name in self._recording.tensors:
            content = self._content(name, {})
        else:
            return np.zeros(tensor.size_bytes, np.uint8)
        return _as_array(content) if content.numel() == tensor.size_bytes else np.zeros(tensor.size_bytes, np.uint8)

    def network_input(self, tensor: Tensor) -> Content:
        """Return random bytes of the input's type, determined by its name and the seed.

        A buffer has the file's value.
        """
        name = self._recorded(tensor.name)
        if name in self._recording.held:
            return _as_array(self._held(name))
        element_type = self._recording.element_types[name]
        drawn = torch.empty(0, dtype=_DRAWN_AS.get(element_type, element_type)).numpy().dtype
        array = random_array(name, drawn, self._recording.tensors[name].shape or (), self._seed)
        return _as_array(bytes_in_order(torch.from_numpy(np.ascontiguousarray(array)).to(element_type)))

    def given_input(self, tensor: Tensor, array: npt.NDArray[Any]) -> Content:
        """Return the bytes of a given value; raises InputError for another type or shape."""
        name = self._recorded(tensor.name)
        element_type, shape = self._recording.element_types[name], self._recording.tensors[name].shape
        known = _DRAWN_AS.get(element_type, element_type) is element_type
        dtype = torch.empty(0, dtype=element_type).numpy().dtype if known else None
        if (array.dtype, array.shape) != (dtype, shape):
            what = f"it holds {array.dtype}{list(array.shape)}"
            expected = f"{dtype or 'a type that numpy knows, not ' + str(element_type)}{list(shape or ())}"
            raise InputError(what, place=f"tensor {tensor.name!r}", expected=expected)
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def _held(self, name: str) -> RealBytes:
        """Return the program's value of a parameter or a buffer, with elements in the order of the graph's tensor."""
        shadow, held = self._recording.held[name]
        storage = torch.zeros(shadow.untyped_storage().nbytes(), dtype=torch.uint8)
        RecordedView.of(shadow, name).among(storage).copy_(held.detach())
        return storage

    def _part_of(self, view: RecordedView) -> RealBytes:
        """Return the elements in a view of a parameter, each once, in stored order."""
        whole = self._content(view.tensor, {}).view(view.element_type)
        shape, strides, start = view.layout
        places = torch.arange(whole.numel()).as_strided(shape, strides, start).unique()
        return bytes_in_order(whole[places])

    # Operators

    def run(self, operator: Operator, operands: Mapping[str, Content]) -> Mapping[str, Content]:
        """Return the operator's outputs; raises GraphError if torch cannot run it."""
        known = {self._recorded(name): torch.from_numpy(content.copy()) for name, content in operands.items()}
        known = {name: content for name, content in known.items() if name in self._recording.tensors}
        try:
            return {name: _as_array(self._content(self._recorded(name), known)) for name in operator.outputs}
        except GraphError as error:
            raise error.in_file(str(self._path)) from None
        except Exception as error:  # torch raises several types
            what, place = f"torch refuses it: {first_line(error)}", f"operator {operator.name!r}"
            raise GraphError(what, file=str(self._path), place=place, expected="a program that it can run") from None

    def _content(self, name: str, known: dict[str, RealBytes]) -> RealBytes:
        """Return the bytes of a tensor: known, constant, or computed by calls; adds computed tensors to `known`."""
        if name in known:
            return known[name]
        is_constant = self._recording.tensors[name].role is Role.PARAMETER
        if is_constant and name in self._constants:
            return self._constants[name]
        call = self._recording.calls.get(name)
        if call is not None:
            found = call.run(lambda operand: self._content(operand, known))
        elif name in self._recording.held and is_constant:
            found = {name: self._held(name)}
        else:
            raise GraphError("nothing computes it", place=f"tensor {name!r}", expected="a network input handed in")
        (self._constants if is_constant else known).update(found)
        return found[name]

    def _recorded(self, name: str) -> str:
        return self._recorded_name.get(name, name)

    # The whole program

    def difference_from_whole_model(
        self, inputs: Mapping[str, Content], outputs: Mapping[str, Content]
    ) -> float | None:
        """Return the maximum |a - b| of the outputs a and the whole program's b, relative to the maximum |b|.

        Infinite if only one of them is not a number. Raises GraphError if torch cannot run the whole program.
        """
        real = {}
        for name, content in inputs.items():
            recorded = self._recorded(name)
            shape, element_type = self._recording.tensors[recorded].shape, self._recording.element_types[recorded]
            real[recorded] = torch.from_numpy(content.copy()).view(element_type).reshape(shape or ())
        try:
            whole = whole_outputs(self._program, self._recording, real)
        except Exception as error:  # as above
            what = f"torch refuses the whole of it: {first_line(error)}"
            raise GraphError(what, file=str(self._path), expected="a program that it can run") from None
        apart = [0.0]
        for name, value in whole.items():
            view = self._recording.shown[name]
            graph_name = self._replayed.renamed.get(view.tensor, view.tensor)
            found = view.among(torch.from_numpy(outputs[graph_name].copy()))
            apart.append(relative_difference(_as_floats(found), _as_floats(value)))
        return max(apart)


def _as_array(content: RealBytes) -> Content:
    found: Content = content.numpy()
    return found


def _as_floats(value: torch.Tensor) -> npt.NDArray[Any]:
    plain = value.detach()
    widened: npt.NDArray[Any] = (plain if plain.is_complex() else plain.to(torch.float64)).reshape(-1).numpy()
    return widened


def whole_outputs(
    program: torch.export.ExportedProgram, recording: Recording, given: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the network outputs by torch's names, and the next values of states.

    `given` are inputs and states by name. Raises as torch does.
    """
    values: list[object] = []
    states: dict[str, torch.Tensor] = {}
    nodes = (node for node in program.graph.nodes if node.op == "placeholder")
    for spec, node in zip(program.graph_signature.input_specs, nodes, strict=True):
        name = node.name if spec.kind is InputKind.USER_INPUT else str(spec.target)
        if isinstance(spec.arg, ConstantArgument):
            values.append(spec.arg.value)
        elif name in given:
            states[name] = given[name].clone()
            values.append(states[name])
        else:
            held = program.state_dict.get(name, program.constants.get(name))
            values.append(held.detach().clone() if isinstance(held, torch.Tensor) else held)
    with torch.no_grad():
        results = torch.fx.Interpreter(program.graph_module).run(*values)
    specs = list(zip(program.graph_signature.output_specs, results, strict=True))
    states |= {str(spec.target): value for spec, value in specs if spec.kind in STATES}
    found = {f"{name}{NEXT}": states[name] for name, _ in recording.states}
    plain = [value for spec, value in specs if spec.kind in RESULTS and isinstance(value, torch.Tensor)]
    return found | dict(zip((name for name, _ in recording.outputs), plain, strict=True))
