"""Lint rules for the environment of programs on XPUs: lists of cards, and BKCL's variables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.messages import _, verbatim
from envcheck.vendors.kunlunxin import VENDOR

VISIBLE, CUDA = VENDOR.visible_env, "CUDA_VISIBLE_DEVICES"


def list_settings(context: LintContext, name: str) -> Iterator[tuple[str, ShellWord]]:
    """Yield the known values that jobs and containers get in a variable, each place once."""
    told: set[int] = set()
    words = [job.command.environment[name] for job in context.jobs if name in job.command.environment]
    given = [(word.known_text, word) for word in words]
    given += [(value, word) for each in context.containers for key, value, word in each.environment if key == name]
    for value, word in given:
        if value is not None and word.is_known and word.start not in told:
            told.add(word.start)
            yield value, word


def find_differing_lists(context: LintContext) -> Iterator[Remark]:
    """Yield a warning if the two lists of cards differ."""
    for job in context.jobs if context.device == VENDOR.name else ():
        own, cuda = (job.command.environment.get(name) for name in (VISIBLE, CUDA))
        texts = (own.known_text, cuda.known_text) if own and cuda else (None, None)
        if own and cuda and None not in texts and texts[0] != texts[1]:
            yield _remark_differing_lists(texts[0] or "", texts[1] or "", cuda)
    for container in context.containers:
        given = {name: (value, word) for name, value, word in container.environment}
        if VISIBLE in given and CUDA in given and given[VISIBLE][0] != given[CUDA][0]:
            yield _remark_differing_lists(given[VISIBLE][0], *given[CUDA])


def _remark_differing_lists(own: str, cuda: str, at: ShellWord) -> Remark:
    seen = _(
        "XPU_VISIBLE_DEVICES is {own}, CUDA_VISIBLE_DEVICES is {cuda}: the first one has priority, but some "
        "libraries read only the other",
        own=own,
        cuda=cuda,
    )
    return warn(at, seen, _("Set both to {own}.", own=own))


def find_debug_word(context: LintContext) -> Iterator[Remark]:
    """Yield a failure for BKCL_DEBUG=INFO, which BKCL cannot read as a number."""
    for value, word in list_settings(context, "BKCL_DEBUG"):
        if value and not re.fullmatch(r"\d{1,4}", value):
            seen = _("BKCL_DEBUG={value}: BKCL reads a number here and crashes with a stoi error", value=value[:40])
            yield fail(word, seen, verbatim("BKCL_DEBUG=1"))


def find_wrong_count(context: LintContext) -> Iterator[Remark]:
    """Yield remarks on the number of BKCL_RDMA_NICS; too many may be those of all cards of the machine."""
    for value, word in list_settings(context, "BKCL_RDMA_NICS"):
        count = len(value.split(","))
        counts = {
            job.processes_per_node
            for job in context.jobs
            if job.command.environment.get("BKCL_RDMA_NICS") == word and job.processes_per_node
        }
        if counts and count not in counts:
            seen = _("BKCL_RDMA_NICS has {count} names, but the job has {cards} cards", count=count, cards=max(counts))
            do = _("List one interface for each card, in the order of the cards.")
            yield warn_or_fail(count < min(counts), word, seen, do)


def find_clean_start(context: LintContext) -> Iterator[Remark]:
    """Yield a warning for XTORCHRUN_CLEAN, which ends every program that has a card open."""
    for value, word in list_settings(context, "XTORCHRUN_CLEAN"):
        if value.lower() not in ("", "0", "false"):
            seen = _("XTORCHRUN_CLEAN ends every process that has /dev/xpu* open, also other users' jobs")
            yield warn(word, seen, _("Remove it on shared machines."))
