"""The engine's messages during a pull, converted to progress events and error messages."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.messages import Message, _, fill, mark, verbatim
from envcheck.core.secrets import redact_text
from installers.images.manifest import BlobReference, ResolvedImage
from installers.state.progress import ProgressEvent, Report

TELL_S = 0.1
WORDS = {
    "Downloading": mark("downloading"),
    "Verifying Checksum": mark("verifying"),
    "Download complete": mark("downloaded"),
    "Extracting": mark("unpacking"),
    "Pull complete": mark("done"),
    "Already exists": mark("done"),
}
OVER = ("Pull complete", "Already exists")
# (pattern of the engine's error, message, next step), tried in this order.  No next step: another attempt may succeed.
MEANINGS: tuple[tuple[str, str, str | None], ...] = (
    (
        "no space left",
        mark("no space left on the disk"),
        mark("free disk space (`docker system prune`), then run the command again; finished layers are kept"),
    ),
    (
        "unauthorized|denied: |access .*denied|authentication required|no basic auth",
        mark("the registry requires credentials"),
        mark("run `docker login {host}`"),
    ),
    (
        r"manifest unknown|manifest .*not found|blob unknown|\b404\b",
        mark("the registry no longer has this image"),
        mark("choose another registry with --registry"),
    ),
    (
        "no matching manifest|does not match the specified platform",
        mark("the image is for another architecture"),
        mark("choose another registry with --registry"),
    ),
    (
        "verification failed|digest mismatch|unexpected commit digest",
        mark("the downloaded data is corrupt"),
        mark("choose another registry with --registry"),
    ),
    (
        "x509|certificate",
        mark("the registry's certificate is not trusted"),
        mark("install its CA certificate in /etc/docker/certs.d/{host}"),
    ),
    (
        "toomanyrequests|rate limit",
        mark("the registry's rate limit was exceeded"),
        mark("wait, or run `docker login {host}`"),
    ),
    (
        "invalid tar header|unexpected gzip|gzip: invalid",
        mark("a layer of the image is corrupt"),
        mark("choose another registry with --registry"),
    ),
    ("no such host|server misbehaving", mark("cannot reach the registry"), None),
    (
        r"refused|reset|EOF|timeout|timed out|broken pipe|unreachable|\b50[0234]\b",
        mark("connection lost"),
        None,
    ),
)


class PullInterrupted(Exception):  # noqa: N818 (an expected outcome of a pull, not a program error)
    """A pull that ended early; `passing`: another attempt may succeed."""

    def __init__(self, message: Message, next_step: Message, passing: bool) -> None:
        super().__init__(message)
        self.message, self.next_step, self.passing = message, next_step, passing


def interpret_error(text: str, found: ResolvedImage) -> PullInterrupted:
    """Return the meaning of an error message of the engine, which is quoted."""
    quoted = redact_text(" ".join(text.split()))[:300]
    for pattern, what, next_step in MEANINGS:
        if re.search(pattern, text, re.IGNORECASE):
            another = _("check the network and proxy, or choose another registry with --registry")
            step = fill(next_step, host=found.reference.host) if next_step else another
            return PullInterrupted(_("{what}: {why}", what=fill(what), why=quoted), step, next_step is None)
    return PullInterrupted(verbatim(quoted), _("check the engine's log: `journalctl -u docker`"), False)


@dataclass
class PullProgress:
    """Reports `bytes` events for the whole pull and `layer` events for each layer, at most ten per second of each.

    `finished` is called with the number of leading layers that are complete.
    """

    found: ResolvedImage
    report: Report
    finished: Callable[[int], None]
    ready: set[str] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)
    reported_at: dict[str, float] = field(default_factory=dict)

    def add_line(self, line: dict[str, Any]) -> None:
        """Report one message of the engine; raise PullInterrupted if it is an error."""
        if error := line.get("error") or line.get("errorDetail"):
            raise interpret_error(str(error.get("message") if isinstance(error, dict) else error), self.found)
        name, status = str(line.get("id") or "")[:12], str(line.get("status") or "")
        size = next((part.size for part in self.found.layers if part.digest[7:19] == name), None)
        if size is None or status not in WORDS:
            return
        detail = line.get("progressDetail")
        current = detail.get("current") if isinstance(detail, dict) else None
        count = current if isinstance(current, int) else size
        self.done[name] = min(count, size) if status == "Downloading" else size
        over = status in OVER
        self._report_limited(
            name,
            ProgressEvent(
                "layer",
                _("{layer} {state}", layer=name, state=fill(WORDS[status])),
                size if over else min(count, size),
                size,
                layer=name,
                over=over,
            ),
            over,
        )
        if over:
            self.ready.add(name)
            self.finished(sum(1 for _unused in itertools.takewhile(self._is_ready, self.found.layers)))
        self._report_limited(
            "", ProgressEvent("bytes", _("downloading the image"), sum(self.done.values()), self.found.compressed_bytes)
        )

    def _is_ready(self, part: BlobReference) -> bool:
        return part.digest[7:19] in self.ready

    def report_end(self) -> None:
        """Report the whole image as complete."""
        self._report_limited(
            "",
            ProgressEvent(
                "bytes", _("downloading the image"), self.found.compressed_bytes, self.found.compressed_bytes
            ),
            True,
        )

    def _report_limited(self, about: str, event: ProgressEvent, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self.reported_at.get(about, 0) >= TELL_S:
            self.reported_at[about] = now
            self.report(event)
