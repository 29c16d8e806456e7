"""Checks of MIG instances, and of containers that lose their GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, device_check, vendor_check
from envcheck.core.derived.device_details import is_partitioned
from envcheck.core.derived.engine_answers import DOCKER_INFO, get_reachable_engine, parse_json_object
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    name_devices,
    ok,
    quote_listing,
    quote_nothing,
    report_unanswered,
    skip,
    skipped_because,
    unknown,
    vendor_commands,
    warn,
)
from envcheck.core.messages import _
from envcheck.core.model import Finding, Outcome, fix

CHAR_LINKS = "list /dev/char/195:*"  # 195 is NVIDIA's device major number
GIVES_LINKS = "sudo nvidia-ctk system create-dev-char-symlinks --create-all"


def check_mig(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No GPU is partitioned into MIG instances; the launcher counts whole GPUs."""
    reported = [d for d in v.devices if d.mig_mode is not None]
    cut = [d for d in reported if is_partitioned(d)]
    if cut:
        seen = _("{cut}: MIG is on", cut=name_devices(cut))
        words = _("Turn MIG off (this resets the GPU) to train on several GPUs, or select one instance by UUID.")
        yield warn(
            seen,
            fix(words, *vendor_commands(v, "whole", *cut), "nvidia-smi -L"),
            evidence=quote_listing(facts, v, "current_mig", "Enabled"),
        )
    elif reported:
        yield ok(_("MIG is off"))
    elif all(d.name for d in v.devices):
        yield skip(_("these devices do not support MIG"))
    else:
        yield unknown(_("nvidia-smi does not report the MIG mode"))


def check_keeps_cards(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Containers keep their GPUs when systemd reloads; it then rewrites their cgroups from /dev/char."""
    answer, engine, info = facts.answers.get(CHAR_LINKS), get_reachable_engine(facts), facts.answers.get(DOCKER_INFO)
    driver = (parse_json_object(info) or {}).get("CgroupDriver") if info else None
    if engine is None:
        yield skipped_because("engine.reachable")
    elif not v.nodes:
        yield skipped_because("devices.count")
    elif driver == "cgroupfs":
        yield ok(_("the engine manages cgroups itself"))
    elif not isinstance(driver, str) or answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield report_unanswered(facts, CHAR_LINKS)
    elif answer.ok:
        yield ok(_("/dev/char has links to the GPUs"))
    else:
        words = _(
            "Create the links, or pass GPUs with CDI or --device: otherwise a systemd daemon-reload "
            "removes them from running containers."
        )
        yield warn(
            _("/dev/char has no links to the GPUs, and systemd manages the cgroups"),
            fix(words, GIVES_LINKS),
            evidence=quote_nothing(CHAR_LINKS),
        )


CHECKS: tuple[Check, ...] = (
    device_check(
        "devices.mig",
        check_mig,
        before="devices.visible",
        reads="nvidia-smi",
        source="NVIDIA MIG user guide",
        rule="WARN if a GPU is partitioned",
        fix="Turn MIG off, or select an instance by UUID.",
    ),
    vendor_check(
        "engine.keeps_cards",
        check_keeps_cards,
        before="engine.pods",
        reads="docker info, /dev/char",
        source="nvidia-container-toolkit#251, nvidia-docker#1671",
        rule="WARN if systemd manages the cgroups and /dev/char has no link to a GPU",
        fix="Run nvidia-ctk system create-dev-char-symlinks, or use CDI.",
    ),
)
