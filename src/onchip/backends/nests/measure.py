"""Mappings measured on one page: read -> verify -> write as C -> compile -> run beside a peer -> compare."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from onchip.answer.document import NamedMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.api.check_mapping import accelerator_named
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.backends.nests.host import HOST
from onchip.backends.nests.host_compiler import HostCompiler, host_compiler
from onchip.backends.nests.host_prediction import predicted_cycles
from onchip.backends.nests.nest_peers import TimedNest
from onchip.backends.nests.nest_source import nest_source
from onchip.backends.nests.timed_nest import ONE_THREAD
from onchip.errors import InputError, InternalError
from onchip.formats.foreign_files import load_any_accelerator
from onchip.formats.own.mapping_yaml import read_mappings
from onchip.model.layer.cost import layer_cost
from onchip.reports.mapping.measured import MeasuredMapping, MeasuredMappings
from onchip.verify.mapping import verify_mapping
from onchip.verify.rules import Violation

FUNCTION: Final = "nest"
LONGEST_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """What `measure` is asked: a mapping file, the accelerator that it is for, and how long each mapping is run."""

    file: Path
    accelerator: str | None = None
    seconds: float = 1.0
    repeats: int = 5


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """What was measured of a file's mappings, or the violations for which nothing was."""

    accelerator: Accelerator
    found: MeasuredMappings
    violations: tuple[Violation, ...] = ()


@phase("reading")
def legal_mappings(file: Path, name: str | None) -> tuple[Accelerator, tuple[NamedMapping, ...], tuple[Violation, ...]]:
    """A file's accelerator (the bundled one of its name, or this machine), its mappings and what is wrong with them.

    Raises InputError for what cannot be read, UsageError where no accelerator is named that is known.
    """
    document = read_mappings(file)
    said = document.accelerator.name
    if name is None:
        name = HOST if said == HOST else accelerator_named(None, said, file)
    accelerator = load_any_accelerator(name)
    violations = tuple(
        violation
        for one in document.answer
        for violation in verify_mapping(LayerProblem(one.layer, accelerator), one.mapping)
    )
    return accelerator, tuple(document.answer), violations


def with_weights(mappings: Sequence[NamedMapping]) -> tuple[tuple[NamedMapping, ...], tuple[str, ...]]:
    """The mappings of layers with weights, and the names of the other layers; raises InputError without any."""
    written = tuple(one for one in mappings if one.layer.has_weight)
    if not written:
        raise InputError("none of its layers has weights", expected="a product or a convolution")
    return written, tuple(name for one in mappings if not one.layer.has_weight for name in one.names)


def measure_mappings(request: MeasureRequest) -> MeasuredFile:
    """Compile, run and time each mapping of a file; raises InputError for what cannot be read, compiled or run."""
    accelerator, mappings, violations = legal_mappings(request.file, request.accelerator)
    if violations:
        return MeasuredFile(accelerator, MeasuredMappings(()), violations)
    compiler = host_compiler()
    try:
        written, left_out = with_weights(mappings)
        measured = tuple(measure_mapping(one, accelerator, compiler, request) for one in written)
    except InputError as error:
        raise error if error.file else error.in_file(str(request.file)) from None
    return MeasuredFile(accelerator, MeasuredMappings(measured, left_out))


@phase("measuring")
def measure_mapping(
    one: NamedMapping, accelerator: Accelerator, compiler: HostCompiler, request: MeasureRequest
) -> MeasuredMapping:
    """Compile, run and time one legal mapping; raises InputError where it cannot be written as C or compiled."""
    layer = one.mapping.layer(one.layer)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "nest.c", Path(folder) / "nest.so"
        source.write_text(nest_source(one.layer, one.mapping, FUNCTION))
        compiler.build(source, library, is_library=True)
        nest = TimedNest(
            str(library),
            FUNCTION,
            layer.bounds,
            layer.input_pixels,
            layer.stride,
            layer.dilation,
            layer.padding,
            layer.input_bits == 8,
            request.seconds,
            request.repeats,
        )
        found = _run_alone(nest)
    model_cycles, cycles = _predicted(one, accelerator)
    return MeasuredMapping(
        one.names,
        layer.macs,
        is_integer=nest.is_integer,
        seconds=_number(found, "seconds"),
        peer=str(found["peer"]),
        peer_seconds=_number(found, "peer_seconds"),
        numpy_seconds=_number(found, "numpy_seconds"),
        ratio=_number(found, "ratio"),
        model_cycles=model_cycles,
        predicted_cycles=cycles,
        clock_mhz=accelerator.clock_mhz,
        error=_number(found, "error"),
        is_right=bool(found["is_right"]),
    )


def _predicted(one: NamedMapping, accelerator: Accelerator) -> tuple[float, float]:
    """Cycles of the mapping by the cost model, and of what this machine makes of it, where it is the accelerator.

    Loops that end short count as if they did not, where the model refuses them.
    """
    problem = LayerProblem(one.layer, accelerator)
    try:
        cycles = layer_cost(problem, one.mapping).cycles
    except InputError:
        if not one.mapping.ragged:
            raise
        padded = replace(one.mapping, ragged=())
        cycles = layer_cost(replace(problem, layer=padded.layer(one.layer)), padded).cycles
    return cycles, predicted_cycles(problem, one.mapping) if accelerator.name == HOST else cycles


def _run_alone(nest: TimedNest) -> Mapping[str, object]:
    """In a process of its own, whose libraries use one thread."""
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    command = [sys.executable, "-m", "onchip.backends.nests.timed_nest"]
    try:
        ended = subprocess.run(
            command,
            input=json.dumps(asdict(nest)),
            capture_output=True,
            text=True,
            env=environment,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError("it runs too long", place="measuring", expected=f"{LONGEST_SECONDS:g} seconds") from None
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines() or [f"it ended with {ended.returncode}"]
        raise InternalError(f"a compiled mapping does not run: {lines[-1]}", place="measuring")
    found: Mapping[str, object] = json.loads(ended.stdout)
    return found


def _number(found: Mapping[str, object], name: str) -> float:
    value = found[name]
    return float(value) if isinstance(value, int | float) else float("nan")
