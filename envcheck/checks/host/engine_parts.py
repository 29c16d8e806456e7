"""The engine's settings, and what the running containers were given by it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from envcheck.checks.devices.owners import given, lacking, little_shm
from envcheck.checks.host.engine import DOCKER_INFO, _reached
from envcheck.core.check import NPU, NVIDIA, Check, of_machine, of_vendor
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    figures,
    follows,
    gib,
    in_container,
    not_told,
    nothing,
    ok,
    quote,
    skip,
    unknown,
    warn,
)
from envcheck.core.model import Answer, Finding, Outcome
from probes.host import schemas

SETTINGS = "read /etc/docker/daemon.json"
KUBELET = "read /var/lib/kubelet/cpu_manager_state"
PODS = "read /etc/containerd/config.toml"
CHAR_LINKS = "list /dev/char/195:*"  # 195 is NVIDIA's major number
RUNC = ("/usr/bin/runc", "/usr/local/bin/runc")
RUNC_MODES = (0o755, 0o750)  # what Ascend's runtime takes; it says "owner not right" otherwise
GIVES_LINKS = "sudo nvidia-ctk system create-dev-char-symlinks --create-all"


def settings(facts: Facts) -> Iterator[Finding]:
    """The engine's daemon.json can be read by it, and is in force."""
    answer, engine = facts.answers.get(SETTINGS), _reached(facts)
    if engine is None:
        yield follows("engine.reachable")
    elif answer is None or answer.outcome is Outcome.FAILED:
        yield not_told(facts, SETTINGS)
    elif answer.outcome is Outcome.ABSENT:
        yield skip("there is none: the engine's defaults count")
    elif (said := _object(answer)) is None:
        words = "Correct it: the engine runs on what it read before, and will not start again."
        yield warn("/etc/docker/daemon.json is no JSON object", words, "dockerd --validate", evidence=quote(answer))
    elif missing := [name for name in _keys(said.get("runtimes")) if engine.runtimes and name not in engine.runtimes]:
        words = "Restart it: it read the file before this was written."
        seen = f"the engine does not know the runtime {', '.join(missing)} of its daemon.json"
        yield warn(seen, words, "sudo systemctl restart docker", evidence=quote(answer, "runtimes"))
    else:
        yield ok("daemon.json is in force")


def runc(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """runc belongs to root and nobody else may write it: the vendor's runtime refuses it otherwise."""
    seen, engine = schemas.paths(facts), _reached(facts)
    found = next(((path, seen.paths[path]) for path in RUNC if path in seen.paths), None) if seen else None
    if engine is None:
        yield follows("engine.reachable")
    elif seen is None:
        yield not_told(facts, "ask paths")
    elif v.vendor.runtime not in engine.runtimes:
        yield follows("engine.runtime")
    elif found is None:
        yield unknown(f"runc is in neither of {', '.join(RUNC)}")
    elif found[1].uid == 0 and found[1].mode in RUNC_MODES:
        yield ok(f"{found[0]} is root's, mode {found[1].mode:o}")
    else:
        words = "Give it to root, with mode 755: the runtime says that its owner is not right, and starts nothing."
        fix = (f"sudo chown root:root {found[0]}", f"sudo chmod 755 {found[0]}")
        shown = figures(f"stat {found[0]}", uid=found[1].uid, mode=f"{found[1].mode:o}")
        yield warn(f"{found[0]}: owner {found[1].uid}, mode {found[1].mode:o}", words, *fix, evidence=shown)


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


def keeps_cards(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Containers keep their GPUs when systemd reloads: it writes their cgroup anew, from what /dev/char has."""
    answer, engine, info = facts.answers.get(CHAR_LINKS), _reached(facts), facts.answers.get(DOCKER_INFO)
    driver = (_object(info) or {}).get("CgroupDriver") if info else None
    if engine is None:
        yield follows("engine.reachable")
    elif not v.nodes:
        yield follows("devices.count")
    elif driver == "cgroupfs":
        yield ok("the engine keeps cgroups by itself")
    elif not isinstance(driver, str) or answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield not_told(facts, CHAR_LINKS)
    elif answer.ok:
        yield ok("/dev/char has the GPUs")
    else:
        words = "Make the links, or give GPUs by CDI or --device: a daemon-reload takes them from running containers."
        yield warn(
            "/dev/char has no link to a GPU, and systemd keeps the cgroups",
            words,
            GIVES_LINKS,
            evidence=nothing(CHAR_LINKS),
        )


def pods(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Where kubelet starts pods, its containerd knows the vendor's runtime: pods get no driver otherwise."""
    answer, kubelet, name = facts.answers.get(PODS), facts.answers.get(KUBELET), v.vendor.runtime or ""
    if kubelet is None or answer is None or answer.outcome is Outcome.FAILED:
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


def cpu_manager(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """kubelet pins no processors: it writes a container's cgroup anew, and npu-smi in it loses the cards."""
    answer = facts.answers.get(KUBELET)
    said = _object(answer) if answer else None
    if answer is None or answer.outcome is Outcome.FAILED:
        yield not_told(facts, KUBELET)
    elif answer.outcome is Outcome.ABSENT:
        yield skip("no kubelet is on this machine")
    elif said is None or not isinstance(said.get("policyName"), str):
        yield unknown("kubelet's state could not be read")
    elif said["policyName"] == "none":
        yield ok("kubelet pins no processors")
    else:
        words = "Read the vendor's note on cpuManagerPolicy and look at the cards inside again after an hour."
        seen = f"kubelet's CPU manager is {said['policyName'][:20]}"
        yield warn(seen, words, f"cat {KUBELET.removeprefix('read ')}", evidence=quote(answer, "policyName"))


def _object(answer: Answer) -> dict[str, Any] | None:
    try:
        said = json.loads(answer.out)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _keys(value: object) -> list[str]:
    return [str(key)[:40] for key in value] if isinstance(value, dict) else []


def _no_engine(facts: Facts) -> Finding:
    if in_container(facts):
        return skip("this is a container itself")
    return follows("engine.reachable") if _reached(facts) is None else not_told(facts, "ask containers")


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
        "engine.runc",
        runc,
        reads="owner and mode of runc",
        source="FaultDiag AISW_MindX_Docker_Runtime_02",
        vendors=NPU,
        rule="WARN when it is not root's, or not of mode 755 or 750",
        fix="chown root, chmod 755.",
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
        vendors=NPU,
        rule="WARN when a container has cards by --device and not the driver's folders",
        fix="Mount them, or use the vendor's runtime.",
    ),
    of_vendor(
        "engine.keeps_cards",
        keeps_cards,
        reads="docker info, /dev/char",
        source="nvidia-container-toolkit#251, nvidia-docker#1671",
        vendors=NVIDIA,
        rule="WARN when systemd keeps the cgroups and /dev/char has no link to a GPU",
        fix="nvidia-ctk system create-dev-char-symlinks, or CDI.",
    ),
    of_vendor(
        "engine.pods",
        pods,
        reads="/etc/containerd/config.toml",
        source="FaultDiag AISW_MindX_Device_Plugin_08; HAMi#1464",
        rule="WARN when kubelet is here and it names no runtime of the vendor's",
        fix="Install the runtime into containerd.",
    ),
    of_vendor(
        "engine.cpu_manager",
        cpu_manager,
        reads="/var/lib/kubelet/cpu_manager_state",
        source="mind-cluster gitcode#351",
        vendors=NPU,
        rule="WARN when kubelet's policy is not none",
        fix="The vendor's note on cpuManagerPolicy.",
    ),
)
