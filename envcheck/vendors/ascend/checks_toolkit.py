"""Checks of CANN: loadable libraries, packages of one release, kernels for the chip, Python packages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, device_check, vendor_check
from envcheck.core.derived.installed_versions import toolkit_trees, toolkit_version
from envcheck.core.derived.libraries import unloadable_library_finding
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    local_severity,
    ok,
    quote_answer,
    quote_nothing,
    quote_values,
    report_unanswered,
    skip,
    skipped_because,
    unknown,
    vendor_commands,
    warn,
    warn_or_fail,
)
from envcheck.core.messages import _, join, ngettext, verbatim
from envcheck.core.model import Answer, Finding, Outcome, diagnose, fix
from probes.host import schemas

ATB_SET_ENV = "list /usr/local/Ascend/nnal/atb/set_env.sh"
NNAL_INSTALL = "sudo ./Ascend-cann-nnal_VERSION_linux-$(uname -m).run --install"  # CANN's installation guide
_LATEST = "/usr/local/Ascend/ascend-toolkit/latest"
ATB_VERSION = "read /usr/local/Ascend/nnal/atb/latest/version.info"
COMPILER = f"read {_LATEST}/compiler/version.info"
OPERATORS = (f"read {_LATEST}/opp/version.info", f"read {_LATEST}/opp_kernel/version.info")
KERNELS = f"list {_LATEST}/opp/built-in/op_impl/ai_core/tbe/kernel/ascend*/a[a-d]*"
# Without the kernels package the chip's folder has only the toolkit's ops_oam, and no operator starting with a.
SOCS = (
    ("910B", "ascend910b"),
    ("310P", "ascend310p"),
    ("910", "ascend910_93"),
)  # a part of the chip's name, and its folder
TOOLKIT_LIBRARIES, ATB_LIBRARY = ("libascendcl.so", "libhccl.so"), "libatb.so"
# Packages from CANN's installation guide; the operator compiler imports them, but its error does not name them.
NEEDED = ("attrs", "cffi", "decorator", "numpy", "protobuf", "psutil", "pyyaml", "scipy", "sympy")
FRAMEWORKS = ("torch-npu", "paddle-custom-npu", "mindspeed", "vllm-ascend")


def check_atb(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """NNAL/ATB is installed; the Paddle plugin cannot be imported without libatb.so."""
    answer = facts.answers.get(ATB_SET_ENV)
    if not toolkit_trees(facts, v):
        yield skipped_because("toolkit.present")
    elif answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield report_unanswered(facts, ATB_SET_ENV)
    elif answer.ok:
        yield ok(_("nnal/atb/set_env.sh found"))
    else:
        words = _("Install the NNAL package of the same CANN release, and source its set_env.sh.")
        shown = quote_nothing(ATB_SET_ENV)
        yield warn(_("NNAL/ATB is not installed"), fix(words, NNAL_INSTALL), evidence=shown)


def check_loads(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit libraries can be loaded; otherwise frameworks find no device."""
    libraries = schemas.read_libraries(facts)
    if not toolkit_trees(facts, v):
        yield skipped_because("toolkit.present")
    elif facts.environment is None or libraries is None or not any(name in libraries for name in TOOLKIT_LIBRARIES):
        yield report_unanswered(facts, "ask libraries")
    elif bad := next(
        (name for name in TOOLKIT_LIBRARIES if name in libraries and libraries[name].loads is not True), None
    ):
        out_of_force = v.vendor.toolkit_folder not in facts.environment.get("LD_LIBRARY_PATH", "")
        yield (
            skipped_because("toolkit.environment")
            if out_of_force
            else unloadable_library_finding(facts, v, bad, libraries[bad])
        )
    else:
        yield ok(join(", ", (name for name in TOOLKIT_LIBRARIES if name in libraries)))


