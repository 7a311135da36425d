"""NVIDIA's compiler, `nvcc`: what a kernel takes of a GPU, by its own words; no device is needed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from re import findall, search
from typing import Final

from onchip.errors import InputError

HOW_TO_GET_IT: Final = "nvcc of NVIDIA's CUDA toolkit in PATH (on Debian: apt install nvidia-cuda-toolkit, of non-free)"
LONGEST_SECONDS: Final = 300.0


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
            said = self._said((f"-arch={self.architecture}", *options, str(path)))
            assembly = next(Path(folder).glob("*.ptx")).read_text()
        threads = search(r"\.maxntid (\d+)", assembly)
        return CompiledKernel(
            _number(r"Used (\d+) registers", said),
            _number(r"(\d+) bytes spill stores", said) + _number(r"(\d+) bytes stack frame", said),
            _number(r"(\d+) bytes smem", said),
            int(threads[1]) if threads else 0,
            tuple(findall(r".*warning.*", said)),
        )

    def _said(self, arguments: tuple[str, ...]) -> str:
        try:
            ended = subprocess.run(
                (self.command, *arguments), capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
            )
        except OSError as error:
            raise InputError(error.strerror or str(error), file=self.command, expected=HOW_TO_GET_IT) from None
        except subprocess.TimeoutExpired:
            raise InputError("it does not end", file=self.command, expected="seconds") from None
        if ended.returncode != 0:
            lines = [line for line in ended.stderr.splitlines() if "error" in line] or [ended.stderr or "no word"]
            raise InputError(f"it does not compile: {lines[0]}", file=self.command, expected="a compiler of CUDA")
        return ended.stdout + ended.stderr


def gpu_compiler(architecture: str | None = None) -> GpuCompiler:
    """`nvcc` for an architecture, or for the oldest that it has; raises InputError with how to get it."""
    command = shutil.which("nvcc")
    if command is None:
        raise InputError("no nvcc is found", expected=HOW_TO_GET_IT)
    if architecture is None:
        listed = subprocess.run((command, "--list-gpu-arch"), capture_output=True, text=True, check=False).stdout
        known = findall(r"compute_(\d+)", listed)
        if not known:
            raise InputError("it lists no architectures", file=command, expected=HOW_TO_GET_IT)
        architecture = f"sm_{min(map(int, known))}"
    return GpuCompiler(command, architecture)


def _number(pattern: str, said: str) -> int:
    found = search(pattern, said)
    return int(found[1]) if found else 0
