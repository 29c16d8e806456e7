"""Who may open the devices, and who has them: the caller, other processes, other containers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch

from envcheck import sight
from envcheck.checks.check import ANY_CARD, Check, of_devices, of_vendor
from envcheck.checks.common import (
    fail,
    figures,
    follows,
    graded,
    here,
    in_container,
    not_told,
    ok,
    plural,
    skip,
    telling,
    unknown,
    vendor,
    warn,
)
from envcheck.model import Facts, Finding, Outcome, VendorFacts
from envcheck.sight import Caller, Container, Holding, Path

LAZY = ("/dev/nvidia-uvm",)  # nvidia-modprobe makes it for the first program that wants it
# Services that keep nodes open and use no memory to speak of.
MONITORS = ("nvidia-persiste", "nv-hostengine", "dcgm-exporter", "npu-exporter", "slogd", "dmp_daemon", "ix-exporter")
STUCK = {"Z": "ended, but nobody has collected it", "D": "stuck in the driver", "T": "stopped"}
NAMED_LIMIT = 4


def access(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The caller may open the device nodes."""
    me, seen = sight.caller(facts), sight.paths(facts)
    if me is None or seen is None:
        yield not_told(facts, "ask caller", "ask paths")
        return
    nodes = {p: one for p in (*(v.nodes or ()), *vendor(v).control_nodes) if (one := seen.paths.get(p))}
    closed = {path: one for path, one in nodes.items() if not one.usable}
    if not nodes:
        yield follows("driver.tool" if not v.devices else "devices.count")
    elif closed:
        yield _closed(facts, me, closed)
    else:
        yield ok(f"{me.user or f'uid {me.uid}'} may open {plural(len(nodes), 'node')}")


