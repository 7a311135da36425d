"""A pytest plugin that imports the onchip built by `make sanitize` instead of the one installed in place."""

from __future__ import annotations

import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "ScikitBuildInplaceFinder"]

from onchip.native import _core  # noqa: E402

if "build/sanitized/" not in str(_core.__file__):
    raise ImportError(f"the sanitized build is to be tested, not {_core.__file__}")
