"""CANN's parts: libraries that load, packages of one release, kernels for the chip, Python's side of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, of_devices, of_vendor
from envcheck.core.derived.libraries import unloadable
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    figures,
    follows,
    graded,
    here,
    not_told,
    nothing,
    ok,
    quote,
    skip,
    unknown,
    warn,
)
from envcheck.core.installed_versions import toolkit_trees, toolkit_version
from envcheck.core.model import Answer, Finding, Outcome
from probes.host import schemas

ATB_SET_ENV = "list /usr/local/Ascend/nnal/atb/set_env.sh"
_LATEST = "/usr/local/Ascend/ascend-toolkit/latest"
ATB_VERSION = "read /usr/local/Ascend/nnal/atb/latest/version.info"
COMPILER = f"read {_LATEST}/compiler/version.info"
OPERATORS = (f"read {_LATEST}/opp/version.info", f"read {_LATEST}/opp_kernel/version.info")
KERNELS = f"list {_LATEST}/opp/built-in/op_impl/ai_core/tbe/kernel/ascend*/a[a-d]*"
# Without the kernels package the chip's folder holds the toolkit's own ops_oam alone, and no operator in a.
SOCS = (("910B", "ascend910b"), ("310P", "ascend310p"), ("910", "ascend910_93"))  # what a chip's name has, its folder
TOOLKIT_LIBRARIES, ATB_LIBRARY = ("libascendcl.so", "libhccl.so"), "libatb.so"
# What CANN's installation guide has pip install; the compiler of operators imports them, and its error names none.
NEEDED = ("attrs", "cffi", "decorator", "numpy", "protobuf", "psutil", "pyyaml", "scipy", "sympy")
FRAMEWORKS = ("torch-npu", "paddle-custom-npu", "mindspeed", "vllm-ascend")


def atb(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """NNAL/ATB is installed: importing paddle's plugin fails without libatb.so."""
    answer = facts.answers.get(ATB_SET_ENV)
    if not toolkit_trees(facts, v):
        yield follows("toolkit.present")
    elif answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield not_told(facts, ATB_SET_ENV)
    elif answer.ok:
        yield ok("nnal/atb/set_env.sh is there")
    else:
        words = "Install the NNAL package of the same CANN release, and source its set_env.sh."
        shown = nothing(ATB_SET_ENV)
        yield warn("NNAL/ATB is not installed", words, "ls -d /usr/local/Ascend/nnal/atb", evidence=shown)


