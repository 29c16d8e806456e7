"""Rules about images: which one runs, its version, and its architecture."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, unknown_here, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.lint.wrappers import ENGINES
from envcheck.core.messages import _
from envcheck.scripts.docker_commands import find_built_images, find_pulled_images

_ALIKE = 0.6  # similarity of two names above which they denote the same image


def find_other_image(context: LintContext) -> Iterator[Remark]:
    """Find documents that pull one image and run another."""
    refs = [word for word in find_pulled_images(context.find_commands(*ENGINES)) if word.is_known]
    own = {*find_built_images(context.find_commands(*ENGINES)), *(ref.text for ref in refs)}
    run = {container.image.text for container in context.containers if container.image is not None}
    for image in (container.image for container in context.containers):
        if image is None or not image.is_known or not refs or image.text in own:
            continue
        like = max((ref.text for ref in refs), key=lambda ref: _rate_similarity(ref, image.text))
        if _rate_similarity(like, image.text) >= _ALIKE and like not in run:
            if _read_tag(image.text):
                seen = _("the document pulls {like}, but runs another image", like=like)
            else:
                seen = _(
                    "the document pulls {like}, but runs another image: without a tag, the end of the name is read as "
                    "the repository",
                    like=like,
                )
            same = like.partition(":")[0] == image.text.partition(":")[0]
            other = context.document and same  # documents list a tag for each kind of card
            yield warn_or_fail(not other, image, seen, _("Run {like}.", like=like))


def _rate_similarity(one: str, other: str) -> float:
    """Similarity of the names without the registry."""
    ends = [re.sub(r"^(?=[\w-]+\.)[\w.:-]+/", "", text) for text in (one, other)]
    if (
        len({text.rpartition(":")[0] for text in (one, other) if _read_tag(text)}) == 1
        and _read_tag(one)
        and _read_tag(other)
    ):
        return 1.0  # one repository, two tags
    return difflib.SequenceMatcher(None, ends[0][:200], ends[1][:200]).ratio()


def _read_tag(reference: str) -> str:
    return reference.rpartition("/")[2].partition(":")[2]


def _list_images(context: LintContext) -> list[ShellWord]:
    """All images that are pulled, run or built on, each once."""
    found = [
        *find_pulled_images(context.find_commands(*ENGINES)),
        *(c.image for c in context.containers if c.image is not None),
    ]
    return list({word.text: word for word in reversed(found)}.values())[::-1]


_MOVING = re.compile(r"(latest|nightly|main|master|edge|dev|develop)($|[-_](?!.*\d\.\d))")


def find_moving_tags(context: LintContext) -> Iterator[Remark]:
    own = find_built_images(context.find_commands(*ENGINES))
    for word in _list_images(context):
        text = word.text
        if not word.is_known or text in own or "@sha256:" in text or re.fullmatch(r"[0-9a-f]{12,64}", text):
            continue
        if not _read_tag(text) or _MOVING.match(_read_tag(text)):
            how = (
                _("the mutable tag {tag}", tag=_read_tag(text)[:40])
                if _read_tag(text)
                else _("no tag, which means latest")
            )
            yield warn(
                word,
                _("image {image} has {how}: it may point to another image later", image=text[:100], how=how),
                _("Use a tag with a version, or pin the image by digest."),
            )


def find_wrong_image_architecture(context: LintContext) -> Iterator[Remark]:
    for word in _list_images(context):
        found = re.search(r"[:_-](x86_64|amd64|x86|aarch64|arm64|arm)([_.-]|$)", word.text)
        if found:
            yield from _judge_processor(context, word, found[1])
    for container in context.containers:
        for word in container.list_option_values("--platform"):
            found = re.fullmatch(r"linux/(amd64|arm64)(/v8)?", word.text)
            if found:
                yield from _judge_processor(context, word, found[1])


def _judge_processor(context: LintContext, word: ShellWord, name: str) -> Iterator[Remark]:
    named = "aarch64" if name.startswith(("arm", "aarch")) else "x86_64"
    there = context.machine.architecture
    if there is None or context.is_for_this_machine is False:
        seen = _(
            "this image supports {named} only; cannot check the host architecture: {unasked}",
            named=named,
            unasked=context.unknown_reason,
        )
        yield unknown_here(word, seen, _("Check with uname -m. The other architecture has its own tag."))
    elif there != named:
        seen = _(
            "this image supports {named} only; this host is {there}: the container fails with exec format error",
            named=named,
            there=there,
        )
        yield fail(word, seen, _("Use the tag for {there}.", there=there))
