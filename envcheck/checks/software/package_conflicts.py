"""Checks of conflicts between packages that appear only during training."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.collect.questions import LIBAIO
from envcheck.core.check import Check, machine_check
from envcheck.core.derived.python_packages import find_job_packages, quote_metadata
from envcheck.core.facts import Facts
from envcheck.core.findings import ok, quote_nothing, quote_values, report_unanswered, skip, unknown, warn
from envcheck.core.messages import _, mark, verbatim
from envcheck.core.model import Finding, Outcome, diagnose, fix


def check_requirements(facts: Facts) -> Iterator[Finding]:
    """The requirements of the frameworks are installed in the required versions."""
    found = find_job_packages(facts)
    if found is None or found.unmet is None:
        yield (
            report_unanswered(facts, "ask packages")
            if found is None
            else unknown(_("package requirements were not checked"))
        )
    elif found.unmet:
        words = _(
            "Install the required versions, or a framework version that accepts the installed ones. "
            "Conflicting packages need separate environments."
        )
        more = _(" and {more} more", more=len(found.unmet) - 1) if len(found.unmet) > 1 else ""
        shown = quote_values("metadata", unmet="; ".join(found.unmet[:3]))
        yield warn(
            _("{first}{more}", first=found.unmet[0], more=more),
            diagnose(words, f"{found.executable or 'python3'} -m pip check"),
            evidence=shown,
        )
    else:
        yield ok(_("all package requirements are met"))


def check_megatron(facts: Facts) -> Iterator[Finding]:
    """PYTHONPATH finds the same Megatron as MEGATRON_LM_PATH."""
    around = facts.environment
    if around is None:
        yield report_unanswered(facts, "ask environment")
        return
    named = around.get("MEGATRON_LM_PATH", "").rstrip("/")
    path = [part.rstrip("/") for part in around.get("PYTHONPATH", "").split(":") if part]
    others = [part for part in path if "megatron" in part.lower() and part != named]
    if not named:
        yield skip(_("MEGATRON_LM_PATH is not set"))
    elif others and (named not in path or path.index(others[0]) < path.index(named)):
        words = _("Put MEGATRON_LM_PATH first on PYTHONPATH: Python uses the first match.")
        shown = quote_values("environment", MEGATRON_LM_PATH=named, PYTHONPATH=":".join(path))
        yield warn(
            _("{others} comes before {named}", others=others[0], named=named),
            fix(words, f"export PYTHONPATH={named}:$PYTHONPATH"),
            evidence=shown,
        )
    else:
        yield ok(verbatim(named))


def check_libaio(facts: Facts) -> Iterator[Finding]:
    """If DeepSpeed is installed, libaio is found; without it, offload to disk fails late."""
    found, keys = find_job_packages(facts), [question.key for question in LIBAIO]
    answers = [answer for key in keys if (answer := facts.answers.get(key))]
    there = next((answer for answer in answers if answer.ok), None)
    if found is None:
        yield report_unanswered(facts, "ask packages")
    elif "deepspeed" not in found.packages:
        yield skip(_("deepspeed is not installed"))
    elif there:
        yield ok(verbatim(there.out.split()[0]))
    elif [a.outcome for a in answers] != [Outcome.EMPTY] * len(keys):
        yield report_unanswered(facts, *keys)
    else:
        words = _("Install libaio before you offload to disk; other training does not need it.")
        shown = (*quote_metadata(found, "deepspeed"), *quote_nothing(*keys))
        yield warn(
            _("deepspeed is installed, but libaio is missing"),
            fix(words, "sudo apt-get install libaio-dev"),
            evidence=shown,
        )


CHECKS: tuple[Check, ...] = (
    machine_check(
        "python.requirements",
        check_requirements,
        reads="metadata of installed packages",
        rule="WARN if a requirement of a framework is missing or has another version",
        fix="Install the requirements, or give conflicting frameworks separate environments.",
        source="LlamaFactory#5763, ms-swift#7948",
    ),
    machine_check(
        "python.megatron",
        check_megatron,
        reads="environment variables",
        rule="WARN if another Megatron comes first on PYTHONPATH",
        fix="Put MEGATRON_LM_PATH first.",
        source=mark("ms-swift NPU page, Q14"),
        frameworks=("swift", "megatron"),
    ),
    machine_check(
        "python.libaio",
        check_libaio,
        reads="installed packages, libraries",
        rule="WARN if deepspeed is installed and no libaio.so is found",
        fix="Install libaio.",
        source="LlamaFactory#6646",
        frameworks=("llamafactory", "swift", "deepspeed"),
    ),
)
