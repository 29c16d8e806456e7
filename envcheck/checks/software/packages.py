"""Packages that start well and fail late: what their metadata, and the variables around them, tell beforehand."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.collect.questions import LIBAIO
from envcheck.core.check import Check, of_machine
from envcheck.core.derived.installed import installed, metadata
from envcheck.core.facts import Facts
from envcheck.core.findings import figures, not_told, nothing, ok, skip, unknown, warn
from envcheck.core.model import Finding, Outcome


def requirements(facts: Facts) -> Iterator[Finding]:
    """What the frameworks ask for is installed, in the versions that they name."""
    found = installed(facts)
    if found is None or found.unmet is None:
        yield not_told(facts, "ask packages") if found is None else unknown("nobody looked at what packages ask for")
    elif found.unmet:
        words = "Install what is asked for, or the framework's version that is content; two that contradict each other"
        words += " need an environment each."
        more = f" and {len(found.unmet) - 1} more" if len(found.unmet) > 1 else ""
        shown = figures("metadata", unmet="; ".join(found.unmet[:3]))
        yield warn(f"{found.unmet[0]}{more}", words, f"{found.executable or 'python3'} -m pip check", evidence=shown)
    else:
        yield ok("what is asked for is there")


def megatron(facts: Facts) -> Iterator[Finding]:
    """One Megatron is meant: the folder that PYTHONPATH finds is the one that MEGATRON_LM_PATH names."""
    around = facts.environment
    if around is None:
        yield not_told(facts, "ask environment")
        return
    named = around.get("MEGATRON_LM_PATH", "").rstrip("/")
    path = [part.rstrip("/") for part in around.get("PYTHONPATH", "").split(":") if part]
    others = [part for part in path if "megatron" in part.lower() and part != named]
    if not named:
        yield skip("MEGATRON_LM_PATH is not set")
    elif others and (named not in path or path.index(others[0]) < path.index(named)):
        words = "Put MEGATRON_LM_PATH first on PYTHONPATH: the first folder wins."
        shown = figures("environment", MEGATRON_LM_PATH=named, PYTHONPATH=":".join(path))
        yield warn(f"{others[0]} comes before {named}", words, f"export PYTHONPATH={named}:$PYTHONPATH", evidence=shown)
    else:
        yield ok(named)


def libaio(facts: Facts) -> Iterator[Finding]:
    """DeepSpeed, where it is installed, finds libaio: without it offloading to disk fails late."""
    found, keys = installed(facts), [question.key for question in LIBAIO]
    answers = [answer for key in keys if (answer := facts.answers.get(key))]
    there = next((answer for answer in answers if answer.ok), None)
    if found is None:
        yield not_told(facts, "ask packages")
    elif "deepspeed" not in found.packages:
        yield skip("deepspeed is not installed here")
    elif there:
        yield ok(there.out.split()[0])
    elif [a.outcome for a in answers] != [Outcome.EMPTY] * len(keys):
        yield not_told(facts, *keys)
    else:
        words = "Install it before offloading to disk; training without that does not need it."
        shown = (*metadata(found, "deepspeed"), *nothing(*keys))
        yield warn("deepspeed is installed, libaio is not", words, "sudo apt-get install libaio-dev", evidence=shown)


CHECKS: tuple[Check, ...] = (
    of_machine(
        "python.requirements",
        requirements,
        reads="installed packages' metadata",
        rule="WARN when a framework's requirement is absent or of another version",
        fix="Install what is asked for, or give frameworks that contradict each other an environment each.",
        source="LlamaFactory#5763, ms-swift#7948",
    ),
    of_machine(
        "python.megatron",
        megatron,
        reads="the environment",
        rule="WARN when another Megatron comes first on PYTHONPATH",
        fix="Put MEGATRON_LM_PATH first.",
        source="ms-swift's NPU page, Q14",
        frameworks=("swift", "megatron"),
    ),
    of_machine(
        "python.libaio",
        libaio,
        reads="installed packages, libraries",
        rule="WARN when deepspeed is installed and no libaio.so is found",
        fix="Install libaio.",
        source="LlamaFactory#6646",
        frameworks=("llamafactory", "swift", "deepspeed"),
    ),
)
