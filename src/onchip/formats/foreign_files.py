"""Files of Timeloop and ZigZag in place of onchip's own, recognised by their first fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from re import fullmatch
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.errors import AcceleratorError, InputError, UsageError
from onchip.formats.files import read_file
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.timeloop.components import without_templates
from onchip.formats.validation import Format
from onchip.formats.yaml_documents import Dialect, parse_yaml
from onchip.ir.layer import Layer

SUFFIXES: Final = (".yaml", ".yml")
TIMELOOP_ARCHITECTURE: Final = frozenset({"architecture", "arch"})
TIMELOOP_LOOPS: Final = frozenset("RSPQCK")
ANY_FILE: Final = Format("YAML file", 1, InputError)
ANY_DIALECT: Final = Dialect(repeated_fields=True, shared_nodes=True)


def accelerator_text(accelerator: str | Accelerator) -> str:
    """Return the name or file of an accelerator."""
    return accelerator if isinstance(accelerator, str) else accelerator.name


def load_any_accelerator(name_or_path: str | Accelerator, mapspace: str | None = None) -> Accelerator:
    """Load an accelerator as `load_accelerator` does, also from files of other tools; an accelerator stands for itself.

    Raises InputError.

    `mapspace` is a file with the operands that the memories of a Timeloop architecture keep.
    """
    if isinstance(name_or_path, Accelerator):
        return name_or_path
    path = Path(name_or_path)
    fields = _field_names(path) if name_or_path.endswith(SUFFIXES) else frozenset()
    if fields & TIMELOOP_ARCHITECTURE:
        from onchip.formats.timeloop.architecture import timeloop_architecture
        from onchip.formats.timeloop.components import timeloop_bypass

        keeps = None if mapspace is None else timeloop_bypass(read_file(Path(mapspace)), str(Path(mapspace)))
        return timeloop_architecture(read_file(path), str(path), keeps)
    if mapspace is not None:
        expected = "a Timeloop architecture (`architecture` or `arch`) as `target`"
        raise UsageError("it is given for no Timeloop file", "mapspace", expected)
    if "cores" in fields:
        expected = "a file of one core whose outermost memory is DRAM, as ZigZag's hardware"
        raise AcceleratorError("it lists cores of Stream", file=name_or_path, place="cores", expected=expected)
    if "operational_array" in fields:
        from onchip.formats.zigzag import read_zigzag_hardware

        return read_zigzag_hardware(path).accelerator
    return load_accelerator(name_or_path)


def _field_names(path: Path) -> frozenset[str]:
    """Return the fields of a file, or of the first entry of its list. Raises InputError for malformed YAML."""
    text = without_templates(read_file(path), ANY_FILE, str(path))
    value = parse_yaml(text, ANY_FILE, str(path), ANY_DIALECT).value
    first = value[0] if isinstance(value, list) and value else value
    return frozenset(first) if isinstance(first, dict) else frozenset()


def layer_file(source: str) -> tuple[Path, str | None] | None:
    """Split `FILE.yaml` or `FILE.yaml:LAYER` into path and layer; return None for any other text."""
    match = fullmatch(r"(.+?\.ya?ml)(?::(.+))?", source)
    return (Path(match[1]), match[2]) if match else None


def read_layers(path: Path) -> Mapping[str, Layer]:
    """Return the layers of a Timeloop or ZigZag file; a Timeloop layer has the file's name. Raises InputError."""
    fields = _field_names(path)
    if "problem" in fields or fields >= TIMELOOP_LOOPS:
        from onchip.formats.timeloop.problem import timeloop_problem

        return {path.stem: timeloop_problem(read_file(path), str(path))}
    if "operator_type" in fields:
        from onchip.formats.zigzag import zigzag_workload

        layers: dict[str, Layer] = {}
        for one in zigzag_workload(read_file(path), str(path)):
            if one.name in layers:
                raise InputError("two layers have this name", file=str(path), place=one.name, expected="one each")
            layers[one.name] = one.layer
        return layers
    expected = "Timeloop's `problem`, or ZigZag's list of layers with `operator_type`"
    raise InputError("it describes no layer", file=str(path), place="the whole file", expected=expected)
