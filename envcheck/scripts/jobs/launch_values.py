"""Where a job runs: nodes, devices of a node, and the kind of device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from envcheck.core.lint.launcher import Launcher
from envcheck.core.lint.script_model import ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import NOTHING, Message, _
from envcheck.scripts.jobs.job_options import JobFiles, PlacedOption, list_variables
from envcheck.scripts.jobs.value_reader import MOST_SHOWN, ValueReader
from envcheck.scripts.vendor_words import VISIBLE_VARIABLES
from envcheck.vendors import VENDORS

# Launchers that start a process for each visible device without an option; the others start one process.
ON_ALL_DEVICES = ("paddle.distributed.launch", "deepspeed", "accelerate", "llamafactory-cli", "axolotl", "erniekit",
                  "paddleformers-cli")  # fmt: skip
MOST_PROCESSES = 10_000  # far above any node's devices, and any job of accelerate's total: a slip of the keyboard
MOST_NODES = 100_000
_COUNT_WORDS = frozenset(["auto", "gpu", *(vendor.device_type for vendor in VENDORS.values())])
_PLAIN = re.compile(r"[\w.+-]*")  # no variable, no placeholder
_NUMBER = re.compile(r"-?[0-9]{1,400}")
_LIST = re.compile(r"\d{1,4}(,\d{1,4})*")


@dataclass(frozen=True)
class LaunchValues:
    """Nodes, devices of each (None: all of the machine), and the list of devices that the job itself selects."""

    nodes: int = 1
    cards: int | None = None
    listed: str = ""


def read_launch(reader: ValueReader, job: TrainingJob, files: JobFiles, outside: Mapping[str, str]) -> LaunchValues:
    """Read nodes and devices; `outside` are the variables of the user's own environment."""
    inside = {name: word.text for name, word in job.command.environment.items() if word.is_known}
    job = _add_outside_variables(job, outside)
    own = [word.text for word in (job.device_list,) if word is not None and _LIST.fullmatch(word.text)]
    own += [inside[name] for name in sorted(VISIBLE_VARIABLES) if _LIST.fullmatch(inside.get(name, ""))]
    lists = [text for name in sorted(VISIBLE_VARIABLES) if (text := inside.get(name) or outside.get(name, ""))]
    hosts, slots = _read_hostfile(job, files)
    nodes = _read_nodes(reader, job, files, hosts)
    cards = _read_cards(reader, job, files, nodes, lists, slots)
    return LaunchValues(nodes, cards, next(iter(own), ""))


def _add_outside_variables(job: TrainingJob, outside: Mapping[str, str]) -> TrainingJob:
    """The job with the user's variables that its launcher reads and its script does not set."""
    names = [name for each in job.launcher.variables.values() for name in each]
    more = {name: ShellWord(outside[name], job.start, job.start) for name in names if name in outside}
    return replace(job, command=replace(job.command, environment={**more, **job.command.environment}))


def _read_nodes(reader: ValueReader, job: TrainingJob, files: JobFiles, hosts: int) -> int:
    given = job.find_launch_value("nodes") or job.find_launch_value("world")
    if hosts > 1 and given is None:
        return int(reader.add_read("nodes", str(hosts), _locate_option(job, files, "hostfile")))
    if given is None and not job.launcher.options.get("world"):
        reader.add_read("nodes", "1", _("no option of several nodes"))
        return 1
    if given is not None and (reason := explain_invalid_nodes(job)):
        reader.add_invalid("nodes", _("{place}: {seen}", place=reader.place(files.locate(given.start)), seen=reason))
        return 1
    nodes = job.node_count
    if nodes is None:
        reader.add_unknown("nodes", _explain_unknown(reader, files, given))
        return 1
    return int(reader.add_read("nodes", str(nodes), files.locate(given.start) if given else ""))


def _explain_unknown(reader: ValueReader, files: JobFiles, word: ShellWord | None) -> Message:
    """Where a word is, and which variable it is taken from."""
    if word is None:
        return reader.place("")
    where, variables = files.locate(word.start), list_variables([word])
    if word.is_known:
        return reader.place(where)
    return reader.explain_unknown(PlacedOption("", (word.text,), where, variables))


