"""`envcheck provision --hosts`: look at all, show once, ask once, perform with a fan-out, say how each host stands.

On each host it is the same verb, run there by the whole of envcheck, which travels: plan, journal, proof, repair of
what was cut off and undo are those of one machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from envcheck.core import errors
from envcheck.core.errors import UsageError
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import say
from envcheck.core.signals import unheard
from envcheck.fleet import runner
from envcheck.fleet.runner import Did
from envcheck.report.summary import safe
from installers.hosts import hosts_text, resume_state
from installers.hosts.hosts_text import HostOutcome
from installers.hosts.parse_plan import Looked, document, line_of, looked, reason
from installers.hosts.request import HostsRequest

BEGINS = "-> "  # what telling.Screen writes before a step


def provision(asked: HostsRequest) -> int:
    hosts = resume_state.missing(asked.said, list(asked.hosts)) if asked.resume else list(asked.hosts)
    if not hosts:
        click.echo(say("every host is done"), err=asked.as_json)
        return _finish(asked, [], "ready")
    stops = runner.Stops()
    seen = look(asked, hosts, stops)
    found = {one.host: _standing(one) for one in seen}
    able = [one for one in seen if one.able]
    _show(asked, seen)
    if stops.count:
        return _finish(asked, list(found.values()), "interrupted")
    if asked.dry_run or not able:
        return _finish(asked, list(found.values()), "planned" if able else "ready", whole=False)
    if not _agreed(asked, len(able)):
        declined = {one.host: HostOutcome(one.host, "declined", errors.UNFIT) for one in able}
        return _finish(asked, list({**found, **declined}.values()), "declined")
    resume_state.write(asked.said, {one.host: "begun" if one.able else one.state for one in seen})
    ended = perform(asked, able, stops)
    found |= {end.host: end for end in ended}
    resume_state.write(asked.said, {host: end.state for host, end in found.items()})
    return _finish(asked, list(found.values()), _result(ended))


def look(asked: HostsRequest, hosts: Sequence[str], stops: runner.Stops) -> list[Looked]:
    order = asked.order(hosts, "--dry-run", deadline_s=asked.deadline_s)
    return [looked(did) for did in runner.do(order, lambda host, line: None, stops=stops)]


def perform(asked: HostsRequest, able: Sequence[Looked], stops: runner.Stops) -> list[HostOutcome]:
    """Each host to its end, whatever becomes of the others; their lines as they come, with the host's name."""
    at: dict[str, str] = {}

    def hear(host: str, line: str) -> None:
        if line.startswith(BEGINS):
            at[host] = line.removeprefix(BEGINS)
        if host in at or line.startswith("envcheck: "):  # before its first step it shows the plan once more
            _aside(f"{host}: {_spoken(line)}")

    by_host = {one.host: one for one in able}
    order = asked.order([*by_host], "--yes")
    return [_end(did, by_host[did.host], at.get(did.host, ""), stops) for did in runner.do(order, hear, stops=stops)]


def _end(did: Did, one: Looked, at: str, stops: runner.Stops) -> HostOutcome:
    said = document(did.text)
    if did.code is None:
        state, code = ("lost", errors.STEP_FAILED) if did.begun else ("not-begun", errors.STEP_FAILED)
        if stops.count:
            state, code = ("interrupted" if did.begun else "not-begun"), errors.INTERRUPTED
        return HostOutcome(did.host, state, code, reason(did), at, one.journal, said)
    if did.code == errors.INTERRUPTED or (did.code < 0 and stops.count):
        return HostOutcome(did.host, "interrupted", errors.INTERRUPTED, "", at, one.journal, said)
    result = str(said.get("result", "")) if said else ""
    state = result if did.code in (errors.FIT, errors.UNFIT) and result else "failed"
    seen = "" if state in hosts_text.WELL else _error(said) or reason(did)
    return HostOutcome(did.host, state, did.code if did.code >= 0 else errors.STEP_FAILED, seen, at, one.journal, said)


def _error(said: object) -> str:
    return str(said.get("error") or "") if isinstance(said, dict) else ""


def _standing(one: Looked) -> HostOutcome:
    return HostOutcome(one.host, one.state, one.code, one.seen, journal=one.journal, document=one.document)


def _result(ended: Sequence[HostOutcome]) -> str:
    states = {end.state for end in ended}
    if "interrupted" in states:
        return "interrupted"
    return "done" if states <= set(hosts_text.WELL) else "failed"


def _show(asked: HostsRequest, seen: Sequence[Looked]) -> None:
    """Whoever is asked must have seen it; a program reads it in the document."""
    if asked.as_json and asked.dry_run:
        return
    click.echo("\n".join(hosts_text.plans(seen)), err=asked.as_json)
    for one in seen:
        if one.state in ("unreached", "refused"):
            click.echo(say("{}, left out: {}").format(one.host, say(safe(one.seen))), err=asked.as_json)


def _agreed(asked: HostsRequest, count: int) -> bool:
    if asked.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("there is nobody to ask", "add --yes to do what the plan says, or --dry-run to only see it")
    return click.confirm(say(f"Do this on {count} host{'s' if count > 1 else ''}?"), err=asked.as_json)


def _finish(asked: HostsRequest, found: Sequence[HostOutcome], result: str, whole: bool = True) -> int:
    """`whole`: with how each host stands; a plan alone has said it."""
    code = errors.INTERRUPTED if result == "interrupted" else hosts_text.code(found)
    if asked.as_json:
        click.echo(json.dumps(hosts_text.document(found, result, code), indent=1))
        return code
    if whole and found:
        click.echo("\n".join(hosts_text.ends(found)))
    missing = [end.host for end in found if end.state not in (*resume_state.DONE, "planned", "declined")]
    if missing and whole:
        options = f"{asked.said} --hosts {fold_hosts(asked.hosts)} --resume".strip()
        click.echo(say("Next: see to {}, then envcheck provision {}").format(fold_hosts(missing), options))
    return code


def _spoken(line: str) -> str:
    """What a host says in English of a step, in the language that was chosen here."""
    margin, words = (BEGINS, line.removeprefix(BEGINS)) if line.startswith(BEGINS) else ("", line)
    return f"{margin}{say(words)}"


def _aside(text: str) -> None:
    with unheard():
        print(line_of(text), file=sys.stderr, flush=True)
