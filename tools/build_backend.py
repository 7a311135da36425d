"""Builds onchip as scikit-build-core does, and brings a compiler from PyPI where the machine has none.

pip calls the functions below (PEP 517, PEP 660).
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from scikit_build_core import build

COMPILERS = ("c++", "g++", "clang++", "cl")
ZIG = "ziglang"
Settings = Mapping[str, list[str] | str] | None

get_requires_for_build_sdist = build.get_requires_for_build_sdist
build_sdist = build.build_sdist
prepare_metadata_for_build_wheel = build.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build.prepare_metadata_for_build_editable


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What a wheel is built with."""
    return [*build.get_requires_for_build_wheel(config_settings), *_compiler_wanted()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """What an installation in place is built with."""
    return [*build.get_requires_for_build_editable(config_settings), *_compiler_wanted()]


def build_wheel(folder: str, config_settings: Settings = None, metadata_folder: str | None = None) -> str:
    """Return the name of the wheel that is written to the folder."""
    with _some_compiler():
        return build.build_wheel(folder, config_settings, metadata_folder)


def build_editable(folder: str, config_settings: Settings = None, metadata_folder: str | None = None) -> str:
    """The same of a wheel that leads to the sources."""
    with _some_compiler():
        return build.build_editable(folder, config_settings, metadata_folder)


def _has_compiler() -> bool:
    return "CXX" in os.environ or any(shutil.which(name) for name in COMPILERS)


def _compiler_wanted() -> list[str]:
    return [] if _has_compiler() else [ZIG]


@contextmanager
def _some_compiler() -> Iterator[None]:
    """Zig's, with its names for what CMake looks for, where there is no other."""
    if _has_compiler():
        yield
        return
    _say("onchip: no C++ compiler found; building with Zig's from PyPI, which takes several minutes")
    with tempfile.TemporaryDirectory() as folder:
        tools = {variable: _tool(Path(folder), name) for variable, name in (("CC", "cc"), ("CXX", "c++"))}
        archivers = [f"-DCMAKE_{name.upper()}={_tool(Path(folder), name)}" for name in ("ar", "ranlib")]
        arguments = " ".join((*archivers, os.environ.get("CMAKE_ARGS", "")))
        before = dict(os.environ)
        os.environ.update(tools, CMAKE_ARGS=arguments)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _tool(folder: Path, name: str) -> str:
    """A program that is one of Zig's."""
    path = folder / f"zig-{name}"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {ZIG} {name} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def _say(line: str) -> None:
    """On the terminal itself, where there is one: pip keeps the output of a build to itself."""
    try:
        with Path("/dev/tty").open("w") as terminal:
            terminal.write(f"{line}\n")
    except OSError:
        print(line, file=sys.stderr, flush=True)
