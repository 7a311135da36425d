from __future__ import annotations

from onchip.formats.networks import writable


def test_only_what_json_has_no_word_for_becomes_text() -> None:
    assert writable(float("inf")) == "inf"
    assert writable([float("-inf"), [float("nan")], 1, 2.5, True, None, "x"]) == [
        "-inf",
        ["nan"],
        1,
        2.5,
        True,
        None,
        "x",
    ]
