"""The progress of a sweep as one line."""

from __future__ import annotations

from onchip.sweeps.stored_row import progress_text
from onchip.sweeps.sweep import SweepProgress


def test_the_line_counts_what_is_done_failed_saved_and_in_flight() -> None:
    progress = SweepProgress(20, computed=4, failed=1, settled=3, kept_before=2, in_flight=2)

    assert progress.done == 10
    text = progress_text(progress)
    assert text.startswith("10 of 20 points, 1 failed, 5 saved, 2 in flight, ")
    assert text.endswith(" s left")
    assert progress_text(SweepProgress(1)) == "0 of 1 point, 0 failed, 0 saved, 0 in flight"
