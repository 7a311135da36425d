"""Buffers in the text of MLIR: slices of IREE's `stream.resource.pack`, and allocations of memrefs.

Reading needs no MLIR library: operations are found by their syntax, one per line. Offsets are written back into the
same text. Sizes must be constants; each pack operation, and each memory space of a function, is a problem of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final

from onchip.answer.packing import Buffer
from onchip.errors import InputError, errors_in_file
from onchip.formats.files import read_file

_VALUE: Final = r"%[A-Za-z0-9_$.-]+"
_CONSTANT: Final = re.compile(rf"({_VALUE}) = arith\.constant (-?\d+) : (?:index|i64|i32)")
_PACK: Final = re.compile(
    rf"^(?P<indent>[ \t]*)(?P<results>{_VALUE}(?::\d+)?(?:\s*,\s*{_VALUE})*)\s*="
    r"\s*stream\.resource\.pack\b(?P<head>[^{]*?)"
    r"slices\(\{(?P<slices>.*?)\}\)[^\n]*",
    re.MULTILINE | re.DOTALL,
)
_SLICE: Final = re.compile(rf"\[\s*(\d+)\s*,\s*(\d+)\s*\]\s*=\s*({_VALUE})")
_BASE: Final = re.compile(rf"offset\(\s*({_VALUE})\s*\)")
_FUNCTION: Final = re.compile(r"^[ \t]*(?:util|func|stream)\.(?:func|initializer)\b.*$", re.MULTILINE)
_CONFIG: Final = re.compile(r"min_buffer_(offset|range)_alignment\s*=\s*(\d+)")
_ALLOC: Final = re.compile(
    rf"^(?P<indent>\s*)(?P<name>{_VALUE}) = memref\.alloca?\(\)\s*(?P<attributes>\{{[^}}]*\}}|alignment = \d+)?\s*:\s*"
    r"memref<(?P<type>[^<>]*(?:<[^<>]*>[^<>]*)*)>\s*$"
)
_DEALLOC: Final = re.compile(rf"^\s*memref\.dealloc ({_VALUE}) :")
_ALIGNMENT: Final = re.compile(r"alignment\s*=\s*(\d+)")
_RESULTS: Final = re.compile(rf"^\s*({_VALUE}(?::\d+)?(?:\s*,\s*{_VALUE})*)\s*=")
_ELEMENT_BITS: Final = {"index": 64, "bf16": 16, "tf32": 32}
_COMMENT: Final = re.compile(r"//[^\n]*")


@dataclass(frozen=True, slots=True)
class PackedOperation:
    """A `stream.resource.pack`: its place in the text, and the buffers of its slices."""

    start: int
    end: int
    scope_end: int  # the end of its function
    indent: str
    results: tuple[str, ...]  # total length, then the offset of each slice
    base: int
    buffers: tuple[Buffer, ...]
    range_alignment: int


@dataclass(frozen=True, slots=True)
class AllocatedMemref:
    """An allocation that is replaced by a view of an arena: the number of its line, its name and its memref type."""

    line: int
    indent: str
    name: str
    type: str
    attributes: str
    space: str
    buffer: Buffer
    frees: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MlirProblem:
    """Buffers of one arena, in the order in which their offsets are written."""

    name: str
    ids: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    pack: PackedOperation | None = None
    memrefs: tuple[AllocatedMemref, ...] = field(default=())


def read_mlir(path: Path) -> tuple[MlirProblem, ...]:
    """Return the problems of a file; raises InputError, with the place, if there is none or a size is no constant."""
    with errors_in_file(str(path)):
        text = _text_of(path)
        found = (*_pack_problems(text), *_memref_problems(text))
        if not found:
            raise InputError(
                "it has no static allocation", expected="stream.resource.pack with constant sizes, or memref.alloc()"
            )
        return found


def with_offsets(path: Path, offsets: Sequence[Sequence[int]]) -> str:
    """Return the text of the file with the offsets of each of its problems.

    Raises InputError if it has both packs and memrefs.
    """
    text = _text_of(path)
    problems = (*_pack_problems(text), *_memref_problems(text))
    packs = [(one.pack, at) for one, at in zip(problems, offsets, strict=True) if one.pack]
    memrefs = [(one.memrefs, at) for one, at in zip(problems, offsets, strict=True) if one.memrefs]
    lines = text.split("\n")
    for allocated, at in memrefs:
        _place_memrefs(lines, allocated, at)
    if memrefs:
        if packs:
            raise InputError("it has packs and memrefs", file=str(path), expected="one kind in a file")
        return "\n".join(line for line in lines if line != _REMOVED)
    for pack, at in sorted(packs, key=lambda pair: -pair[0].start):
        text = _place_slices(text, pack, at)
    return text


def _text_of(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"it is not text ({error.reason})", file=str(path), expected="MLIR as text") from None


# Slices of IREE


def _pack_problems(text: str) -> Iterator[MlirProblem]:
    bare = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    for number, match in enumerate(_PACK.finditer(bare)):
        pack = _pack_of(bare, match)
        ids = tuple(f"pack{number}.{at}" for at in range(len(pack.buffers)))
        yield MlirProblem(f"pack{number}", ids, pack.buffers, pack)


def _pack_of(text: str, match: re.Match[str]) -> PackedOperation:
    line = text.count("\n", 0, match.start()) + 1
    ends = [one.start() for one in _FUNCTION.finditer(text) if one.start() > match.start()]
    starts = [one.start() for one in _FUNCTION.finditer(text) if one.start() <= match.start()]
    scope = text[max(starts, default=0) : match.start()]
    constants = {name: int(value) for name, value in _CONSTANT.findall(scope)}
    alignments = {"offset": 1, "range": 1}
    for kind, value in _CONFIG.findall(text):
        alignments[kind] = max(alignments[kind], int(value))

    def constant(name: str) -> int:
        if name not in constants:
            raise InputError(f"{name} is no constant", f"line {line}", "sizes that are arith.constant")
        return constants[name]

    base = _BASE.search(match["head"])
    buffers = tuple(
        Buffer(int(first), int(last) + 1, max(constant(size), 1), None, alignments["offset"])
        for first, last, size in _SLICE.findall(match["slices"])
    )
    results = _names_of(match["results"])
    if len(results) != len(buffers) + 1:
        raise InputError(f"{len(results)} results stand for {len(buffers)} slices", f"line {line}", "one more")
    return PackedOperation(
        match.start(),
        match.end(),
        min(ends, default=len(text)),
        match["indent"],
        results,
        constant(base[1]) if base else 0,
        buffers,
        alignments["range"],
    )


def _names_of(results: str) -> tuple[str, ...]:
    """Return the names of results: `%a, %b` or `%a:2`, whose results are `%a#0` and `%a#1`."""
    names: list[str] = []
    for one in re.split(r"\s*,\s*", results.strip()):
        name, colon, count = one.partition(":")
        names += [f"{name}#{at}" for at in range(int(count))] if colon else [name]
    return tuple(names)


def _place_slices(text: str, pack: PackedOperation, offsets: Sequence[int]) -> str:
    """Replace the operation by constants, and its results by their names."""
    end = max((at + one.size_bytes for at, one in zip(offsets, pack.buffers, strict=True)), default=0)
    total = -(-end // pack.range_alignment) * pack.range_alignment
    values = (total, *(pack.base + at for at in offsets))
    rest = text[pack.end : pack.scope_end]
    lines = []
    for name, value in zip(pack.results, values, strict=True):
        constant = name.replace("#", "_onchip_")
        lines.append(f"{pack.indent}{constant} = arith.constant {value} : index")
        if constant != name:
            rest = re.sub(rf"{re.escape(name)}(?![0-9])", constant, rest)
    return text[: pack.start] + "\n".join(lines) + rest + text[pack.scope_end :]


# Allocations of memrefs

_REMOVED: Final = "\0"


def _memref_problems(text: str) -> Iterator[MlirProblem]:
    lines = [_COMMENT.sub("", line) for line in text.split("\n")]
    for name, first, end in _functions(lines):
        by_space: dict[str, list[AllocatedMemref]] = {}
        for one in _allocated(lines, first, end):
            by_space.setdefault(one.space, []).append(one)
        for space, some in sorted(by_space.items()):
            ids = tuple(f"{name}.{one.name.removeprefix('%')}" for one in some)
            label = f"{name}{f' in space {space}' if space else ''}"
            yield MlirProblem(label, ids, tuple(one.buffer for one in some), None, tuple(some))


def _functions(lines: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each function, and the half-open range of lines of its body."""
    at = 0
    while at < len(lines):
        match = re.match(r"\s*(?:func|util)\.func\b[^@]*@([\w$.-]+)", lines[at])
        if match is None or not lines[at].rstrip().endswith("{"):
            at += 1
            continue
        depth, end = _depth(lines[at]), at + 1
        while end < len(lines) and depth > 0:
            depth += _depth(lines[end])
            end += 1
        yield match[1], at + 1, end - 1
        at = end


