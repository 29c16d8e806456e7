"""Rules about variables that are set: whether a program reads them, and whether their values are valid."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.lint.context import LintContext, find_script_commands
from envcheck.core.lint.remark_builders import (
    fail,
    find_similar_name,
    format_names,
    replace_span,
    unknown,
    unknown_here,
    warn,
    warn_or_fail,
)
from envcheck.core.lint.script_model import UNKNOWN, Remark, ShellScript, ShellWord, VariableAssignment
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _, fill, verbatim
from envcheck.lint.context import name_tables
from envcheck.lint.context.package_versions import find_installed_version
from envcheck.scripts.docker_commands import count_devices
from envcheck.scripts.vendor_words import PLUGIN_OPTIONS, VISIBLE_VARIABLES, find_vendors_of_list, load_vendor_words
from envcheck.vendors import VENDORS
from launch.rendering.stale_env import BY_LAUNCHER

_LISTS = name_tables.load_variable_names().device_lists.union(
    VISIBLE_VARIABLES, *(words.device_lists for words in load_vendor_words().values())
)
_WITH_BLANKS = frozenset(name for words in load_vendor_words().values() for name in words.lists_with_blanks)
# paddle's names for the devices of its plugins
_PLUGIN_TYPES = tuple(vendor.device_type for vendor in VENDORS.values() if vendor.plugin and vendor.device_type)


def list_environment(context: LintContext) -> Iterator[tuple[ShellScript, VariableAssignment]]:
    """Return what the script exports, including docker run -e."""
    for script in context.scripts:
        for assign in script.assigns:
            if assign.exported or assign.prefix:
                yield script, assign
        for _unused, command in find_script_commands((script,), "docker", "podman", "nerdctl"):
            before = ""
            for word in command.words:
                text = word.text.partition("=")[2] if word.text.startswith("--env=") else word.text
                name, equals, value = text.partition("=")
                if (before in ("-e", "--env") or word.text.startswith("--env=")) and equals:
                    plain = ShellWord(value, word.start, word.end, quoted=word.quoted)
                    yield script, VariableAssignment(name, plain, word.start, word.end, True)
                before = word.text


def find_unknown_names(context: LintContext) -> Iterator[Remark]:
    told: set[tuple[int, str]] = set()
    for script, assign in list_environment(context):
        single = (
            find_similar_name(assign.name, name_tables.load_single_names(), 0.93)
            if assign.name not in name_tables.load_single_names()
            else ""
        )
        if single and not any(use.name == assign.name for use in script.uses):
            name = ShellWord("", assign.start, assign.start + len(assign.name.encode()))
            yield warn(
                name,
                _("nothing reads {name}; did you mean {single}?", name=assign.name, single=single),
                _("Write {single}.", single=single),
            )
        for family in name_tables.load_variable_names().families:
            key = (id(script), assign.name)
            if (
                not assign.name.startswith(family.prefix)
                or key in told
                or assign.name in name_tables.load_variable_names().gone
            ):
                continue
            rest = assign.name.removeprefix(family.prefix)
            if rest in family.names:
                continue
            told.add(key)
            longer = max((n for n in family.names if len(n) > 8 and rest.startswith(f"{n}_")), key=len, default="")
            meant = longer or find_similar_name(rest, family.names, 0.85 if family.closed else 0.9)
            name = ShellWord("", assign.start, assign.start + len(assign.name.encode()))
            if meant:
                seen = _(
                    "{reader} does not read {name}: it has no effect; did you mean {prefix}{meant}?",
                    reader=family.reader,
                    name=assign.name,
                    prefix=family.prefix,
                    meant=meant,
                )
                fits = family.closed or bool(longer)
                yield warn_or_fail(
                    fits,
                    name,
                    seen,
                    _("Write {prefix}{meant}, or remove the variable.", prefix=family.prefix, meant=meant),
                )
            elif family.closed:
                seen = _(
                    "{name} is not a flag of {reader} 3.1 to 3.3, nor documented by its plugins",
                    name=assign.name,
                    reader=family.reader,
                )
                yield warn(name, seen, _("Check the documentation of the installed version."))


def _is_misspelt(name: str) -> bool:
    family = next((each for each in name_tables.load_variable_names().families if name.startswith(each.prefix)), None)
    rest = name.removeprefix(family.prefix) if family else ""
    return bool(
        family and rest not in family.names and find_similar_name(rest, family.names, 0.85 if family.closed else 0.9)
    )


def find_removed_variables(context: LintContext) -> Iterator[Remark]:
    for _unused, assign in list_environment(context):
        row = name_tables.load_variable_names().gone.get(assign.name)
        if row:
            name = ShellWord("", assign.start, assign.start + len(assign.name))
            do = _("Write {instead}.", instead=row.instead) if row.instead else _("Remove it.")
            yield warn(
                name,
                _("{variable}: {problem}", variable=assign.name, problem=fill(row.says)),
                do,
                replace_span(name, row.instead) if row.instead else None,
            )


def _list_owners(variable: str) -> list[str]:
    """The vendors whose programs read a variable; empty for all."""
    return [
        name for name, words in load_vendor_words().items() if re.fullmatch(words.own_variables or "(?!)", variable)
    ]


def find_lost_variables(context: LintContext) -> Iterator[Remark]:
    """Find trainings that sudo starts without the variables that the script exports."""
    for job in context.jobs:
        texts = job.command.list_texts()
        if texts[:1] != ["sudo"] or any(re.match(r"-\w*E|--preserve-env", text) for text in texts[1:6]):
            continue
        exported = {assign.name for script, assign in list_environment(context) if script is job.script}
        given = {text.partition("=")[0] for text in texts[1:]}
        if lost := sorted(name for name in exported & set(job.command.environment) - given if name.isupper()):
            seen = _("sudo does not pass on {names}", names=format_names(lost[:5]))
            yield warn(job.command.words[0], seen, _("Run the whole script as that user, or write sudo -E."))


def find_foreign_variables(context: LintContext) -> Iterator[Remark]:
    """Find variables of another vendor, except in scripts that serve several vendors."""
    if not context.device or context.device == "cpu":
        return
    told: set[tuple[int, str]] = set()
    for script, assign in list_environment(context):
        vendors, key = _list_owners(assign.name), (id(script), assign.name)
        if _is_misspelt(assign.name):
            continue  # reported by another rule
        if vendors and context.device not in vendors and key not in told:
            told.add(key)
            seen = _(
                "{name} has no effect: the script targets {device}; the variable is read on {vendors} only",
                name=assign.name,
                device=context.device,
                vendors=format_names(vendors),
            )
            yield warn(assign, seen, _("Remove it."))


def find_wrong_visible_lists(context: LintContext) -> Iterator[Remark]:
    """Find invalid device lists: the runtimes silently stop at the first entry that is not a number."""
    for _unused, assign in list_environment(context):
        text = assign.word.text
        if assign.name not in _LISTS or not assign.word.is_known or not text or re.search(r"GPU-|MIG-|-1$", text):
            continue
        entries = text.split(",")
        if assign.name in _WITH_BLANKS:
            entries = [each.strip() for each in entries]
        bad = [each for each in entries if not re.fullmatch(r"\d+", each)]
        twice = [each for number, each in enumerate(entries) if each in entries[:number]]
        if bad:
            shown = bad[0] if bad[0] else _("an empty entry")
            seen = _(
                "the entry {shown!r} is not a number: the runtime silently ignores the rest of the list", shown=shown
            )
            numbers = filter(None, re.split(r"[,;\s\uff0c\u3001]+", text))  # a Chinese comma, too
            sure = not (context.document and re.fullmatch(r"[A-Za-z_]+", text))  # a value to fill in
            yield warn_or_fail(sure, assign, seen, verbatim(f"{assign.name}={','.join(map(_expand_range, numbers))}"))
        elif twice:
            yield fail(
                assign,
                _("device {twice} is listed twice: two processes would share it", twice=twice[0]),
                _("List each device once."),
            )


def _expand_range(entry: str) -> str:
    """0-7, as other programs accept it, as single numbers."""
    ends = re.fullmatch(r"(\d{1,3})-(\d{1,3})", entry)
    return ",".join(map(str, range(int(ends[1]), int(ends[2]) + 1))) if ends else entry


def find_wrong_device_lists(context: LintContext) -> Iterator[Remark]:
    """Find mistakes in --npus and similar options: the launcher does not check duplicates and blanks."""
    for job in context.jobs:
        given = job.find_launcher_option(*(job.launcher.options.get("devices") or ("-",)))
        if job.launcher.name != "paddle.distributed.launch" or given is None:
            continue
        if len(given.values) > 1 and not any(v.many for v in given.values):
            yield fail(given.values[1], _("a space splits the device list in two"), _("Remove the spaces."))
            continue
        entries = (given.value or "").split(",")
        twice = [each for number, each in enumerate(entries) if each and each in entries[:number]]
        if twice and given.values:
            yield fail(
                given.values[0],
                _("device {twice} is listed twice: two processes share it", twice=twice[0]),
                _("List each device once."),
            )


def _find_devices_outside_container(context: LintContext) -> Iterator[Remark]:
    """Find containers whose list of visible devices is longer than that of the devices that they get."""
    for container in context.containers:
        cards = count_devices(container)
        for name, value, word in container.environment if cards else ():
            if name in VISIBLE_VARIABLES and re.fullmatch(r"\d+(,\d+)*", value) and value.count(",") >= (cards or 0):
                seen = _("{name} lists {count} devices, but the container gets {cards}", name=name,
                         count=value.count(",") + 1, cards=cards)  # fmt: skip
                yield fail(word, seen, _("Pass these devices to the container, or shorten the list."))


def find_wrong_visible_count(context: LintContext) -> Iterator[Remark]:
    """Compare the number of processes with the visible devices."""
    yield from _find_devices_outside_container(context)
    for job in context.jobs:
        visible = find_visible_list(job, context.device)
        processes = _count_own_processes(job)
        if visible is None or processes is None or not job.is_training:
            continue
        name, count, place = visible
        listed_ = job.device_list.text.split(",") if job.device_list and job.device_list.is_known else []
        if listed_ and all(re.fullmatch(r"\d+", each) for each in listed_) and max(map(int, listed_)) >= count:
            seen = _(
                "the device list uses indices of the {count} visible devices: {listed} is out of range",
                listed=max(map(int, listed_)),
                count=count,
            )
            yield fail(
                job.device_list or place,
                seen,
                _("Use indices 0 to {last}, or make more devices visible with {name}.", last=count - 1, name=name),
            )
        elif processes > count:
            seen = _(
                "the job starts {processes} processes, but {name} exposes only {count} devices: the "
                "extra processes fail and the others hang",
                processes=processes,
                name=name,
                count=count,
            )
            yield fail(job.find_launch_value("processes") or place, seen, _("Use the same number for both."))
        elif processes < count and job.find_launch_value("processes") is not None:
            seen = _(
                "the job starts {processes} processes on {devices} visible devices: {idle} devices stay idle",
                processes=processes,
                devices=count,
                idle=count - processes,
            )
            yield warn(
                job.find_launch_value("processes") or place,
                seen,
                _("Use the same number for both, unless idle devices are intended."),
            )


_CHOOSING = frozenset(name for name, vendor in VENDORS.items() if vendor.visible_env)


def find_visible_list(job: TrainingJob, device: str) -> tuple[str, int, ShellWord] | None:
    """Return the variable that selects devices for the job, their number and its place; None if it is not known."""
    for name, word in sorted(job.command.environment.items()):
        if (readers := find_vendors_of_list(name)) and device in _CHOOSING and device not in readers:
            continue  # reported by visible_name, no_effect
        if name in _LISTS and re.fullmatch(r"\d+(,\d+)*", word.text) and not word.soft:
            return name, word.text.count(",") + 1, word
    return None


def _count_own_processes(job: TrainingJob) -> int | None:
    return None if job.launcher.total_processes and job.node_count is None else job.processes_per_node


def find_wrong_rank_name(context: LintContext) -> Iterator[Remark]:
    """Find RANK where the program reads NODE_RANK, and vice versa."""
    for job in context.jobs:
        wanted = job.launcher.variables.get("rank", ())
        env = job.command.environment
        if wanted not in (("NODE_RANK",), ("RANK",)) or "NNODES" not in env or (job.node_count or 2) < 2:
            continue
        other = {"NODE_RANK": "RANK"}.get(wanted[0], "NODE_RANK")
        if wanted[0] not in env and other in env:
            seen = _(
                "{name} reads {wanted}, not {other}: every node starts as node 0",
                name=job.launcher.name,
                wanted=wanted[0],
                other=other,
            )
            given = (a for a in job.script.assigns if a.name == other and a.word.start == env[other].start)
            place = next(given, None) or env[other]
            yield fail(place, seen, _("Set {wanted}.", wanted=wanted[0]))


def find_missing_xccl_backend(context: LintContext) -> Iterator[Remark]:
    """Check PADDLE_XCCL_BACKEND: required before Paddle 3.3, and equal to the device."""
    for job in context.jobs:
        if (
            job.launcher.name not in ("paddle.distributed.launch", "erniekit", "paddleformers-cli")
            or not job.is_training
        ):
            continue
        told, option = job.command.environment.get("PADDLE_XCCL_BACKEND"), job.find_option("device")
        wanted = option.value if option and option.value else ""
        if told is not None and told.is_known and wanted and wanted not in (told.text, "gpu", "cpu"):
            seen = _(
                "PADDLE_XCCL_BACKEND is {backend}, but the training uses --device {wanted}",
                backend=told.text,
                wanted=wanted,
            )
            yield fail(told, seen, verbatim(f"export PADDLE_XCCL_BACKEND={wanted}"))
        elif told is not None and told.is_known and wanted == "gpu" and told.text in _PLUGIN_TYPES:
            yield fail(
                told,
                _("PADDLE_XCCL_BACKEND is {backend}, but the training runs on gpu", backend=told.text),
                _("Remove it."),
            )
        elif told is None and (wanted in _PLUGIN_TYPES or _find_device_of_option(job)):
            version = find_installed_version(context, "paddlepaddle")
            do = verbatim(f"export PADDLE_XCCL_BACKEND={wanted or _find_device_of_option(job)}")
            if version is None:
                seen = _(
                    "PADDLE_XCCL_BACKEND is not set, and the installed Paddle version is unknown: "
                    "Paddle before 3.3 exits, unless the image sets the variable"
                )
                yield unknown(job, seen, do)
            elif _is_before(version, "3.3"):
                yield fail(
                    job,
                    _("Paddle {version} exits with a ValueError when PADDLE_XCCL_BACKEND is not set", version=version),
                    do,
                )


def _find_device_of_option(job: TrainingJob) -> str:
    """The device that an option of the launcher implies (--npus); "" if several are possible (--gpus)."""
    return next((device for option, device in PLUGIN_OPTIONS.items() if job.find_launcher_option(option)), "")


def _is_before(version: str, other: str) -> bool:
    return (versions.compare_versions(version, other) or 0) < 0


_ABOVE_SCRIPT = re.compile(r"(?:\$\{?0|BASH_SOURCE)[^:]*?(?:/\.\.){2,}")
_SETTINGS = re.compile(rb"[ \t]*(?:(?:export|unset)[ \t][^;&|]*|#.*)?")  # a line that sets variables, and nothing else


def find_repeated_exports(context: LintContext) -> Iterator[Remark]:
    """Find variables that are exported twice with plain values, with only other exports between them."""
    for script in context.scripts:
        earlier: dict[str, VariableAssignment] = {}
        for assign in script.assigns:
            plain = assign.exported and assign.word.is_known and not re.search(r"[$`]", assign.word.raw)
            first = earlier.pop(assign.name, None)
            if plain and not assign.prefix:
                earlier[assign.name] = assign
            if first is not None and assign.name in earlier and _has_only_settings(context, first, assign):
                yield _remark_repeated_export(assign, first)


def _has_only_settings(context: LintContext, first: VariableAssignment, last: VariableAssignment) -> bool:
    """Whether the lines from the first assignment to the last one do nothing but set variables: no branch, no use."""
    raw = context.source.raw
    lines = raw[raw.rfind(b"\n", 0, first.start) + 1 : last.start].split(b"\n")
    return first.start < last.start and len(lines) > 1 and all(map(_SETTINGS.fullmatch, lines))


def _remark_repeated_export(assign: VariableAssignment, earlier: VariableAssignment) -> Remark:
    first, last = earlier.word.text, assign.word.text
    seen = _("{name} is exported twice with the same value", name=assign.name)
    if first != last:
        seen = _(
            "{name} is exported twice: first {first}, then {last}; the last value applies",
            name=assign.name,
            first=first[:60],
            last=last[:60],
        )
    return warn(assign, seen, _("Keep only the intended one."))


def find_leftover_variables(context: LintContext) -> Iterator[Remark]:
    """Find incomplete unset commands for the variables of an earlier job."""
    for job in context.jobs:
        names = [n for n in BY_LAUNCHER.get(job.launcher.name, ()) if n.startswith("PADDLE_")]
        unset = {word.text for word in job.script.unset}
        lacking = [name for name in names if name not in unset and name not in job.command.environment]
        # Variables that override command-line options; the others belong to older launchers.
        strong = [
            n
            for n in (
                "PADDLE_TRAINER_ID",
                "PADDLE_MASTER",
                "PADDLE_NNODES",
                "PADDLE_RANK",
                "PADDLE_DEVICES",
                "PADDLE_NPROC_PER_NODE",
            )
            if n in lacking
        ]
        taken = [word for word in job.script.unset if word.text in names]
        if taken and strong and not job.script.opaque:
            seen = _(
                "{strong} are not unset: if set, they override the launcher's options",
                strong=format_names(strong, 6),
            )
            yield warn(taken[-1], seen, verbatim(f"unset -v {' '.join(strong)}"))


_DEBUG = {
    "FLAGCX_DEBUG": ("TRACE",),
    "FLAGCX_DEBUG_SUBSYS": ("ALL",),
    "NCCL_DEBUG": ("TRACE",),
    "TORCH_DISTRIBUTED_DEBUG": ("DETAIL",),
    **{name: values for words in load_vendor_words().values() for name, values in words.loud_variables.items()},
}


def find_debug_logging(context: LintContext) -> Iterator[Remark]:
    for _unused, assign in list_environment(context):
        if assign.word.text in _DEBUG.get(assign.name, ()) and not (
            assign.name.endswith("SUBSYS") and _is_debugging(context)
        ):
            yield warn(
                assign,
                _(
                    "{variable}={value} is meant for debugging: it writes gigabytes of logs and slows down training",
                    variable=assign.name,
                    value=assign.word.text,
                ),
                _("Use INFO or WARN for normal runs. The default log level of the Ascend software is 3."),
            )


def _is_debugging(context: LintContext) -> bool:
    return any(a.name == "FLAGCX_DEBUG" and a.word.text == "TRACE" for _unused, a in list_environment(context))


_INTERFACE = re.compile(r"[!-.0-~]{1,15}")  # Linux: at most 15 characters, none blank


def find_unknown_interfaces(context: LintContext) -> Iterator[Remark]:
    """Compare *_SOCKET_IFNAME with the machine's interfaces; prefixes and exclusions follow NCCL's rules.

    *_RDMA_NICS has a name for each card, all of which must exist.
    """
    for script, assign in list_environment(context):
        every = assign.name.endswith("_RDMA_NICS")
        if not (every or assign.name.endswith("_SOCKET_IFNAME")) or not assign.word.is_known or not assign.word.text:
            continue
        text = assign.word.text
        there = context.machine.interfaces
        if text.startswith("^") or assign.word.soft:
            continue
        names = [name for part in text.split(",") if (name := part.lstrip("="))]
        if wrong := [name for name in names if not _INTERFACE.fullmatch(name)]:
            seen = _("{names} cannot be a network interface", names=format_names(wrong))
            yield warn(assign, seen, _("List the interfaces with ip -br address. Names differ between hosts."))
        names = [name for name in names if name not in wrong]
        if not names:
            continue
        if every and there is not None:
            names = [name for name in names if name not in there]
        if there is None or context.is_for_this_machine is False:
            yield unknown_here(
                assign,
                _(
                    "cannot check whether {names} is a network interface: {unasked}",
                    names=format_names(names),
                    unasked=context.unknown_reason,
                ),
                _("Run envcheck lint on that machine, or --replay its snapshot. List interfaces with ip -br address."),
            )
        elif not names or (not every and any(each.startswith(name) for name in names for each in there)):
            continue
        elif any(comment.startswith("#SBATCH") for _unused, _unused, comment in script.comments):
            seen = _(
                "this host has no network interface {names}, but Slurm starts the job on another host",
                names=format_names(names),
            )
            yield unknown(assign, seen, _("Run ip -br address on that host."))
        else:
            seen = _(
                "this host has no network interface {names}; found: {there}",
                names=format_names(names),
                there=format_names(sorted(there)),
            )
            yield fail(assign, seen, _("List the interfaces with ip -br address. Names differ between hosts."))


def _count_parents(word: ShellWord) -> int:
    """How many directories a path goes up from an unknown one, or from the script; 0 if it is at most one."""
    found = re.search(rf"{UNKNOWN}(/\.\.){{2,}}", word.text) or _ABOVE_SCRIPT.search(word.raw)
    return found[0].count("..") if found else 0


def find_relative_python_path(context: LintContext) -> Iterator[Remark]:
    """Find PYTHONPATH relative to the script's parents: valid at one depth only."""
    for script in context.scripts:
        for assign in script.assigns:
            if assign.name == "PYTHONPATH" and (count := _count_parents(assign.word)):
                relative = any(
                    j.script is script and j.program and re.match(r"\w[\w.-]*/", j.program.text) for j in context.jobs
                )
                if relative:
                    seen = _(
                        "PYTHONPATH is {count} directories above the script: it works at that depth only, and the "
                        "program's relative path needs another working directory",
                        count=count,
                    )
                else:
                    seen = _(
                        "PYTHONPATH is {count} directories above the script: it works at that depth only", count=count
                    )
                yield warn(assign, seen, _("Set export PYTHONPATH=<project directory>, and cd to that directory."))
            elif assign.name == "PYTHONPATH" and re.match(r"(\.\./?){2,}(:|$)", assign.word.text):
                above = _("PYTHONPATH is relative to the directory the script is started from, not to the script")
                yield warn(assign, above, _("Set export PYTHONPATH=<project directory> as an absolute path."))