def _read_cards(
    reader: ValueReader, job: TrainingJob, files: JobFiles, nodes: int, lists: list[str], slots: int
) -> int | None:
    count: int | None
    include = job.find_launcher_option("include") if job.launcher.name == "deepspeed" else None
    if include is not None and (count := _count_included(include.value or "")):
        return int(reader.add_read("cards", str(count), files.locate(include.start)))
    given = job.find_launch_value("processes") or job.device_list
    if given is not None and (reason := explain_invalid_processes(job)):
        place = reader.place(files.locate(given.start))
        reader.add_invalid("cards", _("{place}: {seen}", place=place, seen=reason))
        return None
    count = job.processes_per_node
    if count is not None and given is not None:
        return int(reader.add_read("cards", str(count), files.locate(given.start)))
    if slots:
        return int(reader.add_read("cards", str(slots), _locate_option(job, files, "hostfile")))
    known = next((text for text in lists if _LIST.fullmatch(text)), "")
    words = [job.command.environment.get(name) for name in sorted(VISIBLE_VARIABLES)]
    unknown = next((word for word in words if word is not None and not word.is_known), None)
    if (given is not None and given.text not in ("auto", "gpu", "npu", "xpu")) or unknown is not None:
        reader.add_unknown("cards", _explain_unknown(reader, files, given or unknown))
        return None
    if job.launcher.name == "msrun":
        return int(reader.add_assumed("cards", "8", _("default of {framework}", framework="msrun")))
    uses_all = given is not None or uses_all_devices(job.launcher, reader.kit.cards)
    if uses_all and known:
        return int(reader.add_read("cards", str(known.count(",") + 1), _("the list of visible devices")))
    if uses_all:
        reader.add_assumed("cards", "", _("all devices of the machine"))
        return None
    starter = job.launcher.name or reader.kit.title or "python"
    reader.add_read("cards", "1", _("{launcher} starts one process", launcher=starter))
    return 1


def explain_invalid_processes(job: TrainingJob) -> Message:
    """Return why no launcher takes the job's number of processes, NOTHING if it may be valid or is not known."""
    given = job.find_launch_value("processes")
    text = given.text if given is not None else "auto"
    is_judged = job.launcher.name and _PLAIN.fullmatch(text)
    if not is_judged or text in _COUNT_WORDS or (text == "-1" and job.launcher.name == "deepspeed"):
        return NOTHING
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_PROCESSES:
        return NOTHING
    shown = text[:MOST_SHOWN] or '""'
    return _("number of processes {value}: expected an integer from 1 to {most}", value=shown, most=MOST_PROCESSES)


def explain_invalid_nodes(job: TrainingJob) -> Message:
    """Return why no launcher takes the job's number of nodes, NOTHING if it may be valid or is not known."""
    given = job.find_launch_value("nodes")
    least = given.text.partition(":")[0] if given is not None else "1"  # of torchrun's 1:4
    if not job.launcher.name or not _NUMBER.fullmatch(least) or (least == "-1" and job.launcher.name == "deepspeed"):
        return NOTHING
    if not least.startswith("-") and 1 <= int(least) <= MOST_NODES:
        return NOTHING
    return _("number of nodes {value}: expected an integer from 1 to {most}", value=least[:MOST_SHOWN], most=MOST_NODES)


def uses_all_devices(launcher: Launcher, kit_cards: str) -> bool:
    """Whether a launcher, or a framework that launches itself, uses all visible devices by default."""
    return launcher.name in ON_ALL_DEVICES if launcher.name else kit_cards == "all"


def _count_included(text: str) -> int:
    """The devices of a node in DeepSpeed's --include: worker-0:0,1@worker-1:0,1."""
    counts = {part.partition(":")[2].count(",") + 1 for part in text.split("@") if ":" in part}
    return counts.pop() if len(counts) == 1 else 0


def _locate_option(job: TrainingJob, files: JobFiles, name: str) -> str:
    given = job.find_launcher_option(name)
    return files.locate(given.start) if given is not None else ""


def _read_hostfile(job: TrainingJob, files: JobFiles) -> tuple[int, int]:
    """The hosts in DeepSpeed's hostfile and the devices of each; (0, 0) without one."""
    given = job.find_launcher_option("hostfile") if job.launcher.name == "deepspeed" else None
    path = files.find_path(given.value or "", job.command.cwd) if given is not None else None
    if path is None:
        return 0, 0
    lines = [line.split("#")[0].split() for line in path.read_text("utf-8", "replace").splitlines()]
    slots = [int(word[6:]) for line in lines for word in line[1:] if re.fullmatch(r"slots=\d{1,4}", word)]
    return sum(bool(line) for line in lines), slots[0] if slots and len(set(slots)) == 1 else 0
