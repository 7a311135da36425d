"""Move the changes of `changes/` into CHANGELOG.md under a new version.

python tools/changelog.py X.Y.Z
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def released(changelog: str, changes: list[str], version: str, day: str) -> str:
    """Return the changelog with a section for `version` above the others."""
    head, mark, rest = changelog.partition("\n## ")
    section = "\n".join((f"\n## {version} ({day})\n", *(f"* {change}" for change in changes)))
    return f"{head}{section}\n{mark}{rest}"


def main() -> int:
    """Write CHANGELOG.md and delete the files of the changes; returns 2 without changes or a version."""
    files = sorted(path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md")
    if len(sys.argv) != 2 or not re.fullmatch(r"\d+\.\d+\.\d+", sys.argv[1]) or not files:
        print("usage: tools/changelog.py X.Y.Z, with at least one file in changes/", file=sys.stderr)
        return 2
    path = ROOT / "CHANGELOG.md"
    changes = [" ".join(file.read_text().split()) for file in files]
    path.write_text(released(path.read_text(), changes, sys.argv[1], datetime.now(UTC).date().isoformat()))
    for file in files:
        file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
