"""All files of a C project, by their names in its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.arch.memory import DRAM
from onchip.backends.c.names import unique_identifiers
from onchip.backends.c.project.calls import KernelCall, table
from onchip.backends.c.project.program import ProjectProgram, begin_function, definition, project_program, run_function
from onchip.errors import PlanError
from onchip.ir.tensor import Role, Tensor

_GREATEST_ALIGNMENT_BYTES: Final = 64
_STORED: Final = "constants.h"


@dataclass(frozen=True, slots=True)
class CProject:
    """The files, as text by their paths in the folder, and what the network takes."""

    files: Mapping[str, str]
    arenas: Mapping[str, int]
    dram_bytes: int
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class StoredValues:
    """By tensor the values a project's `main` begins with, and those it is to end with after some inferences."""

    inputs: Mapping[str, npt.NDArray[Any]]
    outputs: Mapping[str, npt.NDArray[Any]]
    inferences: int = 1


def c_project(
    problem: Problem, plan: Plan, calls: Mapping[str, tuple[KernelCall, ...]], values: StoredValues
) -> CProject:
    """Return the project of a legal plan; raises PlanError for a plan that kernels cannot obey."""
    for name, array in (*values.inputs.items(), *values.outputs.items()):
        if array.nbytes != problem.graph.tensor[name].size_bytes:
            what = f"its runtime makes it {list(array.shape)}, of {array.nbytes} bytes"
            expected = f"{problem.graph.tensor[name].size_bytes} bytes, as the plan has it"
            raise PlanError(what, place=f"tensor {name!r}", expected=expected)
    program = project_program(problem, plan, calls, values.inputs)
    source = _network_source(program)  # asks for tables, so that it comes before them
    texts = {
        "network.h": _network_header(program),
        "network.c": source,
        _STORED: program.tables.header(),
        **dict(program.tables.sources()),
        "values.h": _values(program, values),
        "main.c": _main(program, values),
        **dict(_resources()),
    }
    texts["sources.mk"] = _sources(texts)
    arenas = {memory.name: size_bytes for memory, size_bytes in program.arenas().values()}
    return CProject(texts, arenas, program.dram_bytes, program.tables.size_bytes)


def _resources() -> Iterator[tuple[str, str]]:
    """Yield kernels, and what is alike in every project."""
    package = files("onchip.backends.c.project")
    for folder, target in (("kernels", "kernels/"), ("harness", "")):
        for entry in sorted(package.joinpath(folder).iterdir(), key=lambda one: one.name):
            if entry.is_file():
                yield f"{target}{entry.name}", entry.read_text(encoding="utf-8")


def _sources(texts: Mapping[str, str]) -> str:
    """What the Makefile compiles: files of an earlier project in the same folder are none of it."""
    names = sorted(name for name in texts if name.endswith(".c"))
    return "SOURCES = " + " \\\n    ".join(names) + "\n"


def _network_header(program: ProjectProgram) -> str:
    prefix, guard = program.stem.upper(), f"{program.stem.upper()}_NETWORK_H"
    lines = [
        "/* A network without a runtime, written by onchip. Inputs and outputs lie in DRAM. */",
        f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n",
    ]
    for name, (memory, size_bytes) in program.arenas().items():
        lines.append(f"#define {prefix}_{name.upper()}_BYTES {size_bytes} /* of {memory.capacity_bytes} */")
    lines.append(f"#define {prefix}_DRAM_BYTES {max(program.dram_bytes, 1)}\n")
    graph = program.problem.graph
    tensors = (*graph.with_role(Role.INPUT), *graph.with_role(Role.OUTPUT))
    memories = (DRAM, *program.arenas())
    names = unique_identifiers(f"{prefix}_", (*memories, *(tensor.name for tensor in tensors)))
    for name, tensor in zip(names[len(memories) :], tensors, strict=True):
        lines.append(f"/* {tensor.role.value} */")
        lines.append(f"#define {name}_AT {program.dram[tensor.name]}\n#define {name}_BYTES {tensor.size_bytes}")
    lines.append(f"\nextern uint8_t {program.memory_names[DRAM]}[{prefix}_DRAM_BYTES];\n")
    lines.append(
        "/* Puts the first values of states in their places: once, before the first run. */\n"
        f"void {program.stem}_begin(void);\n"
    )
    lines.append(f"/* Reads the inputs, and writes the outputs. */\nvoid {program.stem}_run(void);\n\n#endif\n")
    return "\n".join(lines)


