"""Resources of kernels for an architecture that nvcc has dropped, by the assembler of an older CUDA toolkit."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from re import findall, search, sub
from typing import Final

from gpu.gpu_compiler import CompiledKernel, gpu_compiler

from onchip.errors import InputError

ARCHITECTURE: Final = "sm_37"
"""The K80's own."""
LANGUAGE: Final = "7.8"
"""The version of PTX that CUDA 11.8 reads."""


@dataclass(frozen=True, slots=True)
class OlderAssembler:
    """`ptxas` of CUDA 11.8; nvcc translates for the oldest architecture that it has, in what the older one reads."""

    program: Path

    def compiled(self, source: str) -> CompiledKernel:
        """Compile the source of one kernel; raises InputError with the first error of either program."""
        newer = gpu_compiler()
        with tempfile.TemporaryDirectory() as folder:
            kernel, assembly = Path(folder) / "kernel.cu", Path(folder) / "kernel.ptx"
            kernel.write_text(source)
            self._said((newer.command, f"-arch={newer.architecture}", "-ptx", "-o", str(assembly), str(kernel)))
            text = sub(r"\.version [\d.]+", f".version {LANGUAGE}", assembly.read_text())
            assembly.write_text(sub(r"\.target sm_\d+", f".target {ARCHITECTURE}", text))
            options = (f"-arch={ARCHITECTURE}", "-v", "-o", str(Path(folder) / "kernel.o"), str(assembly))
            said = self._said((str(self.program), *options))
        return CompiledKernel(
            _number(r"Used (\d+) registers", said),
            _number(r"(\d+) bytes spill stores", said) + _number(r"(\d+) bytes stack frame", said),
            _number(r"(\d+) bytes smem", said),
            _number(r"\.maxntid (\d+)", text),
            tuple(findall(r".*warning.*", said)),
        )

    def _said(self, command: tuple[str, ...]) -> str:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise InputError((ended.stderr.splitlines() or ["no word"])[0], file=command[0], expected="a kernel")
        return ended.stdout + ended.stderr


def _number(pattern: str, text: str) -> int:
    """Return the first number of a pattern, or 0."""
    found = search(pattern, text)
    return int(found[1]) if found else 0
