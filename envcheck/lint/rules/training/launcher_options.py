"""The program that starts the processes: its own options, and the cards that it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import last_option
from envcheck.core.lint.model import Remark, Word
from envcheck.core.lint.remarks import fail, near, swap, unknown, warn
from envcheck.scripts.vendor_words import PLUGIN_OPTIONS
from envcheck.vendors import VENDORS


def options_unknown(context: LintContext) -> Iterator[Remark]:
    """An option before the program that is the launcher's own, but for a letter."""
    for job in context.jobs:
        known = frozenset(job.launcher.all_options)
        for given in job.own:
            if given.written:
                name = Word("", given.start, given.end)
                seen = f"--{given.written} is an abbreviation of {job.launcher.name}'s --{given.name}"
                do = f"Write --{given.name}: a newer version may know two that begin so."
                yield warn(name, seen, do, swap(name, f"--{given.name}"))
                continue
            if not known or given.plain in known or job.launcher.name == "python" or given.key:
                continue
            meant = near(given.plain, known, 0.82)
            if meant:
                name = Word("", given.start, given.end)
                yield fail(
                    name,
                    f"the launcher {job.launcher.name} has no --{given.name}",
                    f"Write --{meant}.",
                    swap(name, f"--{meant}"),
                )


def filters(context: LintContext) -> Iterator[Remark]:
    """deepspeed's runner takes numbers or names of cards, and refuses both."""
    for job in context.jobs:
        if job.launcher.name != "deepspeed":
            continue
        names = [given for given in (job.says("include"), job.says("exclude")) if given is not None]
        counts = [given for given in (job.says("num_gpus"), job.says("num_nodes")) if given is not None]
        if names and counts:
            seen = f"--{counts[0].name} beside --{names[0].name}: deepspeed refuses to start"
            yield fail(counts[0], seen, "Keep one of the two.")
        elif len(names) > 1:
            yield fail(names[1], "--include beside --exclude: deepspeed refuses to start", "Keep one of the two.")


_LAUNCH_ONLY = frozenset(
    (
        *("nproc_per_node", "nnodes", "node_rank", "rdzv_backend", "rdzv_endpoint", "num_machines", "machine_rank"),
        *PLUGIN_OPTIONS,
    )
)


def misplaced(context: LintContext) -> Iterator[Remark]:
    """What the launcher should be told stands behind the program, which gets it."""
    for job in context.jobs:
        if not job.launcher.program or job.launcher.name == "python" or job.program is None:
            continue
        mine = {name for names in job.launcher.options.values() for name in names} & _LAUNCH_ONLY
        for given in job.options:
            if given.plain in mine and last_option(job.own, given.plain) is None:
                seen = f"--{given.name} stands behind {job.program.text[:60]}, and so is an option of that program"
                yield warn(given, seen, f"Put it before the program: {job.launcher.name} reads its own options there.")


def old_module(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        if job.at is not None and job.at.text == "torch.distributed.launch":
            yield warn(
                job.at,
                "torch.distributed.launch is deprecated, and hands --local-rank to the program",
                "torchrun",
                None,
            )


def cards(context: LintContext) -> Iterator[Remark]:
    """More processes than the machine has cards."""
    for job in context.jobs:
        if not job.trains or not context.device or context.device == "cpu" or not context.here:
            continue
        there, wanted = context.machine.cards(context.device), job.processes
        listed = job.devices
        numbers = (
            [int(n) for n in listed.text.split(",")]
            if listed and re.fullmatch(r"\d{1,4}(,\d{1,4})*", listed.text)
            else []
        )
        if there and (wanted or 0) > there:
            place = job.told("processes") or listed or job
            if context.away(job):
                seen = f"{wanted} processes, and this machine has {there} devices; it is started on another"
                yield unknown(place, seen, "envcheck lint on the machine itself.")
            else:
                seen = f"{wanted} processes, and this machine has {there} devices"
                yield fail(place, seen, f"At most {there}.")
        elif there and numbers and max(numbers) >= there and not context.away(job):
            yield fail(
                listed or job, f"device {max(numbers)}, and this machine has 0 to {there - 1}", f"0 to {there - 1}"
            )


def wrong_device(context: LintContext) -> Iterator[Remark]:
    """--device names cards that the machine has not."""
    types = {vendor.device_type: name for name, vendor in VENDORS.items()}
    for job in context.jobs:
        option = job.option("device")
        vendor = types.get(option.value or "") if option else None
        found = context.machine.vendors
        if option is None or vendor in (None, "cpu") or found is None or not found or not option.values:
            continue
        if vendor not in found and not context.away(job):
            yield fail(
                option.values[0],
                f"--device {option.value}, and this machine has {' and '.join(found)} cards",
                f"--device {VENDORS[found[0]].device_type}",
            )


def force_torchrun(context: LintContext) -> Iterator[Remark]:
    """LLaMA-Factory refuses DeepSpeed without a distributed start; on several cards it starts one by itself."""
    for job in context.jobs:
        if job.launcher.name != "llamafactory-cli" or job.verb != "train" or job.option("deepspeed") is None:
            continue
        env = job.command.environment
        visible = next(
            (w for n, w in env.items() if n.endswith("_VISIBLE_DEVICES") and re.fullmatch(r"\d+", w.text)), None
        )
        if visible is not None and "FORCE_TORCHRUN" not in env:
            yield fail(
                job,
                "one visible card and DeepSpeed: LLaMA-Factory starts one process without torchrun, and refuses",
                "FORCE_TORCHRUN=1",
            )
