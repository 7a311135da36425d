"""Addresses that no scheduler can have: refused before any connection, so that no process is left to end."""

from __future__ import annotations

import pytest

from onchip.errors import InputError
from onchip.sweeps.processes import connected

distributed = pytest.importorskip("distributed")


@pytest.mark.parametrize("address", ["", "localhost", "::1", "http://10.0.0.1:1", "tcp://10.0.0.1:port"])
def test_no_client_is_made_of_what_is_no_address(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object, **__: object) -> None:
        raise AssertionError("a client that cannot connect hangs when the process ends")

    monkeypatch.setattr(distributed, "Client", made)
    with pytest.raises(InputError, match="no scheduler of Dask answers"):
        connected(address)
