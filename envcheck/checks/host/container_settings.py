"""Checks of the engine's settings, and of what the running containers got from it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.checks.devices.occupancy import find_given_devices, find_missing_mounts, has_little_shm
from envcheck.core.check import Check, machine_check, vendor_check
from envcheck.core.derived.engine_answers import KUBELET, get_reachable_engine, parse_json_object
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    format_bytes,
    is_in_container,
    ok,
    quote_answer,
    quote_values,
    report_missing_rule,
    report_unanswered,
    skip,
    skipped_because,
    unknown,
    warn,
)
from envcheck.core.messages import _, join, ngettext
from envcheck.core.model import Finding, Outcome, diagnose, fix
from envcheck.settings.thresholds import threshold_bytes
from probes.host import schemas

SETTINGS = "read /etc/docker/daemon.json"
PODS = "read /etc/containerd/config.toml"


def check_settings(facts: Facts) -> Iterator[Finding]:
    """daemon.json is valid and active."""
    answer, engine = facts.answers.get(SETTINGS), get_reachable_engine(facts)
    if engine is None:
        yield skipped_because("engine.reachable")
    elif answer is None or answer.outcome is Outcome.FAILED:
        yield report_unanswered(facts, SETTINGS)
    elif answer.outcome is Outcome.ABSENT:
        yield skip(_("file not found: the engine uses its defaults"))
    elif (said := parse_json_object(answer)) is None:
        words = _(
            "Correct the file: the engine still runs with the settings it read earlier, but will not start again."
        )
        yield warn(
            _("/etc/docker/daemon.json is not a JSON object"),
            diagnose(words, "dockerd --validate"),
            evidence=quote_answer(answer),
        )
    elif missing := [
        name for name in _list_keys(said.get("runtimes")) if engine.runtimes and name not in engine.runtimes
    ]:
        words = _("Restart the engine: the file changed after it started.")
        seen = _(
            "daemon.json defines runtime {missing}, but the running engine does not have it",
            missing=join(", ", missing),
        )
        yield warn(seen, fix(words, "sudo systemctl restart docker"), evidence=quote_answer(answer, "runtimes"))
    else:
        yield ok(_("daemon.json is active"))


def check_shm(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Running containers with devices have enough shared memory; with the default of 64 MiB, dataloaders crash."""
    found = schemas.read_containers(facts)
    if found is None:
        yield _no_container_list(facts)
        return
    having = [one for one in found if find_given_devices(v, one)]
    if small := [one for one in having if has_little_shm(facts, one)]:
        words = _(
            "Recreate the container with --shm-size or --ipc=host: the size of a running container cannot be changed."
        )
        more = _(" and {small_count} more", small_count=len(small) - 1) if len(small) > 1 else ""
        got = find_given_devices(v, small[0])
        seen = _(
            "container {name}{more} with {devices} has {size} of shared memory (minimum {needed})",
            name=small[0].name,
            more=more,
            devices=got,
            size=format_bytes(small[0].shm_bytes or 0),
            needed=format_bytes(threshold_bytes(facts, "host.shm.fail_gib")),
        )
        shown = quote_values(f"docker inspect {small[0].name}", ShmSize=small[0].shm_bytes)
        yield warn(seen, fix(words, f"docker run --shm-size={v.vendor.shm_gib}g --ipc=private"), evidence=shown)
    else:
        yield ok(
            ngettext(
                "{count} running container uses these devices",
                "{count} running containers use these devices",
                len(having),
            )
        )