def check_atb_loads(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """libatb.so can be loaded; NNAL has a separate set_env.sh."""
    libraries, there = schemas.read_libraries(facts), facts.answers.get(ATB_SET_ENV)
    if not toolkit_trees(facts, v):
        yield skipped_because("toolkit.present")
    elif there is None or not there.ok:
        yield skipped_because("toolkit.atb")
    elif facts.environment is None or libraries is None or ATB_LIBRARY not in libraries:
        yield report_unanswered(facts, "ask libraries")
    elif libraries[ATB_LIBRARY].loads is True:
        yield ok(verbatim(ATB_LIBRARY))
    elif v.vendor.toolkit_folder not in facts.environment.get("LD_LIBRARY_PATH", ""):
        yield skipped_because("toolkit.environment")
    elif "ATB_HOME_PATH" not in facts.environment:
        words = _("Source it after the toolkit's set_env.sh: importing the paddle plugin fails without libatb.so.")
        shown = quote_values("environment", ATB_HOME_PATH=_("not set"))
        yield warn(
            _("NNAL's set_env.sh is not active"),
            fix(words, "source /usr/local/Ascend/nnal/atb/set_env.sh"),
            evidence=shown,
        )
    else:
        yield unloadable_library_finding(facts, v, ATB_LIBRARY, libraries[ATB_LIBRARY])


def check_nnal(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """NNAL/ATB has the version of the toolkit; others lack symbols or have another ABI."""
    answer, there, cann = facts.answers.get(ATB_VERSION), facts.answers.get(ATB_SET_ENV), toolkit_version(facts, v)
    found = re.search(r"Ascend-cann-atb\s*:\s*(\S+)", answer.out) if answer and answer.ok else None
    if not toolkit_trees(facts, v):
        yield skipped_because("toolkit.present")
    elif there is not None and there.outcome is Outcome.EMPTY:
        yield skipped_because("toolkit.atb")
    elif found is None or cann is None:
        yield report_unanswered(facts, ATB_VERSION)
    elif (same := versions.is_same_release(found[1], cann)) is None:
        yield unknown(_("NNAL {found} and CANN {cann} cannot be compared", found=found[1], cann=cann))
    elif same:
        yield ok(_("NNAL {found} with CANN {cann}", found=found[1], cann=cann))
    else:
        words = _("Install the NNAL package of the same CANN release.")
        yield warn(
            _("NNAL is {found}, but CANN is {cann}", found=found[1], cann=cann),
            diagnose(words, *_cat_command(ATB_VERSION)),
            evidence=quote_answer(answer, found[1]),
        )


def check_operators(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The operator packages have the version of the toolkit; otherwise E30006 and 507033 occur."""
    base = _parse_version(facts.answers.get(COMPILER))
    parts = {key: version for key in OPERATORS if (version := _parse_version(facts.answers.get(key)))}
    other = next((key for key, version in parts.items() if version != base), None)
    if not toolkit_trees(facts, v):
        yield skipped_because("toolkit.present")
    elif base is None or not parts:
        yield report_unanswered(facts, COMPILER, *OPERATORS)
    elif other:
        words = _("Install the kernels package of this CANN release, or reinstall the toolkit.")
        seen = _(
            "{package} is {version}, but the compiler is {base}",
            package=other.split("/")[-2],
            version=parts[other],
            base=base,
        )
        yield warn_or_fail(
            local_severity(facts),
            seen,
            diagnose(words, *_cat_command(other, COMPILER)),
            evidence=quote_answer(facts.answers.get(other), "Version"),
        )
    else:
        yield ok(
            ngettext("{count} operator package of {base}", "{count} operator packages of {base}", len(parts), base=base)
        )


def check_kernels(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The operator kernels for these chips are installed; otherwise operators are reported as missing."""
    answer, wanted = facts.answers.get(KERNELS), _kernel_folder(v)
    below = (path.partition("/kernel/")[2].partition("/")[0] for path in (answer.out if answer else "").split())
    found = sorted({chip for chip in below if chip})
    if not toolkit_trees(facts, v):
        yield skipped_because("toolkit.present")
    elif answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY) or (answer.ok and not found):
        yield report_unanswered(facts, KERNELS)
    elif wanted is None:
        yield unknown(_("the kernels for these chips are unknown"))
    elif wanted in found:
        yield ok(_("kernels for {wanted}", wanted=wanted))
    else:
        words = _("Install the kernels package (named ops since CANN 8.5) of the same CANN release for this chip.")
        seen = (
            _("no kernels for {chip}; kernels found for {found}", chip=wanted, found=join(", ", found))
            if found
            else _("no kernels for {chip}", chip=wanted)
        )
        shown = quote_values("kernel folder", contains=", ".join(found) or "no operators")
        yield warn_or_fail(
            local_severity(facts),
            seen,
            diagnose(words, f"ls {_LATEST}/opp/built-in/op_impl/ai_core/tbe/kernel"),
            evidence=shown,
        )


def check_python_path(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The Python modules of CANN are on PYTHONPATH; training imports tbe."""
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    value, folder = facts.environment.get("PYTHONPATH", ""), v.vendor.toolkit_folder
    in_force = folder in facts.environment.get("LD_LIBRARY_PATH", "")
    if not toolkit_trees(facts, v) or not in_force:
        yield skipped_because("toolkit.environment" if toolkit_trees(facts, v) else "toolkit.present")
    elif re.search(rf"{re.escape(folder)}[^:]*/(site-packages|tbe)", value):
        yield ok(_("CANN's Python folder is on PYTHONPATH"))
    else:
        words = _("Source set_env.sh after PYTHONPATH is set, and append to PYTHONPATH instead of replacing it.")
        shown = quote_values("environment", PYTHONPATH=value or _("not set"))
        yield warn(
            _("PYTHONPATH does not contain CANN's Python folder"),
            fix(words, *vendor_commands(v, "toolkit")),
            evidence=shown,
        )


def check_python_packages(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The Python packages that the operator compiler of CANN imports are installed."""
    found = facts.packages
    if found is None:
        yield report_unanswered(facts, "ask packages")
    elif not any(name in found.packages for name in FRAMEWORKS):
        yield skip(_("no framework that compiles operators is installed"))
    elif missing := [name for name in NEEDED if name not in found.packages]:
        words = _(
            "Install these packages: without them, the first operator fails with a message "
            "that looks like a CANN error."
        )
        shown = quote_values(f"packages of {found.executable or 'python3'}", missing=", ".join(missing))
        yield warn(
            _("not installed: {missing}", missing=join(", ", missing)),
            fix(words, f"pip install {' '.join(missing)}"),
            evidence=shown,
        )
    else:
        yield ok(_("{count} packages installed", count=len(NEEDED)))


def _parse_version(answer: Answer | None) -> str | None:
    found = re.search(r"^Version\s*=\s*(\S+)", answer.out, re.MULTILINE) if answer and answer.ok else None
    return found[1] if found else None


def _kernel_folder(v: VendorFacts) -> str | None:
    names = {d.name or "" for d in v.devices}
    return next((folder for part, folder in SOCS if len(names) == 1 and part in next(iter(names)).upper()), None)


def _cat_command(*keys: str) -> tuple[str, ...]:
    return (f"cat {' '.join(key.removeprefix('read ') for key in keys)}",)


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "toolkit.atb",
        check_atb,
        before="toolkit.copies",
        reads="/usr/local/Ascend/nnal",
        source="Paddle#68398, Paddle#70878",
        rule="WARN if not installed",
        fix="Install the NNAL of the same CANN version.",
    ),
    vendor_check(
        "toolkit.loads",
        check_loads,
        before="toolkit.copies",
        reads="dlopen in a child process",
        source="vllm-ascend#262, PaddleX#4749",
        rule="FAIL if libascendcl.so or libhccl.so fails to load; WARN on hosts that run jobs in containers",
        fix="Source one set_env.sh, and keep one toolkit.",
    ),
    vendor_check(
        "toolkit.atb_loads",
        check_atb_loads,
        before="toolkit.paths",
        reads="dlopen in a child process",
        source="Paddle#68398; Ascend/pytorch#99, PaddleCustomDevice#2452",
        rule="WARN if the set_env.sh of NNAL is not sourced; FAIL if the library fails to load with it",
        fix="Source nnal/atb/set_env.sh, or install the NNAL of this CANN version.",
    ),
    vendor_check(
        "toolkit.nnal",
        check_nnal,
        before="toolkit.paths",
        reads="nnal/atb/latest/version.info",
        source="vllm-ascend#117, #750; Ascend/pytorch#99",
        rule="WARN if the versions differ",
        fix="Install the NNAL of this CANN version.",
    ),
    vendor_check(
        "toolkit.operators",
        check_operators,
        before="toolkit.paths",
        reads="version.info of compiler, opp, opp_kernel",
        source="vllm-ascend#4284",
        rule="FAIL if an operator package has another version; WARN on hosts that run jobs in containers",
        fix="Install the kernels package of this CANN version.",
    ),
    device_check(
        "toolkit.kernels",
        check_kernels,
        before="toolkit.paths",
        reads="opp/built-in/op_impl/ai_core/tbe/kernel",
        source="gpustack#1514, LlamaFactory#5189",
        rule="FAIL if there are none for the chip; WARN on hosts that run jobs in containers",
        fix="Install the kernels package for the chip.",
    ),
    vendor_check(
        "toolkit.python_path",
        check_python_path,
        reads="PYTHONPATH",
        source="Ascend/pytorch#29",
        rule="WARN if set_env.sh is sourced but PYTHONPATH lacks the CANN directory",
        fix="Source set_env.sh last.",
    ),
    vendor_check(
        "toolkit.python_packages",
        check_python_packages,
        reads="installed packages",
        source="LlamaFactory#3930; CANN installation guide",
        rule="WARN if one is missing and a framework is installed",
        fix="Install them with pip.",
    ),
)
