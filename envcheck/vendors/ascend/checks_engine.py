"""Checks of the container engine and kubelet for Ascend's container runtime."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, vendor_check
from envcheck.core.derived.engine_answers import KUBELET, get_reachable_engine, parse_json_object
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    ok,
    quote_answer,
    quote_values,
    report_unanswered,
    skip,
    skipped_because,
    unknown,
    warn,
)
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, Outcome, diagnose, fix
from probes.host import schemas

RUNC = ("/usr/bin/runc", "/usr/local/bin/runc")
RUNC_MODES = (0o755, 0o750)  # the modes that Ascend's runtime accepts; its error is "owner not right"


def check_runc(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """runc belongs to root and only root can write it; the vendor's runtime rejects it otherwise."""
    seen, engine = schemas.read_paths(facts), get_reachable_engine(facts)
    found = next(((path, seen.paths[path]) for path in RUNC if path in seen.paths), None) if seen else None
    if engine is None:
        yield skipped_because("engine.reachable")
    elif seen is None:
        yield report_unanswered(facts, "ask paths")
    elif v.vendor.runtime not in engine.runtimes:
        yield skipped_because("engine.runtime")
    elif found is None:
        yield unknown(_("runc not found in {runc}", runc=join(", ", RUNC)))
    elif found[1].uid == 0 and found[1].mode in RUNC_MODES:
        yield ok(_("{found} is owned by root, mode {mode:o}", found=found[0], mode=found[1].mode))
    else:
        words = _(
            "Set its owner to root and its mode to 755: the Ascend runtime refuses to start containers otherwise."
        )
        commands = (f"sudo chown root:root {found[0]}", f"sudo chmod 755 {found[0]}")
        shown = quote_values(f"stat {found[0]}", uid=found[1].uid, mode=f"{found[1].mode:o}")
        yield warn(
            _("{found}: owner {uid}, mode {mode:o}", found=found[0], uid=found[1].uid, mode=found[1].mode),
            fix(words, *commands),
            evidence=shown,
        )


def check_cpu_manager(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """kubelet does not pin CPUs; pinning rewrites the container's cgroup, and npu-smi in it loses the devices."""
    answer = facts.answers.get(KUBELET)
    state = parse_json_object(answer) if answer else None
    if answer is None or answer.outcome is Outcome.FAILED:
        yield report_unanswered(facts, KUBELET)
    elif answer.outcome is Outcome.ABSENT:
        yield skip(_("kubelet is not installed on this host"))
    elif state is None or not isinstance(state.get("policyName"), str):
        yield unknown(_("cannot read the CPU manager state of kubelet"))
    elif state["policyName"] == "none":
        yield ok(_("kubelet does not pin CPUs"))
    else:
        words = _(
            "Read the vendor's note on cpuManagerPolicy, and check the devices inside the pod again after an hour."
        )
        seen = _("the CPU manager policy of kubelet is {policy}", policy=state["policyName"][:20])
        yield warn(
            seen, diagnose(words, f"cat {KUBELET.removeprefix('read ')}"), evidence=quote_answer(answer, "policyName")
        )


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "engine.runc",
        check_runc,
        before="engine.shm",
        reads="owner and mode of runc",
        source="FaultDiag AISW_MindX_Docker_Runtime_02",
        rule="WARN if the owner is not root, or the mode is not 755 or 750",
        fix="Run chown root and chmod 755.",
    ),
    vendor_check(
        "engine.cpu_manager",
        check_cpu_manager,
        reads="/var/lib/kubelet/cpu_manager_state",
        source="mind-cluster gitcode#351",
        rule="WARN if the policy of kubelet is not none",
        fix="Follow the vendor's note on cpuManagerPolicy.",
    ),
)
