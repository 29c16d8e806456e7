"""Mounts of containers: what they hide, what is not there to be mounted, and what is written beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import UNKNOWN, Remark
from envcheck.core.lint.remarks import graded, listed, unknown, warn
from envcheck.core.lint.script_container import BindMount
from envcheck.scripts.vendor_words import join_patterns, vendor_words

# (folder that is mounted over, image, what the image has there)
_NEEDED = (
    (r"/(usr|usr/local|opt|opt/conda|lib|lib64|bin|sbin|etc|root|root/\.local|venv)", r"", "the image's own programs"),
    (
        join_patterns("/usr/local/python.*", *(words.image_folders for words in vendor_words().values())),
        r"",
        "the toolkit of the image",
    ),
    (
        r"/app(/(data|src|examples))?",
        r"llama-?factory",
        "what the image has there: its data sets and dataset_info.json",
    ),
    (r"/(workspace/)?(ms-)?swift", r"swift", "the image's own checkout"),
)


_REMEDIES = {file: do for words in vendor_words().values() for file, do in words.mount_remedies.items()}


def mount_over(context: LintContext) -> Iterator[Remark]:
    for container in context.containers:
        image = container.image.text.lower() if container.image else ""
        for mount in container.mounts:
            what = _hidden(mount, image)
            if what:
                seen = f"the mount hides {what} below {mount.target}"
                yield warn(mount.word, seen, "Mount it elsewhere, or fill the folder first.")


def _hidden(mount: BindMount, image: str) -> str:
    target = mount.target.rstrip("/") or "/"
    if mount.source.rstrip("/") == mount.target.rstrip("/"):
        return ""  # the host's own toolkit, at its own place
    found = (what for path, of, what in _NEEDED if re.fullmatch(path, target) and re.search(of, image))
    return next(found, "")


def mount_source(context: LintContext) -> Iterator[Remark]:
    """Sources that the engine would make as empty folders."""
    for container in context.containers:
        doubtful = []
        for mount in container.mounts:
            if not mount.source.startswith("/") or UNKNOWN in mount.source:
                continue
            there = context.machine.exists(mount.source)
            if there is False and context.here is not False:
                yield _missing(mount)
            elif not there and not mount.strict:
                doubtful.append(mount)
        if doubtful and context.machine.gather is not None:
            yield _not_looked_up(context, doubtful)


def _missing(mount: BindMount) -> Remark:
    seen = f"{mount.source[:100]} is not there"
    seen += "" if mount.strict else ": the engine makes an empty folder of that name"
    do = "Make it first, or mount what is meant; --mount type=bind refuses a missing source."
    do = _REMEDIES.get(mount.source.rpartition("/")[2], do)
    return graded(mount.source.startswith(("/usr", "/etc", "/lib", "/dev")), mount.word, seen, do)


def _not_looked_up(context: LintContext, mounts: list[BindMount]) -> Remark:
    seen = f"not looked up, for {context.unasked}: {listed(mount.source for mount in mounts)}"
    return unknown(mounts[0].word, seen, "envcheck lint on the machine itself.")


def output_lost(context: LintContext) -> Iterator[Remark]:
    """Results that are written beside the folder that is mounted for them."""
    targets = [mount.target.rstrip("/") for container in context.containers for mount in container.mounts]
    outs = [t for t in targets if re.search(r"/(outs?|outputs?|saves?|checkpoints?|results?)$", t)]
    yield from _removed(context) if not outs else ()
    for job in context.jobs if outs else ():
        given = job.option("output_dir", "save", "output")
        if given is None or not given.value or not job.trains or _inside(given.value, targets):
            continue
        seen = f"{given.value[:80]} is not below {listed(outs)}, which is mounted: it is lost with the container"
        yield warn(given.values[0], seen, f"{outs[0]}/...")


def _removed(context: LintContext) -> Iterator[Remark]:
    """Results in full paths below no mount, in a container that is removed as it ends."""
    for job in context.jobs:
        given, container = job.option("output_dir", "save", "output"), context.container_of(job)
        if container is None or not container.has("--rm") or container.open or given is None or not given.value:
            continue
        targets = [mount.target.rstrip("/") for mount in container.mounts]
        hidden = any(not word.known for word in container.all("-v", "--volume", "--mount"))
        if given.value.startswith("/") and job.trains and not hidden and not _inside(given.value, targets):
            seen = f"{given.value[:80]} is below no mount, and --rm removes the container with it"
            yield warn(given.values[0], seen, f"-v FOLDER:{given.value[:80]}, or no --rm.")


def _inside(path: str, targets: list[str]) -> bool:
    """Below a folder that is mounted; of a relative path, below one whose name it begins with."""
    if path.startswith("/"):
        return any(path == target or path.startswith(f"{target}/") for target in targets)
    return any(target.endswith(f"/{path.split('/')[0]}") for target in targets)