def control_nodes(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The nodes that every program opens beside a card's own are there."""
    seen = sight.paths(facts)
    wanted = [p for p in vendor(v).control_nodes if p not in LAZY or in_container(facts)]
    if seen is None:
        yield not_told(facts, "ask paths")
    elif not wanted:
        yield skip("this vendor's cards have none")
    elif not v.nodes:
        yield follows("devices.count")
    elif missing := [path for path in wanted if path not in seen.paths]:
        words = "Give them to the container, too: --device for each." if in_container(facts) else "Reload the driver."
        fix = tuple(f"ls -l {path}" for path in missing)
        yield fail(f"not there: {', '.join(missing)}", words, *fix, evidence=figures("stat", missing=missing[0]))
    else:
        yield ok(", ".join(wanted))


def shared(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No running container was given the devices."""
    found = sight.containers(facts)
    if found is None:
        yield _no_engine(facts)
        return
    having = {one.name: got for one in found if (got := given(v, one))}
    if having:
        name, got = next(iter(having.items()))
        more = f" and {len(having) - 1} more" if len(having) > 1 else ""
        words = "Stop it, or choose other cards: two on a card end in -8005, -8020 or want of memory."
        yield warn(
            f"container {name}{more} was given {got}",
            words,
            f"docker stop {name}" if re.fullmatch(r"[\w.-]+", name) else "docker ps",
            evidence=figures(f"docker inspect {name}", devices=got),
        )
    else:
        yield ok(f"{plural(len(found), 'running container')}, none with these cards")


def open_nodes(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No process that the tool does not list has a device open."""
    seen = sight.processes(facts)
    if seen is None:
        yield not_told(facts, "ask processes")
        return
    listed = {p.pid for p in v.processes or ()}
    hidden = [h for h in _on(v, seen.holding) if h.pid not in listed and h.name not in MONITORS]
    if hidden:
        words = "Stop it, or choose other devices; with -8020 this is the owner that npu-smi does not name."
        pids = ",".join(str(h.pid) for h in hidden[:NAMED_LIMIT])
        shown = figures(f"/proc/{hidden[0].pid}/fd", nodes=" ".join(hidden[0].nodes[:NAMED_LIMIT]))
        seen_words = f"{plural(len(hidden), 'process')} with a device open: {_told(hidden)}"
        yield warn(seen_words, words, f"ps -o pid,user,etime,cmd -p {pids}", evidence=shown)
    elif seen.blind and v.processes is None:
        words = "Ask as root: others' processes cannot be looked into."
        yield unknown(f"{plural(seen.blind, 'process')} may not be looked into", words, "sudo envcheck doctor")
    else:
        blind = f"; {plural(seen.blind, 'process')} of others could not be looked into" if seen.blind else ""
        yield ok(f"none beyond those that the tool lists{blind}")


def ghosts(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Each process that the tool lists exists."""
    me, seen = sight.caller(facts), sight.processes(facts)
    listed = [p.pid for p in v.processes or () if p.pid is not None]
    if me is None or seen is None or v.processes is None or not seen.pids:
        yield not_told(facts, "ask processes", "ask caller")
    elif not listed:
        yield ok("the tool lists no process")
    elif me.host_pids is not True:
        yield skip("process ids of the host mean nothing in this namespace")
    elif lost := [pid for pid in listed if pid not in seen.pids]:
        words = "Stop the container that it ran in, or reset the device: its memory comes back no other way."
        seen_words = f"the tool lists pid {', '.join(map(str, lost[:NAMED_LIMIT]))}, and there is no such process"
        yield warn(seen_words, words, "docker ps", evidence=telling(facts, v, lost[0]))
    else:
        yield ok(f"{plural(len(listed), 'listed process')}, all there")


def leftovers(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No rank of an ended job is left on the devices, and none is stuck."""
    me, seen = sight.caller(facts), sight.processes(facts)
    if me is None or seen is None:
        yield not_told(facts, "ask processes", "ask caller")
        return
    mine = [h for h in _on(v, seen.holding) if h.name not in MONITORS]
    stuck = [h for h in mine if h.state in STUCK]
    orphans = [h for h in mine if h.parent == 1 and h.uid == me.uid]
    if stuck:
        words = "End it with SIGKILL; one in state D ends only with the driver's help: reset the device or reboot."
        why = STUCK[stuck[0].state or ""]
        shown = figures(f"/proc/{stuck[0].pid}/stat", state=stuck[0].state)
        yield warn(f"{_told(stuck)}: {why}", words, f"kill -KILL {stuck[0].pid}", evidence=shown)
    elif orphans:
        words = "End it if its job is over: the launcher that started it is gone."
        shown = figures(f"/proc/{orphans[0].pid}/stat", parent=1, age_s=orphans[0].age_s)
        yield warn(f"left of an ended launcher: {_told(orphans)}", words, f"kill {orphans[0].pid}", evidence=shown)
    elif seen.blind and not mine:
        yield follows("devices.open_nodes", "as far as processes may be looked into; follows from devices.open_nodes")
    else:
        yield ok("no rank without its launcher")


def spread(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Each rank works on its own device: ranks that show on every device opened them before they chose."""
    if v.processes is None:
        yield unknown("no form of the tool's answer lists processes")
        return
    places: dict[int, set[tuple[int | None, int | None]]] = {}
    for p in v.processes:
        if p.pid is not None:
            places.setdefault(p.pid, set()).add((p.device, p.chip))
    wide = {pid for pid, on in places.items() if len(on) > 1}
    crossing = [pid for pid in wide if any(places[pid] & places[other] for other in wide - {pid})]
    if crossing:
        words = "Set the visible devices for each rank before the framework is imported; each context costs memory."
        seen = f"{len(crossing)} processes share {len(set().union(*(places[p] for p in crossing)))} devices"
        yield warn(seen, words, f"ps -o pid,user,cmd -p {min(crossing)}", evidence=telling(facts, v, min(crossing)))
    else:
        yield ok(f"{plural(len(places), 'process')}, none across others' devices")


def _closed(facts: Facts, me: Caller, closed: dict[str, Path]) -> Finding:
    """A user who may start containers trains in them as root, whatever the host's nodes say."""
    path, one = next(iter(closed.items()))
    dropped = me.uid == 0 and not me.capabilities
    who = me.user or f"uid {me.uid}"
    words = (
        "Add CAP_DAC_OVERRIDE, or the group that owns the nodes: this root has no capabilities."
        if dropped
        else "Join the group that owns the nodes (log in anew), or run as root; in a container: --group-add."
    )
    fix = ("grep CapEff /proc/self/status",) if dropped else (f"sudo usermod -aG {one.gid} {who}",)
    seen = f"{who} may not open {path}{f' and {len(closed) - 1} more' if len(closed) > 1 else ''}"
    shown = figures(f"stat {path}", uid=one.uid, gid=one.gid, mode=f"{one.mode:o}")
    return graded(here(facts), seen, words, *fix, evidence=shown)


def _no_engine(facts: Facts) -> Finding:
    answer = facts.answers.get("ask containers")
    if in_container(facts) or (facts.engine is None and answer is not None and answer.outcome is not Outcome.ABSENT):
        return skip("no engine here tells what other containers have")
    unreachable = facts.engine is not None and facts.engine.error is not None
    return follows("engine.reachable") if unreachable else not_told(facts, "ask containers")


def given(v: VendorFacts, one: Container) -> str:
    """This vendor's cards that it got: by node, by request, or by the variable that the vendor's runtime reads.

    Without that runtime the variable is only what the image was built with.
    """
    kind, name = vendor(v).cdi_kind, vendor(v).runtime_env
    nodes = [path for path in one.nodes if fnmatch(path, vendor(v).node_pattern)]
    nodes += [request for request in one.requests if kind and request.startswith(f"{kind}=")]
    said = one.visible.get(name, "") if one.runtime == vendor(v).runtime else ""
    return ", ".join(nodes) or ("" if said in ("", "none", "void") else f"{name}={said}")


def _on(v: VendorFacts, holding: tuple[Holding, ...]) -> list[Holding]:
    return [h for h in holding if any(fnmatch(path, vendor(v).node_pattern) for path in h.nodes)]


def _told(holding: list[Holding]) -> str:
    def one(h: Holding) -> str:
        where = f", container {h.container}" if h.container else ""
        age = f", for {h.age_s // 60} min" if h.age_s is not None else ""
        return f"{h.name or 'a process'} (pid {h.pid}{where}{age})"

    more = f" and {len(holding) - NAMED_LIMIT} more" if len(holding) > NAMED_LIMIT else ""
    return ", ".join(one(h) for h in holding[:NAMED_LIMIT]) + more


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "devices.access",
        access,
        reads="owner and mode of the nodes, the caller's groups and capabilities",
        source="vllm-ascend#2698, ascend-device-plugin#139, hw-native-sys/simpler#2043",
        rule="FAIL when a node may not be opened; WARN where the caller starts containers, which run as root",
        fix="Join the nodes' group, or give the container the capability.",
    ),
    of_vendor(
        "devices.control_nodes",
        control_nodes,
        reads="/dev",
        source="Ascend's container guides; vllm-ascend#2698",
        vendors=ANY_CARD,
        rule="FAIL when one is missing",
        fix="--device for each, or reload the driver.",
    ),
    of_vendor(
        "devices.shared",
        shared,
        reads="docker inspect of the running containers",
        source="vllm-ascend#2698, HAMi#1696, cann-container-image#46",
        rule="WARN when a container was given a card: by node, by request, or by the runtime's variable",
        fix="Stop the container, or choose other cards.",
    ),
    of_vendor(
        "devices.open_nodes",
        open_nodes,
        reads="/proc/*/fd",
        source="cann-container-image#46, verl#332",
        rule="WARN when a process has a card's node open that the tool does not list; UNKNOWN when none may be seen",
        fix="Stop the process, or choose other cards.",
    ),
    of_devices(
        "devices.ghosts",
        ghosts,
        reads="the vendor's tool, /proc",
        source="VisEdit#5",
        rule="WARN when a listed process does not exist",
        fix="Stop its container, or reset the device.",
    ),
    of_vendor(
        "devices.leftovers",
        leftovers,
        reads="/proc/*/fd, /proc/*/stat",
        source="verl#332, FaultDiag AISW_PyTorch_Start_03, LlamaFactory#6646",
        rule="WARN when a process on a device is stuck, or is the caller's own and its launcher is gone",
        fix="End it.",
    ),
    of_devices(
        "devices.spread",
        spread,
        reads="the vendor's tool",
        source="PaddleCustomDevice#767",
        rule="WARN when several processes each hold the same several devices",
        fix="Set the visible devices for each rank before anything is imported.",
    ),
)
