"""Variables that are given values: whether anything reads them, and whether what they say can be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import UNKNOWN, Assign, Remark, Script, Word
from envcheck.core.lint.remarks import fail, graded, listed, near, swap, unknown, warn
from envcheck.core.lint.training_job import TrainingJob
from envcheck.lint.context import tables
from envcheck.lint.context.package_versions import installed
from envcheck.scripts.vendor_words import PLUGIN_OPTIONS, VISIBLE_VARIABLES, readers_of_list, vendor_words
from envcheck.vendors import VENDORS
from launch.rendering.stale_env import BY_LAUNCHER

_LISTS = tables.variables().device_lists.union(
    VISIBLE_VARIABLES, *(words.device_lists for words in vendor_words().values())
)
_WITH_BLANKS = frozenset(name for words in vendor_words().values() for name in words.lists_with_blanks)
# paddle's names for the devices of its plugins
_PLUGIN_TYPES = tuple(vendor.device_type for vendor in VENDORS.values() if vendor.plugin and vendor.device_type)


def environment(context: LintContext) -> Iterator[tuple[Script, Assign]]:
    """What the script puts into the environment, also docker run -e."""
    for script in context.scripts:
        for assign in script.assigns:
            if assign.exported or assign.prefix:
                yield script, assign
        for _, command in ((s, c) for s, c in context.commands("docker", "podman", "nerdctl") if s is script):
            before = ""
            for word in command.words:
                text = word.text.partition("=")[2] if word.text.startswith("--env=") else word.text
                name, equals, value = text.partition("=")
                if (before in ("-e", "--env") or word.text.startswith("--env=")) and equals:
                    plain = Word(value, word.start, word.end, quoted=word.quoted)
                    yield script, Assign(name, plain, word.start, word.end, True)
                before = word.text


def unknown_name(context: LintContext) -> Iterator[Remark]:
    told: set[tuple[int, str]] = set()
    for script, assign in environment(context):
        single = near(assign.name, tables.singles(), 0.93) if assign.name not in tables.singles() else ""
        if single and not any(use.name == assign.name for use in script.uses):
            name = Word("", assign.start, assign.start + len(assign.name.encode()))
            yield warn(name, f"nothing reads {assign.name}: is {single} meant?", f"Write {single}.")
        for family in tables.variables().families:
            key = (id(script), assign.name)
            if not assign.name.startswith(family.prefix) or key in told or assign.name in tables.variables().gone:
                continue
            rest = assign.name.removeprefix(family.prefix)
            if rest in family.names:
                continue
            told.add(key)
            longer = max((n for n in family.names if len(n) > 8 and rest.startswith(f"{n}_")), key=len, default="")
            meant = longer or near(rest, family.names, 0.85 if family.closed else 0.9)
            name = Word("", assign.start, assign.start + len(assign.name.encode()))
            if meant:
                seen = f"{family.reader} reads no {assign.name}: it has no effect; {family.prefix}{meant} is one"
                fits = family.closed or bool(longer)
                yield graded(fits, name, seen, f"Write {family.prefix}{meant}, or take it away.")
            elif family.closed:
                seen = f"{assign.name} is no flag of {family.reader} 3.1 to 3.3, nor of the plugins' documents"
                yield warn(name, seen, "Compare it with the documents of the version that is installed.")


def _misspelt(name: str) -> bool:
    family = next((each for each in tables.variables().families if name.startswith(each.prefix)), None)
    rest = name.removeprefix(family.prefix) if family else ""
    return bool(family and rest not in family.names and near(rest, family.names, 0.85 if family.closed else 0.9))


def gone(context: LintContext) -> Iterator[Remark]:
    for _, assign in environment(context):
        row = tables.variables().gone.get(assign.name)
        if row:
            name = Word("", assign.start, assign.start + len(assign.name))
            do = f"Write {row.instead}." if row.instead else "Take it away."
            yield warn(name, f"{assign.name}: {row.says}", do, swap(name, row.instead) if row.instead else None)


def _owners(variable: str) -> list[str]:
    """For whose cards a variable does anything; [] for all."""
    return [name for name, words in vendor_words().items() if re.fullmatch(words.own_variables or "(?!)", variable)]


def no_effect(context: LintContext) -> Iterator[Remark]:
    """Another vendor's variable; not where the script serves several vendors."""
    if not context.device or context.device == "cpu":
        return
    told: set[tuple[int, str]] = set()
    for script, assign in environment(context):
        vendors, key = _owners(assign.name), (id(script), assign.name)
        if _misspelt(assign.name):
            continue  # that is told; what it would do here is another question
        if vendors and context.device not in vendors and key not in told:
            told.add(key)
            seen = (
                f"{assign.name} has no effect here: the script is for {context.device}, and {listed(vendors)} read it"
            )
            yield warn(assign, seen, "Take it away.")


