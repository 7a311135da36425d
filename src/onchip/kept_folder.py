"""The cache folder of onchip, for proven mappings, reports of defects and the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

FOLDER_VARIABLE: Final = "ONCHIP_CACHE"


def cache_folder() -> Path | None:
    """Return `$ONCHIP_CACHE`, or `onchip` in the user's cache folder, or None if the user has none."""
    named, users = os.environ.get(FOLDER_VARIABLE), os.environ.get("XDG_CACHE_HOME", "")
    if named:
        return Path(named)
    if Path(users).is_absolute():
        return Path(users) / "onchip"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "onchip"
