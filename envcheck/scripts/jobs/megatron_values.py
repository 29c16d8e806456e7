"""Values of a job of Megatron-LM or MindSpeed-LLM that only these frameworks have, and those that they reject."""

from __future__ import annotations

from envcheck.core.lint.script_model import UNKNOWN
from envcheck.core.messages import _
from envcheck.scripts import megatron_limits
from envcheck.scripts.jobs.value_reader import ValueReader

FRAMEWORK = "megatron"
# A rejected number of stages is reported by the planner, with the valid ones.
_OWN = ("model", "recompute", "vpp")


def read_virtual_stages(reader: ValueReader) -> None:
    """Read the chunks of each pipeline stage, if there are several."""
    if reader.kit.planner != FRAMEWORK:
        return
    option, chunks = megatron_limits.find_virtual_stages(lambda name: _read_option(reader, name))
    found = reader.table.find(option)
    if found is None or chunks == 1:
        return
    if (idle := reader.table.find("noop_layers")) is not None:
        place = reader.place(idle.where)
        reader.add_unknown("vpp", _("{place}: the planner does not know {option}", place=place, option=idle.name))
    else:
        reader.add_read("vpp", str(chunks), found.where)


def reject_values(reader: ValueReader, is_open: bool) -> None:
    """Make the values invalid that the program rejects; `is_open`: the job has further options that are unknown."""
    if reader.kit.planner != FRAMEWORK:
        return
    for refusal in megatron_limits.list_refusals(lambda name: _read_option(reader, name)):
        found = reader.table.find(refusal.options[0])
        if refusal.value not in _OWN or found is None or (is_open and refusal.is_default_decisive):
            continue
        reader.values = [value for value in reader.values if value.name != refusal.value]
        place = reader.place(found.where)
        reader.add_invalid(refusal.value, _("{place}: {seen}", place=place, seen=refusal.reason))


def _read_option(reader: ValueReader, name: str) -> str | None:
    """Return the value of an option, "" if it is unknown; None if it is not given."""
    found = reader.table.find(name)
    return None if found is None else "" if UNKNOWN in found.text else found.text