def check_driver_mounts(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Running containers whose devices were passed with --device also have the driver."""
    found = schemas.read_containers(facts)
    if not v.vendor.driver_mounts:
        yield report_missing_rule(v, _("driver folders"))
        return
    if found is None:
        yield _no_container_list(facts)
        return
    by_hand = [one for one in found if one.runtime != v.vendor.runtime and find_given_devices(v, one)]
    bare = [(one, folders) for one in by_hand if (folders := find_missing_mounts(v, one))]
    if bare:
        one, folders = bare[0]
        words = _("Recreate the container with these folders mounted, or with the vendor's runtime, which mounts them.")
        shown = quote_values(f"docker inspect {one.name}", Mounts=", ".join(one.mounts) or "none")
        commands = " ".join(("docker run", *(f"-v {path}:{path}:ro" for path in folders)))
        yield warn(
            _("container {name} has devices, but {folders} is not mounted", name=one.name, folders=join(", ", folders)),
            fix(words, commands),
            evidence=shown,
        )
    else:
        yield ok(
            ngettext(
                "{count} running container got devices without the vendor's runtime",
                "{count} running containers got devices without the vendor's runtime",
                len(by_hand),
            )
        )


def check_pods(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """On a Kubernetes node, containerd has the vendor's runtime; otherwise pods get no driver."""
    answer, kubelet, name = facts.answers.get(PODS), facts.answers.get(KUBELET), v.vendor.runtime or ""
    if not name:
        yield report_missing_rule(v, _("container runtime"))
    elif kubelet is None or answer is None or answer.outcome is Outcome.FAILED:
        yield report_unanswered(facts, PODS)
    elif kubelet.outcome is Outcome.ABSENT:
        yield skip(_("no kubelet on this machine"))
    elif answer.outcome is Outcome.ABSENT:
        yield unknown(_("no containerd configuration found: kubelet may use another engine"))
    elif re.search(rf"^[^#\n]*\b{re.escape(name)}\b", answer.out, re.MULTILINE):
        yield ok(_("containerd is configured with {name}", name=name))
    else:
        words = _(
            "Check the configured runtimes. To add {name}, install it with the vendor's own tool, which configures "
            "containerd, then restart containerd."
        )
        shown = quote_values(PODS.removeprefix("read "), runtimes=f"no {name}")
        yield warn(
            _("the containerd configuration does not contain {name}", name=name),
            diagnose(words, f"grep -n runtimes {PODS[5:]}"),
            evidence=shown,
        )


def _list_keys(value: object) -> list[str]:
    return [str(key)[:40] for key in value] if isinstance(value, dict) else []


def _no_container_list(facts: Facts) -> Finding:
    if is_in_container(facts):
        return skip(_("envcheck runs inside a container"))
    return (
        skipped_because("engine.reachable")
        if get_reachable_engine(facts) is None
        else report_unanswered(facts, "ask containers")
    )


CHECKS: tuple[Check, ...] = (
    machine_check(
        "engine.settings",
        check_settings,
        reads="/etc/docker/daemon.json, docker info",
        source="FaultDiag AISW_MindX_Device_Plugin_08; mind-cluster gitcode#356",
        rule="WARN if it is not JSON, or names a runtime that the running engine does not have",
        fix="Correct the file and restart the engine.",
    ),
    vendor_check(
        "engine.shm",
        check_shm,
        reads="docker inspect of the running containers",
        source="PaddleSpeech#790, LlamaFactory#7315, PaddleOCR#3339",
        rule="WARN below host.shm.fail_gib, unless the container shares the host's IPC",
        fix="Set --shm-size or --ipc=host.",
    ),
    vendor_check(
        "engine.driver_mounts",
        check_driver_mounts,
        reads="docker inspect of the running containers",
        source="vllm-ascend#1440, gpustack#3284",
        rule="WARN if a container has devices by --device but not the driver directories",
        fix="Mount them, or use the vendor's runtime.",
    ),
    vendor_check(
        "engine.pods",
        check_pods,
        reads="/etc/containerd/config.toml",
        source="FaultDiag AISW_MindX_Device_Plugin_08; HAMi#1464",
        rule="WARN if kubelet is installed and no runtime of the vendor is configured",
        fix="Add the runtime to containerd.",
    ),
)
