"""The command line: arguments only."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
import typer.main

from onchip.commands.explain import explain_command
from onchip.commands.export import export_command
from onchip.commands.pack import pack_command
from onchip.commands.report import Pictures, report_command
from onchip.commands.run import run_command, time_command
from onchip.commands.watched import seconds_of, watched_run
from onchip.errors import InputError, InternalError, OnchipError, UsageError
from onchip.plan.document import Granularity, Reading
from onchip.plan.problem import Count, Objective, Order
from onchip.plan.result import Status, Stop
from onchip.report.output import write, write_json, write_refusal
from onchip.solve.limits import Limits, MipSolver
from onchip.solve.start import NoAnswerError, StoppedError

if TYPE_CHECKING:
    from onchip.report.outcome import Outcome

FOUND, VIOLATED, BAD_INPUT, INFEASIBLE, NO_ANSWER, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 70, 130
GREATEST_SEED = 2**31 - 1
GREATEST_ALIGNMENT = 2**30

app = typer.Typer(
    help="Plan how a neural network uses an accelerator's on-chip memory, and prove how good the plan is.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Network: TypeAlias = Annotated[str, typer.Argument(metavar="NETWORK", help="A bundled name, or .onnx or .json file.")]
Sram: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="SIZE|m_r|m_h|m_p", help="One scratchpad of this size (512KiB, 1.5MB, 1048576) or budget."),
]
AcceleratorName: TypeAlias = Annotated[
    str | None, typer.Option("--accelerator", metavar="NAME|FILE", help="Instead of --sram: a bundled name or a file.")
]
Alignment: TypeAlias = Annotated[
    int | None, typer.Option(min=1, max=GREATEST_ALIGNMENT, metavar="N", help="Every offset is a multiple of N bytes.")
]
Bits: TypeAlias = Annotated[int | None, typer.Option(min=1, metavar="N", help="Bits per element; else the model's.")]
Dims: TypeAlias = Annotated[
    list[str] | None, typer.Option("--dim", metavar="NAME=N", help="Bind a symbolic dimension; repeatable.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@app.command("plan")
def plan_command(
    context: typer.Context,
    network: Network,
    sram: Sram = None,
    accelerator: AcceleratorName = None,
    alignment: Alignment = None,
    objective: Annotated[Objective, typer.Option(help="Least traffic, or least arena.")] = Objective.TRAFFIC,
    order: Annotated[
        Order | None, typer.Option(help="Any order, the network's own, or one of least peak.", show_default="as METHOD")
    ] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="How to search.")] = "exact",
    count: Annotated[Count, typer.Option(help="Plan all tensors, or all but parameters.")] = Count.ACTIVATIONS,
    bits: Bits = None,
    granularity: Annotated[Granularity, typer.Option(help="Fuse operators, or leave the nodes.")] = Granularity.FUSED,
    dim: Dims = None,
    time_limit: Annotated[float | None, typer.Option(metavar="S", help="Seconds; else until proven.")] = None,
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Parallel workers.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=GREATEST_SEED, metavar="N", help="Seed of all choices.")] = 0,
    solver: Annotated[MipSolver, typer.Option(help="Who solves the program of --method paper.")] = MipSolver.CP_SAT,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="PLAN.json", help="Write the plan.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw the plan, as `report` does.")] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw its memory map.")] = None,
    as_json: AsJson = False,
) -> int:
    """Plan order, addresses and spills of NETWORK in a scratchpad.

    The budgets m_r, m_h and m_p follow from the network: the greatest need of one operator, half way, the
    least peak without spills (see `onchip info`).
    With --objective peak and neither --sram nor --accelerator, the scratchpad is as large as all tensors together.
    Ctrl-C ends the search with the best plan so far.
    """
    from onchip.export.writable import ensure_writable
    from onchip.pipeline import Request, plan_network
    from onchip.solve.target import Target

    reading = Reading(bits, _dims(dim), granularity, count)
    limits = Limits(seconds_of(time_limit), workers=workers, seed=seed, solver=solver)
    target = Target.of_text(sram, accelerator, alignment)
    request = Request(network, reading, target, objective, order, method, limits)
    if output is not None:
        ensure_writable(output, inputs=(network, accelerator or network))
    pictures = Pictures(report, figure, inputs=(network, accelerator or network))
    outcome = plan_network(request, watched_run)
    if output is not None and outcome.document is not None:
        from onchip.export.plan_json import write_plan

        write_plan(outcome.document, output)
    pictures.draw(context, outcome, accelerator)
    _show_outcome(outcome, as_json=as_json)
    return _exit_code(outcome)


@app.command("check")
def check_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="A plan file, from whichever tool.")],
    network: Network,
    sram: Sram = None,
    accelerator: AcceleratorName = None,
    alignment: Alignment = None,
    count: Annotated[Count | None, typer.Option(help="Must be what the plan says.")] = None,
    bits: Bits = None,
    granularity: Annotated[Granularity | None, typer.Option(help="Must be what the plan says.")] = None,
    dim: Dims = None,
    as_json: AsJson = False,
) -> int:
    """Verify PLAN.json for NETWORK: name each violation, recompute every claim.

    NETWORK is read as the plan says; --sram, --accelerator and --alignment stand in for the plan's own memories.
    """
    from onchip.pipeline import check_plan
    from onchip.report.json_view import check_object
    from onchip.solve.target import Target

    flags = {"bits": bits, "granularity": granularity, "count": count, "dims": _dims(dim) or None}
    insisted = {name: value for name, value in flags.items() if value is not None}
    check = check_plan(plan, network, Target.of_text(sram, accelerator, alignment), insisted)
    if as_json:
        write_json(check_object(check))
    else:
        from onchip.report.terminal import check_report, show

        write(show(*check_report(check)))
    return FOUND if check.is_legal else VIOLATED


@app.command("info")
def info_command(
    network: Network,
    count: Annotated[Count, typer.Option(help="Count all tensors, or all but parameters.")] = Count.ACTIVATIONS,
    bits: Bits = None,
    granularity: Annotated[Granularity, typer.Option(help="Fuse operators, or leave the nodes.")] = Granularity.FUSED,
    dim: Dims = None,
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds to look for M_P.")] = 10.0,
    as_json: AsJson = False,
) -> int:
    """Say what is in NETWORK: operators, tensors, M_R and the operator that sets it, M_P, the largest tensors."""
    from onchip.pipeline import describe_network
    from onchip.report.json_view import description_object

    reading = Reading(bits, _dims(dim), granularity, count)
    description = describe_network(network, reading, Limits(seconds_of(time_limit)), watched_run)
    if as_json:
        write_json(description_object(description))
    else:
        from onchip.report.terminal import description_report, show

        write(show(*description_report(description)))
    return FOUND


app.command("run")(run_command)
app.command("time")(time_command)
app.command("export")(export_command)
app.command("report")(report_command)
app.command("explain")(explain_command)
app.command("pack")(pack_command)


@app.command("networks")
def networks_command(as_json: AsJson = False) -> int:
    """List the bundled networks."""
    from onchip.workloads.bundled import bundled_networks

    names = list(bundled_networks())
    if as_json:
        write_json({"networks": names})
    else:
        write("\n".join(names))
    return FOUND


@app.command("accelerators")
def accelerators_command(as_json: AsJson = False) -> int:
    """List the bundled accelerators and their scratchpads."""
    from onchip.frontends.accelerator_yaml import bundled_accelerators, load_accelerator

    accelerators = [load_accelerator(name) for name in bundled_accelerators()]
    if as_json:
        from onchip.report.json_view import accelerator_object

        write_json({"accelerators": [accelerator_object(accelerator) for accelerator in accelerators]})
    else:
        from onchip.report.terminal import accelerators_table, show

        write(show(accelerators_table(accelerators)))
    return FOUND


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        write(f"onchip {version('onchip')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print it.")
    ] = False,
) -> None: ...


def main() -> None:
    """Leave with the program's exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the program on arguments and return its exit code; bad input ends in one line."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("onchip", list(arguments), obj=tuple(arguments)) as context:
            code = command.invoke(context)
            return code if isinstance(code, int) else FOUND
    except typer.Exit as error:
        return error.exit_code
    except typer.TyperException as error:
        refusal: OnchipError = UsageError(" ".join(error.format_message().split()).rstrip("."), expected=_usage(error))
    except OnchipError as error:
        refusal = error
    except KeyboardInterrupt:
        refusal = StoppedError("interrupted")
    except OSError as error:
        refusal = InputError(error.strerror or str(error), file=error.filename and str(error.filename))
    except Exception as error:  # a defect: say where, and leave with its own exit code
        traceback.print_exc()
        refusal = InternalError(f"{type(error).__name__}: {error}", expected="no such error; please report it")
    write_refusal(refusal, as_json="--json" in arguments)
    return _exit_code_of_refusal(refusal)


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"what `{context.command_path if context else 'onchip'} --help` says"


