"""Exit codes of all commands."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from onchip.answer.result import SearchResult, Status, Stop
from onchip.errors import InputError, OnchipError, OutputError, UntiledError
from onchip.plugins import PluginError
from onchip.search.strategy.start import NoAnswerError, StoppedError

Answer = TypeVar("Answer")


class ExitCode(IntEnum):
    """The exit codes, explained in `docs/formats.md`."""

    ANSWER = 0
    WRONG = 1
    BAD_INPUT = 2
    INFEASIBLE = 3
    NO_ANSWER = 4
    INTERNAL = 70
    OUTPUT = 74
    INTERRUPTED = 130


def code_of_check(is_right: bool) -> ExitCode:
    """Return the exit code of a command that checks an answer."""
    return ExitCode.ANSWER if is_right else ExitCode.WRONG


def code_of_result(result: SearchResult[Answer]) -> ExitCode:
    """Return the exit code of a search: an answer, no answer, or a proof that there is none."""
    if result.answer is not None:
        return ExitCode.ANSWER
    if result.status is Status.INFEASIBLE:
        return ExitCode.INFEASIBLE
    return ExitCode.INTERRUPTED if result.stopped_by is Stop.INTERRUPTED else ExitCode.NO_ANSWER


def code_of_refusal(error: OnchipError) -> ExitCode:
    """Return the exit code for an error."""
    if isinstance(error, UntiledError):
        return ExitCode.INFEASIBLE if error.is_proven else ExitCode.NO_ANSWER
    by_kind = {
        InputError: ExitCode.BAD_INPUT,
        PluginError: ExitCode.BAD_INPUT,
        OutputError: ExitCode.OUTPUT,
        NoAnswerError: ExitCode.NO_ANSWER,
        StoppedError: ExitCode.INTERRUPTED,
    }
    return next((code for kind, code in by_kind.items() if isinstance(error, kind)), ExitCode.INTERNAL)
