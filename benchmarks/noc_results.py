"""Writes what a benchmark measured, with the commit and the machine it was measured on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path


def write_results(path: Path, command: str, results: Mapping[str, object]) -> None:
    """Write a JSON object; raises OSError where the file cannot be written."""
    document = {"command": command, "commit": commit(), "machine": machine(), **results}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def commit() -> str:
    """Return the commit of the sources, with a + where they have been changed since; unknown outside a clone."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, check=True)
        changed = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=here, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.decode().strip() + ("+" if changed.stdout.strip() else "")


def machine() -> dict[str, object]:
    """Return the processor, how many of its cores there are, and how many tasks wanted one."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [
            line.partition(":")[2].strip() for line in information.read_text().splitlines() if "model name" in line
        ]
        processor = names[0] if names else processor
    return {"processor": processor, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
