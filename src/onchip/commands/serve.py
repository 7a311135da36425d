"""`onchip serve`: show the page of a store, live while a sweep runs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from onchip.commands.answer_files import command_line
from onchip.commands.exit_code import ExitCode
from onchip.reports.shared.output import write


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Arguments and options of `onchip serve`."""

    context: typer.Context
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store of a sweep, which may still run.")]
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="The port; 0 is any that is free.")] = 8765
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; by default only this machine can connect.")
    ] = "127.0.0.1"


def serve_command(options: ServeOptions) -> int:
    """Show a STORE in a browser, as `onchip report STORE` does, live while a sweep writes it. Ctrl-C ends it.

    The server only reads: the store, and the networks of points whose reports are opened. Pages load nothing else.
    """
    from onchip.reports.shared.page import ensure_report_can_be_made
    from onchip.sweeps.serve_store import StorePages, StoreServer

    ensure_report_can_be_made()
    pages = StorePages(options.store, command_line(options.context))
    pages.state()  # report an unreadable store at once
    with StoreServer(pages, options.host, options.port) as server:
        write(server.url)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return ExitCode.ANSWER
