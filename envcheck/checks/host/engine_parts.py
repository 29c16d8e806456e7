"""The engine's settings, and what the running containers were given by it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.checks.devices.owners import given, lacking, little_shm
from envcheck.core.check import Check, of_machine, of_vendor
from envcheck.core.derived.engine import KUBELET, json_object, reached_engine
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    figures,
    follows,
    gib,
    in_container,
    no_rule,
    not_told,
    ok,
    quote,
    skip,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Outcome
from probes.host import schemas

SETTINGS = "read /etc/docker/daemon.json"
PODS = "read /etc/containerd/config.toml"


def settings(facts: Facts) -> Iterator[Finding]:
    """The engine's daemon.json can be read by it, and is in force."""
    answer, engine = facts.answers.get(SETTINGS), reached_engine(facts)
    if engine is None:
        yield follows("engine.reachable")
    elif answer is None or answer.outcome is Outcome.FAILED:
        yield not_told(facts, SETTINGS)
    elif answer.outcome is Outcome.ABSENT:
        yield skip("there is none: the engine's defaults count")
    elif (said := json_object(answer)) is None:
        words = "Correct it: the engine runs on what it read before, and will not start again."
        yield warn("/etc/docker/daemon.json is no JSON object", words, "dockerd --validate", evidence=quote(answer))
    elif missing := [name for name in _keys(said.get("runtimes")) if engine.runtimes and name not in engine.runtimes]:
        words = "Restart it: it read the file before this was written."
        seen = f"the engine does not know the runtime {', '.join(missing)} of its daemon.json"
        yield warn(seen, words, "sudo systemctl restart docker", evidence=quote(answer, "runtimes"))
    else:
        yield ok("daemon.json is in force")


def shm(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Running containers with cards have memory to share: 64 MiB, the default, ends dataloaders with a bus error."""
    found = schemas.containers(facts)
    if found is None:
        yield _no_engine(facts)
        return
    having = [one for one in found if given(v, one)]
    if small := [one for one in having if little_shm(facts, one)]:
        words = "Stop it, or start it anew with --shm-size or --ipc=host; a running one cannot be given more."
        more = f" and {len(small) - 1} more" if len(small) > 1 else ""
        got = given(v, small[0])
        seen = f"container {small[0].name}{more} with {got} shares {gib(small[0].shm_bytes or 0)}"
        shown = figures(f"docker inspect {small[0].name}", ShmSize=small[0].shm_bytes)
        yield warn(seen, words, "docker run --shm-size=64g --ipc=private", evidence=shown)
    else:
        yield ok(f"{len(having)} running containers with these cards")


def driver_mounts(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Running containers with cards given by hand have the driver, too."""
    found = schemas.containers(facts)
    if not v.vendor.driver_mounts:
        yield no_rule(v, "folders of the driver")
        return
    if found is None:
        yield _no_engine(facts)
        return
    by_hand = [one for one in found if one.runtime != v.vendor.runtime and given(v, one)]
    bare = [(one, folders) for one in by_hand if (folders := lacking(v, one))]
    if bare:
        one, folders = bare[0]
        words = "Start it anew with the folders mounted, or by the vendor's runtime, which mounts them."
        shown = figures(f"docker inspect {one.name}", Mounts=", ".join(one.mounts) or "none")
        fix = " ".join(("docker run", *(f"-v {path}:{path}:ro" for path in folders)))
        yield warn(f"container {one.name} has cards, but not {', '.join(folders)}", words, fix, evidence=shown)
    else:
        yield ok(f"{len(by_hand)} running containers were given cards by hand")


def pods(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Where kubelet starts pods, its containerd knows the vendor's runtime: pods get no driver otherwise."""
    answer, kubelet, name = facts.answers.get(PODS), facts.answers.get(KUBELET), v.vendor.runtime or ""
    if not name:
        yield no_rule(v, "container runtime")
    elif kubelet is None or answer is None or answer.outcome is Outcome.FAILED:
        yield not_told(facts, PODS)
    elif kubelet.outcome is Outcome.ABSENT:
        yield skip("no kubelet is on this machine")
    elif answer.outcome is Outcome.ABSENT:
        yield unknown("containerd has no settings here: kubelet may use another engine")
    elif re.search(rf"^[^#\n]*\b{re.escape(name)}\b", answer.out, re.MULTILINE):
        yield ok(f"containerd names {name}")
    else:
        words = "Install the vendor's runtime with its own tool, which writes it there, and restart containerd."
        shown = figures(PODS.removeprefix("read "), runtimes=f"no {name}")
        yield warn(f"containerd's settings name no {name}", words, f"grep -n runtimes {PODS[5:]}", evidence=shown)


def _keys(value: object) -> list[str]:
    return [str(key)[:40] for key in value] if isinstance(value, dict) else []


def _no_engine(facts: Facts) -> Finding:
    if in_container(facts):
        return skip("this is a container itself")
    return follows("engine.reachable") if reached_engine(facts) is None else not_told(facts, "ask containers")


CHECKS: tuple[Check, ...] = (
    of_machine(
        "engine.settings",
        settings,
        reads="/etc/docker/daemon.json, docker info",
        source="FaultDiag AISW_MindX_Device_Plugin_08; mind-cluster gitcode#356",
        rule="WARN when it is no JSON, or names a runtime that the running engine does not know",
        fix="Correct it, restart the engine.",
    ),
    of_vendor(
        "engine.shm",
        shm,
        reads="docker inspect of the running containers",
        source="PaddleSpeech#790, LlamaFactory#7315, PaddleOCR#3339",
        rule="WARN below host.shm.fail_gib, unless the container shares the host's IPC",
        fix="--shm-size or --ipc=host.",
    ),
    of_vendor(
        "engine.driver_mounts",
        driver_mounts,
        reads="docker inspect of the running containers",
        source="vllm-ascend#1440, gpustack#3284",
        rule="WARN when a container has cards by --device and not the driver's folders",
        fix="Mount them, or use the vendor's runtime.",
    ),
    of_vendor(
        "engine.pods",
        pods,
        reads="/etc/containerd/config.toml",
        source="FaultDiag AISW_MindX_Device_Plugin_08; HAMi#1464",
        rule="WARN when kubelet is here and it names no runtime of the vendor's",
        fix="Install the runtime into containerd.",
    ),
)
