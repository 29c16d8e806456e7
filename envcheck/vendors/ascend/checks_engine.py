"""What Ascend's container runtime and npu-smi in containers want of engine and kubelet."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_vendor
from envcheck.core.derived.engine import KUBELET, json_object, reached_engine
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    figures,
    follows,
    not_told,
    ok,
    quote,
    skip,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Outcome
from probes.host import schemas

RUNC = ("/usr/bin/runc", "/usr/local/bin/runc")
RUNC_MODES = (0o755, 0o750)  # what Ascend's runtime takes; it says "owner not right" otherwise


def runc(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """runc belongs to root and nobody else may write it: the vendor's runtime refuses it otherwise."""
    seen, engine = schemas.paths(facts), reached_engine(facts)
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


def cpu_manager(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """kubelet pins no processors: it writes a container's cgroup anew, and npu-smi in it loses the cards."""
    answer = facts.answers.get(KUBELET)
    said = json_object(answer) if answer else None
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


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "engine.runc",
        runc,
        before="engine.shm",
        reads="owner and mode of runc",
        source="FaultDiag AISW_MindX_Docker_Runtime_02",
        rule="WARN when it is not root's, or not of mode 755 or 750",
        fix="chown root, chmod 755.",
    ),
    of_vendor(
        "engine.cpu_manager",
        cpu_manager,
        reads="/var/lib/kubelet/cpu_manager_state",
        source="mind-cluster gitcode#351",
        rule="WARN when kubelet's policy is not none",
        fix="The vendor's note on cpuManagerPolicy.",
    ),
)
