"""Rules about container mounts: what they hide, missing sources, and output outside of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, format_names, unknown_here, warn, warn_or_fail
from envcheck.core.lint.script_container import BindMount, ScriptContainer
from envcheck.core.lint.script_model import UNKNOWN, Remark
from envcheck.core.messages import _, verbatim
from envcheck.scripts.vendor_words import join_patterns, load_vendor_words

# (mounted folder, image, what the image contains there)
_NEEDED = (
    (
        r"/(usr|usr/local|opt|opt/conda|lib|lib64|bin|sbin|etc|root|root/\.local|venv)",
        r"",
        _("the image's own programs"),
    ),
    (
        join_patterns("/usr/local/python.*", *(words.image_folders for words in load_vendor_words().values())),
        r"",
        _("the image's toolkit"),
    ),
    (
        r"/app(/(data|src|examples))?",
        r"llama-?factory",
        _("the image's data sets and dataset_info.json"),
    ),
    (r"/(workspace/)?(ms-)?swift", r"swift", _("the image's own checkout")),
)


_REMEDIES = {file: do for words in load_vendor_words().values() for file, do in words.mount_remedies.items()}


def find_hiding_mounts(context: LintContext) -> Iterator[Remark]:
    for container in context.containers:
        image = container.image.text.lower() if container.image else ""
        for mount in container.mounts:
            what = _describe_hidden(mount, image)
            if what:
                seen = _("the mount hides {what} under {target}", what=what, target=mount.target)
                yield warn(mount.word, seen, _("Mount it at another path, or fill the source directory first."))


def _describe_hidden(mount: BindMount, image: str) -> str:
    target = mount.target.rstrip("/") or "/"
    if mount.source.rstrip("/") == mount.target.rstrip("/"):
        return ""  # the host's own toolkit, at the same path
    found = (what for path, of, what in _NEEDED if re.fullmatch(path, target) and re.search(of, image))
    return next(found, "")


def find_missing_mount_sources(context: LintContext) -> Iterator[Remark]:
    """Find mount sources that the engine would create as empty folders, and mounts that it rejects."""
    for container in context.containers:
        yield from _find_relative_targets(container)
        doubtful = []
        for mount in container.mounts:
            if not mount.source.startswith("/") or UNKNOWN in mount.source:
                continue
            there = context.machine.path_exists(mount.source)
            if there is False and context.is_for_this_machine is not False:
                yield _remark_missing_source(mount)
            elif not there and not mount.strict:
                doubtful.append(mount)
        if doubtful and context.machine.gather is not None:
            yield _remark_unchecked_sources(context, doubtful)


def _find_relative_targets(container: ScriptContainer) -> Iterator[Remark]:
    """Find docker run -v with a target that is not absolute, such as a placeholder, which docker rejects."""
    for word in () if container.service else container.list_option_values("-v", "--volume"):
        parts = word.text.split(":")
        target = parts[min(1, len(parts) - 1)]
        if word.is_known and target and not target.startswith(("/", "$")) and "\\" not in word.text:
            seen = _(
                "{value}: docker rejects a mount whose path in the container is not absolute", value=word.text[:60]
            )
            yield fail(word, seen, _("Write /path/on/the/host:/path/in/the/container, or remove it."))


def _remark_missing_source(mount: BindMount) -> Remark:
    source = mount.source[:100]
    seen = (
        _("{source} does not exist", source=source)
        if mount.strict
        else _("{source} does not exist: the engine creates an empty directory with that name", source=source)
    )
    do = _("Create it first, or correct the path. --mount type=bind rejects a missing source.")
    do = _REMEDIES.get(mount.source.rpartition("/")[2], do)
    return warn_or_fail(mount.source.startswith(("/usr", "/etc", "/lib", "/dev")), mount.word, seen, do)


def _remark_unchecked_sources(context: LintContext, mounts: list[BindMount]) -> Remark:
    seen = _(
        "cannot check {mounts}: {unasked}",
        unasked=context.unknown_reason,
        mounts=format_names(mount.source for mount in mounts),
    )
    return unknown_here(mounts[0].word, seen, _("Run envcheck lint on the machine that runs the script."))


def find_lost_output(context: LintContext) -> Iterator[Remark]:
    """Find results written outside the folder that is mounted for them."""
    targets = [mount.target.rstrip("/") for container in context.containers for mount in container.mounts]
    outs = [t for t in targets if re.search(r"/(outs?|outputs?|saves?|checkpoints?|results?)$", t)]
    yield from _find_removed_output(context) if not outs else ()
    for job in context.jobs if outs else ():
        given = job.find_option("output_dir", "save", "output")
        if given is None or not given.value or not job.is_training or _is_below_mount(given.value, targets):
            continue
        seen = _(
            "{path} is outside the mounted {outs}: it is lost when the container is removed",
            path=given.value[:80],
            outs=format_names(outs),
        )
        yield warn(given.values[0], seen, verbatim(f"{outs[0]}/..."))


def _find_removed_output(context: LintContext) -> Iterator[Remark]:
    """Results outside any mount, in a container that is removed when it ends."""
    for job in context.jobs:
        given, container = job.find_option("output_dir", "save", "output"), context.find_container(job)
        if (
            container is None
            or not container.has_option("--rm")
            or container.may_have_more_options
            or given is None
            or not given.value
        ):
            continue
        targets = [mount.target.rstrip("/") for mount in container.mounts]
        hidden = any(not word.is_known for word in container.list_option_values("-v", "--volume", "--mount"))
        if given.value.startswith("/") and job.is_training and not hidden and not _is_below_mount(given.value, targets):
            seen = _("{path} is not on a mount, and --rm deletes it with the container", path=given.value[:80])
            yield warn(given.values[0], seen, _("Add -v DIRECTORY:{path}, or remove --rm.", path=given.value[:80]))


def _is_below_mount(path: str, targets: list[str]) -> bool:
    """Whether the path is below a mount; for a relative path, below one with the same first name."""
    if path.startswith("/"):
        return any(path == target or path.startswith(f"{target}/") for target in targets)
    return any(target.endswith(f"/{path.split('/')[0]}") for target in targets)
