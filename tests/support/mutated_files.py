"""Network files with random faults, and the result of reading one in a process with limits."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import onnx
from google.protobuf.message import Message

from onchip.cli import run

Mutation: TypeAlias = Callable[[bytes, random.Random], bytes]
Table: TypeAlias = Any
Leaf: TypeAlias = tuple[Any, Any, Any]
"""A value of a JSON file, with the list or object that holds it and its key there."""
GREATEST_SECONDS: Final = 60
GREATEST_BYTES: Final = 2 * 2**30
_EXTREMES: Final = (0, 1, -1, 2, 7, 255, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63))
_WORD: Final = 4


def flipped(content: bytes, chance: random.Random) -> bytes:
    """Flip some bits."""
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 4, 32])):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(content: bytes, chance: random.Random) -> bytes:
    """Remove the end, or a part from the middle."""
    start = chance.randrange(len(content))
    stop = len(content) if chance.random() < 0.5 else min(len(content), start + chance.randint(1, 256))
    return content[:start] + content[stop:]


def swapped(content: bytes, chance: random.Random) -> bytes:
    """Swap words, or longer pieces, at several positions, or replace them by extreme values."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 6)):
        size = chance.choice([_WORD, _WORD, 1, 2, 16, 64])
        step = _WORD if size == _WORD else 1
        places = range(0, max(1, len(changed) - size), step)
        one, other = chance.choice(places), chance.choice(places)
        if size == _WORD and chance.random() < 0.3:
            changed[one : one + size] = struct.pack("<i", max(-(2**31), min(chance.choice(_EXTREMES), 2**31 - 1)))
        elif abs(one - other) >= size:
            first, second = changed[one : one + size], changed[other : other + size]
            changed[one : one + size], changed[other : other + size] = second, first
    return bytes(changed)


def with_other_fields(content: bytes, chance: random.Random) -> bytes:
    """Replace some fields of a valid ONNX file by other fields' values or by extremes."""
    model = onnx.ModelProto()
    model.ParseFromString(content)
    fields = list(_fields(model))
    for _ in range(chance.randint(1, 4)):
        message, name, index, value = chance.choice(fields)
        others = [one for one in fields if type(one[3]) is type(value)]
        new = chance.choice(others)[3]
        if isinstance(value, int) and chance.random() < 0.5:
            new = chance.choice(_EXTREMES)
        try:
            if index is None:
                setattr(message, name, new)
            else:
                getattr(message, name)[index] = new
        except (ValueError, TypeError):  # the number exceeds the field, or the bytes are not text
            continue
    return bytes(model.SerializeToString())


def _fields(message: Message) -> Iterator[tuple[Message, str, int | None, Any]]:
    for field, value in message.ListFields():
        listed = field.is_repeated
        for index, each in enumerate(value if listed else [value]):
            if isinstance(each, Message):
                yield from _fields(each)
            else:
                yield message, field.name, index if listed else None, each


def with_other_values(content: bytes, chance: random.Random) -> bytes:
    """Replace some values in the tables of a valid `.pt2` file by other values, extremes or nothing."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(changed, "w") as new:
        tables = [name for name in old.namelist() if name.endswith(".json")]
        chosen = chance.choice(tables if chance.random() < 0.2 else [name for name in tables if "/models/" in name])
        for name in old.namelist():
            found = old.read(name)
            new.writestr(name, json.dumps(_with_other_leaves(json.loads(found), chance)) if name == chosen else found)
    return changed.getvalue()


def _with_other_leaves(table: Table, chance: random.Random) -> Table:
    for _ in range(chance.randint(1, 4)):
        leaves = list(_leaves(table))
        if not leaves:
            break
        single = [leaf for leaf in leaves if not isinstance(leaf[2], dict | list)]
        holder, key, value = chance.choice(single if single and chance.random() < 0.7 else leaves)
        how = chance.random()
        if how < 0.15 and isinstance(holder, dict):
            del holder[key]
        elif how < 0.4 and isinstance(value, int):
            holder[key] = chance.choice(_EXTREMES)
        else:
            alike = [leaf for leaf in leaves if type(leaf[2]) is type(value)] if how < 0.9 else leaves
            other_holder, other_key, other = chance.choice(alike)
            holder[key], other_holder[other_key] = other, value
    return table


def _leaves(table: Table) -> Iterator[Leaf]:
    waiting = [table]
    while waiting:
        holder = waiting.pop()
        for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(value, dict | list) and value:
                waiting.append(value)
            yield holder, key, value


MUTATIONS: Final[dict[str, tuple[Mutation, ...]]] = {
    ".onnx": (flipped, cut, swapped, *[with_other_fields] * 4),
    ".tflite": (flipped, cut, swapped, swapped),
    ".pt2": (flipped, cut, swapped, *[with_other_values] * 4),
}
"""Mutations by file extension; more frequent ones are listed several times."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code (negative: the signal), peak memory in bytes and standard error of a process that read a file.

    The process is killed after `GREATEST_SECONDS` of processor time.
    """

    code: int
    peak_bytes: int
    said: str

    @property
    def fault(self) -> str | None:
        """Return a description of the faulty behaviour; None if the file was read, or refused in one line."""
        lines = self.said.splitlines()
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}"
        if self.code not in (0, 2):
            return f"exit {self.code}: {self.said[-300:]}"
        if self.peak_bytes > GREATEST_BYTES:
            return f"{self.peak_bytes / 2**20:.0f} MiB"
        if any(not line.startswith("onchip: ") for line in lines) or (self.code and len(lines) != 1):
            return f"{len(lines)} lines: {self.said[:300]}"
        return None


def ended(path: Path) -> Ended:
    """Read a file with `onchip info`, in a separate process with limits on time and memory."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            _read(path, said.fileno())
        _, status, used = os.wait4(child, 0)
        said.seek(0)
        text = said.read().decode(errors="backslashreplace")
    return Ended(os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024, text)


def _read(path: Path, said: int) -> None:
    """Run the child process; never returns."""
    code = 70
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (GREATEST_SECONDS + 1, GREATEST_SECONDS + 1))
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + GREATEST_BYTES, taken + GREATEST_BYTES))
        signal.alarm(6 * GREATEST_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        code = run(["info", str(path)])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
