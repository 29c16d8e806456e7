"""The Python that would train, and what is installed in it; read from metadata, nothing is imported."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.compat import judging, version_findings
from envcheck.compat.model import Standing, Verdict
from envcheck.core import versions
from envcheck.core.check import Check, of_machine, of_vendor
from envcheck.core.derived.installed import installed, metadata
from envcheck.core.facts import Facts, Packages, VendorFacts
from envcheck.core.findings import fail, no_rule, ok, reading, skip, unknown, warn
from envcheck.core.installed_versions import toolkit_version
from envcheck.core.key_value import driver_version
from envcheck.core.model import Finding
from envcheck.vendors import VENDORS

PYTHON_FLOOR, PYTHON_CEILING = "3.9", "3.14"  # paddlepaddle 3.1 to 3.3 has wheels for 3.9 to 3.13 (package metadata)
PADDLE_FLOOR = "3.0.0"  # device plugins of today pair with 3.0 and newer
FRAMEWORKS = ("paddlepaddle", "paddlepaddle-gpu", *(v.torch_plugin for v in VENDORS.values() if v.torch_plugin))
NUMPY_USERS = (*FRAMEWORKS, "opencv-python", "paddleformers")


@reading(installed, "ask packages")
def version(found: Packages, facts: Facts) -> Iterator[Finding]:
    """Python is of a version that paddle has wheels for."""
    if found.python is None:
        yield unknown("python3 did not tell its version", "Look whether it is there, and starts.", "python3 --version")
    elif versions.key(found.python) is None:
        yield unknown(f"Python {found.python}: not a version that envcheck can order")
    elif versions.at_least(found.python, PYTHON_FLOOR) and not versions.at_least(found.python, PYTHON_CEILING):
        yield ok(f"Python {found.python}")
    else:
        words = "Use another python3, or a container: Paddle's wheels are for 3.9 to 3.13, and images carry 3.10."
        yield warn(f"Python {found.python}", words, "python3 --version", evidence=metadata(found))


@reading(installed, "ask packages")
def paddle(found: Packages, facts: Facts) -> Iterator[Finding]:
    """Paddle, where it is installed, is one package of a version that the plugins pair with."""
    names = [name for name in ("paddlepaddle", "paddlepaddle-gpu") if name in found.packages]
    if len(names) > 1:
        words = "Remove both, install one again: they write the same folder."
        yield fail(
            "paddlepaddle and paddlepaddle-gpu are both installed",
            words,
            f"pip uninstall {' '.join(names)}",
            evidence=metadata(found, *names),
        )
    elif not names:
        yield skip("not installed here: an image holds it, or envcheck provision installs it")
    elif (reached := versions.at_least(found.packages[names[0]], PADDLE_FLOOR)) is None:
        yield unknown(f"{names[0]} {found.packages[names[0]]}: not a version that envcheck can order")
    elif reached:
        yield ok(f"{names[0]} {found.packages[names[0]]}")
    else:
        seen = f"{names[0]} {found.packages[names[0]]} is older than {PADDLE_FLOOR}"
        yield warn(seen, "Install 3.1 or newer.", "pip install 'paddlepaddle>=3.1'", evidence=metadata(found, names[0]))


@reading(installed, "ask packages")
def plugin(found: Packages, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Paddle and the vendor's plugin belong together, and the plugin to the toolkit or driver below."""
    name = v.vendor.plugin or ""
    host, mine = found.packages.get("paddlepaddle"), found.packages.get(name)
    if not name:
        yield no_rule(v, "plugin of paddle's")
    elif not host and not mine:
        yield skip("neither paddlepaddle nor its plugin is installed here")
    elif host and not mine:
        words = "Install it from Paddle's own index: without it, training falls back to the CPU silently."
        fix = f"pip install {name}=={host} -i {v.vendor.plugin_index}"
        yield warn(f"paddlepaddle {host} without {name}", words, fix, evidence=metadata(found, "paddlepaddle"))
    elif not host:
        words = "Install the CPU package: the plugin loads into it."
        fix = f"pip install paddlepaddle=={mine}"
        yield fail(f"{name} {mine} without paddlepaddle", words, fix, evidence=metadata(found, name))
    elif versions.key(host) is None or versions.key(mine or "") is None:
        yield unknown(f"paddlepaddle {host} and {name} {mine} cannot be compared")
    else:
        yield _plugin(facts, v, found, host, mine or "")