def _depth(line: str) -> int:
    return line.count("{") - line.count("}")


def _allocated(lines: Sequence[str], first: int, end: int) -> Iterator[AllocatedMemref]:
    """Yield the allocations at the top level of a function whose memrefs do not leave it.

    A step is a statement of the top level: what a loop uses is live until the loop ends.
    """
    steps, depth, step = [0] * (end - first), 0, -1
    for at in range(first, end):
        step += depth == 0 and bool(lines[at].strip()) and not lines[at].strip().startswith(("}", ")"))
        steps[at - first] = max(step, 0)
        depth += _depth(lines[at])
    uses = {at: set(re.findall(_VALUE, lines[at])) for at in range(first, end)}
    for at in range(first, end):
        match = _ALLOC.match(lines[at])
        size = None if match is None else _bytes_of(match["type"])
        if match is None or size is None or sum(_depth(line) for line in lines[first:at]) != 0:
            continue
        aliases, last, frees, leaves = {match["name"]}, at, list[int](), False
        for line in range(at + 1, end):
            if not uses[line] & aliases:
                continue
            last = line
            if (freed := _DEALLOC.match(lines[line])) and freed[1] == match["name"]:
                frees.append(line)
            leaves = leaves or bool(re.match(r"\s*(?:func\.|util\.)?return\b", lines[line]))
            results = _RESULTS.match(lines[line])
            if results is not None and "memref" in lines[line]:
                aliases |= {name.split("#")[0] for name in _names_of(results[1])}
        if leaves:
            continue
        attributes = match["attributes"] or ""
        alignment = _ALIGNMENT.search(attributes)
        start, stop = steps[at - first], steps[last - first] + 1
        buffer = Buffer(start, max(stop, start + 1), size, None, int(alignment[1]) if alignment else 1)
        space = ",".join(match["type"].split(",")[1:]).strip()
        yield AllocatedMemref(
            at, match["indent"], match["name"], match["type"], attributes, space, buffer, tuple(frees)
        )