def loads(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit's libraries can be loaded here: frameworks count no device otherwise."""
    said = schemas.libraries(facts)
    if not toolkit_trees(facts, v):
        yield follows("toolkit.present")
    elif facts.environment is None or said is None or not any(name in said for name in TOOLKIT_LIBRARIES):
        yield not_told(facts, "ask libraries")
    elif bad := next((name for name in TOOLKIT_LIBRARIES if name in said and said[name].loads is not True), None):
        out_of_force = v.vendor.toolkit_folder not in facts.environment.get("LD_LIBRARY_PATH", "")
        yield follows("toolkit.environment") if out_of_force else unloadable(facts, v, bad, said[bad])
    else:
        yield ok(", ".join(name for name in TOOLKIT_LIBRARIES if name in said))


def atb_loads(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """libatb.so can be loaded: NNAL has a set_env.sh of its own."""
    said, there = schemas.libraries(facts), facts.answers.get(ATB_SET_ENV)
    if not toolkit_trees(facts, v):
        yield follows("toolkit.present")
    elif there is None or not there.ok:
        yield follows("toolkit.atb")
    elif facts.environment is None or said is None or ATB_LIBRARY not in said:
        yield not_told(facts, "ask libraries")
    elif said[ATB_LIBRARY].loads is True:
        yield ok(ATB_LIBRARY)
    elif v.vendor.toolkit_folder not in facts.environment.get("LD_LIBRARY_PATH", ""):
        yield follows("toolkit.environment")
    elif "ATB_HOME_PATH" not in facts.environment:
        words = "Source it after the toolkit's: importing paddle's plugin fails without libatb.so."
        shown = figures("environment", ATB_HOME_PATH="not set")
        yield warn(
            "NNAL's set_env.sh is not in force", words, "source /usr/local/Ascend/nnal/atb/set_env.sh", evidence=shown
        )
    else:
        yield unloadable(facts, v, ATB_LIBRARY, said[ATB_LIBRARY])


def nnal(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """NNAL/ATB is of the toolkit's release: others' symbols are missing, or of another ABI."""
    answer, there, cann = facts.answers.get(ATB_VERSION), facts.answers.get(ATB_SET_ENV), toolkit_version(facts, v)
    found = re.search(r"Ascend-cann-atb\s*:\s*(\S+)", answer.out) if answer and answer.ok else None
    if not toolkit_trees(facts, v):
        yield follows("toolkit.present")
    elif there is not None and there.outcome is Outcome.EMPTY:
        yield follows("toolkit.atb")
    elif found is None or cann is None:
        yield not_told(facts, ATB_VERSION)
    elif (same := versions.same_release(found[1], cann)) is None:
        yield unknown(f"NNAL {found[1]} and CANN {cann} cannot be compared")
    elif same:
        yield ok(f"NNAL {found[1]} with CANN {cann}")
    else:
        words = "Install the NNAL package of the same CANN release."
        yield warn(f"NNAL {found[1]}, but CANN {cann}", words, *_look(ATB_VERSION), evidence=quote(answer, found[1]))


def operators(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The operator packages are of the toolkit's own release: E30006 and 507033 otherwise."""
    base = _version_of(facts.answers.get(COMPILER))
    parts = {key: said for key in OPERATORS if (said := _version_of(facts.answers.get(key)))}
    other = next((key for key, said in parts.items() if said != base), None)
    if not toolkit_trees(facts, v):
        yield follows("toolkit.present")
    elif base is None or not parts:
        yield not_told(facts, COMPILER, *OPERATORS)
    elif other:
        words = "Install the kernels package of this CANN, or the whole toolkit anew."
        seen = f"{other.split('/')[-2]} is {parts[other]}, the compiler {base}"
        yield graded(
            here(facts), seen, words, *_look(other, COMPILER), evidence=quote(facts.answers.get(other), "Version")
        )
    else:
        yield ok(f"{len(parts)} operator packages of {base}")


def kernels(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The operators' kernels for these chips are installed: an operator is 'missing' otherwise."""
    answer, wanted = facts.answers.get(KERNELS), _soc(v)
    below = (path.partition("/kernel/")[2].partition("/")[0] for path in (answer.out if answer else "").split())
    found = sorted({chip for chip in below if chip})
    if not toolkit_trees(facts, v):
        yield follows("toolkit.present")
    elif answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY) or (answer.ok and not found):
        yield not_told(facts, KERNELS)
    elif wanted is None:
        yield unknown("which kernels these chips want is not known")
    elif wanted in found:
        yield ok(f"kernels for {wanted}")
    else:
        words = "Install the kernels package (since 8.5: ops) of the same CANN for this chip."
        seen = f"no kernels for {wanted}{f', but for {chr(44).join(found)}' if found else ''}"
        shown = figures("the kernels' folder", holds=", ".join(found) or "no operator")
        yield graded(here(facts), seen, words, f"ls {_LATEST}/opp/built-in/op_impl/ai_core/tbe/kernel", evidence=shown)


def compiler_python(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """CANN's own Python modules are on PYTHONPATH: training, and it alone, imports tbe."""
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    value, folder = facts.environment.get("PYTHONPATH", ""), v.vendor.toolkit_folder
    in_force = folder in facts.environment.get("LD_LIBRARY_PATH", "")
    if not toolkit_trees(facts, v) or not in_force:
        yield follows("toolkit.environment" if toolkit_trees(facts, v) else "toolkit.present")
    elif re.search(rf"{re.escape(folder)}[^:]*/(site-packages|tbe)", value):
        yield ok("CANN's Python folder is on PYTHONPATH")
    else:
        words = "Source set_env.sh after whatever sets PYTHONPATH, and add to it instead of replacing it."
        shown = figures("environment", PYTHONPATH=value or "not set")
        yield warn("PYTHONPATH has no folder of CANN's", words, *commands(v, "toolkit"), evidence=shown)


def python_packages(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The Python packages that CANN's compiler of operators imports are installed."""
    found = facts.packages
    if found is None:
        yield not_told(facts, "ask packages")
    elif not any(name in found.packages for name in FRAMEWORKS):
        yield skip("no framework is installed here that would compile operators")
    elif missing := [name for name in NEEDED if name not in found.packages]:
        words = "Install them: without one the first operator fails, and the message looks like CANN's own."
        shown = figures(f"packages of {found.executable or 'python3'}", missing=", ".join(missing))
        yield warn(f"not installed: {', '.join(missing)}", words, f"pip install {' '.join(missing)}", evidence=shown)
    else:
        yield ok(f"{len(NEEDED)} packages")


def _version_of(answer: Answer | None) -> str | None:
    found = re.search(r"^Version\s*=\s*(\S+)", answer.out, re.MULTILINE) if answer and answer.ok else None
    return found[1] if found else None


def _soc(v: VendorFacts) -> str | None:
    names = {d.name or "" for d in v.devices}
    return next((folder for part, folder in SOCS if len(names) == 1 and part in next(iter(names)).upper()), None)


def _look(*keys: str) -> tuple[str, ...]:
    return (f"cat {' '.join(key.removeprefix('read ') for key in keys)}",)


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "toolkit.atb",
        atb,
        before="toolkit.copies",
        reads="/usr/local/Ascend/nnal",
        source="Paddle#68398, Paddle#70878",
        rule="WARN when it is not installed",
        fix="Install NNAL of the same CANN.",
    ),
    of_vendor(
        "toolkit.loads",
        loads,
        before="toolkit.copies",
        reads="dlopen in a child",
        source="vllm-ascend#262, PaddleX#4749",
        rule="FAIL when libascendcl.so or libhccl.so does not load; WARN where containers can be started",
        fix="Source one set_env.sh; keep one tree.",
    ),
    of_vendor(
        "toolkit.atb_loads",
        atb_loads,
        before="toolkit.paths",
        reads="dlopen in a child",
        source="Paddle#68398; Ascend/pytorch#99, PaddleCustomDevice#2452",
        rule="WARN when NNAL's set_env.sh is not in force; FAIL when its library does not load with it",
        fix="Source nnal/atb/set_env.sh; install the NNAL of this CANN.",
    ),
    of_vendor(
        "toolkit.nnal",
        nnal,
        before="toolkit.paths",
        reads="nnal/atb/latest/version.info",
        source="vllm-ascend#117, #750; Ascend/pytorch#99",
        rule="WARN when its release is not the toolkit's",
        fix="Install the NNAL of this CANN.",
    ),
    of_vendor(
        "toolkit.operators",
        operators,
        before="toolkit.paths",
        reads="version.info of compiler, opp, opp_kernel",
        source="vllm-ascend#4284",
        rule="FAIL when an operator package is of another release; WARN where containers can be started",
        fix="Install the kernels package of this CANN.",
    ),
    of_devices(
        "toolkit.kernels",
        kernels,
        before="toolkit.paths",
        reads="opp/built-in/op_impl/ai_core/tbe/kernel",
        source="gpustack#1514, LlamaFactory#5189",
        rule="FAIL when there are none for the chip; WARN where containers can be started",
        fix="Install the kernels package for the chip.",
    ),
    of_vendor(
        "toolkit.python_path",
        compiler_python,
        reads="PYTHONPATH",
        source="Ascend/pytorch#29",
        rule="WARN when set_env.sh is in force and PYTHONPATH lacks CANN's folder",
        fix="Source set_env.sh last.",
    ),
    of_vendor(
        "toolkit.python_packages",
        python_packages,
        reads="installed packages",
        source="LlamaFactory#3930; CANN's installation guide",
        rule="WARN when one is missing where a framework is installed",
        fix="pip install them.",
    ),
)
