"""A small web server for a store: read-only, live while a sweep writes, without external resources."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import parse_qs, urlsplit

from onchip.api.check import CheckRequest, check_file
from onchip.api.check_schedule import ScheduleFile
from onchip.api.show_plan import findings_of
from onchip.api.show_schedule import schedule_to_show
from onchip.errors import InputError, OnchipError, UsageError
from onchip.reports.program.html import report_html
from onchip.reports.program.outcome import Check
from onchip.reports.schedule.html import schedule_html
from onchip.sweeps.store import Store, shown_store
from onchip.sweeps.stored_row import sweep_facts, sweep_html

SCRIPT: Final = re.compile(r"<script(?: [^>]*)?>(.*?)</script>", re.DOTALL)
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
KEY: Final = re.compile(r"/report/([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class StorePages:
    """The pages of one store, whose file is read again for each request."""

    store: Path
    command_line: str

    def page(self) -> str:
        """Return the page of the store; raises InputError for an unreadable store."""
        return sweep_html(shown_store(self.store, is_live=True), self.command_line)

    def facts(self) -> str:
        """Return the data of the page as JSON; raises InputError for an unreadable store."""
        return json.dumps(sweep_facts(shown_store(self.store, is_live=True)), allow_nan=False)

    def state(self) -> str:
        """Return a text that changes whenever the store does; raises InputError for an unreadable store."""
        with Store.for_reading(self.store) as opened:
            return opened.state

    def report(self, key: str) -> str:
        """Return the page of a point's plan or schedule.

        Raises InputError if it has none, or its network is missing.
        """
        with Store.for_reading(self.store) as opened:
            row = next((row for row in opened.rows() if row.key == key), None)
            document = opened.document(key)
        if row is None or document is None:
            raise InputError("there is no such answer", place=key, expected="a point that has one")
        if row.verb not in ("plan", "schedule"):
            raise UsageError(
                f"a point of `{row.verb}` has no page of its own", place=key, expected="`onchip sweep --answer`"
            )
        with TemporaryDirectory(prefix="onchip-") as folder:
            file = Path(folder) / f"{key[:12]}.json"
            file.write_bytes(document)
            return _page_of_answer(file, row.network, row.verb)


def _page_of_answer(file: Path, network: str, verb: str) -> str:
    if verb == "schedule":
        outcome = schedule_to_show(ScheduleFile(file, network)).outcome
        if outcome is None:
            raise InputError("the answer is not legal", place=network, expected="the network that it was made for")
        return schedule_html(outcome, f"onchip report {file.name} {network}")
    check = check_file(CheckRequest(file, network))
    if not isinstance(check, Check) or not check.is_legal:
        raise InputError("the answer is not legal", place=network, expected="the network that it was made for")
    return report_html(findings_of(check, f"onchip report {file.name} {network}"))


class StoreServer(ThreadingHTTPServer):
    """A web server for the pages of one store; raises UsageError for an unusable address."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, pages: StorePages, host: str, port: int) -> None:
        self.pages = pages
        try:
            self.is_loopback = host == "localhost" or ip_address(host).is_loopback
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError, ValueError) as error:
            what = f"{host}:{port} cannot be listened at ({getattr(error, 'strerror', None) or error})"
            raise UsageError(what, place="host, port", expected="an address of this machine that is free") from None

    @property
    def url(self) -> str:
        """Return the URL of the server."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/"


class _Handler(BaseHTTPRequestHandler):
    server: StoreServer
    server_version = "onchip"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer one of three paths; errors are a line of text."""
        asked = urlsplit(self.path)
        try:
            if not self._is_asked_for_by_name():
                self._send(403, "text/plain", "this server is asked by another name")
            elif asked.path == "/":
                self._send(200, "text/html", self.server.pages.page())
            elif asked.path == "/rows.json":
                self._send_rows(parse_qs(asked.query).get("seen", [""])[0])
            elif (found := KEY.fullmatch(asked.path)) is not None:
                self._send(200, "text/html", self.server.pages.report(found[1]))
            else:
                self._send(404, "text/plain", "there is nothing here")
        except OnchipError as error:
            self._send(404, "text/plain", str(error))

    do_HEAD = do_GET  # noqa: N815 (its name in the standard library)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name in the standard library)
        """Print nothing, instead of the standard library's line for each request."""

    def _is_asked_for_by_name(self) -> bool:
        """Return True if the request names this server, to reject other sites' names that resolve to it."""
        if not self.server.is_loopback:
            return True
        name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        return name in (*LOOPBACK_NAMES, str(self.server.server_address[0]))

    def _send_rows(self, seen: str) -> None:
        state = self.server.pages.state()
        if seen == state:
            self._send(204, "text/plain", "")
        else:
            self._send(200, "application/json", self.server.pages.facts(), state)

    def _send(self, status: int, kind: str, text: str, state: str | None = None) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", content_security_policy(text if kind == "text/html" else ""))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cache-Control", "no-store")
        if state is not None:
            self.send_header("ETag", state)
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(content)


def content_security_policy(page: str) -> str:
    """Return a policy that allows only the page's own scripts, by their hashes, and requests to this server."""
    hashes = {base64.b64encode(sha256(one.encode()).digest()).decode() for one in SCRIPT.findall(page)}
    scripts = " ".join(f"'sha256-{one}'" for one in sorted(hashes)) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
