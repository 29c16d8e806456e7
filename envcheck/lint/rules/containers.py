"""Rules about containers: memory, devices, privileges, names, ports, and the state that a build step leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import TextSpan, fail, format_names, replace_span, warn, warn_or_fail
from envcheck.core.lint.script_container import ScriptContainer
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.lint.wrappers import ENGINES, program_name
from envcheck.core.messages import _, ngettext, verbatim
from envcheck.core.vendor import ADVISED_SHM_GIB
from envcheck.scripts.docker_commands import has_devices
from envcheck.scripts.vendor_words import RUNTIME_VARIABLES, VISIBLE_VARIABLES
from envcheck.vendors import VENDORS

LEAST_SHM_MIB = 1024
_UNITS_MIB = {"": 2**-20, "b": 2**-20, "k": 2**-10, "m": 1, "g": 1024, "t": 2**20}


def find_small_container_memory(context: LintContext) -> Iterator[Remark]:
    for container in context.containers:
        host = any(word.text == "host" for word in container.list_option_values("--ipc"))
        own = any(mount.target == "/dev/shm" for mount in container.mounts) or container.has_option("--tmpfs")
        if not has_devices(container) or host or own or container.may_have_more_options:
            continue
        sizes = container.list_option_values("--shm-size")
        enough = verbatim(container.render_option("--shm-size", f"{_advised_shm_gib(context)}g"))
        if not sizes:
            name = container.render_option("--shm-size")
            seen = _(
                "{name} is missing: the default 64 MB of shared memory is too small for data loaders and collectives",
                name=name,
            )
            yield warn(
                container.location,
                seen,
                _("Add {enough} or {option}.", enough=enough, option=container.render_option("--ipc", "host")),
            )
        elif sizes[-1].is_known and (size := parse_size_mib(sizes[-1].text)) is not None and size < LEAST_SHM_MIB:
            seen = _("{size} of shared memory is too small for data loaders and collectives", size=sizes[-1].text)
            yield warn(sizes[-1], seen, enough)


def refuse_processes(at: TextSpan, processes: int, cards: int) -> Remark:
    """Return the remark on a job with more processes than its container has devices."""
    seen = ngettext(
        "the job starts {processes} processes, but the container gets {count} device",
        "the job starts {processes} processes, but the container gets {count} devices",
        cards,
        processes=processes,
    )
    return fail(at, seen, _("Use at most {cards}, or pass more devices to the container.", cards=cards))


def find_containers_without_devices(context: LintContext) -> Iterator[Remark]:
    """Find containers that train, or select devices by a variable, but get none."""
    if context.device == "cpu":
        return
    training = {id(context.find_container(job)): job for job in context.jobs if job.is_training}
    for container in context.containers:
        if _may_have_devices(container):
            continue
        chosen = next((word for name, value, word in container.environment if name in _LISTS and value), None)
        job = training.get(id(container))
        if job is not None and job.launcher.name == "python" and chosen is None:
            continue  # a small program can run on the processor
        if job is None and (chosen is None or not container.service):
            continue
        if container.service:
            seen = _("the service has no devices: a training finds none in its container")
            do = _(
                "Reserve them with deploy.resources.reservations.devices, or list them under devices, unless the "
                "engine's default runtime adds them."
            )
        else:
            seen = _("the container gets no devices: a training finds none in it")
            do = _(
                "Pass them with --device, --gpus or --runtime, as the vendor of the cards requires, unless the "
                "engine's default runtime adds them."
            )
        yield warn(chosen or container.location, seen, do)


_LISTS = VISIBLE_VARIABLES | RUNTIME_VARIABLES


def _may_have_devices(container: ScriptContainer) -> bool:
    """Whether devices are passed in any way, or may be."""
    if container.may_have_more_options or container.has_option("--device", "--gpus", "--runtime", "--privileged"):
        return True
    return container.image is None and not container.service


def _advised_shm_gib(context: LintContext) -> int:
    """Return the size that the set-ups of the script's vendor have."""
    vendor = VENDORS.get(context.device)
    return vendor.shm_gib if vendor else ADVISED_SHM_GIB


