"""What the engine tells while it pulls, as events and as reasons."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.secrets import redact
from installers.images.manifest import BlobReference, ResolvedImage
from installers.state.progress import Event, Report

TELL_S = 0.1
WORDS = {
    "Downloading": "downloading",
    "Verifying Checksum": "checking",
    "Download complete": "there",
    "Extracting": "unpacking",
    "Pull complete": "done",
    "Already exists": "done",
}
OVER = ("Pull complete", "Already exists")
# What the engine says, what it means, what to do; in the order of looking.  None: worth another attempt.
MEANINGS: tuple[tuple[str, str, str | None], ...] = (
    ("no space left", "the disk filled up", "make room (docker system prune), then repeat: finished layers stay"),
    (
        "unauthorized|denied: |access .*denied|authentication required|no basic auth",
        "the registry wants credentials",
        "docker login HOST",
    ),
    (
        r"manifest unknown|manifest .*not found|blob unknown|\b404\b",
        "the registry does not have it any more",
        "see --registry",
    ),
    ("no matching manifest|does not match the specified platform", "it is for another architecture", "see --registry"),
    ("verification failed|digest mismatch|unexpected commit digest", "what arrived is damaged", "see --registry"),
    (
        "x509|certificate",
        "the registry's certificate is not trusted",
        "put its authority below /etc/docker/certs.d/HOST",
    ),
    ("toomanyrequests|rate limit", "the registry has had too many requests from here", "wait, or docker login HOST"),
    ("invalid tar header|unexpected gzip|gzip: invalid", "a layer of it is broken", "see --registry for another one"),
    ("no such host|server misbehaving", "the registry cannot be reached", None),
    (r"refused|reset|EOF|timeout|timed out|broken pipe|unreachable|\b50[0234]\b", "the connection broke off", None),
)


class Broken(Exception):  # noqa: N818 (a pull that ended early, which is no accident here)
    """A pull that ended early; `passing`: another attempt may succeed."""

    def __init__(self, message: str, next_step: str, passing: bool) -> None:
        super().__init__(message)
        self.message, self.next_step, self.passing = message, next_step, passing


def meaning(text: str, found: ResolvedImage) -> Broken:
    """The engine's sentence as ours."""
    said = redact(" ".join(text.split()))[:300]
    for pattern, what, next_step in MEANINGS:
        if re.search(pattern, text, re.IGNORECASE):
            another = "look at network and proxy, or see --registry for another one"
            next_step = next_step and next_step.replace("HOST", found.reference.host)
            return Broken(f"{what}: {said}", next_step or another, next_step is None)
    return Broken(said, "see the engine's log: journalctl -u docker", False)


@dataclass
class Progress:
    """The engine's lines as events: `bytes` for the whole, `layer` for each, never more than ten a second of each."""

    found: ResolvedImage
    report: Report
    finished: Callable[[int], None]
    ready: set[str] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)

    def line(self, said: dict[str, Any]) -> None:
        """Broken when the line is an error's."""
        if error := said.get("error") or said.get("errorDetail"):
            raise meaning(str(error.get("message") if isinstance(error, dict) else error), self.found)
        name, status = str(said.get("id") or "")[:12], str(said.get("status") or "")
        size = next((part.size for part in self.found.layers if part.digest[7:19] == name), None)
        if size is None or status not in WORDS:
            return
        detail = said.get("progressDetail")
        current = detail.get("current") if isinstance(detail, dict) else None
        count = current if isinstance(current, int) else size
        self.done[name] = min(count, size) if status == "Downloading" else size
        over = status in OVER
        self._tell(name, Event("layer", f"{name} {WORDS[status]}", size if over else min(count, size), size), over)
        if over:
            self.ready.add(name)
            self.finished(sum(1 for _ in itertools.takewhile(self._is_ready, self.found.layers)))
        self._tell("", Event("bytes", "image", sum(self.done.values()), self.found.compressed_bytes))

    def _is_ready(self, part: BlobReference) -> bool:
        return part.digest[7:19] in self.ready

    def end(self) -> None:
        self._tell("", Event("bytes", "image", self.found.compressed_bytes, self.found.compressed_bytes), True)

    def _tell(self, about: str, event: Event, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self.told.get(about, 0) >= TELL_S:
            self.told[about] = now
            self.report(event)
