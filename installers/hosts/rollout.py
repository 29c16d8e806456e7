"""`envcheck provision --hosts`: collect the plans, show them, ask once, run on all hosts, and report the outcomes.

envcheck is copied to each host and runs `envcheck provision` there, so planning, journal, verification, repair and undo
work as on a single machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from envcheck.core import errors
from envcheck.core.errors import UsageError
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import translate
from envcheck.core.messages import NOTHING, Message, _, ngettext
from envcheck.core.signals import tolerate_lost_output
from envcheck.fleet import runner
from envcheck.fleet.runner import CommandOutcome
from envcheck.report.summary import safe
from installers.hosts import presentation, resume_state
from installers.hosts.presentation import HostOutcome
from installers.hosts.provision_request import HostsRequest
from installers.hosts.remote_plan import (
    HostPlan,
    explain_failure,
    parse_answer,
    parse_document,
    read_message,
    sanitize_line,
)
from installers.output.plan_text import STEP_MARK


def provision_hosts(asked: HostsRequest) -> int:
    """Provision the hosts and return the exit code."""
    hosts = resume_state.list_unfinished(asked.said, list(asked.hosts)) if asked.unfinished else list(asked.hosts)
    if not hosts:
        click.echo(translate(_("all hosts are done")), err=asked.as_json)
        return _report_outcome(asked, [], "ready")
    stops = runner.StopRequests()
    seen = collect_plans(asked, hosts, stops)
    found = {one.host: _outcome_from_plan(one) for one in seen}
    able = [one for one in seen if one.is_actionable]
    _show_plans(asked, seen)
    if stops.count:
        return _report_outcome(asked, list(found.values()), "interrupted")
    if asked.dry_run or not able:
        return _report_outcome(asked, list(found.values()), "planned" if able else "ready", whole=False)
    if not _ask_agreement(asked, len(able)):
        declined = {one.host: HostOutcome(one.host, "declined", errors.CHECK_FAILED) for one in able}
        return _report_outcome(asked, list({**found, **declined}.values()), "declined")
    resume_state.save_states(asked.said, {one.host: "begun" if one.is_actionable else one.plan_state for one in seen})
    ended = run_on_hosts(asked, able, stops)
    found |= {end.host: end for end in ended}
    resume_state.save_states(asked.said, {host: end.state for host, end in found.items()})
    return _report_outcome(asked, list(found.values()), _summarize_result(ended))


def collect_plans(asked: HostsRequest, hosts: Sequence[str], stops: runner.StopRequests) -> list[HostPlan]:
    """Return the plan of each host from a dry run there."""
    order = asked.build_order(hosts, "--dry-run", deadline_s=asked.deadline_s)
    return [parse_answer(outcome) for outcome in runner.run_commands(order, lambda host, line: None, stops=stops)]


def run_on_hosts(asked: HostsRequest, able: Sequence[HostPlan], stops: runner.StopRequests) -> list[HostOutcome]:
    """Provision the hosts independently of each other and return the outcomes; shows their output with their names."""
    at: dict[str, str] = {}

    def hear(host: str, line: str) -> None:
        if line.startswith(STEP_MARK):
            at[host] = line.removeprefix(STEP_MARK)
        if host in at or line.startswith("envcheck: "):  # the lines before the first step are the plan again
            _print_stderr(f"{host}: {_translate_line(line, by_host[host])}")

    by_host = {one.host: one for one in able}
    order = asked.build_order([*by_host], "--yes")
    return [
        _describe_outcome(did, by_host[did.host], at.get(did.host, ""), stops)
        for did in runner.run_commands(order, hear, stops=stops)
    ]


def _describe_outcome(outcome: CommandOutcome, plan: HostPlan, at: str, stops: runner.StopRequests) -> HostOutcome:
    document, host, journal = parse_document(outcome.text), outcome.host, plan.journal_path
    at = _find_title(at, plan)
    if outcome.code is None:
        state, code = ("lost", errors.STEP_FAILED) if outcome.begun else ("not-started", errors.STEP_FAILED)
        if stops.count:
            state, code = ("interrupted" if outcome.begun else "not-started"), errors.INTERRUPTED
        return HostOutcome(host, state, code, explain_failure(outcome), at, journal, document)
    if outcome.code == errors.INTERRUPTED or (outcome.code < 0 and stops.count):
        return HostOutcome(host, "interrupted", errors.INTERRUPTED, "", at, journal, document)
    result = str(document.get("result", "")) if document else ""
    state = result if outcome.code in (errors.SUCCESS, errors.CHECK_FAILED) and result else "failed"
    seen = "" if state in presentation.WELL else _read_error(document) or explain_failure(outcome)
    code = outcome.code if outcome.code >= 0 else errors.STEP_FAILED
    return HostOutcome(host, state, code, seen, at, journal, document)


def _read_error(document: dict[str, Any] | None) -> Message:
    return read_message(document, document["error"]) if document and document.get("error") else NOTHING


def _outcome_from_plan(one: HostPlan) -> HostOutcome:
    return HostOutcome(
        one.host, one.plan_state, one.code, one.blocking_reason, journal=one.journal_path, document=one.document
    )


def _summarize_result(ended: Sequence[HostOutcome]) -> str:
    states = {end.state for end in ended}
    if "interrupted" in states:
        return "interrupted"
    return "done" if states <= set(presentation.WELL) else "failed"


def _show_plans(asked: HostsRequest, seen: Sequence[HostPlan]) -> None:
    """Print the plans before the confirmation; with --json and --dry-run they are only in the document."""
    if asked.as_json and asked.dry_run:
        return
    click.echo("\n".join(presentation.render_plans(seen)), err=asked.as_json)
    for one in seen:
        if one.plan_state in ("unreached", "refused"):
            click.echo(
                translate(_("{host} excluded: {reason}", host=one.host, reason=translate(safe(one.blocking_reason)))),
                err=asked.as_json,
            )


def _ask_agreement(asked: HostsRequest, count: int) -> bool:
    if asked.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(
            _("cannot ask for confirmation: no terminal"),
            _("add --yes to carry out the plan, or --dry-run to print it only"),
        )
    return click.confirm(
        translate(ngettext("Continue on {count} host?", "Continue on {count} hosts?", count)), err=asked.as_json
    )


def _report_outcome(asked: HostsRequest, found: Sequence[HostOutcome], result: str, whole: bool = True) -> int:
    """Print the outcomes and return the exit code; without `whole` (a dry run) the plans were already printed."""
    code = errors.INTERRUPTED if result == "interrupted" else presentation.worst_exit_code(found)
    if asked.as_json:
        click.echo(json.dumps(presentation.build_document(found, result, code), indent=1))
        return code
    if whole and found:
        click.echo("\n".join(presentation.render_outcomes(found)))
    missing = [end.host for end in found if end.state not in (*resume_state.DONE, "planned", "declined")]
    if missing and whole:
        options = f"{asked.said} --hosts {fold_hosts(asked.hosts)} --unfinished".strip()
        click.echo(
            translate(
                _(
                    "Next: fix {hosts}, then run `envcheck provision {options}`",
                    hosts=fold_hosts(missing),
                    options=options,
                )
            )
        )
    return code


def _translate_line(line: str, plan: HostPlan) -> str:
    """Return a host's English progress line in the language chosen here: the title of a step, or a fixed text."""
    margin = STEP_MARK if line.startswith(STEP_MARK) else ""
    return f"{margin}{translate(_find_title(line.removeprefix(margin), plan))}"


def _find_title(text: str, plan: HostPlan) -> str:
    """Return the title of the plan's step with this English text, else the text."""
    titles = (step.title for step in plan.plan.steps) if plan.plan else ()
    return next((title for title in titles if title == text), text)


def _print_stderr(text: str) -> None:
    with tolerate_lost_output():
        print(sanitize_line(text), file=sys.stderr, flush=True)
