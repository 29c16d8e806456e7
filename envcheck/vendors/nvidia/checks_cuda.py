"""Checks of a framework's CUDA version against the driver and the cards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from envcheck.core import versions
from envcheck.core.check import Check, VersionTables, version_check
from envcheck.core.derived.key_value import driver_version
from envcheck.core.derived.python_packages import find_job_packages, quote_metadata
from envcheck.core.facts import Facts, Packages, VendorFacts
from envcheck.core.findings import (
    local_severity,
    ok,
    quote_answer,
    report_unanswered,
    requires_fact,
    skip,
    unknown,
    warn_or_fail,
)
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, diagnose

CAPABILITY = "run nvidia-smi --query-gpu=compute_cap --format=csv,noheader"
# The first CUDA that supports a compute capability, from the release notes of 11.0, 11.1, 11.8 and 12.8.
FIRST = {"8.0": "11.0", "8.6": "11.1", "8.9": "11.8", "9.0": "11.8", "10.0": "12.8", "12.0": "12.8"}


@requires_fact(find_job_packages, "ask packages")
def check_cuda_build(found: Packages, facts: Facts, v: VendorFacts, tables: VersionTables) -> Iterator[Finding]:
    """The framework's wheel has code for these devices, and the driver supports its CUDA version."""
    name, cuda = _find_cuda_build(found)
    answer, driver = facts.answers.get(CAPABILITY), driver_version(v)
    if not name:
        yield skip(_("no installed package reports its CUDA version"))
        return
    if not cuda:
        yield unknown(
            _("cannot determine the CUDA version of {name} {version}", name=name, version=found.packages[name])
        )
        return
    known = {"cuda": cuda, "nvidia-driver": driver}
    if below := tables.find_bad((("cuda", "nvidia-driver"),), known, quote_metadata(found, name)):
        yield tables.suppress_if_driver_too_old(v, replace(below, status=local_severity(facts)))
        return
    cards = (
        sorted(set(re.findall(r"^[^\S\n]*(\d{1,2}\.\d)[^\S\n]*$", answer.out, re.MULTILINE)))
        if answer and answer.ok
        else []
    )
    if not cards:
        yield report_unanswered(facts, CAPABILITY)
        return
    lacking = next((card for card in cards if _lacks_device_code(found, card, cuda, tables)), None)
    if lacking:
        words = _("Install a build for a newer CUDA: the first kernel fails with 'no kernel image is available'.")
        shown = (*quote_metadata(found, name), *quote_answer(answer, lacking))
        seen = _(
            "the framework is built for CUDA {cuda}, which does not support compute capability {lacking}",
            cuda=cuda,
            lacking=lacking,
        )
        yield warn_or_fail(local_severity(facts), seen, diagnose(words, "envcheck solve"), evidence=shown)
    else:
        yield ok(_("CUDA {cuda} for compute capability {cards}", cuda=cuda, cards=join(", ", cards)))


def _lacks_device_code(found: Packages, card: str, cuda: str, tables: VersionTables) -> bool:
    """Return whether CUDA itself, or paddle's wheel according to the tables, does not support the card."""
    if card in FIRST and versions.is_at_least(cuda, FIRST[card]) is False:
        return True
    known = {"compute-capability": card, "cuda": cuda}
    bad = tables.find_bad((("compute-capability", "cuda"),), known, ())
    return "paddlepaddle-gpu" in found.packages and bad is not None


def _find_cuda_build(found: Packages) -> tuple[str, str]:
    """Return the package and its CUDA version: torch's local version (+cu118), else the CUDA runtime package."""
    torch = found.packages.get("torch", "")
    if local := re.search(r"\+cu(\d{2})(\d{1,2})$", torch):
        return "torch", f"{local[1]}.{local[2]}"
    framework = any(name in found.packages for name in ("torch", "paddlepaddle-gpu"))
    name = next((n for n in found.packages if re.fullmatch(r"nvidia-cuda-runtime(-cu\d\d)?", n)), "")
    if not framework or not name:
        return "", ""
    version = re.match(r"\d{2}\.\d{1,2}", found.packages[name])
    return name, version[0] if version else ""


CHECKS: tuple[Check, ...] = (
    version_check(
        "python.cuda_build",
        check_cuda_build,
        needs_devices=True,
        reads="installed packages, compute_cap of nvidia-smi, driver version",
        source="Paddle#69096; CUDA release notes",
        rule=(
            "FAIL if its CUDA needs a newer driver, or it has no code for a device; WARN on hosts that run jobs in "
            "containers"
        ),
        fix="Install a build for another CUDA version.",
        frameworks=("paddle", "torch"),
    ),
)