def _show_outcome(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        from onchip.report.json_view import outcome_object

        write_json(outcome_object(outcome))
    else:
        from onchip.report.terminal import outcome_table, show

        write(show(outcome_table(outcome)))


def _exit_code(outcome: Outcome) -> int:
    if outcome.result.answer is not None:
        return FOUND
    if outcome.result.status is Status.INFEASIBLE:
        return INFEASIBLE
    return INTERRUPTED if outcome.result.stopped_by is Stop.INTERRUPTED else NO_ANSWER


def _exit_code_of_refusal(error: OnchipError) -> int:
    by_kind = {InputError: BAD_INPUT, NoAnswerError: NO_ANSWER, StoppedError: INTERRUPTED}
    return next((code for kind, code in by_kind.items() if isinstance(error, kind)), INTERNAL)


def _dims(bindings: Sequence[str] | None) -> dict[str, int]:
    dims: dict[str, int] = {}
    for binding in bindings or ():
        name, _, number = binding.rpartition("=")
        if not name or not number.isdecimal() or int(number) < 1:
            raise UsageError(f"{binding!r} binds nothing", place="--dim", expected="NAME=N with N at least 1")
        if dims.setdefault(name, int(number)) != int(number):
            raise UsageError(
                f"{name!r} is bound to {dims[name]} and {int(number)}", place="--dim", expected="one value"
            )
    return dims
