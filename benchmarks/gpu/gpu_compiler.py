"""NVIDIA's compiler, `nvcc`, and the assembler of an older toolkit: the resources of a kernel; no device is needed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from re import findall, search, sub
from typing import Final

from onchip.errors import InputError

HOW_TO_GET_IT: Final = "nvcc of NVIDIA's CUDA toolkit in PATH (on Debian: apt install nvidia-cuda-toolkit, of non-free)"
LONGEST_SECONDS: Final = 300.0
OLDER_ARCHITECTURE: Final = "sm_37"
"""The K80's own, which nvcc has dropped."""
OLDER_LANGUAGE: Final = "7.8"
"""The version of PTX that CUDA 11.8 reads."""


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """The compiler's figures of a kernel: registers and spilled bytes per thread, shared bytes and threads per block.

    A thread's arrays in memory, whose indices are not known, count as spilled.
    """

    registers: int
    spilled_bytes: int
    shared_bytes: int
    threads: int
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, said: str, assembly: str) -> CompiledKernel:
        """Read the output of the assembler, and the kernel's assembly."""
        return cls(
            _number(r"Used (\d+) registers", said),
            _number(r"(\d+) bytes spill stores", said) + _number(r"(\d+) bytes stack frame", said),
            _number(r"(\d+) bytes smem", said),
            _number(r"\.maxntid (\d+)", assembly),
            tuple(findall(r".*warning.*", said)),
        )


@dataclass(frozen=True, slots=True)
class GpuCompiler:
    """A compiler of CUDA for an architecture such as `sm_90`."""

    command: str
    architecture: str

    def compiled(self, source: str) -> CompiledKernel:
        """Compile the source of one kernel; raises InputError with the compiler's first error."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.cu"
            path.write_text(source)
            options = ("-Xptxas", "-v", "-cubin", "--keep", "--keep-dir", folder, "-o", str(Path(folder) / "kernel.o"))
            said = _said(self.command, f"-arch={self.architecture}", *options, str(path))
            return CompiledKernel.of(said, next(Path(folder).glob("*.ptx")).read_text())


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
            _said(newer.command, f"-arch={newer.architecture}", "-ptx", "-o", str(assembly), str(kernel))
            text = sub(r"\.version [\d.]+", f".version {OLDER_LANGUAGE}", assembly.read_text())
            assembly.write_text(sub(r"\.target sm_\d+", f".target {OLDER_ARCHITECTURE}", text))
            options = (f"-arch={OLDER_ARCHITECTURE}", "-v", "-o", str(Path(folder) / "kernel.o"), str(assembly))
            return CompiledKernel.of(_said(str(self.program), *options), text)


def gpu_compiler(architecture: str | None = None) -> GpuCompiler:
    """Return `nvcc` for an architecture, or for the oldest that it has; raises InputError with how to get it."""
    command = shutil.which("nvcc")
    if command is None:
        raise InputError("no nvcc is found", expected=HOW_TO_GET_IT)
    if architecture is None:
        known = findall(r"compute_(\d+)", _said(command, "--list-gpu-arch"))
        if not known:
            raise InputError("it lists no architectures", file=command, expected=HOW_TO_GET_IT)
        architecture = f"sm_{min(map(int, known))}"
    return GpuCompiler(command, architecture)


def _said(command: str, *arguments: str) -> str:
    try:
        ended = subprocess.run(
            (command, *arguments), capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
        )
    except OSError as error:
        raise InputError(error.strerror or str(error), file=command, expected=HOW_TO_GET_IT) from None
    except subprocess.TimeoutExpired:
        raise InputError("it does not end", file=command, expected="seconds") from None
    if ended.returncode != 0:
        lines = [line for line in ended.stderr.splitlines() if "error" in line] or [ended.stderr or "no word"]
        raise InputError(f"it does not compile: {lines[0]}", file=command, expected="a compiler of CUDA")
    return ended.stdout + ended.stderr


def _number(pattern: str, text: str) -> int:
    found = search(pattern, text)
    return int(found[1]) if found else 0
