"""GPUs cut into instances, and containers that lose their GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_devices, of_vendor
from envcheck.core.derived.engine import DOCKER_INFO, json_object, reached_engine
from envcheck.core.derived.per_device import is_cut
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    follows,
    named,
    not_told,
    nothing,
    ok,
    skip,
    telling,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Outcome

CHAR_LINKS = "list /dev/char/195:*"  # 195 is NVIDIA's major number
GIVES_LINKS = "sudo nvidia-ctk system create-dev-char-symlinks --create-all"


def mig(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No GPU is cut into MIG instances: the launcher counts whole GPUs."""
    told = [d for d in v.devices if d.mig_mode is not None]
    cut = [d for d in told if is_cut(d)]
    if cut:
        seen = f"{named(cut)}: MIG is on"
        words = "Turn MIG off (a reset follows) to train over several GPUs, or name one instance by its UUID."
        yield warn(
            seen,
            words,
            *commands(v, "whole", *cut),
            "nvidia-smi -L",
            evidence=telling(facts, v, "current_mig", "Enabled"),
        )
    elif told:
        yield ok("MIG is off")
    elif all(d.name for d in v.devices):
        yield skip("these devices have no MIG")
    else:
        yield unknown("the tool does not show the MIG mode")


def keeps_cards(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Containers keep their GPUs when systemd reloads: it writes their cgroup anew, from what /dev/char has."""
    answer, engine, info = facts.answers.get(CHAR_LINKS), reached_engine(facts), facts.answers.get(DOCKER_INFO)
    driver = (json_object(info) or {}).get("CgroupDriver") if info else None
    if engine is None:
        yield follows("engine.reachable")
    elif not v.nodes:
        yield follows("devices.count")
    elif driver == "cgroupfs":
        yield ok("the engine keeps cgroups by itself")
    elif not isinstance(driver, str) or answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield not_told(facts, CHAR_LINKS)
    elif answer.ok:
        yield ok("/dev/char has the GPUs")
    else:
        words = "Make the links, or give GPUs by CDI or --device: a daemon-reload takes them from running containers."
        yield warn(
            "/dev/char has no link to a GPU, and systemd keeps the cgroups",
            words,
            GIVES_LINKS,
            evidence=nothing(CHAR_LINKS),
        )


CHECKS: tuple[Check, ...] = (
    of_devices(
        "devices.mig",
        mig,
        before="devices.visible",
        reads="nvidia-smi",
        source="NVIDIA's MIG user guide",
        rule="WARN when a GPU is cut",
        fix="Turn MIG off, or name an instance by UUID.",
    ),
    of_vendor(
        "engine.keeps_cards",
        keeps_cards,
        before="engine.pods",
        reads="docker info, /dev/char",
        source="nvidia-container-toolkit#251, nvidia-docker#1671",
        rule="WARN when systemd keeps the cgroups and /dev/char has no link to a GPU",
        fix="nvidia-ctk system create-dev-char-symlinks, or CDI.",
    ),
)