def _network_source(program: ProjectProgram) -> str:
    parts = [
        "/* The plan, instruction by instruction. PLACE_... may say where the linker puts an arena, such as\n"
        "   -D'PLACE_SRAM=__attribute__((section(\".sram\")))'. */",
        '#include "network.h"\n\n#include <math.h>\n#include <stddef.h>\n\n'
        '#include "constants.h"\n#include "dma.h"\n#include "kernels/kernels.h"',
    ]
    for name, (memory, _) in program.arenas().items():
        alignment = max(memory.alignment_bytes, _GREATEST_ALIGNMENT_BYTES)
        parts.append(_array(program, name, f"{program.stem.upper()}_{name.upper()}_BYTES", alignment, "static "))
    parts.append(
        _array(program, program.memory_names[DRAM], f"{program.stem.upper()}_DRAM_BYTES", _GREATEST_ALIGNMENT_BYTES)
    )
    return "\n\n".join((*parts, begin_function(program), run_function(program))) + "\n"


def _array(program: ProjectProgram, name: str, size: str, alignment_bytes: int, storage: str = "") -> str:
    place = f"PLACE_{name.removeprefix(f'{program.stem}_').removeprefix('arena_').upper()}"
    alignment = min(1 << (alignment_bytes - 1).bit_length(), 4096)
    return f"#ifndef {place}\n#define {place}\n#endif\n{place} {storage}_Alignas({alignment}) uint8_t {name}[{size}];"


def _stored(program: ProjectProgram, values: StoredValues) -> Iterator[tuple[str, Tensor, npt.NDArray[Any]]]:
    """Yield of each input, then of each output, the name of its stored values, the tensor and the values."""
    graph = program.problem.graph
    inputs = {name: array for name, array in values.inputs.items() if name not in program.first_states}
    for word, found in (("input", inputs), ("expected", values.outputs)):
        names = unique_identifiers("", found)
        for name, (tensor, array) in zip(names, found.items(), strict=True):
            yield f"{word}_{name.lower()}", graph.tensor[tensor], array


def _values(program: ProjectProgram, values: StoredValues) -> str:
    lines = ["/* The inputs that main begins with, and the outputs that the network's own runtime makes of them. */"]
    lines.append("#include <math.h>\n#include <stdint.h>\n")
    for name, _, array in _stored(program, values):
        lines.append(definition(name, table(name, array), "static const"))
    return "\n".join(lines) + "\n"


def _main(program: ProjectProgram, values: StoredValues) -> str:
    dram = program.memory_names[DRAM]
    lines = [
        "/* Runs the network, and compares its outputs with those stored. */",
        '#include <string.h>\n\n#include "compare.h"\n#include "network.h"\n#include "values.h"\n',
        "int main(void)\n{\n    int differing = 0;",
    ]
    stored = list(_stored(program, values))
    inputs = [
        f"        memcpy({dram} + {program.dram[tensor.name]}, {name}, sizeof {name});" for name, tensor, _ in stored
    ]
    lines.append(f"    {program.stem}_begin();")
    lines.append(f"    for (int inference = 0; inference < {values.inferences}; inference++) {{")
    lines += inputs[: len(stored) - len(values.outputs)]
    lines.append(f"        {program.stem}_run();\n    }}")
    for name, tensor, array in stored[len(stored) - len(values.outputs) :]:
        function = "compare_floats" if array.dtype == np.float32 else "compare_bytes"
        at = f"{dram} + {program.dram[tensor.name]}"
        lines.append(f'    differing += {function}("{name}", {at}, {name}, sizeof {name});')
    lines.append("    return differing ? 1 : 0;\n}\n")
    return "\n".join(lines)
