"""A training job of the user's own: the command that starts it, and what was read of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from packaging.version import Version

from envcheck.core.lint.script_model import CONFIG_SUFFIXES
from envcheck.core.messages import NOTHING, Message, _, verbatim
from envcheck.core.secrets import redact_text, redact_words

UNKNOWN_NAME = "unknown"  # of the model or the method, where a recipe needs a name
# What the values are called in texts.
LABELS: Mapping[str, Message] = {
    "framework": _("framework"),
    "model": _("model"),
    "method": _("method"),
    "device": _("device type"),
    "nodes": _("nodes"),
    "cards": _("devices per node"),
    "micro_batch": _("micro batch"),
    "grad_accum": _("gradient accumulation"),
    "seq_len": _("sequence length"),
    "precision": _("precision"),
    "sharding": _("sharding"),
    "offload": _("offload"),
    "tp": _("tensor parallel"),
    "pp": _("pipeline parallel"),
    "vpp": _("virtual pipeline"),
    "ep": _("expert parallel"),
    "cp": _("context parallel"),
    "recompute": _("recomputation"),
    "lora_rank": _("LoRA rank"),
    "data": _("data"),
    "output": _("output folder"),
}


COMMAND = "command"  # the source of a job without a file


class ValueState(str, enum.Enum):
    """How a value of a job is known."""

    READ = "read"
    ASSUMED = "assumed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class JobValue:
    """A value of a job; `where` it was read (FILE:LINE), or why it is assumed; `option` is what settles it.

    `is_invalid`: the job sets it to something that no training takes, which is in `where`; its state is UNKNOWN.
    """

    name: str
    value: str
    state: ValueState
    where: Message = NOTHING
    option: str = ""
    is_invalid: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the value in a job's document."""
        text = redact_text(self.value) or None
        return {"value": text, "state": self.state.value, "where": self.where, "option": self.option}


@dataclass(frozen=True)
class JobProgram:
    """A program that a job starts: `where` (FILE:LINE), "" for its command; in `folder`, "" for the current one.

    `path` is the PATH in which it is looked for.  `is_sure`: the program is needed, and that is its PATH.
    """

    name: str
    where: str = ""
    path: str = ""
    folder: str = ""
    is_sure: bool = True


def is_script_source(source: str) -> bool:
    """Return whether the source of an own job, as in OwnJob.source, is a shell script."""
    return source != COMMAND and not source.endswith(CONFIG_SUFFIXES)


@dataclass(frozen=True)
class InstalledFrameworks:
    """The frameworks of the environment that starts a job: commands in PATH, and the release of ms-swift."""

    commands: frozenset[str] = frozenset()
    swift: Version | None = None


@dataclass(frozen=True)
class OwnJob:
    """A job of a file or a command; `words` are those of `envcheck train` that name it.

    `argv` is the command, which is never changed; its values are in `values`.  `plan` are the read values as options of
    the planner, `divided_plan` what the framework does by default once a tensor degree is set, `lean` the smallest
    values of those that are assumed.  `model` is the planner's name of the model, or a folder with its config.json, or
    its dimensions as fields of such a file; `method` the planner's name; both are "" if unknown.  `cards` is None if
    all devices of the machine are used.  `listed` are the devices that the job itself selects, `programs` what it looks
    for in PATH.  `no_training` is the reason why no training was found, empty if one was.
    """

    name: str
    source: str
    words: tuple[str, ...]
    argv: tuple[str, ...]
    values: tuple[JobValue, ...]
    model: str = ""
    method: str = ""
    framework: str = ""
    device: str = ""
    nodes: int = 1
    cards: int | None = 1
    plan: Mapping[str, str | int] = field(default_factory=dict)
    divided_plan: Mapping[str, str | int] = field(default_factory=dict)
    lean: Mapping[str, str | int] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    output: str = ""
    listed: str = ""
    programs: tuple[JobProgram, ...] = ()
    notes: tuple[Message, ...] = ()
    no_training: Message = NOTHING

    @property
    def is_file(self) -> bool:
        """Whether a file describes the job, and not its command alone."""
        return self.source != COMMAND

    @property
    def is_script(self) -> bool:
        """Whether a shell script starts the training, so that no word can be added to its command."""
        return is_script_source(self.source)

    @property
    def unplanned_framework(self) -> str:
        """The framework of the job if it is known but the planner has no figures of it, else ""."""
        found = self.find_value("framework")
        return found.value if found and found.state is ValueState.READ and not self.framework else ""

    def find_value(self, name: str) -> JobValue | None:
        """Return the value of that name."""
        return next((value for value in self.values if value.name == name), None)

    def settle_values(self, given: Mapping[str, tuple[str, str]]) -> OwnJob:
        """Return the job with values that options of the command line give: name to option and value."""
        return replace(self, values=tuple(_settle_value(value, given.get(value.name)) for value in self.values))

    def list_unsettled(self, *names: str) -> tuple[JobValue, ...]:
        """Return the values, of these names if given, that were not read."""
        return tuple(v for v in self.values if v.state is not ValueState.READ and (not names or v.name in names))

    def list_invalid(self) -> tuple[JobValue, ...]:
        """Return the values that the job sets to something that no training takes."""
        return tuple(value for value in self.values if value.is_invalid)

    def as_json(self) -> dict[str, Any]:
        """Return the value of the key `own` of a job's document."""
        return {
            "source": self.source,
            "command": list(redact_words(self.argv)),
            "values": {value.name: value.as_json() for value in self.values},
            "notes": list(self.notes),
        }


def _settle_value(value: JobValue, given: tuple[str, str] | None) -> JobValue:
    if given is None or value.state is ValueState.READ:
        return value
    option, text = given
    return replace(value, value=text, state=ValueState.READ, where=verbatim(option), option="", is_invalid=False)
