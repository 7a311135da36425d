"""The command line: its verbs and exit codes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import Annotated, Final

import typer
import typer.main

from onchip.answer.result import Status
from onchip.commands import answers, info, solve, sweep
from onchip.commands.arguments import COMPLETION_VARIABLE, options_of
from onchip.commands.defect import contradiction_of, save_case
from onchip.commands.progress import verb_begins, warnings_said_once
from onchip.commands.show import ExitCode, code_of_refusal
from onchip.commands.verb import add_verb, name_flags, set_running_command
from onchip.errors import InputError, InternalError, OnchipError, OpenDimensionsError, UntiledError, UsageError
from onchip.reports.shared.output import stream_error, write, write_error, write_line
from onchip.search.strategy.start import StoppedError

app = typer.Typer(
    help="Plan how a neural network uses an accelerator's on-chip memory, and prove how good the plan is.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
add_verb(app, solve.plan_command, "onchip plan resnet18 --sram m_r --bits 8 -o plan.json")
add_verb(app, solve.schedule_command, "onchip schedule lenet5 --accelerator simba --time-limit 10 -o schedule.json")
add_verb(app, answers.check_command, "onchip check plan.json resnet18")
add_verb(app, answers.audit_command, "onchip audit plan.json resnet18")
add_verb(app, info.info_command, "onchip info resnet18 --bits 8")
add_verb(app, answers.run_command, "onchip run schedule.json lenet5")
add_verb(app, answers.time_command, "onchip time plan.json resnet18 --accelerator edge-tpu-like")
add_verb(app, answers.export_command, "onchip export plan.json --to trace -o plan.trace.json")
add_verb(app, answers.report_command, "onchip report plan.json resnet18 -o plan.html")
add_verb(app, answers.explain_command, "onchip explain plan.json resnet18")
add_verb(app, solve.map_command, "onchip map conv:n1k64c64p56q56r3s3:pad1 --accelerator simba --show -o mapping.yaml")
add_verb(app, solve.fuse_command, "onchip fuse fsrcnn --accelerator simba --time-limit 10 -o strategy.json")
add_verb(app, solve.pack_command, "onchip pack buffers.csv --minimize -o packed.csv")
add_verb(
    app,
    sweep.sweep_command,
    "onchip sweep lenet5 resnet18 --sram 256KiB..2MiB --steps 5 --objective traffic --store sizes.db",
)
add_verb(app, solve.capacity_command, "onchip capacity lenet5 --bits 8")
add_verb(app, answers.diff_command, "onchip diff plan.json plan.json resnet18")
add_verb(app, info.networks_command, "onchip networks")
add_verb(app, info.accelerators_command, "onchip accelerators simba")


_command = cache(partial(typer.main.get_command, app))
"""The command with all verbs, built once per process."""


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        write(f"onchip {version('onchip')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and exit.")
    ] = False,
) -> None: ...


def run(arguments: Sequence[str], seconds_ago: float = 0.0) -> int:
    """Run the program on arguments and return its exit code. Bad input results in an error of one line.

    Time limits count from `seconds_ago`, the age of the process.
    """
    verb_begins(seconds_ago)
    command = _command()
    set_running_command(command, arguments[0] if arguments else "")
    if COMPLETION_VARIABLE in os.environ:
        command.main([*arguments], prog_name="onchip")  # prints completions and exits
    try:
        with warnings_said_once(), command.make_context("onchip", list(arguments), obj=tuple(arguments)) as context:
            code = command.invoke(context)
            return code if isinstance(code, int) else ExitCode.ANSWER
    except typer.Exit as error:
        return error.exit_code
    except typer.TyperException as error:
        refusal: OnchipError = _refusal_of(error, arguments)
    except InternalError as error:
        return _end_of_defect(error, arguments)
    except OnchipError as error:
        refusal = error
    except KeyboardInterrupt:
        refusal = StoppedError("interrupted")
    except OSError as error:  # without a file name: help could not be printed
        unreadable = InputError(error.strerror or str(error), file=str(error.filename))
        refusal = stream_error(error) if error.filename is None else unreadable
    except MemoryError:
        refusal = InputError(
            "the command needs more memory than is available", expected="a smaller input, or more memory"
        )
    except Exception as error:  # any other exception is a defect
        return _end_of_defect(error, arguments)
    if isinstance(refusal, OpenDimensionsError):
        return _end_of_question(refusal, arguments)
    name_flags(refusal)
    more = _what_does_not_fit(refusal) if isinstance(refusal, UntiledError) else {}
    write_error(refusal, as_json="--json" in arguments, more=more)
    for target in refusal.try_next if isinstance(refusal, UsageError) else ():
        flag = "--sram" if target.startswith("m_") else "--accelerator"
        write_line(f"  try: onchip {shlex.join(arguments)} {flag} {target}")
    return code_of_refusal(refusal)


def _what_does_not_fit(error: UntiledError) -> dict[str, object]:
    return {
        "status": Status.INFEASIBLE if error.is_proven else Status.UNKNOWN,
        "operator": error.operator,
        "need_bytes": error.need_bytes,
        "smallest_part_bytes": error.smallest_part_bytes,
        "capacity_bytes": error.capacity_bytes,
        "excess_bytes": error.excess_bytes,
    }


def _end_of_question(error: OpenDimensionsError, arguments: Sequence[str]) -> int:
    """Print the open dimensions of a network and a command that sets them, and return the exit code."""
    command = f"onchip {shlex.join(arguments)} {options_of(error.suggested)}"
    error.expected = f"sizes, such as: {command}"
    open_dimensions = [asdict(each) for each in error.open_dimensions]
    more = {"open_dimensions": open_dimensions, "command": command}
    write_error(error, as_json="--json" in arguments, more=more)
    return code_of_refusal(error)


def _end_of_defect(error: Exception, arguments: Sequence[str]) -> int:
    """Print a request to report the defect, with the folder of the saved case, and return the exit code."""
    refusal, saved = contradiction_of(error), save_case(arguments, error)
    case = "with what was asked (no folder could be written to)" if saved is None else f"with {saved}"
    refusal.expected = f"no such defect of onchip: please report it {case}"
    write_error(refusal, as_json="--json" in arguments, more={"saved": None if saved is None else str(saved)})
    return code_of_refusal(refusal)


_INVALID: Final = re.compile(r"Invalid value for '([^']+)'(?: / '[^']+')*: (.*)")
_MISSING: Final = re.compile(r"Missing (?:option|argument) '([^']+)'")


def _refusal_of(error: typer.TyperException, arguments: Sequence[str]) -> UsageError:
    """Return the error for a command line that cannot be parsed: the option, its value, and the remedy."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "onchip"
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    listed = f"the arguments and options of `{command} --help`"
    if found := _MISSING.match(message):
        if found[1] == "--accelerator":
            listed = "a name such as simba (`onchip accelerators` lists them), or a file"
        return UsageError(f"{command.removeprefix('onchip ')} needs {found[1]}", expected=listed)
    if found := _INVALID.match(message):
        value = _value_of(found[1], arguments)
        is_named = value is None or found[2].startswith(repr(value))
        what = found[2] if is_named else f"{value!r} is invalid: {found[2].removeprefix('Input ')}"
        return UsageError(what, place=found[1], expected=listed)
    if message.startswith(("No such command", "Missing command")):
        listed = "a command that `onchip --help` lists"
    return UsageError(message, expected=listed)


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    """Return the value of an option on the command line; None if it is not found."""
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == option:
            return value if equals else next(iter(arguments[at + 1 : at + 2]), None)
    return None
