"""Plans and outcomes of many hosts as text and JSON, with equal hosts grouped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from envcheck.core import errors
from envcheck.core.errors import outcome_fields
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import translate
from envcheck.core.language.width import display_width
from envcheck.core.messages import _, mark
from envcheck.core.version import SCHEMA_VERSION
from envcheck.report.summary import safe
from installers.hosts.remote_plan import HostPlan

# Every state of a host, as the outcomes show it.
STATES = (
    *(mark("planned"), mark("ready"), mark("manual"), mark("blocked"), mark("unreached"), mark("refused")),
    *(mark("declined"), mark("not-started"), mark("done"), mark("failed"), mark("lost"), mark("interrupted")),
    *(mark("removed"), mark("absent")),
)
WELL = ("done", "ready", "planned", "removed", "absent")
# Exit codes from worst to best: the worst one of all hosts is the exit code of the command.
WORST = (errors.INTERRUPTED, errors.BUG, errors.STEP_FAILED, errors.CHECK_FAILED, errors.USAGE, errors.UNDETERMINED)


@dataclass(frozen=True)
class HostOutcome:
    """The outcome of one host; `seen` is the reason of a failure, `at` the last step that started there."""

    host: str
    state: str
    code: int
    seen: str = ""
    at: str = ""
    journal: str = ""
    document: Any = None


def render_plans(plans: Sequence[HostPlan]) -> Iterator[str]:
    """Yield the most frequent plan in full, and of the other plans the differences to it."""
    groups: dict[tuple[str, ...], list[HostPlan]] = {}
    for plan in plans:
        if plan.plan is not None:
            groups.setdefault(plan.comparable_lines, []).append(plan)
    ranked = sorted(groups.items(), key=lambda pair: -len(pair[1]))
    for number, (lines, same) in enumerate(ranked):
        hosts = fold_hosts(plan.host for plan in same)
        if number == 0:
            own = len({plan.plan.folder for plan in same if plan.plan}) > 1
            yield translate(_("{hosts}, each in its own folder:", hosts=hosts) if own else _("{hosts}:", hosts=hosts))
            yield from (f"  {line}" for line in same[0].render_lines())
        else:
            yield translate(_("{hosts}, differences:", hosts=hosts))
            yield from _diff_lines(lines, ranked[0][0])


def _diff_lines(here: Sequence[str], most: Sequence[str]) -> Iterator[str]:
    yield from (f"  + {line}" for line in here if line not in most)
    yield from (f"  - {line}" for line in most if line not in here)


def render_outcomes(found: Sequence[HostOutcome]) -> Iterator[str]:
    """Yield one line for all hosts with the same outcome."""
    groups: dict[tuple[str, str], list[HostOutcome]] = {}
    for end in found:
        groups.setdefault((end.state, _describe_outcome(end)), []).append(end)
    for (state, words), same in sorted(groups.items(), key=lambda pair: (pair[0][0] not in WELL, -len(pair[1]))):
        hosts = fold_hosts(end.host for end in same)
        text = translate(_("{hosts}: {reason}", hosts=hosts, reason=words)) if words else hosts
        yield f"{pad_state(state)}{text}"
        if state in ("failed", "lost", "interrupted") and same[0].journal:
            yield f"{'':12}{translate(_('journal on that host: {path}', path=safe(same[0].journal)))}"


def pad_state(state: str, wide: int = 12) -> str:
    """Return the state of a host, padded to `wide` columns."""
    label = translate(state)
    return label + " " * max(1, wide - display_width(label))


def _describe_outcome(end: HostOutcome) -> str:
    reason, step = translate(end.seen).strip(), translate(end.at) if end.state != "done" else ""
    if not step:
        return safe(reason)
    message = _("{reason} (step: {step})", reason=reason, step=step) if reason else _("(step: {step})", step=step)
    return safe(translate(message))


def worst_exit_code(found: Sequence[HostOutcome]) -> int:
    """Return the exit code of the command: the worst one of all hosts."""
    codes = {end.code for end in found}
    return next((code for code in WORST if code in codes), max(codes, default=errors.SUCCESS))


def _first_failure(found: Sequence[HostOutcome]) -> tuple[str, str]:
    bad = next((end for end in found if end.code), None)
    return (f"{bad.host}: {safe(bad.seen) or bad.state}", "") if bad else ("interrupted", "")


def build_document(found: Sequence[HostOutcome], result: str, exit_code: int) -> dict[str, Any]:
    """Return the document of --json; `result` is planned, ready, declined, done, failed or interrupted."""
    return {
        "schema": SCHEMA_VERSION,
        "verb": "provision",
        "result": result,
        **outcome_fields(exit_code, *_first_failure(found)),
        "hosts": {
            end.host: {
                "state": end.state,
                "exit_code": end.code,
                "seen": safe(end.seen),
                "step": safe(end.at),
                "journal": safe(end.journal),
                "document": end.document,
            }
            for end in found
        },
    }
