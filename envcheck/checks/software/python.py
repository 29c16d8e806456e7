"""Checks of Python and its packages; metadata is read, nothing is imported."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.compat import pair_verdicts, version_findings
from envcheck.compat.version_records import PairStatus, PairVerdict
from envcheck.core import versions
from envcheck.core.check import Check, machine_check, vendor_check
from envcheck.core.derived.installed_versions import toolkit_version
from envcheck.core.derived.key_value import driver_version
from envcheck.core.derived.python_packages import find_job_packages, quote_metadata
from envcheck.core.facts import Facts, Packages, VendorFacts
from envcheck.core.findings import fail, ok, report_missing_rule, requires_fact, skip, unknown, warn
from envcheck.core.messages import _, mark, verbatim
from envcheck.core.model import Finding, diagnose, fix
from envcheck.vendors import VENDORS
from envcheck.vendors.names import PADDLE_PACKAGES

PYTHON_FLOOR, PYTHON_CEILING = "3.9", "3.14"  # paddlepaddle 3.1 to 3.3 has wheels for 3.9 to 3.13 (package metadata)
PADDLE_FLOOR = "3.0.0"  # device plugins of today pair with 3.0 and newer
FRAMEWORKS = (*PADDLE_PACKAGES, *(v.torch_plugin for v in VENDORS.values() if v.torch_plugin))
NUMPY_USERS = (*FRAMEWORKS, "opencv-python", "paddleformers")


@requires_fact(find_job_packages, "ask packages")
def check_version(found: Packages, facts: Facts) -> Iterator[Finding]:
    """Paddle publishes wheels for this Python version."""
    if found.python is None:
        yield unknown(
            _("cannot determine the version of python3"),
            diagnose(_("Check that python3 exists and starts."), "python3 --version"),
        )
    elif versions.sort_key(found.python) is None:
        yield unknown(_("Python {python}: unknown version format", python=found.python))
    elif versions.is_at_least(found.python, PYTHON_FLOOR) and not versions.is_at_least(found.python, PYTHON_CEILING):
        yield ok(_("Python {python}", python=found.python))
    else:
        words = _(
            "Use another python3, or a container: Paddle's wheels support Python 3.9 to 3.13, and the images have 3.10."
        )
        yield warn(
            _("Python {python}", python=found.python),
            diagnose(words, "python3 --version"),
            evidence=quote_metadata(found),
        )


@requires_fact(find_job_packages, "ask packages")
def check_paddle(found: Packages, facts: Facts) -> Iterator[Finding]:
    """If Paddle is installed, it is one package, of a version that has plugins."""
    names = [name for name in PADDLE_PACKAGES if name in found.packages]
    if len(names) > 1:
        words = _("Uninstall both, then reinstall one of them: they use the same folder.")
        yield fail(
            _("{first} and {second} are both installed", first=names[0], second=names[1]),
            fix(words, f"pip uninstall {' '.join(names)}"),
            evidence=quote_metadata(found, *names),
        )
    elif not names:
        yield skip(_("not installed; use an image that contains it, or `envcheck provision`"))
    elif (reached := versions.is_at_least(found.packages[names[0]], PADDLE_FLOOR)) is None:
        yield unknown(
            _(
                "{names} {packages}: unknown version format",
                names=names[0],
                packages=found.packages[names[0]],
            )
        )
    elif reached:
        yield ok(verbatim(f"{names[0]} {found.packages[names[0]]}"))
    else:
        seen = _(
            "{names} {packages} is older than {paddle_floor}",
            names=names[0],
            packages=found.packages[names[0]],
            paddle_floor=PADDLE_FLOOR,
        )
        yield warn(
            seen,
            fix(_("Install version 3.1 or newer."), "pip install 'paddlepaddle>=3.1'"),
            evidence=quote_metadata(found, names[0]),
        )


@requires_fact(find_job_packages, "ask packages")
def check_plugin(found: Packages, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Paddle, the vendor plugin and the toolkit or driver below are compatible."""
    name = v.vendor.plugin or ""
    host, mine = found.packages.get("paddlepaddle"), found.packages.get(name)
    if not name:
        yield report_missing_rule(v, _("paddle plugin"))
    elif not host and not mine:
        yield skip(_("neither paddlepaddle nor its plugin is installed"))
    elif host and not mine:
        words = _("Install the plugin from Paddle's package index: without it, training silently uses the CPU.")
        commands = f"pip install {name}=={host} -i {v.vendor.plugin_index}"
        yield warn(
            _("paddlepaddle {host} is installed without {name}", host=host, name=name),
            fix(words, commands),
            evidence=quote_metadata(found, "paddlepaddle"),
        )
    elif not host:
        words = _("Install the CPU package: the plugin extends it.")
        commands = f"pip install paddlepaddle=={mine}"
        yield fail(
            _("{name} {mine} is installed without paddlepaddle", name=name, mine=mine),
            fix(words, commands),
            evidence=quote_metadata(found, name),
        )
    elif versions.sort_key(host) is None or versions.sort_key(mine or "") is None:
        yield unknown(_("paddlepaddle {host} and {name} {mine} cannot be compared", host=host, name=name, mine=mine))
    else:
        yield _evaluate_plugin_pair(facts, v, found, host, mine or "")


