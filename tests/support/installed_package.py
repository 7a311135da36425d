"""A package that looks installed, with entry points for onchip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, entry_points: Mapping[str, Mapping[str, str]], package: str = "toy") -> Path:
    """Write the package's metadata, with its functions by name by group; return the folder to search packages in."""
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in functions.items())
        for group, functions in entry_points.items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    return folder
