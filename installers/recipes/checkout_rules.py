"""Rules for the URLs, refs and folders that are passed to git: git must not read them as options or expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.messages import Message, _
from envcheck.core.secrets import redact_text
from installers.recipes.recipe import Checkout

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_URL = re.compile(r"(?:https?|ssh|git|file)://[^\s\x00-\x1f]+|[\w.-]+@[\w.-]+:[^\s\x00-\x1f-][^\s\x00-\x1f]*")
_REF = re.compile(r"[A-Za-z0-9][\w./+-]{0,199}")


def find_complaints(checkout: Checkout) -> Iterator[tuple[str, Message]]:
    """Yield (field, complaint) for each value that is not safe on a git command line."""
    if not _URL.fullmatch(checkout.url):
        yield (
            "url",
            _("expected the https:// URL of a repository, found {url!r}", url=redact_text(checkout.url)[:80]),
        )
    parts = checkout.ref.split("/")
    if (
        not _REF.fullmatch(checkout.ref)
        or ".." in checkout.ref
        or any(p.endswith((".", ".lock")) or not p for p in parts)
    ):
        yield "ref", _("expected a commit or a tag, found {ref!r}", ref=checkout.ref[:80])
    if not checkout.directory.isprintable() or checkout.directory.startswith("-"):
        yield "directory", _("expected a folder")
    if not checkout.directory.strip("/. ") or ".." in checkout.directory.split("/"):
        yield "directory", _("expected a separate folder, found {directory!r}", directory=checkout.directory[:80])
