"""Shell completion of bundled names; shells complete file names themselves."""

from __future__ import annotations

from typing import Final

COMPLETION_VARIABLE: Final = "_ONCHIP_COMPLETE"
"""Environment variable set by the shell script that `--install-completion` writes."""


def network_names(incomplete: str) -> list[str]:
    """Return the bundled networks whose names start with `incomplete`."""
    from onchip.formats.own.graph_json import bundled_networks

    return [name for name in bundled_networks() if name.startswith(incomplete)]


def accelerator_names(incomplete: str) -> list[str]:
    """Return the bundled accelerators whose names start with `incomplete`."""
    from onchip.formats.own.accelerator_yaml import bundled_accelerators

    return [name for name in bundled_accelerators() if name.startswith(incomplete)]
