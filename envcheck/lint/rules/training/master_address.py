"""Rules about the first node's address and port."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import parse_integer
from envcheck.core.lint.remark_builders import fail, unknown, warn, warn_or_fail
from envcheck.core.lint.script_model import UNKNOWN, Remark
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _
from envcheck.lint.rules.training.multi_node import (
    describe_setting,
    gets_nodes_in_container,
    gets_same_arguments_everywhere,
    has_other_config_file,
    is_multi_node,
    is_started_remotely,
    reads_role_variable,
)

_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?|0\.0\.0\.0)(:\d+)?")
_ADDRESS = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})(?::(\d+))?")
_VARIABLE = re.compile(r"[\"']?\$\{?(\w+)\}?")
_ARGUMENT = re.compile(r"[\"']?(?:\$([1-9])|\$\{([1-9])(?::?-)?\})[\"']?")  # also ${1:-}: empty without it
_OWN_ADDRESS = re.compile(r"(?:\$\(|`)\s*hostname\b[^)`$]{0,80}[)`]")


_OTHER_NODES = _("Give the other nodes the address of node 0 that they can reach.")


def find_loopback_master(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        master = job.find_launch_value("master")
        if (
            master is not None
            and is_multi_node(job)
            and _OWN_ADDRESS.search(master.raw)
            and _runs_on_each_node(context, job)
        ):
            seen = _(
                "the job has {nodes} nodes, and each uses its own address as the master address", nodes=job.node_count
            )
            yield fail(master, seen, _("Use the address of node 0 that the other nodes can reach."))
            continue
        if not is_multi_node(job) or master is None or not _LOOPBACK.fullmatch(master.text):
            continue
        rank = job.find_launch_value("rank")
        if rank is not None and rank.known_text == "0":
            yield warn(master, _("{master} works for node 0 only", master=master.text), _OTHER_NODES)
            continue
        seen = _(
            "the job has {nodes} nodes, but the master is {master}: each node connects to itself and waits",
            nodes=job.node_count,
            master=master.text,
        )
        yield warn_or_fail(
            not master.soft, master, seen, _("Use the address of node 0 that the other nodes can reach.")
        )


def _runs_on_each_node(context: LintContext, job: TrainingJob) -> bool:
    """Whether each node runs these lines itself: the rank comes from outside."""
    rank = job.find_launch_value("rank")
    batch = any(text.startswith("#SBATCH") for _unused, _unused, text in job.script.comments)
    return (
        not batch
        and not context.document
        and (rank is None or parse_integer(rank.known_text) is None)
        and not is_started_remotely(job)
    )


def _find_unchecked_argument(job: TrainingJob) -> Iterator[Remark]:
    """Find a master address that is an argument of the script, which nothing requires: --master $1:8090."""
    master = job.find_launch_value("master")
    if master is None or job.command.function or "nounset" in job.command.shell:
        return
    if master.is_known and master.text.partition(":")[0]:
        return
    address = _VARIABLE.match(master.raw)
    name = address[1] if address else ""
    values = [each.word.raw for each in job.script.assigns if each.name == name and each.start < job.start]
    argument = _ARGUMENT.fullmatch(values[-1] if values else f"${name}")
    number = (argument[1] or argument[2]) if argument else ""
    if not number or _is_tested(job, number, name):
        return
    seen = _(
        "without argument {number}, the master address is empty: the launcher gets {text}",
        number=number,
        text=master.text.replace(UNKNOWN, "") or '""',
    )
    yield warn(master, seen, _("Write {expansion}.", expansion=f"${{{number}:?master address}}"))


def _is_tested(job: TrainingJob, number: str, name: str) -> bool:
    """Whether the script counts its arguments, or tests this one or its variable."""
    either = rf"\$\{{?(?:{number}|{re.escape(name)})"
    # An expansion with a default counts, but not ${1:-}, which is empty as well.
    given = rf"{either}:?(?:[?+=]|-(?!\}}))"
    pattern = rf"\$#|\bgetopts?\b|\bshift\b|{given}|(?:-[nz]|\[\[?) +\"?{either}\b"
    return re.search(pattern, job.script.block.raw.decode("utf-8", "replace")) is not None


def find_missing_master(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        yield from _find_unchecked_argument(job)
        if _lacks_host_list(context, job):
            seen = _(
                "the job has {nodes} nodes but no host list: deepspeed starts on this node only", nodes=job.node_count
            )
            yield warn(
                job.find_launch_value("nodes") or job,
                seen,
                _("Add --hostfile FILE with one line per node: HOST slots=DEVICES."),
            )
        if not is_multi_node(job) or job.open or job.find_launcher_option("hostfile", "ips", "standalone"):
            continue
        if is_started_remotely(job) and not (
            gets_nodes_in_container(context, job)
            or (gets_same_arguments_everywhere(job) and job.launcher.master_default)
        ):
            continue
        if (
            job.launcher.name in ("deepspeed", "python")
            or has_other_config_file(context, job)
            or job.find_launcher_option("deepspeed_hostfile")
            or job.find_launch_value("master") is not None
            or reads_role_variable(job, "master")
        ):
            continue
        if job.launcher.options.get("master") or job.launcher.variables.get("master"):
            usual = job.launcher.master_default
            if job.program is None and job.launcher.program:
                place = job.find_launch_value("nodes") or job
                do = _("Set it here, or pass --main_process_ip ADDRESS with --config_file.")
                yield warn(
                    place, _("the job has {nodes} machines, but main_process_ip is missing", nodes=job.node_count), do
                )
                continue
            if usual:
                seen = _(
                    "the job has {nodes} nodes but no master address: each node uses {default} and waits for itself",
                    nodes=job.node_count,
                    default=usual,
                )
            else:
                seen = _("the job has {nodes} nodes but no master address", nodes=job.node_count)
            yield fail(
                job.find_launch_value("nodes") or job,
                seen,
                _("Add {setting}.", setting=describe_setting(job, "master", "ADDRESS")),
            )


def _lacks_host_list(context: LintContext, job: TrainingJob) -> bool:
    """deepspeed knows other nodes only by a host list, also searched in /job (its launcher/constants.py)."""
    if job.launcher.name != "deepspeed" or not is_multi_node(job) or job.open or job.command.elsewhere:
        return False
    told = job.find_launcher_option("hostfile", "node_rank", "no_ssh", "include", "exclude", "launcher")
    return told is None and not context.machine.path_exists("/job/hostfile")


def find_foreign_master(context: LintContext) -> Iterator[Remark]:
    """Compare a fixed master address with the addresses of this machine."""
    for job in context.jobs:
        master = job.find_launch_value("master")
        match = _ADDRESS.fullmatch(master.text) if master else None
        if (
            job.command.elsewhere
            or master is None
            or match is None
            or _LOOPBACK.fullmatch(master.text)
            or not job.is_training
        ):
            continue
        there = context.machine.interfaces
        rank = parse_integer(told.known_text) if (told := job.find_launch_value("rank")) else None
        if rank not in (None, 0):
            continue
        own = {address.partition("/")[0] for each in (there or {}).values() for address in each}
        if there is not None and context.is_for_this_machine is not False and match[1] in own:
            continue
        do = _("Use the address of your own first node.")
        if job.node_count == 1 and there is not None and context.is_for_this_machine:
            yield fail(
                master,
                _("the job has one node, but its master address {match} does not belong to this host", match=match[1]),
                do,
            )
        else:
            seen = _(
                "cannot determine whether {match} is your first node: the address does not belong to this host",
                match=match[1],
            )
            yield unknown(
                master,
                seen if there is not None else _("not checked whether {match} is your first node", match=match[1]),
                do,
            )


# URLs that a launcher accepts as the master.  Source: paddle/distributed/launch/controllers/master.py.
_ACCEPTED_URLS = {"paddle.distributed.launch": "etcd://"}


def find_url_as_master(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        address = job.find_launch_value("master")
        accepted = _ACCEPTED_URLS.get(job.launcher.name, "://")
        if address is None or "://" not in (address.known_text or "") or address.text.startswith(accepted):
            continue
        seen = _("{address} is a URL, not a host name or address", address=address.text[:60])
        yield fail(address, seen, _("Write the host without the part before //."))


def _find_shared_ports(context: LintContext) -> Iterator[Remark]:
    """Find trainings that run at the same time on this host, with the same port."""
    before: TrainingJob | None = None
    for job in context.jobs:
        port = job.find_launch_value("port")
        both = before is not None and before.command.background and not _waits_between(before, job)
        earlier = before.find_launch_value("port") if before is not None and both else None
        if port and port.known_text and port.text != "0" and _runs_repeatedly(context, job):
            seen = _(
                "each iteration of the loop starts a training in the background with the same port {port}",
                port=port.text,
            )
            yield warn(port, seen, _("Give each training its own port."))
        if earlier and port and port.known_text and port.text == earlier.known_text and port.text != "0":
            seen = _("port {port} is in use by the training in the background that started before", port=port.text)
            yield fail(port, seen, _("Give each training its own port."))
        before = job if job.is_training and job.node_count == 1 and not job.command.elsewhere else None


def _runs_repeatedly(context: LintContext, job: TrainingJob) -> bool:
    """Whether a loop starts it in the background of this host, and waits for nothing."""
    command = job.command
    names = {each.name for each in job.script.commands if each.loop}
    alone = all(each.command.background for each in context.jobs if each.command.loop)
    repeated = command.loop and command.background and alone and names.isdisjoint((*_ENDING, "break", "read"))
    here = not command.elsewhere and not context.is_remote(job) and context.find_container(job) is None
    return repeated and here and job.is_training and job.node_count == 1


def _waits_between(one: TrainingJob, other: TrainingJob) -> bool:
    between = range(one.command.order + 1, other.command.order)
    apart = one.script is not other.script or one.command.branch or other.command.branch
    names = {each.name for each in one.script.commands if each.order in between}
    return apart or other.command.function != one.command.function or not names.isdisjoint(_ENDING)


_ENDING = ("wait", "kill", "pkill", "sleep", "exit", "tail", "pgrep")


def find_wrong_ports(context: LintContext) -> Iterator[Remark]:
    yield from _find_shared_ports(context)
    for job in context.jobs:
        word = job.find_launch_value("port") or job.find_launch_value("master")
        if word is None or not word.is_known:
            continue
        found = re.fullmatch(r"(?:.*:)?(\d+)", word.text)
        port = (
            int(found[1])
            if found and (job.find_launch_value("port") is word or ":" in word.text) and len(found[1]) < 12
            else None
        )
        if port is not None and not 0 <= port <= 65535:
            yield fail(word, _("port {port} does not exist", port=port), _("Use a port from 1024 to 65535."))
        elif port is not None and 0 < port < 1024:
            yield warn(word, _("only root can open port {port}", port=port), _("Use a port from 1024 to 65535."))