def _bytes_of(memref: str) -> int | None:
    """Return the bytes of a memref type; None unless its shape is static and its layout the default."""
    shape, *others = (part.strip() for part in memref.split(","))
    *dimensions, element = shape.split("x")
    if any(not one.isdecimal() for one in dimensions) or any(re.search("strided|affine|map", one) for one in others):
        return None
    integer = re.fullmatch(r"[su]?i(\d+)|f(\d+)", element)
    bits = _ELEMENT_BITS.get(element) or (int(integer[1] or integer[2]) if integer else None)
    if bits is None or prod(map(int, dimensions)) == 0:
        return None
    return prod(map(int, dimensions)) * -(-bits // 8)


def _place_memrefs(lines: list[str], allocated: Sequence[AllocatedMemref], offsets: Sequence[int]) -> None:
    """Replace allocations by views of one arena, which the first of them allocates, and remove their deallocations."""
    end = max(at + one.buffer.size_bytes for at, one in zip(offsets, allocated, strict=True))
    alignment = max(one.buffer.alignment_bytes for one in allocated)
    space = f", {allocated[0].space}" if allocated[0].space else ""
    arena_type = f"memref<{end}xi8{space}>"
    first = min(one.line for one in allocated)
    arena = f"%onchip_arena_{first}"
    for one, offset in zip(allocated, offsets, strict=True):
        constant = f"{one.name}_onchip_offset"
        view = f"{one.name} = memref.view {arena}[{constant}][] : {arena_type} to memref<{one.type}>"
        own = [f"{one.indent}{constant} = arith.constant {offset} : index", f"{one.indent}{view}"]
        if one.line == first:
            strictest = next(one.attributes for one in allocated if one.buffer.alignment_bytes == alignment)
            attributes = f" {strictest}" if strictest else ""
            own.insert(0, f"{one.indent}{arena} = memref.alloc(){attributes} : {arena_type}")
        lines[one.line] = "\n".join(own)
        for line in one.frees:
            lines[line] = _REMOVED
    last = max((line for one in allocated for line in one.frees), default=None)
    if last is not None and all(one.frees for one in allocated):
        lines[last] = f"{allocated[0].indent}memref.dealloc {arena} : {arena_type}"
