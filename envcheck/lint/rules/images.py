"""Images: which one is run, of which version, and for which processor."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Remark, Word
from envcheck.core.lint.remarks import fail, unknown, warn
from envcheck.core.lint.wrappers import ENGINES
from envcheck.scripts.docker_commands import made_images, pulled_images

_ALIKE = 0.6  # of two names' letters: one is meant for the other


def image_differs(context: LintContext) -> Iterator[Remark]:
    """The document pulls one image and runs another."""
    refs = [word for word in pulled_images(context.commands(*ENGINES)) if word.known]
    own = {*made_images(context.commands(*ENGINES)), *(ref.text for ref in refs)}
    run = {container.image.text for container in context.containers if container.image is not None}
    for image in (container.image for container in context.containers):
        if image is None or not image.known or not refs or image.text in own:
            continue
        like = max((ref.text for ref in refs), key=lambda ref: _likeness(ref, image.text))
        if _likeness(like, image.text) >= _ALIKE and like not in run:
            seen = f"{like} is pulled, and this is another one"
            seen += ": it has no tag, the name's end is taken for its repository" if not _tag(image.text) else ""
            yield fail(image, seen, f"Run {like}.")


def _likeness(one: str, other: str) -> float:
    """Of the names behind the registry."""
    ends = [re.sub(r"^[\w.-]+\.[\w.:-]+/", "", text) for text in (one, other)]
    if len({text.rpartition(":")[0] for text in (one, other) if _tag(text)}) == 1 and _tag(one) and _tag(other):
        return 1.0  # one repository, two tags
    return difflib.SequenceMatcher(None, ends[0][:200], ends[1][:200]).ratio()


def _tag(reference: str) -> str:
    return reference.rpartition("/")[2].partition(":")[2]


def _images(context: LintContext) -> list[Word]:
    """All that are pulled, run or built on, each once."""
    found = [*pulled_images(context.commands(*ENGINES)), *(c.image for c in context.containers if c.image is not None)]
    return list({word.text: word for word in reversed(found)}.values())[::-1]


_MOVING = re.compile(r"(latest|nightly|main|master|edge|dev|develop)($|[-_](?!.*\d+\.\d))")


def latest(context: LintContext) -> Iterator[Remark]:
    own = made_images(context.commands(*ENGINES))
    for word in _images(context):
        text = word.text
        if not word.known or text in own or "@sha256:" in text or re.fullmatch(r"[0-9a-f]{12,64}", text):
            continue
        if not _tag(text) or _MOVING.match(_tag(text)):
            how = f"the tag {_tag(text)[:40]}" if _tag(text) else "no tag, that is latest"
            yield warn(
                word,
                f"{text[:100]} has {how}: next month it is another",
                "A tag with a version, or the digest.",
            )


def image_architecture(context: LintContext) -> Iterator[Remark]:
    for word in _images(context):
        found = re.search(r"[:_-](x86_64|amd64|x86|aarch64|arm64|arm)([_.-]|$)", word.text)
        if found:
            yield from _for_processor(context, word, found[1])
    for container in context.containers:
        for word in container.all("--platform"):
            found = re.fullmatch(r"linux/(amd64|arm64)(/v8)?", word.text)
            if found:
                yield from _for_processor(context, word, found[1])


def _for_processor(context: LintContext, word: Word, name: str) -> Iterator[Remark]:
    named = "aarch64" if name.startswith(("arm", "aarch")) else "x86_64"
    there = context.machine.architecture
    if there is None or context.here is False:
        seen = f"an image for {named}; what the machine is was not looked up, for {context.unasked}"
        yield unknown(word, seen, "uname -m; the other one has its own tag.")
    elif there != named:
        seen = f"an image for {named}, and this machine is {there}: exec format error"
        yield fail(word, seen, f"The tag for {there}.")
