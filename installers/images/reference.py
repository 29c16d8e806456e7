"""Names of images: their parts, and which ones stand for the image that a recipe wants on this host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.core.errors import UsageError
from installers.recipes.recipe import Image

HUB = "docker.io"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_TAG, _DIGEST = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", r"sha256:[0-9a-f]{64}"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_END = re.compile(rf"(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?")
LENGTH = 512  # the longest published one has 90 characters


@dataclass(frozen=True)
class Reference:
    """HOST/REPOSITORY:TAG@DIGEST; the tag is "" when a digest stands alone."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """Without tag and digest, as the engine writes it: it leaves docker.io away."""
        short = self.repository.removeprefix("library/")
        return short if self.host == HUB else f"{self.host}/{self.repository}"

    @property
    def tagged(self) -> str:
        return f"{self.name}:{self.tag}" if self.tag else ""

    def __str__(self) -> str:
        return self.name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def parse(text: str) -> Reference:
    """UsageError says what is wrong with a name that is none."""
    first, slash, rest = text.partition("/")
    is_host = bool(slash) and (first == "localhost" or any(mark in first for mark in ".:["))
    host, path = (first, rest) if is_host else (HUB, text)
    found = _REPOSITORY.match(path)
    end = _END.fullmatch(path, found.end()) if found else None
    if not found or not end or len(text) > LENGTH or not re.fullmatch(_HOST, host):
        raise UsageError(f"{text[:80]!r} is no name of an image", "write HOST/REPOSITORY:TAG")
    host = HUB if host in ("index.docker.io", "registry-1.docker.io") else host
    repository = f"library/{found[0]}" if host == HUB and "/" not in found[0] else found[0]
    digest = end["digest"] or ""
    return Reference(host, repository, end["tag"] or ("" if digest else "latest"), digest)


def candidates(image: Image, architecture: str, registries: Sequence[str] = ()) -> tuple[Reference, ...]:
    """The names for this architecture in the order of trying: the registries that a person asked for, then the
    recipe's own and its alternates.

    A registry is HOST or HOST/PREFIX; it holds the recipe's repositories under their names.
    """
    wanted = image.references.get(architecture)
    if not wanted:
        there = ", ".join(sorted(image.references)) or "none"
        raise UsageError(
            f"the recipe names no image for {architecture}, only for {there}",
            "run it on such a machine, or add the image to a recipe of your own: --recipes FOLDER",
        )
    own = [parse(name) for name in (wanted, *image.alternates.get(architecture, ()))]
    return tuple(dict.fromkeys([_moved(own[0], each) for each in registries] + own))


def pinned(reference: Reference, digest: str) -> Reference:
    """The same repository, by digest alone."""
    return Reference(reference.host, reference.repository, "", digest)


def registry(text: str) -> tuple[str, str]:
    """Host and prefix of what --registry was given; UsageError says what is wrong with it."""
    shown = f"--registry {text[:80]!r}"
    if "://" in text:
        raise UsageError(f"{shown}: without http:// or https://", "write HOST or HOST/PREFIX")
    host, _, prefix = text.rstrip("/").partition("/")
    if not re.fullmatch(_HOST, host) or not (host == "localhost" or any(mark in host for mark in ".:[")):
        raise UsageError(f"{shown}: {host[:80]!r} is no host", "write HOST or HOST/PREFIX")
    if prefix and not _REPOSITORY.fullmatch(prefix):
        raise UsageError(f"{shown}: {prefix[:80]!r} is no prefix", "write HOST or HOST/PREFIX")
    return host, prefix


def _moved(reference: Reference, place: str) -> Reference:
    """The same repository in another registry."""
    host, prefix = registry(place)
    path = f"{prefix}/{reference.repository}" if prefix else reference.repository
    end = (f":{reference.tag}" if reference.tag else "") + (f"@{reference.digest}" if reference.digest else "")
    return parse(f"{host}/{path}{end}")
