from __future__ import annotations

import gc

from onchip.without_collecting import without_collecting


def test_the_collector_rests_and_then_works_as_before() -> None:
    assert gc.isenabled()
    with without_collecting():
        assert not gc.isenabled()
        with without_collecting():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