def _evaluate_plugin_pair(facts: Facts, v: VendorFacts, found: Packages, host: str, mine: str) -> Finding:
    """The pair first; if it is compatible, the plugin with the toolkit or driver that it was built for."""
    name, driver, toolkit = v.vendor.plugin or "", driver_version(v), toolkit_version(facts, v)
    here: dict[str, str | None] = {name: mine, "paddlepaddle": host}
    here |= {v.vendor.toolkit_component: toolkit, v.vendor.driver_component: driver}
    both = version_findings.evaluate_known_pair(name, "paddlepaddle", here)
    shown = quote_metadata(found, "paddlepaddle", name)
    if both and both.standing is not PairStatus.TESTED and versions.compare_versions(host, mine) != 0:
        return version_findings.make_version_finding(both, shown, f"pip install paddlepaddle=={mine}")
    below = version_findings.evaluate_known_pair(name, v.vendor.plugin_partner, here)
    if below and below.standing is not PairStatus.TESTED:
        own = version_findings.make_version_finding(below, shown, *version_findings.ACTIVE_TEST_COMMANDS)
        of_driver = v.vendor.plugin_partner == v.vendor.driver_component
        return version_findings.suppress_if_driver_too_old(v, own) if of_driver else own
    return ok(_("paddlepaddle {host} with {name} {mine}", host=host, name=name, mine=mine))


