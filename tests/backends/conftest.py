"""Collection of the tests of ExecuTorch."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --torch-smoke, the page's program stands for all programs: importing ExecuTorch takes ten seconds."""
    return True if config.getoption("--torch-smoke") and collection_path.name == "test_executorch_runs.py" else None
