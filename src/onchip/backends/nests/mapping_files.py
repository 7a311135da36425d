"""Mapping files written as C, CUDA or OpenCL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from onchip.answer.document import NamedMapping
from onchip.api.check import AnswerCheck
from onchip.api.check_mapping import accelerator_named, mapping_violations
from onchip.api.pack import Violation
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.backends.c.calls import unique_identifiers
from onchip.backends.nests import MappingFormat
from onchip.backends.nests.c_source import nest_source
from onchip.backends.nests.gpu_source import DIALECTS, gpu_kernel
from onchip.errors import InputError, UsageError, errors_in_file
from onchip.formats.files import ensure_writable, write_files
from onchip.formats.foreign_files import accelerator_text, load_any_accelerator
from onchip.formats.own.mapping_yaml import read_mappings


@phase("reading")
def legal_mappings(
    file: Path, name: str | Accelerator | None
) -> tuple[Accelerator, tuple[NamedMapping, ...], tuple[Violation, ...]]:
    """Return a file's accelerator, its mappings and their violations.

    Raises InputError for a file that cannot be read, UsageError for an unknown accelerator.
    """
    document = read_mappings(file)
    accelerator = load_any_accelerator(accelerator_named(name, document.accelerator.name, file))
    violations = mapping_violations(document.answer, accelerator)
    return accelerator, tuple(document.answer), violations


def with_weights(mappings: Sequence[NamedMapping]) -> tuple[tuple[NamedMapping, ...], tuple[str, ...]]:
    """Split off the layers without weights, which are named; raises InputError if no layer has weights."""
    written = tuple(one for one in mappings if one.layer.has_weight)
    if not written:
        raise InputError("none of its layers has weights", expected="a product or a convolution")
    return written, tuple(name for one in mappings if not one.layer.has_weight for name in one.names)


FUNCTION_PREFIX: Final = "nest_"
"""Begins the name of every exported function: a layer may be called `main`, `int` or as a helper in its file."""
LEFT_OUT: Final = "layer {name!r}, which has no weights and is not written"


@phase("writing")
def export_mapping(
    file: Path, accelerator: str | Accelerator | None, output: Path, form: MappingFormat = MappingFormat.C
) -> tuple[AnswerCheck, tuple[Path, ...]]:
    """Write each mapping of a file as a function if all are legal; return the check and the written files.

    Layers without weights are left out. Raises InputError for a file that cannot be read and a layer without such a
    form, UsageError for a file name without the ending of `form`: .c, .cu or .cl.
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
        ensure_writable(one, inputs=(str(file), str(file) if accelerator is None else accelerator_text(accelerator)))
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
