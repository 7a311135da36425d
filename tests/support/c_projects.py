"""Plans exported as C projects, compiled and run."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

from onchip.answer.document import Reading
from onchip.answer.problem import Objective
from onchip.api.plan import Request, plan_network
from onchip.api.run import RunValues
from onchip.api.target import Target
from onchip.backends.c.exports import export_project
from onchip.backends.c.project import CProject
from onchip.errors import InputError
from onchip.formats.own.plan_json import plan_to_json

ROOM = Target(sram=2**28, alignment_bytes=16)
SANITIZED = "-O0 -fsanitize=address,undefined -fno-sanitize-recover=all"
OPTIMISED = "-O2"
needs_a_compiler = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("make") is None, reason="there is no C compiler"
)


@dataclass(frozen=True, slots=True)
class BuiltProject:
    """A project that was exported and built, with the output and exit code of its `main`."""

    folder: Path
    project: CProject
    said: str
    code: int

    @property
    def is_right(self) -> bool:
        return self.code == 0


def planned(network: Path, request: Request | None = None) -> Path:
    """Return the file with the plan of a network, next to the network's file."""
    outcome = plan_network(request or Request(str(network), Reading(), ROOM, Objective.PEAK))
    assert outcome.document is not None
    plan = network.with_suffix(".plan.json")
    plan.write_text(plan_to_json(outcome.document))
    return plan


def exported(network: Path, plan: Path, random_weights: int | None = None) -> tuple[Path, CProject]:
    folder = network.with_suffix(".project")
    _, project = export_project(plan, str(network), folder, RunValues(random_weights=random_weights))
    assert project is not None
    return folder, project


def built(network: Path, request: Request | None = None, flags: str = SANITIZED) -> BuiltProject:
    folder, project = exported(network, planned(network, request))
    return BuiltProject(folder, project, *made_and_run(folder, flags))


def made_and_run(folder: Path, flags: str = OPTIMISED) -> tuple[str, int]:
    made = subprocess.run(
        ["make", "-s", "-C", str(folder), "network", "CC=gcc", f"CFLAGS={flags}"], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    ran = subprocess.run([str(folder / "network")], capture_output=True, text=True)
    return ran.stdout + ran.stderr, ran.returncode


def refusal(network: Path, plan: Path) -> str:
    """Return the error message of a failed export, which must leave no files behind."""
    folder = network.with_suffix(".project")
    with pytest.raises(InputError) as caught:
        export_project(plan, str(network), folder, RunValues())
    assert not folder.exists()
    return str(caught.value)


def array_sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of each array in the network's object file."""
    said = subprocess.run(["nm", "-S", str(folder / "network.o")], capture_output=True, text=True, check=True).stdout
    return {name: int(size, 16) for size, name in re.findall(r"^\w+ (\w+) [bBdD] (\w+)$", said, re.MULTILINE)}


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "network.onnx"
    path.write_bytes(model.SerializeToString())
    return path
