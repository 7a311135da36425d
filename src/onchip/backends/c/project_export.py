"""A C project as it is shown: what its arenas, its DRAM and its constants take."""

from __future__ import annotations

from onchip.backends.c.project.project import CProject
from onchip.reports.shared.words import printable


def project_export_object(project: CProject) -> dict[str, object]:
    """Say what a project takes as a JSON object."""
    return {
        "arena_bytes": dict(project.arenas),
        "dram_bytes": project.dram_bytes,
        "constant_bytes": project.constant_bytes,
    }


def project_export_lines(project: CProject) -> list[str]:
    """Say it in a few lines of words."""
    arenas = (f"{printable(name)} {size_bytes:,} bytes" for name, size_bytes in project.arenas.items())
    others = f"DRAM {project.dram_bytes:,}, constants {project.constant_bytes:,}"
    return [f"arenas: {', '.join(arenas) or 'none'}; {others}", "`make run` in it builds it and checks its outputs"]
