"""Values of one job, each with its place: read, assumed by the framework's default, or unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from envcheck.core.lint.own_job import JobValue, ValueState
from envcheck.core.lint.script_model import UNKNOWN
from envcheck.core.messages import NOTHING, Message, _, verbatim
from envcheck.scripts.jobs.job_options import OptionTable, PlacedOption
from envcheck.scripts.jobs.option_names import NAMES, KitDefaults
from launch.planner.layout_rules import MAX_VALUES

_NUMBER = re.compile(r"\d{1,9}(\.0)?")
_ANY_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")
# Values that no training takes outside of 1 to this number.  Degrees are left out: -1 is automatic in Paddle.
# global_batch: the planner has no limit of its own, it is what _NUMBER reads.
MOST: Mapping[str, int] = {
    "micro_batch": MAX_VALUES["micro_batch"], "grad_accum": MAX_VALUES["micro_batch"], "seq_len": MAX_VALUES["seq_len"],
    "lora_rank": MAX_VALUES["lora_rank"], "global_batch": 10**9 - 1,
}  # fmt: skip
_UNLIMITED: Mapping[str, tuple[str, ...]] = {"seq_len": ("-1",)}  # of ms-swift's max_length
MOST_SHOWN = 40  # characters of a value


@dataclass
class ValueReader:
    """Collects values of one job from its options; `source` names a command in places."""

    table: OptionTable
    kit: KitDefaults
    values: list[JobValue] = field(default_factory=list)

    def place(self, where: str) -> Message:
        """Return where an option was read."""
        return verbatim(where) if where else _("command line")

    def add_read(self, name: str, value: str, where: str | Message) -> str:
        """Add a value that was read, and return it."""
        place = where if isinstance(where, Message) else self.place(where)
        self.values.append(JobValue(name, value, ValueState.READ, place, self.kit.options.get(name, "")))
        return value

    def add_assumed(self, name: str, value: str, why: Message) -> str:
        """Add a value that nothing sets, and return it."""
        self.values.append(JobValue(name, value, ValueState.ASSUMED, why, self.kit.options.get(name, "")))
        return value

    def add_unknown(self, name: str, why: Message = NOTHING) -> str:
        """Add a value that cannot be read; returns ""."""
        self.values.append(JobValue(name, "", ValueState.UNKNOWN, why, self.kit.options.get(name, "")))
        return ""

    def add_default(self, name: str, why: Message = NOTHING) -> str:
        """Add the framework's own value without an option, or an unknown one."""
        if default := self.kit.values.get(name, ""):
            return self.add_assumed(name, default, _("default of {framework}", framework=self.kit.title))
        return self.add_unknown(name, why)

    def read_text(self, name: str, clean: Callable[[str], str] = str.strip) -> str:
        """Read a text; the framework's default, or an unknown value, if no option sets it."""
        found = self.table.find(*NAMES[name])
        if found is None:
            return self.add_default(name)
        if UNKNOWN in found.text or not found.text:
            return self.add_unknown(name, self.explain_unknown(found))
        return self.add_read(name, clean(found.text), found.where)

    def read_number(self, name: str) -> int | None:
        """Read a whole number; as `read_text` otherwise."""
        found = self.table.find(*NAMES[name])
        if found is not None and (reason := self.explain_invalid(name, found)):
            self.add_invalid(name, reason)
            return None
        if found is not None and _NUMBER.fullmatch(found.text):
            return int(self.add_read(name, found.text.partition(".")[0], found.where))
        if found is not None and found.text.lower() != "auto":
            self.add_unknown(name, self.explain_unknown(found))
            return None
        default = self.add_default(name)
        return int(default) if default.isdigit() else None

    def explain_unknown(self, found: PlacedOption) -> Message:
        """Return the place of an option, and why its value is not known."""
        place = self.place(found.where)
        if found.variables:
            return _("{place}: value of {variables} is unknown", place=place, variables=", ".join(found.variables))
        if UNKNOWN in found.text:
            return _("{place}: set by the output of a command", place=place)
        return _("{place}: no value", place=place) if not found.text else _("{place}: no plain number", place=place)

    def add_invalid(self, name: str, reason: Message) -> None:
        """Add a value that the job sets to something that no training takes."""
        self.values.append(JobValue(name, "", ValueState.UNKNOWN, reason, is_invalid=True))

    def explain_invalid(self, name: str, found: PlacedOption) -> Message:
        """Return the place and the range of a number that no training takes, NOTHING for any other value."""
        seen = explain_number(name, found.name, found.text)
        return _("{place}: {seen}", place=self.place(found.where), seen=seen) if seen else NOTHING

    def find_number(self, name: str) -> tuple[int, PlacedOption] | None:
        """Return a whole number and its option without adding it; None if no option sets it."""
        found = self.table.find(*NAMES[name])
        return (int(found.text.partition(".")[0]), found) if found and _NUMBER.fullmatch(found.text) else None


def explain_number(name: str, option: str, text: str) -> Message:
    """Return the range of a value if no training takes the number `text` for it, NOTHING for any other text."""
    most = MOST.get(name)
    if most is None or not _ANY_NUMBER.fullmatch(text) or text in _UNLIMITED.get(name, ()):
        return NOTHING
    if _NUMBER.fullmatch(text) and 1 <= int(text.partition(".")[0]) <= most:
        return NOTHING
    shown = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
    return _("{option} {value}: expected an integer from 1 to {most}", option=option, value=shown, most=most)
