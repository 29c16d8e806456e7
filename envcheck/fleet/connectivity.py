"""Whether a host responded and, if not, why, from a table of ssh messages: the finding fleet.reach of each host."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from envcheck.core.messages import Message, _
from envcheck.core.model import Finding, Remedy, Status, diagnose, manual
from envcheck.fleet.output import BYTES_LIMIT, LINES_LIMIT, HostOutput
from envcheck.report.contents import REACH

NAME = REACH
SOURCE = "OpenSSH's own messages, 7.4 to 9.9"
FAIL, UNKNOWN, WARN = Status.FAIL, Status.UNKNOWN, Status.WARN
SSH_FAILED = 255


@dataclass(frozen=True)
class FailureReason:
    """A cause of failure; `sign` is searched in ssh's output, in table order; {host} stands for the host."""

    sign: str
    seen: Message
    words: Message
    command: str = ""
    status: Status = FAIL


SSH = (
    FailureReason(
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        _("host key differs from the one in known_hosts"),
        _(
            "Find out why the key changed: a reinstalled machine has a new key, but so does an "
            "impostor. Then remove the old key and connect once manually."
        ),
        "ssh-keygen -R {host}",
    ),
    FailureReason(
        "Host key verification failed|No .{0,40}host key is known|key is not known by any",
        _("host key unknown"),
        _("Connect once manually and compare the key fingerprint with the host's own."),
        "ssh {host} true",
    ),
    FailureReason(
        "Could not resolve hostname|Name or service not known",
        _("host name does not resolve"),
        _("Correct the name, or add it to DNS, /etc/hosts or the ssh configuration."),
        "getent hosts {host}",
    ),
    FailureReason(
        r"Permission denied \([^)]{0,200}(password|keyboard-interactive)",
        _("ssh asks for a password, but envcheck runs non-interactively"),
        _("Install this user's public key on the host, or load the key into an ssh agent."),
        "ssh-copy-id {host}",
    ),
    FailureReason(
        "Permission denied|Too many authentication failures|no mutual signature|No supported authentication",
        _("host accepts none of this user's keys"),
        _("Install this user's public key on the host; ssh -v lists the keys that were offered."),
        "ssh -v {host} true",
    ),
    FailureReason(
        "Connection refused",
        _("ssh port refuses connections"),
        _("Start sshd on the host, or set its port in the ssh configuration."),
        "ssh -v {host} true",
    ),
    FailureReason(
        "Connection timed out|Operation timed out|No route to host|Network is unreachable|Host is down|timeout",
        _("host unreachable"),
        _("Check that the host is up and the network path is open."),
        "ping -c 3 {host}",
    ),
    FailureReason(
        "Unable to negotiate|no matching",
        _("no ssh algorithm in common with this machine"),
        _("Allow its algorithms in the ssh configuration, or update its sshd."),
        "ssh -v {host} true",
    ),
    FailureReason(
        "Bad configuration option|Bad owner or permissions|terminating,",
        _("ssh cannot read its configuration"),
        _("Correct ~/.ssh/config as the ssh error describes."),
        "ssh -G {host}",
    ),
    FailureReason(
        "Connection (closed|reset)|kex_exchange_identification|Broken pipe|Connection to .{1,80} closed",
        _("connection lost"),
        _(
            "Read the sshd log on the host. If too many connections start at once, reduce --fanout or "
            "raise MaxStartups on the host."
        ),
        "ssh {host} true",
    ),
)
WORDS = (
    FailureReason(
        "no-python",
        _("python3 not found on the host"),
        _("Install Python 3.6 or newer on the host; no other software is required."),
        "ssh {host} command -v python3",
    ),
    FailureReason(
        "old-python",
        _("python3 on the host is too old"),
        _("Put Python 3.6 or newer first on PATH on the host."),
        "ssh {host} python3 --version",
    ),
    FailureReason(
        "no-new-python",
        _("Python 3.10 or newer not found on the host; provisioning and training require it"),
        _("Put Python 3.10 or newer on PATH on the host; envcheck doctor --hosts needs only 3.6."),
        "ssh {host} python3 --version",
    ),
    FailureReason(
        "no-place",
        _("not enough space for the payload (3 MB, 12 MB unpacked) in the home directory, /tmp or /dev/shm"),
        _("Free up space on the host."),
        "ssh {host} df -h",
    ),
    FailureReason(
        "not-started", _("stopped before it started"), _("Run the command again with --unfinished."), "", UNKNOWN
    ),
    FailureReason(
        "damaged",
        _("received data differs from the data sent"),
        _("Try again; check whether its login scripts read standard input."),
        "ssh {host} true",
        UNKNOWN,
    ),
)


def judge_answer(output: HostOutput) -> Finding:
    """Return OK if the host sent its facts; warn if a login script prints, because that breaks scp and launchers."""
    if output.answers is not None:
        return (
            _describe_noisy_login(output)
            if output.junk.strip()
            else _build_finding(output, Status.OK, _("responded in {elapsed_s:.1f} s", elapsed_s=output.elapsed_s))
        )
    if output.unreadable:
        return describe_unreadable_answer(output, output.unreadable)
    return (
        _match_marked_word(output)
        or (_check_limits(output))
        or _match_ssh_message(output)
        or _describe_strange_answer(output)
    )


