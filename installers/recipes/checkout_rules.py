"""What git may be given of a recipe: addresses, refs and folders, none of which is an option or an expression to it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.secrets import redact
from installers.recipes.recipe import Checkout

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_URL = re.compile(r"(?:https?|ssh|git|file)://[^\s\x00-\x1f]+|[\w.-]+@[\w.-]+:[^\s\x00-\x1f-][^\s\x00-\x1f]*")
_REF = re.compile(r"[A-Za-z0-9][\w./+-]{0,199}")


def complaints(checkout: Checkout) -> Iterator[tuple[str, str]]:
    """(field, what is wrong): all of it comes to stand in git's command lines."""
    if not _URL.fullmatch(checkout.url):
        yield "url", f"expected the https:// address of a repository, found {redact(checkout.url)[:80]!r}"
    parts = checkout.ref.split("/")
    if (
        not _REF.fullmatch(checkout.ref)
        or ".." in checkout.ref
        or any(p.endswith((".", ".lock")) or not p for p in parts)
    ):
        yield "ref", f"expected a commit or a tag, found {checkout.ref[:80]!r}"
    if not checkout.directory.isprintable() or checkout.directory.startswith("-"):
        yield "directory", "expected a folder"
    if not checkout.directory.strip("/. ") or ".." in checkout.directory.split("/"):
        yield "directory", f"expected a folder of its own, found {checkout.directory[:80]!r}"