@requires_fact(find_job_packages, "ask packages")
def check_device_build(found: Packages, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """On a host with devices that have a build of paddle, that build is installed; the CPU build trains on the CPU."""
    build, others = v.vendor.paddle_build, [name for name in PADDLE_PACKAGES if name in found.packages]
    if not build:
        yield report_missing_rule(v, _("paddle build"))
    elif build in others:
        yield _judge_build_with_driver(found, v)
    elif others:
        version = found.packages[others[0]]
        index = f" -i {v.vendor.paddle_index}" if v.vendor.paddle_index else ""
        yield warn(
            _(
                "{package} {version} has no kernels for {title} devices",
                package=others[0],
                version=version,
                title=v.vendor.title,
            ),
            fix(
                _("Install {build} from Paddle's package index instead: this build trains on the CPU.", build=build),
                f"pip uninstall -y {others[0]} && pip install {build}{index}",
            ),
            evidence=quote_metadata(found, others[0]),
        )
    else:
        yield skip(_("paddle is not installed"))


def _judge_build_with_driver(found: Packages, v: VendorFacts) -> Finding:
    """Judge the installed build with the driver, if the tables have rows of this pair."""
    build, driver = v.vendor.paddle_build, v.vendor.driver_component
    known = {build: found.packages[build], driver: driver_version(v)}
    verdict = (
        version_findings.evaluate_known_pair(build, driver, known) if (build, driver) == v.vendor.driver_pair else None
    )
    if verdict and (verdict.standing is PairStatus.BAD or (verdict.standing is PairStatus.UNKNOWN and verdict.named)):
        shown = quote_metadata(found, build)
        own = version_findings.make_version_finding(verdict, shown, *version_findings.ACTIVE_TEST_COMMANDS)
        return version_findings.suppress_if_driver_too_old(v, own)
    return ok(verbatim(f"{build} {found.packages[build]}"))


@requires_fact(find_job_packages, "ask packages")
def check_numpy(found: Packages, facts: Facts) -> Iterator[Finding]:
    """The numpy version works with paddle and the toolkit."""
    version = found.packages.get("numpy")
    if version is None or not any(n in found.packages for n in FRAMEWORKS):
        yield skip(_("no numpy installed for a framework"))
    elif versions.sort_key(version) is None:
        yield unknown(_("numpy {version}: unknown version format", version=version))
    elif bad := version_findings.find_worst_verdict(
        v for v in _list_numpy_verdicts(facts, found, version) if v.standing is PairStatus.BAD
    ):
        yield version_findings.make_version_finding(bad, quote_metadata(found, "numpy"), "pip install 'numpy<2'")
    else:
        yield ok(_("numpy {version}", version=version))


def _list_numpy_verdicts(facts: Facts, found: Packages, version: str) -> Iterator[PairVerdict]:
    """numpy with the packages that use it, and with the toolkit."""
    here = {name: found.packages[name] for name in NUMPY_USERS if name in found.packages}
    toolkits = {v.vendor.toolkit_component: toolkit_version(facts, v) for v in facts.vendors}
    below = {component: version for component, version in toolkits.items() if component and version}
    yield from (
        v for v in pair_verdicts.evaluate_pairs({**here, **below, "numpy": version}) if "numpy" in (v.left, v.right)
    )


@requires_fact(find_job_packages, "ask packages")
def check_triton(found: Packages, facts: Facts) -> Iterator[Finding]:
    """If triton is installed, paddle's bridge to it is too; paddleformers requires both."""
    if "triton" not in found.packages or "paddleformers" not in found.packages:
        yield skip(_("triton and paddleformers are not both installed"))
    elif "use-triton-in-paddle" in found.packages:
        yield ok(_("use-triton-in-paddle is installed"))
    else:
        words = _(
            "Uninstall triton, or install use-triton-in-paddle: otherwise paddleformers stops with a RuntimeError."
        )
        yield warn(
            _("triton is installed without use-triton-in-paddle"),
            fix(words, "pip uninstall triton"),
            evidence=quote_metadata(found, "triton"),
        )


CHECKS: tuple[Check, ...] = (
    machine_check(
        "python.version",
        check_version,
        reads="python3",
        source=mark("package metadata of paddlepaddle"),
        rule="WARN outside of 3.9 to 3.13",
        fix="Use another python3, or a container.",
        frameworks=("paddle",),
    ),
    machine_check(
        "python.paddle",
        check_paddle,
        reads="installed packages",
        source=mark("package metadata of paddlepaddle"),
        rule="FAIL if two builds of paddle are installed, as paddlepaddle and paddlepaddle-gpu; WARN below 3.0.0",
        fix="Keep one package, 3.1 or newer.",
        frameworks=("paddle",),
    ),
    vendor_check(
        "python.plugin",
        check_plugin,
        reads="installed packages",
        source="PaddleCustomDevice#1460, Paddle#69403",
        rule=(
            "FAIL for a known bad pair, or a plugin without paddle; WARN for paddle without its plugin; UNKNOWN if no"
            " table names the pair"
        ),
        fix="Install the plugin of paddle's version from Paddle's index.",
        frameworks=("paddle",),
    ),
    vendor_check(
        "python.device_build",
        check_device_build,
        reads="installed packages",
        source="LlamaFactory#6461, Paddle#73315",
        rule="WARN if paddle is a build for other devices",
        fix="Install the build for these devices from Paddle's index.",
        frameworks=("paddle",),
    ),
    machine_check(
        "python.numpy",
        check_numpy,
        reads="installed packages",
        source=mark("tested with paddle 3.1.0 and 3.3.1; vllm-ascend#2210"),
        rule="FAIL if a table lists it as bad with a framework or the toolkit",
        fix="Run pip install 'numpy<2'.",
        frameworks=("paddle", "torch"),
    ),
    machine_check(
        "python.triton",
        check_triton,
        reads="installed packages",
        source=mark("tested with paddleformers"),
        rule="WARN if triton and paddleformers are installed without use-triton-in-paddle",
        fix="Remove triton, or install use-triton-in-paddle.",
        frameworks=("paddle",),
    ),
)
