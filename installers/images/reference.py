"""Image names: their parts, and the candidates for the image of a recipe on this host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from installers.recipes.recipe import RecipeImage

HUB = "docker.io"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_TAG, _DIGEST = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", r"sha256:[0-9a-f]{64}"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_END = re.compile(rf"(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?")
LENGTH = 512  # characters; the longest published name has 90


@dataclass(frozen=True)
class ImageReference:
    """The name HOST/REPOSITORY:TAG@DIGEST; the tag is "" for a name with a digest only."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """Return the name without tag and digest, as the engine prints it: without docker.io."""
        short = self.repository.removeprefix("library/")
        return short if self.host == HUB else f"{self.host}/{self.repository}"

    @property
    def tagged_name(self) -> str:
        """Return the name with the tag, "" if there is no tag."""
        return f"{self.name}:{self.tag}" if self.tag else ""

    def __str__(self) -> str:
        return self.name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def parse_reference(text: str) -> ImageReference:
    """Return the parts of an image name; raise UsageError if it is not valid."""
    first, slash, rest = text.partition("/")
    is_host = bool(slash) and (first == "localhost" or any(mark in first for mark in ".:["))
    host, path = (first, rest) if is_host else (HUB, text)
    found = _REPOSITORY.match(path)
    end = _END.fullmatch(path, found.end()) if found else None
    if not found or not end or len(text) > LENGTH or not re.fullmatch(_HOST, host):
        raise UsageError(_("{name!r} is not a valid image name", name=text[:80]), _("use the form HOST/REPOSITORY:TAG"))
    host = HUB if host in ("index.docker.io", "registry-1.docker.io") else host
    repository = f"library/{found[0]}" if host == HUB and "/" not in found[0] else found[0]
    digest = end["digest"] or ""
    return ImageReference(host, repository, end["tag"] or ("" if digest else "latest"), digest)


def list_candidates(
    image: RecipeImage, architecture: str, registries: Sequence[str] = ()
) -> tuple[ImageReference, ...]:
    """Return the names for this architecture in the order to try: `registries`, the recipe's name, its alternates.

    A registry is HOST or HOST/PREFIX and holds the repositories of the recipe under the same names.
    """
    wanted = image.references.get(architecture)
    if not wanted:
        there = join(", ", sorted(image.references)) or _("none")
        raise UsageError(
            _("the recipe has no image for {architecture}, only for {there}", architecture=architecture, there=there),
            _("use a machine of that architecture, or add an image to your own recipe: --recipes FOLDER"),
        )
    own = [parse_reference(name) for name in (wanted, *image.alternates.get(architecture, ()))]
    return tuple(dict.fromkeys([_move_to_registry(own[0], each) for each in registries] + own))


def pin_reference(reference: ImageReference, digest: str) -> ImageReference:
    """Return the same repository with this digest and no tag."""
    return ImageReference(reference.host, reference.repository, "", digest)


def parse_registry(text: str) -> tuple[str, str]:
    """Return host and prefix of a --registry value; raise UsageError if it is not valid."""
    shown = f"--registry {text[:80]!r}"
    if "://" in text:
        raise UsageError(_("{shown} must not contain http:// or https://", shown=shown), _("use HOST or HOST/PREFIX"))
    host, _unused, prefix = text.rstrip("/").partition("/")
    if not re.fullmatch(_HOST, host) or not (host == "localhost" or any(mark in host for mark in ".:[")):
        raise UsageError(
            _("{shown}: {host!r} is not a valid host name", shown=shown, host=host[:80]), _("use HOST or HOST/PREFIX")
        )
    if prefix and not _REPOSITORY.fullmatch(prefix):
        raise UsageError(
            _("{shown}: {prefix!r} is not a valid prefix", shown=shown, prefix=prefix[:80]),
            _("use HOST or HOST/PREFIX"),
        )
    return host, prefix


def _move_to_registry(reference: ImageReference, place: str) -> ImageReference:
    """Return the same repository in another registry."""
    host, prefix = parse_registry(place)
    path = f"{prefix}/{reference.repository}" if prefix else reference.repository
    end = (f":{reference.tag}" if reference.tag else "") + (f"@{reference.digest}" if reference.digest else "")
    return parse_reference(f"{host}/{path}{end}")
