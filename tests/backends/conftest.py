"""Collection of the ExecuTorch tests."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the ExecuTorch programs with --torch-smoke, as the import takes ten seconds; the page's program runs."""
    return True if config.getoption("--torch-smoke") and collection_path.name == "test_executorch_runs.py" else None
