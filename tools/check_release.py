"""Check a release: one version everywhere, a wheel that works without the sources, and a complete site.

python tools/check_release.py DIST
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from venv import create

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    ("--version",),
    ("plan", "lenet5", "--sram", "m_r"),
    ("schedule", "lenet5", "--accelerator", "simba", "--time-limit", "5"),
)
PAGES = ("index.html", "search/search_index.json", "reference/cli/index.html", "reference/api/index.html")


def main() -> int:
    """Print each problem; return 1 if there is one."""
    dist = Path(sys.argv[1]).resolve()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    problems = [*_texts(version), *_files(dist, version)]
    if not problems:
        problems += _wheel(next(dist.glob("*.whl")), version)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _texts(version: str) -> list[str]:
    wanted = {"CITATION.cff": f"version: {version}\n", "CHANGELOG.md": f"## {version}"}
    return [
        f"{name}: {text.strip()!r} is missing" for name, text in wanted.items() if text not in (ROOT / name).read_text()
    ]


def _files(dist: Path, version: str) -> list[str]:
    patterns = (f"onchip-{version}.tar.gz", f"onchip-{version}-cp311-abi3-*.whl", "onchip-site.tar.gz")
    missing = [f"{dist.name}: {pattern} is missing" for pattern in patterns if not list(dist.glob(pattern))]
    if missing:
        return missing
    with tarfile.open(dist / "onchip-site.tar.gz") as site:
        names = set(site.getnames())
    return [f"onchip-site.tar.gz: {page} is missing" for page in PAGES if f"site/{page}" not in names]


def _wheel(wheel: Path, version: str) -> list[str]:
    """Install the wheel into a fresh environment, and run commands outside of the sources."""
    with tempfile.TemporaryDirectory() as folder:
        create(folder, with_pip=True)
        programs = Path(folder) / ("Scripts" if os.name == "nt" else "bin")
        constraints = ("--constraint", str(ROOT / "constraints.txt"))
        subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", *constraints, str(wheel)], check=True)
        outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        for command in COMMANDS:
            run = [programs / "onchip", *command]
            ended = subprocess.run(run, cwd=folder, env=outside, capture_output=True, text=True, check=False)
            if ended.returncode or (command == ("--version",) and version not in ended.stdout):
                return [f"{wheel.name}: onchip {' '.join(command)} failed: {ended.stdout}{ended.stderr}"]
    return []


if __name__ == "__main__":
    sys.exit(main())