def parse_size_mib(text: str) -> float | None:
    """Return the MiB in docker's notation of a size; None if it is invalid."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?", text.lower())
    return float(found[1]) * _UNITS_MIB[found[2]] if found else None


def find_wide_privileges(context: LintContext) -> Iterator[Remark]:
    for container in context.containers:
        wide = list(_list_wide_options(container))
        if not wide:
            continue
        chosen = [name for name, *_unused in container.environment if "VISIBLE_DEVICES" in name]
        options = format_names(dict.fromkeys((text for text, _unused in wide)))
        if chosen and container.has_option("--privileged"):
            seen = _(
                "{options}: the container has full access to the host, and sees all devices despite {variable}",
                options=options,
                variable=chosen[0],
            )
        else:
            seen = _("{options}: the container has full access to the host", options=options)
        place = next((word for name, word in container.options if name in _PLACES), container.image)
        do = _(
            "Pass {written} for each device and for the management device nodes only.",
            written=container.render_option("--device"),
        )
        yield warn(place or container.command, seen, do)


_PLACES = ("--privileged", "--cap-add", "--pid")


def _list_wide_options(container: ScriptContainer) -> Iterator[tuple[str, ShellWord]]:
    """Options that expose the host."""
    for word in container.list_option_values("--privileged"):
        yield container.render_option("--privileged"), word
    for word in container.list_option_values("--cap-add"):
        if word.text.upper() in ("ALL", "SYS_ADMIN"):
            yield container.render_option("--cap-add", word.text), word
    for mount in container.mounts:
        if mount.source.rstrip("/") == "/dev":
            yield container.render_option("-v", "/dev:/dev"), mount.word
    for word in container.list_option_values("--pid"):
        if word.text == "host":
            yield container.render_option("--pid", "host"), word


def find_fixed_name(context: LintContext) -> Iterator[Remark]:
    """Find fixed container names, with which a second start fails."""
    freed = any(
        {"rm", "rename", "inspect", "ps"} & set(command.list_texts()[1:3])
        for _unused, command in context.find_commands(*ENGINES)
    )
    for container in context.containers:
        names, command = container.list_option_values("--name"), container.command
        kept = container.has_option("--rm", "--replace") or container.service
        if not names or not names[-1].is_known or kept or freed or command.guarded or "errexit" in command.shell:
            continue
        seen = _(
            "the container name {name} is fixed and --rm is missing: a second start fails", name=names[-1].text[:60]
        )
        yield warn(names[-1], seen, _("Add --rm, or run docker rm first."))


def find_open_ports(context: LintContext) -> Iterator[Remark]:
    for container in context.containers:
        wide = [
            word
            for word in container.list_option_values("-p", "--publish")
            if word.is_known and re.fullmatch(r"\d+(-\d+)?:\d+(-\d+)?(/\w+)?", word.text)
        ]
        if wide:
            seen = _(
                "{wide}: the port is open to every host that can reach this one",
                wide=format_names(word.text for word in wide),
            )
            yield warn(wide[0], seen, verbatim(container.render_option("-p", f"127.0.0.1:{wide[0].text}")))


def find_lost_layer_state(context: LintContext) -> Iterator[Remark]:
    """Find state that is lost between RUN steps: each is a separate shell."""
    for step in context.steps:
        given = [each for each in step.assigns if not each.prefix]
        command = step.commands[-1] if step.commands else None
        if given and (command is None or given[-1].start > command.end):
            seen = _("{name} is set only for this RUN step: later steps do not see it", name=given[-1].name)
            yield warn(given[-1], seen, verbatim(f"ENV {given[-1].name}=..."))
        elif command is not None and program_name(command) in _LOST and not command.guarded:
            name = program_name(command)
            seen = _(
                "the effect of {name} ends with this RUN step: later steps start from the image's settings", name=name
            )
            yield warn(command, seen, _LOST[name])


_SOURCED = _("Put it in the RUN that needs it, joined by &&. For the container, use ENV or an entrypoint.")
_LOST = {"cd": verbatim("WORKDIR."), "source": _SOURCED, ".": _SOURCED}


# Images whose sh is bash or busybox, which have source, and those whose sh is dash.
_SOURCE_IN_SH = re.compile(
    r"centos|rocky|alma|fedora|(?:^|[/-])ubi|rhel|euler|kylin|anolis|amazonlinux|suse|oracle|alpine", re.IGNORECASE
)
_DASH = re.compile(r"(?:^|/)(?:ubuntu|debian|python)(?::|$)|ubuntu|jammy|focal|noble|bookworm|nvcr\.io/nvidia/pytorch")
_BASH_FROM_HERE = re.compile(
    r"(?im)^[ \t]*SHELL[ \t]+\[[^\n]*bash|/bin/sh\b[^\n]*\bbash|\bbash[ \t]+/bin/sh\b|dpkg-reconfigure"
)


def find_source_in_sh(context: LintContext) -> Iterator[Remark]:
    """Find source in a RUN step, which sh runs: dash, the sh of Debian and Ubuntu, has no such command."""
    raw = context.source.raw
    for step in context.steps:
        for command in step.commands:
            if not command.words or command.words[0].text != "source":
                continue
            before = raw[: command.start].decode("utf-8", "replace")
            start = max((found.start() for found in re.finditer(r"(?im)^[ \t]*RUN[ \t]", before)), default=0)
            image = max((each for each in context.described if each.image and each.command.start < command.start),
                        key=lambda each: each.command.start, default=None)  # fmt: skip
            name = image.image.text if image is not None and image.image is not None else ""
            quoted = re.search(r"[\"'\[]|<<", before[start:])
            if quoted or _BASH_FROM_HERE.search(before) or not name or _SOURCE_IN_SH.search(name):
                continue
            seen = _("RUN uses sh, and the sh of Debian and Ubuntu has no source: the step fails")
            yield warn_or_fail(bool(_DASH.search(name)), command.words[0], seen, _("Write a dot instead of source."),
                               replace_span(command.words[0], "."))  # fmt: skip