def _plugin(facts: Facts, v: VendorFacts, found: Packages, host: str, mine: str) -> Finding:
    """The pair first; where that is well, the plugin with the toolkit or the driver that it was built for."""
    name, driver, toolkit = v.vendor.plugin or "", driver_version(v), toolkit_version(facts, v)
    here: dict[str, str | None] = {name: mine, "paddlepaddle": host}
    here |= {v.vendor.toolkit_component: toolkit, v.vendor.driver_component: driver}
    both = version_findings.pair(name, "paddlepaddle", here)
    shown = metadata(found, "paddlepaddle", name)
    if both and both.standing is not Standing.TESTED and versions.compare(host, mine) != 0:
        return version_findings.finding(both, shown, f"pip install paddlepaddle=={mine}")
    below = version_findings.pair(name, v.vendor.plugin_partner, here)
    if below and below.standing is not Standing.TESTED:
        own = version_findings.finding(below, shown, *version_findings.ACTIVE)
        of_driver = v.vendor.plugin_partner == v.vendor.driver_component
        return version_findings.wants_newer(v, own) if of_driver else own
    return ok(f"paddlepaddle {host} with {name} {mine}")


@reading(installed, "ask packages")
def numpy(found: Packages, facts: Facts) -> Iterator[Finding]:
    """numpy is of a version that paddle and the toolkit work with."""
    version = found.packages.get("numpy")
    if version is None or not any(n in found.packages for n in FRAMEWORKS):
        yield skip("no numpy here that a framework uses")
    elif versions.key(version) is None:
        yield unknown(f"numpy {version}: not a version that envcheck can order")
    elif bad := version_findings.worst(v for v in _with_numpy(facts, found, version) if v.standing is Standing.BAD):
        yield version_findings.finding(bad, metadata(found, "numpy"), "pip install 'numpy<2'")
    else:
        yield ok(f"numpy {version}")


def _with_numpy(facts: Facts, found: Packages, version: str) -> Iterator[Verdict]:
    """numpy with the packages that compute with it, and with the toolkit."""
    here = {name: found.packages[name] for name in NUMPY_USERS if name in found.packages}
    toolkits = {v.vendor.toolkit_component: toolkit_version(facts, v) for v in facts.vendors}
    below = {component: version for component, version in toolkits.items() if component and version}
    yield from (v for v in judging.judge({**here, **below, "numpy": version}) if "numpy" in (v.left, v.right))


@reading(installed, "ask packages")
def triton(found: Packages, facts: Facts) -> Iterator[Finding]:
    """Where triton can be imported, paddle's bridge to it can be, too: paddleformers insists."""
    if "triton" not in found.packages or "paddleformers" not in found.packages:
        yield skip("triton and paddleformers are not both installed here")
    elif "use-triton-in-paddle" in found.packages:
        yield ok("use-triton-in-paddle is installed")
    else:
        words = "Remove triton, or add use-triton-in-paddle: paddleformers stops with a RuntimeError."
        yield warn(
            "triton without use-triton-in-paddle", words, "pip uninstall triton", evidence=metadata(found, "triton")
        )


CHECKS: tuple[Check, ...] = (
    of_machine(
        "python.version",
        version,
        reads="python3",
        source="paddlepaddle's package metadata",
        rule="WARN outside 3.9 to 3.13",
        fix="Another python3, or a container.",
        frameworks=("paddle",),
    ),
    of_machine(
        "python.paddle",
        paddle,
        reads="installed packages",
        source="paddlepaddle's package metadata",
        rule="FAIL when paddlepaddle and paddlepaddle-gpu are both installed; WARN below 3.0.0",
        fix="One package, of 3.1 or newer.",
        frameworks=("paddle",),
    ),
    of_vendor(
        "python.plugin",
        plugin,
        reads="installed packages",
        source="PaddleCustomDevice#1460, Paddle#69403",
        rule="FAIL for a pair that is known bad, or a plugin without paddle; WARN for paddle without its plugin; "
        "UNKNOWN where no table names it with the toolkit or the driver, or with a paddlepaddle of another number",
        fix="The plugin of paddle's version, from Paddle's index.",
        frameworks=("paddle",),
    ),
    of_machine(
        "python.numpy",
        numpy,
        reads="installed packages",
        source="tried with paddle 3.1.0 and 3.3.1; vllm-ascend#2210",
        rule="FAIL when a table calls it bad with a framework or the toolkit",
        fix="pip install 'numpy<2'.",
        frameworks=("paddle", "torch"),
    ),
    of_machine(
        "python.triton",
        triton,
        reads="installed packages",
        source="paddleformers, tried",
        rule="WARN when triton and paddleformers are there without use-triton-in-paddle",
        fix="Remove triton, or add the bridge.",
        frameworks=("paddle",),
    ),
)
