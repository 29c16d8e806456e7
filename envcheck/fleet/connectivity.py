"""Whether a host answered, and if not, why: ssh's own words as a table.  The host's finding fleet.reach."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from envcheck.core.model import Finding, Remedy, Status
from envcheck.fleet.output import BYTES_LIMIT, LINES_LIMIT, HostOutput
from envcheck.report.contents import REACH

NAME = REACH
SOURCE = "OpenSSH's own messages, 7.4 to 9.9"
FAIL, UNKNOWN, WARN = Status.FAIL, Status.UNKNOWN, Status.WARN
SSH_FAILED = 255


@dataclass(frozen=True)
class Why:
    """`sign` is looked for in all that ssh said, in the order of the table; {host} stands for the host."""

    sign: str
    seen: str
    words: str
    command: str = ""
    status: Status = FAIL


SSH = (
    Why("REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key is not the one that this user knows",
        "Find out why first: a machine that was set up anew has a new key, and so has one that pretends. Then take the"
        " old key out and connect once by hand.", "ssh-keygen -R {host}"),
    Why("Host key verification failed|No .{0,40}host key is known|key is not known by any", "its host key is unknown",
        "Compare its key's fingerprint with the machine's own, by connecting once by hand.", "ssh {host} true"),
    Why("Could not resolve hostname|Name or service not known", "its name leads to no address",
        "Correct the name, or put it into DNS, /etc/hosts or ssh's configuration.", "getent hosts {host}"),
    Why(r"Permission denied \([^)]*(password|keyboard-interactive)", "it asks for a password, and nobody is there",
        "Put a key of this user there, or load the key into an agent.", "ssh-copy-id {host}"),
    Why("Permission denied|Too many authentication failures|no mutual signature|No supported authentication",
        "it accepts none of this user's keys", "Put a key of this user there; ssh -v says which were offered.",
        "ssh -v {host} true"),
    Why("Connection refused", "nobody listens at its ssh port", "Start sshd there, or name its port in ssh's"
        " configuration.", "ssh -v {host} true"),
    Why("Connection timed out|Operation timed out|No route to host|Network is unreachable|Host is down|timeout",
        "it cannot be reached", "Is it up, and the way to it open?", "ping -c 3 {host}"),
    Why("Unable to negotiate|no matching", "it speaks no kind of ssh that this machine takes",
        "Name what it has in ssh's configuration, or update its sshd.", "ssh -v {host} true"),
    Why("Bad configuration option|Bad owner or permissions|terminating,", "ssh does not read its configuration",
        "Mend ~/.ssh/config as ssh says.", "ssh -G {host}"),
    Why("Connection (closed|reset)|kex_exchange_identification|Broken pipe|Connection to .{1,80} closed",
        "the connection broke off", "Look at sshd's log there; too many at once: a smaller --fanout, or a larger"
        " MaxStartups there.", "ssh {host} true"),
)  # fmt: skip
WORDS = (
    Why("no-python", "it has no python3", "Install Python 3.6 or newer there; nothing else is needed.",
        "ssh {host} command -v python3"),
    Why("old-python", "its python3 is too old", "Put Python 3.6 or newer first on PATH there.",
        "ssh {host} python3 --version"),
    Why("no-new-python", "it has no Python 3.10 or newer, which provisioning and training want",
        "Put one on PATH there; a look at it (envcheck doctor --hosts) goes with 3.6.", "ssh {host} python3 --version"),
    Why("no-place", "it has no room for what travels (3 MB, 12 MB unpacked), neither at home nor in /tmp nor in"
        " /dev/shm", "Make room there.", "ssh {host} df -h"),
    Why("not-begun", "it was stopped before it began", "Repeat it with --resume.", "", UNKNOWN),
    Why("damaged", "what it received is not what was sent", "Ask again; look at what its login scripts read.",
        "ssh {host} true", UNKNOWN),
)  # fmt: skip


def reached(said: HostOutput) -> Finding:
    """OK where its document came; a login script that prints is told, since it breaks scp and launchers."""
    if said.answers is not None:
        return _noisy(said) if said.junk.strip() else _finding(said, Status.OK, f"answered in {said.elapsed_s:.1f} s")
    if said.unreadable:
        return unreadable(said, said.unreadable)
    return _told_by_word(said) or (_limits(said)) or _told_by_ssh(said) or _odd(said)


def broken(said: HostOutput) -> Finding:
    """Of a command there that did not tell how it ended."""
    return _told_by_word(said) or _limits(said) or _told_by_ssh(said) or _cut(said)


def _cut(said: HostOutput) -> Finding:
    how = "" if said.status is None else f" (status {said.status})"
    seen = f"the connection broke off{' after it had begun' if said.words else ''}{how}"
    return _finding(said, FAIL, seen, Remedy("Is it up?", (f"ssh {shlex.quote(said.host)} uptime",)))


def unreadable(said: HostOutput, why: str) -> Finding:
    """Its document came whole, and is none."""
    return _finding(said, UNKNOWN, f"it answered with no snapshot: {why}", Remedy("Is it really this machine?"))


def _told_by_word(said: HostOutput) -> Finding | None:
    told = " ".join(said.words[-1:])
    for why in WORDS:
        if told.startswith(why.sign):
            seen = f"{why.seen} ({told[len(why.sign) :].strip()})" if told[len(why.sign) :].strip() else why.seen
            return _finding(said, why.status, seen, _remedy(why, said.host))
    return None


def _limits(said: HostOutput) -> Finding | None:
    if said.flood:
        words = Remedy("Look at what its login scripts print.", (f"ssh {shlex.quote(said.host)} true | head",))
        return _finding(said, UNKNOWN, f"it sent more than {BYTES_LIMIT >> 20} MiB, or {LINES_LIMIT} lines", words)
    if said.hung:
        begun = "its probes" if said.words else "ssh, or a login script there,"
        words = Remedy(
            "Look for what hangs there (a dead mount, a tool in state D), or give it more time with --deadline.",
            (f"ssh {shlex.quote(said.host)} ps -eo pid,stat,etimes,args",),
        )
        return _finding(said, FAIL, f"no answer within {said.elapsed_s:.0f} s: {begun} hung", words)
    return None


def _told_by_ssh(said: HostOutput) -> Finding | None:
    if said.status != SSH_FAILED:
        return None
    after = "after it had begun, " if said.words else ""
    for why in SSH:
        if re.search(why.sign, said.err):
            return _finding(said, why.status, after + why.seen, _remedy(why, said.host))
    remedy = Remedy("Try it by hand.", (f"ssh -v {shlex.quote(said.host)} true",))
    return _finding(said, FAIL, f"{after}ssh failed", remedy)


def _odd(said: HostOutput) -> Finding:
    what = "a part of a snapshot" if said.words else "something else than a snapshot"
    words = "Look at what its login scripts do, and whether its account may run commands."
    remedy = Remedy(words, (f"ssh {shlex.quote(said.host)} python3 --version",))
    return _finding(said, UNKNOWN, f"it answered {what} (status {said.status})", remedy)


def _noisy(said: HostOutput) -> Finding:
    words = "Let its login scripts print on terminals alone: scp, rsync and launchers take this for their own data."
    remedy = Remedy(words, (f"ssh {shlex.quote(said.host)} true",))
    return _finding(said, WARN, "answered, and its login script prints to where no terminal is", remedy)


def _remedy(why: Why, host: str) -> Remedy:
    return Remedy(why.words, (why.command.format(host=shlex.quote(host)),) if why.command else ())


def _finding(said: HostOutput, status: Status, seen: str, remedy: Remedy | None = None) -> Finding:
    lines = [line for line in said.err.splitlines() if line.strip()][-1:] if status.is_problem else []
    noise = [line for line in said.junk.splitlines() if line.strip()][:2] if status.is_problem else []
    return Finding(NAME, status, seen, remedy, tuple(line[:300] for line in (*lines, *noise)), SOURCE)
