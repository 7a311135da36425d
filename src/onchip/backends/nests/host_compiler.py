"""The C compiler of this machine: what `$CC` names, `cc`, `gcc` or `clang`, else that of the package `ziglang`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from onchip.errors import InputError

OPTIONS: Final = ("-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra")
NAMES: Final = ("cc", "gcc", "clang")
HOW_TO_GET_ONE: Final = "gcc or clang (on Debian: apt install gcc), or `pip install ziglang`"
LONGEST_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """What compiles C for the processor that it runs on."""

    command: tuple[str, ...]

    def build(self, source: Path, target: Path, *, is_library: bool) -> None:
        """Compile a source into a program or a shared library; raises InputError with the compiler's first error."""
        kind = ("-shared", "-fPIC") if is_library else ()
        command = (*self.command, *OPTIONS, *kind, str(source), "-o", str(target))
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
        except OSError as error:
            raise InputError(error.strerror or str(error), file=self.command[0], expected=HOW_TO_GET_ONE) from None
        except subprocess.TimeoutExpired:
            raise InputError("it does not end", file=self.command[0], expected="seconds") from None
        if ended.returncode != 0:
            lines = [line for line in ended.stderr.splitlines() if "error" in line] or [ended.stderr or "no word"]
            raise InputError(f"it does not compile: {lines[0]}", file=self.command[0], expected="a compiler of GNU C")


def host_compiler() -> HostCompiler:
    """The first compiler that is there; raises InputError with how to get one."""
    named = shlex.split(os.environ.get("CC", ""))
    if named:
        if shutil.which(named[0]) is None:
            raise InputError(f"there is no {named[0]!r}", place="CC", expected=HOW_TO_GET_ONE)
        return HostCompiler(tuple(named))
    for name in NAMES:
        if found := shutil.which(name):
            return HostCompiler((found,))
    if find_spec("ziglang") is not None:
        return HostCompiler((sys.executable, "-m", "ziglang", "cc"))
    raise InputError("no C compiler is found", expected=HOW_TO_GET_ONE)
