"""The toolkit's parts: libraries that load, packages of one release, kernels for the chip, Python's side of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.checks.software.driver_parts import unloadable
from envcheck.checks.software.toolkit import ATB_SET_ENV, in_force
from envcheck.core import versions
from envcheck.core.check import ILUVATAR, NPU, Check, of_devices, of_vendor
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    figures,
    follows,
    graded,
    here,
    not_told,
    ok,
    quote,
    reading,
    skip,
    told_by,
    unknown,
    warn,
)
from envcheck.core.installed_versions import toolkit_trees, toolkit_version
from envcheck.core.key_value import driver_version
from envcheck.core.model import Answer, Finding, Outcome
from probes.host import schemas
from probes.host.schemas import Paths

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


def copies(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Each of the toolkit's libraries is on the library path once: two releases mix their symbols."""
    seen = schemas.loader(facts)
    names = {name for name, _ in v.vendor.libraries} | {"libruntime.so"}
    double = {name: paths for name, paths in seen.copies.items() if name in names and len(paths) > 1} if seen else {}
    if facts.environment is None or seen is None:
        yield not_told(facts, "ask loader")
    elif len(in_force(facts)) > 1:
        yield follows("toolkit.single")
    elif double:
        name, paths = next(iter(double.items()))
        words = (
            "Keep one folder on the path: programs take a library from the first, and others that belong to the second."
        )
        shown = figures("LD_LIBRARY_PATH", first=paths[0], second=paths[1])
        yield graded(
            here(facts), f"{name} is in {', '.join(paths[:3])}", words, "echo $LD_LIBRARY_PATH", evidence=shown
        )
    elif "LD_LIBRARY_PATH" in facts.environment:
        yield ok("no library of the toolkit is on the path twice")
    else:
        yield skip("LD_LIBRARY_PATH is not set")


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


@reading(schemas.paths, "ask paths")
def paths(seen: Paths, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit's folders that the environment names are there: an upgrade leaves the old names in profiles."""
    folder = v.vendor.toolkit_folder
    named = [(name, path, there) for name, listed in seen.named.items() for path, there in listed.items()]
    mine = [(name, path, there) for name, path, there in named if path.startswith(folder)]
    gone = [(name, path) for name, path, there in mine if not there]
    if gone:
        words = "Open a new shell, and source the set_env.sh of the toolkit that is there."
        seen_words = ", ".join(f"{name} names {path}" for name, path in gone[:3])
        shown = figures("environment", **{gone[0][0]: gone[0][1]})
        yield warn(f"not there: {seen_words}", words, *commands(v, "toolkit"), evidence=shown)
    elif mine:
        yield ok(f"{len(mine)} paths of the environment are there")
    else:
        yield follows("toolkit.environment", "the environment names none; follows from toolkit.environment")


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


def corex(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The CoreX tree is of the kernel driver's release: cards are listed, and frameworks see none otherwise."""
    known = schemas.kernel(facts)
    running = (known.versions.get("iluvatar") if known else None) or driver_version(v)
    named = [found[1] for path in toolkit_trees(facts, v) if (found := re.search(r"corex-(\d+\.\d+)", path))]
    short = re.match(r"\d+\.\d+", running or "")
    if not toolkit_trees(facts, v):
        yield follows("toolkit.present")
    elif short is None and not v.devices:
        yield follows("driver.tool")
    elif not named or short is None:
        yield unknown("the versions of driver and CoreX tree could not be told")
    elif short[0] in named:
        yield ok(f"driver {running}, CoreX {', '.join(named)}")
    else:
        words = "Install the driver of the image's CoreX on the host, or choose an image of the driver's release."
        seen = f"driver {running}, but CoreX {', '.join(named)}"
        shown = figures("ls /usr/local", corex=", ".join(named))
        other = re.match(r"\d+\.\d+", (v.document.tool_version if v.document else None) or "")
        cause = "driver.agrees" if other and other[0] in named else ""  # the tool came with this tree
        yield told_by(cause, graded(here(facts), seen, words, *commands(v, "driver"), evidence=shown))


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
        "toolkit.loads",
        loads,
        reads="dlopen in a child",
        source="vllm-ascend#262, PaddleX#4749",
        vendors=NPU,
        rule="FAIL when libascendcl.so or libhccl.so does not load; WARN where containers can be started",
        fix="Source one set_env.sh; keep one tree.",
    ),
    of_vendor(
        "toolkit.copies",
        copies,
        reads="the folders of LD_LIBRARY_PATH",
        source="PaddleX#4749",
        vendors=(*NPU, *ILUVATAR),
        rule="FAIL when it has two files of one library; WARN where containers can be started",
        fix="One folder of one release.",
    ),
    of_vendor(
        "toolkit.atb_loads",
        atb_loads,
        reads="dlopen in a child",
        source="Paddle#68398; Ascend/pytorch#99, PaddleCustomDevice#2452",
        vendors=NPU,
        rule="WARN when NNAL's set_env.sh is not in force; FAIL when its library does not load with it",
        fix="Source nnal/atb/set_env.sh; install the NNAL of this CANN.",
    ),
    of_vendor(
        "toolkit.nnal",
        nnal,
        reads="nnal/atb/latest/version.info",
        source="vllm-ascend#117, #750; Ascend/pytorch#99",
        vendors=NPU,
        rule="WARN when its release is not the toolkit's",
        fix="Install the NNAL of this CANN.",
    ),
    of_vendor(
        "toolkit.operators",
        operators,
        reads="version.info of compiler, opp, opp_kernel",
        source="vllm-ascend#4284",
        vendors=NPU,
        rule="FAIL when an operator package is of another release; WARN where containers can be started",
        fix="Install the kernels package of this CANN.",
    ),
    of_devices(
        "toolkit.kernels",
        kernels,
        reads="opp/built-in/op_impl/ai_core/tbe/kernel",
        source="gpustack#1514, LlamaFactory#5189",
        vendors=NPU,
        rule="FAIL when there are none for the chip; WARN where containers can be started",
        fix="Install the kernels package for the chip.",
    ),
    of_vendor(
        "toolkit.paths",
        paths,
        reads="ASCEND_HOME_PATH, LD_LIBRARY_PATH, PYTHONPATH and their like",
        source="llama.cpp#22784, gpustack#1101",
        vendors=(*NPU, *ILUVATAR),
        rule="WARN when a folder of the toolkit's that they name is not there",
        fix="Source the set_env.sh that is there.",
    ),
    of_vendor(
        "toolkit.python_path",
        compiler_python,
        reads="PYTHONPATH",
        source="Ascend/pytorch#29",
        vendors=NPU,
        rule="WARN when set_env.sh is in force and PYTHONPATH lacks CANN's folder",
        fix="Source set_env.sh last.",
    ),
    of_vendor(
        "toolkit.python_packages",
        python_packages,
        reads="installed packages",
        source="LlamaFactory#3930; CANN's installation guide",
        vendors=NPU,
        rule="WARN when one is missing where a framework is installed",
        fix="pip install them.",
    ),
    of_vendor(
        "toolkit.corex",
        corex,
        reads="/sys/module/iluvatar/version, ixsmi, /usr/local/corex*",
        source="Paddle#73741; FlagTree's wiki",
        vendors=ILUVATAR,
        rule="FAIL when no tree is of the driver's release; WARN where containers can be started",
        fix="Bring driver and CoreX to one release.",
    ),
)
