"""Events of a run for other programs: --on-event runs a command, --webhook sends a POST request, each with JSON.

Deliveries happen in a thread with a time limit each; none of them delays or ends a run.
"""

from __future__ import annotations

import json
import queue
import shlex
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from envcheck.core import process
from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import Message, _, verbatim
from envcheck.core.secrets import redact_text
from envcheck.core.version import SCHEMA_VERSION, __version__
from launch.run import run_text

COMMAND_S, WEBHOOK_S, DRAIN_S = 30.0, 10.0, 40.0
WAITING = 1000  # events that wait for a slow receiver; further ones are dropped
EVENTS = ("start", "first_step", "warning", "stop", "end")


@dataclass(frozen=True)
class EventReceivers:
    """Where events go: command lines, which run in `folder` (None: the current one), and URLs."""

    commands: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    folder: Path | None = None


def check_receivers(receivers: EventReceivers) -> None:
    """Raise UsageError for a command line or URL that cannot work."""
    for line in receivers.commands:
        try:
            words = shlex.split(line)
        except ValueError as err:
            raise UsageError(
                _("--on-event {command}: {reason}", command=line[:80], reason=str(err).lower()), _("check the quotes")
            ) from None
        if not words:
            raise UsageError(_("--on-event: the command is empty"), _("for example --on-event ./notify.sh"))
    for url in receivers.webhooks:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                _("--webhook: not an http or https URL"), _("for example --webhook https://example.org/hook")
            )


class EventSender:
    """Delivers events in order, in a thread."""

    def __init__(self, receivers: EventReceivers, about: Mapping[str, Any]) -> None:
        self.receivers, self.about = receivers, dict(about)
        self._waiting: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._failed: set[str] = set()
        self._thread: threading.Thread | None = None
        if receivers.commands or receivers.webhooks:
            self._thread = threading.Thread(target=self._deliver_events, daemon=True)
            self._thread.start()

    def send_event(self, event: str, **more: Any) -> None:
        """Queue an event; it is dropped if the receivers are too slow."""
        if self._thread is None:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        said = {
            "schema": SCHEMA_VERSION,
            "event": event,
            "time": now,
            "host": socket.gethostname(),
            **self.about,
            **more,
        }
        try:
            self._waiting.put_nowait(json.dumps(said).encode())
        except queue.Full:
            self._report_failure("queue", _("too many events are waiting; one was dropped"))

    def close(self) -> None:
        """Deliver what is waiting, for a limited time."""
        if self._thread is None:
            return
        try:
            self._waiting.put(None, timeout=DRAIN_S)
        except queue.Full:
            return
        self._thread.join(DRAIN_S)

    def _deliver_events(self) -> None:
        while (body := self._waiting.get()) is not None:
            for line in self.receivers.commands:
                self._run_command(line, body)
            for url in self.receivers.webhooks:
                self._post_event(url, body)

    def _run_command(self, line: str, body: bytes) -> None:
        try:
            child = process.start_process(
                shlex.split(line),
                cwd=self.receivers.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError as err:
            self._report_failure(line, describe_os_error(err))
            return
        try:
            child.communicate(body, COMMAND_S)
        except subprocess.TimeoutExpired:
            process.terminate_group(child, 1.0)
            self._report_failure(line, _("no end after {seconds:.0f} s", seconds=COMMAND_S))
        except OSError:
            child.wait(COMMAND_S)  # it did not read its input
        if child.returncode not in (0, None):
            self._report_failure(line, _("exit code {code}", code=child.returncode))

    def _post_event(self, url: str, body: bytes) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": f"envcheck/{__version__}"}
        try:
            request = urllib.request.Request(url, data=body, headers=headers, method="POST")
            with urllib.request.urlopen(request, timeout=WEBHOOK_S) as answer:
                answer.read(1024)
        except (OSError, ValueError) as err:  # urllib's errors are OSErrors; the URL may hold a secret
            self._report_failure("webhook", verbatim(redact_text(str(err).replace(url, "URL"))[:200]))

    def _report_failure(self, who: str, why: Message) -> None:
        """Print the first failure of each receiver."""
        if who in self._failed:
            return
        self._failed.add(who)
        name = "--webhook" if who in ("webhook", "queue") else f"--on-event {who[:80]}"
        run_text.print_translated(_("note: {name}: {reason}", name=name, reason=why))