def judge_broken_command(output: HostOutput) -> Finding:
    """Return the finding for a remote command whose end is unknown."""
    return (
        _match_marked_word(output)
        or _check_limits(output)
        or _match_ssh_message(output)
        or _describe_lost_connection(output)
    )


def _describe_lost_connection(output: HostOutput) -> Finding:
    seen = _("connection lost after the check started") if output.words else _("connection lost")
    if output.status is not None:
        seen = _("{problem} (exit code {status})", problem=seen, status=output.status)
    return _build_finding(
        output, FAIL, seen, diagnose(_("Check that the host is up."), f"ssh {shlex.quote(output.host)} uptime")
    )


def describe_unreadable_answer(output: HostOutput, why: Message) -> Finding:
    """Return the finding for a complete response that is not a snapshot."""
    return _build_finding(
        output,
        UNKNOWN,
        _("response is not a snapshot: {why}", why=why),
        manual(_("Check that the name refers to the intended host.")),
    )


def _match_marked_word(output: HostOutput) -> Finding | None:
    progress = " ".join(output.words[-1:])
    for why in WORDS:
        if progress.startswith(why.sign):
            seen = (
                _("{problem} ({detail})", problem=why.seen, detail=progress[len(why.sign) :].strip())
                if progress[len(why.sign) :].strip()
                else why.seen
            )
            return _build_finding(output, why.status, seen, _build_remedy(why, output.host))
    return None


def _check_limits(output: HostOutput) -> Finding | None:
    if output.flood:
        words = diagnose(_("Check what its login scripts print."), f"ssh {shlex.quote(output.host)} true | head")
        return _build_finding(
            output,
            UNKNOWN,
            _(
                "output exceeds {bytes_limit} MiB or {lines_limit} lines",
                bytes_limit=BYTES_LIMIT >> 20,
                lines_limit=LINES_LIMIT,
            ),
            words,
        )
    return _describe_deadline(output) if output.hung else None


def _describe_deadline(output: HostOutput) -> Finding:
    """The deadline ended the host: it was slow if it still sent results, else it hung."""
    processes = f"ssh {shlex.quote(output.host)} ps -eo pid,stat,etimes,args"
    if output.is_slow:
        slow = _("slow: not finished within {elapsed_s:.0f} s, but at work until then", elapsed_s=output.elapsed_s)
        return _build_finding(output, FAIL, slow, manual(_("Increase --host-timeout, or decrease --fanout.")))
    program = _("the collector") if output.words else _("ssh or a login script")
    words = _("Find the process that hangs on the host (a stale mount, a tool in state D), or increase --host-timeout.")
    seen = _(
        "no response within {elapsed_s:.0f} s: {program} did not finish", elapsed_s=output.elapsed_s, program=program
    )
    return _build_finding(output, FAIL, seen, diagnose(words, processes))


def _match_ssh_message(output: HostOutput) -> Finding | None:
    if output.status != SSH_FAILED:
        return None
    for why in SSH:
        if re.search(why.sign, output.err):
            seen = _("after the check started: {problem}", problem=why.seen) if output.words else why.seen
            return _build_finding(output, why.status, seen, _build_remedy(why, output.host))
    remedy = diagnose(_("Test it manually."), f"ssh -v {shlex.quote(output.host)} true")
    return _build_finding(
        output, FAIL, _("ssh failed after the check started") if output.words else _("ssh failed"), remedy
    )


def _describe_strange_answer(output: HostOutput) -> Finding:

    words = _("Check its login scripts, and whether the account may run commands.")
    remedy = diagnose(words, f"ssh {shlex.quote(output.host)} python3 --version")
    seen = (
        _("returned an incomplete snapshot (exit code {status})", status=output.status)
        if output.words
        else _("returned no snapshot (exit code {status})", status=output.status)
    )
    return _build_finding(output, UNKNOWN, seen, remedy)


def _describe_noisy_login(output: HostOutput) -> Finding:
    words = _("Make its login scripts print only on terminals: scp, rsync and launchers read this output as data.")
    remedy = diagnose(words, f"ssh {shlex.quote(output.host)} true")
    return _build_finding(output, WARN, _("responded, but a login script prints output without a terminal"), remedy)


def _build_remedy(why: FailureReason, host: str) -> Remedy:
    return diagnose(why.words, *((why.command.format(host=shlex.quote(host)),) if why.command else ()))


def _build_finding(output: HostOutput, status: Status, seen: Message, remedy: Remedy | None = None) -> Finding:
    lines = [line for line in output.err.splitlines() if line.strip()][-1:] if status.is_problem else []
    noise = [line for line in output.junk.splitlines() if line.strip()][:2] if status.is_problem else []
    return Finding(NAME, status, seen, remedy, tuple(line[:300] for line in (*lines, *noise)), SOURCE)
