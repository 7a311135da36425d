"""A whole exported program on real values, call by call as torch has it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.export.graph_signature import ConstantArgument, InputKind

from onchip.formats.states import NEXT
from onchip.formats.torch.output_kinds import RESULTS, STATES
from onchip.formats.torch.recording import Recording


def whole_outputs(
    program: torch.export.ExportedProgram, recording: Recording, given: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The network outputs by torch's names, and the next values of states; `given` are inputs and states by name.

    Raises as torch does.
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
