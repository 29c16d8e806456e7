"""Resolves the names of devices and vendors, for every option that accepts them."""

from __future__ import annotations

from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from envcheck.vendors import REFUSED, VENDORS

AUTO = "auto"
# paddle in the builds for the CPU and for each vendor's devices: they install the same folder
PADDLE_PACKAGES = ("paddlepaddle", *(vendor.paddle_build for vendor in VENDORS.values() if vendor.paddle_build))


def device_names() -> tuple[str, ...]:
    """Return the values of --device: the vendors, and auto."""
    return (*VENDORS, AUTO)


def accelerator_names() -> tuple[str, ...]:
    """Return the vendors with devices, that is without cpu."""
    return tuple(name for name, vendor in VENDORS.items() if vendor.devices)


def accelerator_choice() -> str:
    """Return the vendors with a tool for usage lines: npu|iluvatar|nvidia."""
    return "|".join(vendor.name for vendor in VENDORS.values() if vendor.tool)


def resolve_device(text: str, option: str = "--device") -> str:
    """Return the vendor for a name or an alias in any case; UsageError if no vendor, or several, match."""
    word = text.strip().lower()
    if word in device_names():
        return word
    claiming = [vendor for vendor in VENDORS.values() if word in vendor.aliases]
    if len(claiming) == 1:
        return claiming[0].name
    if claiming:
        choices = join(
            _(" or "),
            (
                _("{option} {name} ({title})", option=option, name=vendor.name, title=vendor.title)
                for vendor in claiming
            ),
        )
        raise UsageError(
            _("{option} {text} is ambiguous", option=option, text=text), _("specify {choices}", choices=choices)
        )
    aliases = {alias: vendor.name for vendor in VENDORS.values() for alias in vendor.aliases}
    near = suggestions.find_nearest(word, [*device_names(), *aliases], limit=3)
    names = list(dict.fromkeys(aliases.get(name, name) for name in near))
    if names:
        raise UsageError(_("unknown device {text!r}", text=text), _("did you mean {names}?", names=join(", ", names)))
    choices = _("choose one of {devices}", devices=join(", ", device_names()))
    refused = (_("{name} was not loaded: {reason}", name=name, reason=reason) for name, reason in REFUSED.items())
    raise UsageError(_("unknown device {text!r}", text=text), join("; ", (choices, *refused)))
