"""Rules about the backend of torch's collective communication: each vendor's cards have one."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import locate_option
from envcheck.core.lint.remark_builders import warn
from envcheck.core.lint.script_model import Remark
from envcheck.core.messages import _
from envcheck.vendors import VENDORS

# Options of transformers, torchtune and common programs.  Megatron's --distributed-backend is left out: MindSpeed
# replaces its default.
_OPTIONS = ("ddp_backend", "dist_backend", "backend")
_OF_CARDS = frozenset(vendor.torch_backend for vendor in VENDORS.values() if vendor.torch_device != "cpu")


def find_foreign_backends(context: LintContext) -> Iterator[Remark]:
    """Find a backend of another vendor's cards."""
    vendor = VENDORS.get(context.device)
    if vendor is None or not vendor.torch_backend or vendor.torch_device == "cpu":
        return
    for job in context.jobs:
        given = job.find_option(*_OPTIONS)
        value = (given.value or "").lower() if given is not None else ""
        if given is None or value not in _OF_CARDS or value in ("", vendor.torch_backend):
            continue
        seen = _(
            "{option} is {value}, but the communication backend of {device} is {backend}",
            option=given.name,
            value=value,
            device=vendor.title,
            backend=vendor.torch_backend,
        )
        yield warn(locate_option(given), seen, _("Write {value}, or remove it.", value=vendor.torch_backend))
