"""Vela's allocation, as it prints it, held against the rules of a packing and the network. Nothing is searched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from onchip.answer.packing import Packing, PackingProblem
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.backends.vela.allocation import ALIGNMENT_BYTES, VelaArea, holds_allocation, read_vela_allocation
from onchip.errors import UsageError
from onchip.formats.tflite.arena_lives import arena_size_bytes
from onchip.formats.tflite.model import read_tflite_network
from onchip.formats.tflite.network import FlatNetwork
from onchip.memory.allocate.exact.attempt import least_arena_bytes
from onchip.reports.shared.answer_check import AnswerCheck
from onchip.verify.packing import ALL_BUFFERS, verify_packing
from onchip.verify.rules import Rule, Violation

_LIVES: Final = "when each tensor is needed, which Vela's scheduler decides and the file says"


@phase("verifying")
def check_vela_allocation(file: Path, network: str, target: Target) -> AnswerCheck | None:
    """Verify that no two buffers that are live at once share bytes, and that each peak equals the stated one.

    Inputs and outputs of the network that the allocation lists must be there whole. Returns None for another kind of
    file. Raises InputError if the file cannot be read, UsageError if `target` states a memory.
    """
    if not holds_allocation(file):
        return None
    if target != Target():
        what = "Vela's allocation says its own memories"
        raise UsageError(what, place="--sram, --accelerator, --alignment", expected="nothing")
    areas = read_vela_allocation(file)
    read = read_tflite_network(Path(network))
    sizes = _sizes(areas)
    violations = [one for area in areas for one in _violations(area)]
    violations += _cut_short(sizes, read.network)
    ends = dict.fromkeys((*read.network.inputs, *read.network.outputs))
    missing = [read.network.tensors[index].name for index in ends if _stated(read.network, index) not in sizes]
    not_checked = [f"where {name!r} lies, which it does not list under that name" for name in missing]
    figures = [_figures(area) for area in areas]
    return AnswerCheck("Vela allocation", read.graph.name, "", violations, figures, (), [*not_checked, _LIVES])


def _sizes(areas: Sequence[VelaArea]) -> dict[str, int]:
    """The most bytes that each name has in any memory."""
    sizes: dict[str, int] = {}
    for area in areas:
        for names, buffer in zip(area.names, area.buffers, strict=True):
            sizes |= {name: max(buffer.size_bytes, sizes.get(name, 0)) for name in names}
    return sizes


def _cut_short(sizes: Mapping[str, int], network: FlatNetwork) -> Iterator[Violation]:
    """The network's inputs and outputs that are listed with fewer bytes than they have."""
    ends = ((Rule.OPERAND_NOT_RESIDENT, network.inputs), (Rule.OUTPUT_NOT_RESIDENT, network.outputs))
    for rule, indices in ends:
        for index in dict.fromkeys(indices):
            tensor = network.tensors[index]
            wanted = arena_size_bytes(tensor)
            if (found := sizes.get(tensor.stated.name, wanted)) < wanted:
                yield Violation(rule, tensor.name, f"it has {found} bytes of {wanted}")


def _stated(network: FlatNetwork, index: int) -> str:
    return network.tensors[index].stated.name


def _violations(area: VelaArea) -> Iterator[Violation]:
    problem = PackingProblem(area.buffers, _end(area), ALIGNMENT_BYTES)
    for violation in verify_packing(problem, Packing(area.offsets_bytes), area.peak_bytes):
        yield _named(violation, area)


def _named(violation: Violation, area: VelaArea) -> Violation:
    """The violation with tensors in place of numbers of buffers, and the memory in place of all of them."""
    if violation.subject == ALL_BUFFERS:
        return replace(violation, subject=area.name)

    def name(number: str) -> str:
        return area.names[int(number.removeprefix("buffer "))][0]

    detail = re.sub(r"buffer \d+", lambda match: repr(name(match[0])), violation.detail)
    return replace(violation, subject=name(violation.subject), detail=detail)


def _figures(area: VelaArea) -> dict[str, object]:
    return {
        "names": area.name,
        "tensors": sum(map(len, area.names)),
        "arena_bytes": _end(area),
        "most_live_bytes": least_arena_bytes(PackingProblem(area.buffers, 0)),
    }


def _end(area: VelaArea) -> int:
    return max((at + one.size_bytes for at, one in zip(area.offsets_bytes, area.buffers, strict=True)), default=0)
