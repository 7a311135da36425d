"""Mappings as C, CUDA or OpenCL, on one page: read -> verify -> write a function or kernel for each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from onchip.answer.document import NamedMapping
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.backends.c.names import unique_identifiers
from onchip.backends.nests.gpu_source import DIALECTS, gpu_kernel
from onchip.backends.nests.measure import legal_mappings, with_weights
from onchip.backends.nests.nest_source import nest_source
from onchip.errors import InputError, UsageError, errors_in_file
from onchip.formats.files import ensure_writable, write_files
from onchip.reports.exports import MappingFormat
from onchip.reports.shared.answer_check import AnswerCheck

FUNCTION_PREFIX: Final = "nest_"
"""Begins the name of every exported function: a layer may be called `main`, `int` or as a helper in its file."""
LEFT_OUT: Final = "layer {name!r}, which has no weights and is not written"


@phase("writing")
def export_mapping(
    file: Path, accelerator: str | None, output: Path, form: MappingFormat = MappingFormat.C
) -> tuple[AnswerCheck, tuple[Path, ...]]:
    """Write each mapping of a file as a function if all are legal; what was found of them, and the files written.

    Layers without weights are left out. Raises InputError for what cannot be read or has no such form, UsageError for
    a file's name that ends otherwise than in .c, .cu or .cl, as `form` asks.
    """
    ending = DIALECTS[form].ending if form in DIALECTS else ".c"
    if output.suffix != ending:
        expected = f"a name that ends in {ending}, of one function"
        raise UsageError("its name says it is something else", file=str(output), expected=expected)
    machine, mappings, violations = legal_mappings(file, accelerator)
    check = AnswerCheck("mapping", "", machine.name, violations)
    if violations:
        return check, ()
    with errors_in_file(str(file)):
        mappings, left_out = with_weights(mappings)
    check = replace(check, not_checked=[LEFT_OUT.format(name=name) for name in left_out])
    names = [name.lower() for name in unique_identifiers("", (one.names[0] for one in mappings))]
    functions = [f"{FUNCTION_PREFIX}{name}" for name in names]
    files = [output] if len(mappings) == 1 else [output.with_suffix(f".{name}{ending}") for name in names]
    for one in files:
        ensure_writable(one, inputs=(str(file), accelerator or str(file)))
    sources = [_source(one, name, file, machine, form) for one, name in zip(mappings, functions, strict=True)]
    write_files(*((path, text.encode()) for path, text in zip(files, sources, strict=True)))
    return check, tuple(files)


def _source(one: NamedMapping, function: str, file: Path, machine: Accelerator, form: MappingFormat) -> str:
    try:
        if dialect := DIALECTS.get(form):
            return gpu_kernel(one.layer, one.mapping, machine, dialect, function, one.names[0]).source
        return nest_source(one.layer, one.mapping, function, one.names[0])
    except InputError as error:
        error.place = f"layer {one.names[0]!r}"
        raise error.in_file(str(file)) from None
