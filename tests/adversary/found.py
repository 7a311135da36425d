"""Cases that failed once, kept in `tests/found`: one JSON file each, judged again in every run of the tests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from adversary.frame import Facts

FOLDER = Path(__file__).parents[1] / "found"


@dataclass(frozen=True, slots=True)
class Found:
    """A case, its level, and its fault when it was found."""

    level: str
    fault: str
    facts: Facts

    def write(self, folder: Path = FOLDER) -> Path:
        """Write it under a name that follows from the case."""
        text = json.dumps({"level": self.level, "fault": self.fault, "facts": self.facts}, indent=1)
        path = folder / f"{self.level}-{hashlib.sha256(json.dumps(self.facts).encode()).hexdigest()[:8]}.json"
        path.write_text(text + "\n")
        return path


def read_found(path: Path) -> Found:
    """Read what `write` wrote."""
    fields = json.loads(path.read_text())
    return Found(fields["level"], fields["fault"], fields["facts"])