def visible_list(context: LintContext) -> Iterator[Remark]:
    """The runtimes stop at the first entry that is no number, without a word."""
    for _, assign in environment(context):
        text = assign.word.text
        if assign.name not in _LISTS or not assign.word.known or not text or re.search(r"GPU-|MIG-|-1$", text):
            continue
        entries = text.split(",")
        if assign.name in _WITH_BLANKS:
            entries = [each.strip() for each in entries]
        bad = [each for each in entries if not re.fullmatch(r"\d+", each)]
        twice = [each for number, each in enumerate(entries) if each in entries[:number]]
        if bad:
            shown = bad[0] if bad[0] else "an empty one"
            seen = f"the entry {shown!r} is no number: the list ends there, without a word"
            numbers = filter(None, re.split(r"[,;\s\uff0c\u3001]+", text))  # a Chinese comma, too
            yield fail(assign, seen, f"{assign.name}={','.join(map(_spread, numbers))}")
        elif twice:
            yield fail(assign, f"device {twice[0]} stands twice: two processes would share a card", "Name each once.")


def _spread(entry: str) -> str:
    """0-7, as other programs take it, one by one."""
    ends = re.fullmatch(r"(\d{1,3})-(\d{1,3})", entry)
    return ",".join(map(str, range(int(ends[1]), int(ends[2]) + 1))) if ends else entry


def device_lists(context: LintContext) -> Iterator[Remark]:
    """--npus and its like: the launcher takes doubles and blanks as they are."""
    for job in context.jobs:
        given = job.says(*(job.launcher.options.get("devices") or ("-",)))
        if job.launcher.name != "paddle.distributed.launch" or given is None:
            continue
        if len(given.values) > 1 and not any(v.many for v in given.values):
            yield fail(given.values[1], "a blank cuts the list of devices in two", "Write it without blanks.")
            continue
        entries = (given.value or "").split(",")
        twice = [each for number, each in enumerate(entries) if each and each in entries[:number]]
        if twice and given.values:
            yield fail(
                given.values[0], f"device {twice[0]} stands twice: two processes share a card", "Name each once."
            )


def visible_count(context: LintContext) -> Iterator[Remark]:
    """As many processes as visible devices."""
    for job in context.jobs:
        visible = _visible(job, context.device)
        processes = _own_processes(job)
        if visible is None or processes is None or not job.trains:
            continue
        name, count, place = visible
        listed_ = job.devices.text.split(",") if job.devices and job.devices.known else []
        if listed_ and all(re.fullmatch(r"\d+", each) for each in listed_) and max(map(int, listed_)) >= count:
            seen = f"the list of devices counts among the visible ones: {max(map(int, listed_))} is not among {count}"
            yield fail(job.devices or place, seen, f"Name 0 to {count - 1}, or make more visible by {name}.")
        elif processes > count:
            seen = f"{processes} processes, and {name} shows {count}: those beyond find no card, and the others wait"
            yield fail(job.told("processes") or place, seen, "Make the two equal.")
        elif processes < count and job.told("processes") is not None:
            seen = f"{processes} processes on {count} visible devices: {count - processes} of them do nothing"
            yield warn(job.told("processes") or place, seen, "Make the two equal, unless it is meant.")


_CHOOSING = frozenset(name for name, vendor in VENDORS.items() if vendor.visible_env)


def _visible(job: TrainingJob, device: str) -> tuple[str, int, Word] | None:
    for name, word in sorted(job.command.environment.items()):
        if (readers := readers_of_list(name)) and device in _CHOOSING and device not in readers:
            continue  # told by visible_name, no_effect
        if name in _LISTS and re.fullmatch(r"\d+(,\d+)*", word.text) and not word.soft:
            return name, word.text.count(",") + 1, word
    return None


def _own_processes(job: TrainingJob) -> int | None:
    return None if job.launcher.total_processes and job.nodes is None else job.processes


def rank_name(context: LintContext) -> Iterator[Remark]:
    """RANK, where the program reads NODE_RANK, and the other way round."""
    for job in context.jobs:
        wanted = job.launcher.variables.get("rank", ())
        env = job.command.environment
        if wanted not in (("NODE_RANK",), ("RANK",)) or "NNODES" not in env or (job.nodes or 2) < 2:
            continue
        other = {"NODE_RANK": "RANK"}.get(wanted[0], "NODE_RANK")
        if wanted[0] not in env and other in env:
            seen = f"{job.launcher.name} reads {wanted[0]}, not {other}: every node takes itself for 0"
            given = (a for a in job.script.assigns if a.name == other and a.word.start == env[other].start)
            place = next(given, None) or env[other]
            yield fail(place, seen, f"Set {wanted[0]}.")


