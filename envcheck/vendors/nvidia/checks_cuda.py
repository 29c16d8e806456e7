"""The CUDA that a framework's wheel was built for, against the driver below and the cards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from envcheck.core import versions
from envcheck.core.check import Check, VersionTables, of_versions
from envcheck.core.derived.installed import installed, metadata
from envcheck.core.facts import Facts, Packages, VendorFacts
from envcheck.core.findings import graded, here, not_told, ok, quote, reading, skip, unknown
from envcheck.core.key_value import driver_version
from envcheck.core.model import Finding

CAPABILITY = "run nvidia-smi --query-gpu=compute_cap --format=csv,noheader"
# The first CUDA with code for a card, from the release notes of 11.0, 11.1, 11.8 and 12.8.
FIRST = {"8.0": "11.0", "8.6": "11.1", "8.9": "11.8", "9.0": "11.8", "10.0": "12.8", "12.0": "12.8"}


@reading(installed, "ask packages")
def cuda_build(found: Packages, facts: Facts, v: VendorFacts, tables: VersionTables) -> Iterator[Finding]:
    """The framework's wheel has code for these cards, and its CUDA is one that the driver carries."""
    name, cuda = _cuda(found)
    answer, driver = facts.answers.get(CAPABILITY), driver_version(v)
    if not name:
        yield skip("no package here says for which CUDA it was built")
        return
    if not cuda:
        yield unknown(f"{name} {found.packages[name]}: its CUDA could not be told")
        return
    known = {"cuda": cuda, "nvidia-driver": driver}
    if below := tables.find_bad((("cuda", "nvidia-driver"),), known, metadata(found, name)):
        yield tables.wants_newer(v, replace(below, status=here(facts)))
        return
    cards = sorted(set(re.findall(r"^\s*(\d{1,2}\.\d)\s*$", answer.out, re.MULTILINE))) if answer and answer.ok else []
    if not cards:
        yield not_told(facts, CAPABILITY)
        return
    lacking = next((card for card in cards if _lacks(found, card, cuda, tables)), None)
    if lacking:
        words = "Install a build for a newer CUDA: the first kernel ends with 'no kernel image is available'."
        shown = (*metadata(found, name), *quote(answer, lacking))
        seen = f"built for CUDA {cuda}, which has no code for cards of compute capability {lacking}"
        yield graded(here(facts), seen, words, "envcheck solve", evidence=shown)
    else:
        yield ok(f"CUDA {cuda} for compute capability {', '.join(cards)}")


def _lacks(found: Packages, card: str, cuda: str, tables: VersionTables) -> bool:
    """CUDA itself, or by the tables paddle's wheel for it."""
    if card in FIRST and versions.at_least(cuda, FIRST[card]) is False:
        return True
    known = {"compute-capability": card, "cuda": cuda}
    bad = tables.find_bad((("compute-capability", "cuda"),), known, ())
    return "paddlepaddle-gpu" in found.packages and bad is not None


def _cuda(found: Packages) -> tuple[str, str]:
    """The package that says it, and what: torch's local version (+cu118), else the runtime that came with a wheel."""
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
    of_versions(
        "python.cuda_build",
        cuda_build,
        needs_devices=True,
        reads="installed packages, compute_cap of nvidia-smi, the driver's version",
        source="Paddle#69096; CUDA's release notes",
        rule="FAIL when its CUDA wants a newer driver, or has no code for a card; WARN where containers can be started",
        fix="A build for another CUDA.",
        frameworks=("paddle", "torch"),
    ),
)
