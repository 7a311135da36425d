"""The wheel that users install: one for every Python from 3.11 on, without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
COMMANDS = (
    ("plan", "lenet5", "--sram", "m_r"),
    ("map", "conv:k64c64p14q14r3s3", "--accelerator", "simba", "--time-limit", "2", "--no-cache"),
    ("schedule", "lenet5", "--accelerator", "simba", "--time-limit", "5"),
)


def interpreter(version: str) -> str | None:
    """Return the path of Python `version`, on the search path or below pyenv's root; None if there is none."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
        return found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return next((str(path) for path in sorted(root.glob(f"versions/{version}*/bin/python"))), None)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the sdist and the wheel (`python -m build` builds the wheel from the sdist)."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    return folder


def test_the_wheel_is_for_the_stable_abi(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert "-cp311-abi3-" in wheel.name


@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_plans_maps_and_schedules(built: Path, version: str, tmp_path: Path) -> None:
    base = interpreter(version)
    if base is None:
        pytest.skip(f"Python {version} is not installed")
    subprocess.run([base, "-m", "venv", tmp_path / "venv"], check=True)
    binaries = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    (wheel,) = built.glob("*.whl")
    install = ("-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel))
    subprocess.run([str(binaries / "python"), *install], check=True)
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LD_PRELOAD")}
    for command in COMMANDS:
        ended = subprocess.run(
            [binaries / "onchip", *command], cwd=tmp_path, env=outside, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