def backend(context: LintContext) -> Iterator[Remark]:
    """PADDLE_XCCL_BACKEND: there before Paddle 3.3, and of the device."""
    for job in context.jobs:
        if job.launcher.name not in ("paddle.distributed.launch", "erniekit", "paddleformers-cli") or not job.trains:
            continue
        told, option = job.command.environment.get("PADDLE_XCCL_BACKEND"), job.option("device")
        wanted = option.value if option and option.value else ""
        if told is not None and told.known and wanted and wanted not in (told.text, "gpu", "cpu"):
            seen = f"PADDLE_XCCL_BACKEND is {told.text}, and the training is told --device {wanted}"
            yield fail(told, seen, f"export PADDLE_XCCL_BACKEND={wanted}")
        elif told is not None and told.known and wanted == "gpu" and told.text in _PLUGIN_TYPES:
            yield fail(told, f"PADDLE_XCCL_BACKEND is {told.text}, and the training runs on gpu", "Take it away.")
        elif told is None and (wanted in _PLUGIN_TYPES or _by_option(job)):
            version = installed(context, "paddlepaddle")
            do = f"export PADDLE_XCCL_BACKEND={wanted or _by_option(job)}"
            if version is None:
                seen = (
                    "Paddle before 3.3 ends without PADDLE_XCCL_BACKEND, unless the image sets it; which one is there?"
                )
                yield unknown(job, seen, do)
            elif _before(version, "3.3"):
                yield fail(job, f"Paddle {version} ends with a ValueError where PADDLE_XCCL_BACKEND is not set", do)


def _by_option(job: TrainingJob) -> str:
    """The device that the launcher's own option means: --npus; "" where it may be several's, as --gpus."""
    return next((device for option, device in PLUGIN_OPTIONS.items() if job.says(option)), "")


def _before(version: str, other: str) -> bool:
    return (versions.compare(version, other) or 0) < 0


def left_overs(context: LintContext) -> Iterator[Remark]:
    """Some of an earlier job's variables are taken away, others not."""
    for job in context.jobs:
        names = [n for n in BY_LAUNCHER.get(job.launcher.name, ()) if n.startswith("PADDLE_")]
        unset = {word.text for word in job.script.unset}
        lacking = [name for name in names if name not in unset and name not in job.command.environment]
        # Those that win over the options of the command line; the others come from older launchers.
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
            seen = f"left standing: {listed(strong, 6)}, which win over the launcher's options where they are set"
            yield warn(taken[-1], seen, f"unset -v {' '.join(strong)}")


_DEBUG = {
    "FLAGCX_DEBUG": ("TRACE",),
    "FLAGCX_DEBUG_SUBSYS": ("ALL",),
    "NCCL_DEBUG": ("TRACE",),
    "TORCH_DISTRIBUTED_DEBUG": ("DETAIL",),
    **{name: values for words in vendor_words().values() for name, values in words.loud_variables.items()},
}


def loud(context: LintContext) -> Iterator[Remark]:
    for _, assign in environment(context):
        if assign.word.text in _DEBUG.get(assign.name, ()) and not (
            assign.name.endswith("SUBSYS") and _debugs(context)
        ):
            yield warn(
                assign,
                f"{assign.name}={assign.word.text} is for the search of a fault: logs of gigabytes, and slow steps",
                "INFO or WARN for work; the log level of the Ascend software is 3 by default.",
            )


def _debugs(context: LintContext) -> bool:
    return any(a.name == "FLAGCX_DEBUG" and a.word.text == "TRACE" for _, a in environment(context))


def interfaces(context: LintContext) -> Iterator[Remark]:
    """*_SOCKET_IFNAME against the interfaces of the machine; prefixes and exclusions as NCCL reads them."""
    for script, assign in environment(context):
        if not assign.name.endswith("_SOCKET_IFNAME") or not assign.word.known or not assign.word.text:
            continue
        text = assign.word.text
        there = context.machine.interfaces
        if text.startswith("^") or assign.word.soft:
            continue
        names = [name.lstrip("=") for name in text.split(",")]
        if there is None or context.here is False:
            yield unknown(
                assign,
                f"whether {listed(names)} is an interface was not looked up, for {context.unasked}",
                "envcheck lint there, or --replay of its snapshot; ip -br address",
            )
        elif any(each.startswith(name) for name in names for each in there):
            continue
        elif any(comment.startswith("#SBATCH") for _, _, comment in script.comments):
            seen = f"no interface of this machine is named {listed(names)}, and Slurm starts this on another"
            yield unknown(assign, seen, "ip -br address there")
        else:
            seen = f"no interface of this machine is named {listed(names)}: it has {listed(sorted(there))}"
            yield fail(assign, seen, "ip -br address names them; each host has its own.")


def python_path(context: LintContext) -> Iterator[Remark]:
    """Folders counted upwards from the script: right at one place alone."""
    for script in context.scripts:
        for assign in script.assigns:
            if assign.name == "PYTHONPATH" and re.search(rf"{UNKNOWN}(/\.\.){{2,}}", assign.word.text):
                count = assign.word.text.count("..")
                relative = any(
                    j.script is script and j.program and re.match(r"\w[\w.-]*/", j.program.text) for j in context.jobs
                )
                seen = f"PYTHONPATH is {count} folders above the script: right only where it lies so deep"
                seen += ", and the program's relative path wants another folder to start in" if relative else ""
                yield warn(assign, seen, "export PYTHONPATH=<the project's folder>, and cd there.")
            elif assign.name == "PYTHONPATH" and re.match(r"(\.\./?){2,}(:|$)", assign.word.text):
                above = "PYTHONPATH is folders above wherever the start is made from, not above the script"
                yield warn(assign, above, "export PYTHONPATH=<the project's folder>, in full.")
