"""The rule about numbers in variables: they are within what their reader accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, VariableAssignment
from envcheck.core.lint.vendor_vocabulary import VariableRange
from envcheck.core.messages import Message, _
from envcheck.lint.rules.environment_variables import list_environment
from envcheck.scripts.vendor_words import load_vendor_words

_RANGES = {
    name: (vendor, limits)
    for vendor, words in load_vendor_words().items()
    for name, limits in words.variable_ranges.items()
}


_NUMBER = re.compile("-?(?:[0-9]+|0x[0-9a-fA-F]+)")


def find_values_out_of_range(context: LintContext) -> Iterator[Remark]:
    """Find values outside of what the reader of a variable accepts: it ignores them, or exits."""
    for _unused, assign in list_environment(context):
        vendor, limits = _RANGES.get(assign.name, ("", None))
        text = (assign.word.known_text or "").strip()
        if limits is not None and text and not _NUMBER.fullmatch(text):
            seen = _("{name}={value} is not a number", name=assign.name, value=text[:40])
            yield fail(assign, seen, _("Use a value in this range: {source}.", source=limits.source))
        elif limits is not None and re.fullmatch(r"-?[0-9]{1,18}", assign.word.known_text or ""):
            yield from _check_range(context, assign, vendor, limits)


def _check_range(
    context: LintContext, assign: VariableAssignment, vendor: str, limits: VariableRange
) -> Iterator[Remark]:
    number = int(assign.word.known_text or "")
    models = _list_models(context, vendor) if limits.accepts(number) is None else ()
    accepted, high = limits.accepts(number, models), limits.find_high(models) or limits.high
    named: dict[str, Any] = {"name": assign.name, "value": assign.word.known_text, "low": limits.low}
    do = _("Use a value in this range: {source}.", source=limits.source)
    if accepted:
        return
    if accepted is None:
        on = limits.lowest_limit
        seen = _("{name}={value} is out of range on {models}: {low} to {high}", models=on.label, high=on.high, **named)
        yield warn(assign, seen, do)
    elif limits.low <= number <= high:
        seen = _(
            "{name}={value} is not a multiple of {step}",
            name=assign.name,
            value=assign.word.known_text,
            step=limits.step,
        )
        yield fail(assign, seen, _("Use a multiple: {source}.", source=limits.source))
    else:
        seen = _describe_range(limits, {**named, "high": high})
        if limits.effect:
            seen = _("{range}; {effect}", range=seen, effect=limits.effect)
        yield warn_or_fail(not limits.effect, assign, seen, do)


def _describe_range(limits: VariableRange, named: Mapping[str, Any]) -> Message:
    if limits.unit:
        return _("{name}={value} is out of range: {low} to {high} {unit}", unit=limits.unit, **named)
    return _("{name}={value} is out of range: {low} to {high}", **named)


def _list_models(context: LintContext, vendor: str) -> tuple[str, ...]:
    """The names of the machine's devices of this vendor; () if unknown."""
    found = context.machine.facts.vendors if context.machine.facts else ()
    return tuple(device.name or "" for each in found if each.name == vendor for device in each.devices)
