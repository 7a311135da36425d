from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.document import as_written, schedule_claim_figures


@pytest.mark.slow
@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_whole_number_of_64_bits_is_written_as_it_is(figure: int) -> None:
    written = as_written(figure)
    assert isinstance(written, int)
    assert written == figure


@given(st.integers(2**63, 2**200), st.integers(0, 2**200))
def test_a_larger_one_is_written_as_a_real_number_and_none_overtakes_another(figure: int, less: int) -> None:
    written = as_written(figure)
    assert isinstance(written, float)
    assert abs(int(written) - figure) * 2**52 <= figure
    assert as_written(max(0, figure - less)) <= written


@given(st.integers(0, 2**52), st.integers(0, 2**52))
def test_schedules_of_other_energies_claim_other_energies(one_fj: int, other_fj: int) -> None:
    one, other = (schedule_claim_figures(energy_fj, 1, 1)["energy_pj"] for energy_fj in (one_fj, other_fj))
    assert round(one * 1000) == one_fj
    assert (one == other) is (one_fj == other_fj)
