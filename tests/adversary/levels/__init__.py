"""The levels that the adversary looks at, one a file; a new one is added to LEVELS."""

from __future__ import annotations

from typing import Final

from adversary.frame import Level
from adversary.levels.pack import PackLevel

LEVELS: Final[tuple[Level, ...]] = (PackLevel(),)
