"""The versions of packages that a log prints, by which a remedy names the bound that is broken; pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from envcheck.compat.components import load_components
from envcheck.explain.exceptions import raised_place
from envcheck.explain.processes.line_prefix import find_own_text

WIDTH = 4096  # characters of a line that are read
_NAME = r"[A-Za-z][\w.-]{0,60}?"
_NUMBER = r"v?(?P<version>\d{1,4}(?:\.\d{1,8}){1,3}(?:[.-]?(?:rc|RC|post|dev|a|b)\d{1,10}){0,2}(?:\+[\w.]{1,40})?)"
_NAMED = rf"(?P<name>{_NAME})"
_SEPARATOR = re.compile(r"\s{0,8}(?:\||[,;]\s)\s{0,8}")  # of several packages on a line
# A line of its own, without its prefixes: of pip list, conda list, pip freeze, and of lists of versions.
_LINES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"^\s{{0,8}}{_NAMED} {{2,60}}{_NUMBER}(?:\s.{{0,200}})?$",
        rf"^\s{{0,8}}{_NAMED}=={_NUMBER}\s{{0,8}}$",
        rf"^\s{{0,8}}(?:[-*] )?{_NAMED}(?:\.__version__)? ?[:=]? {_NUMBER}\s{{0,8}}$",
        rf"^(?P<name>Python|PyTorch) {{1,4}}{_NUMBER}\b",
    )
)
# Anywhere in a line.  The releases that a program downloads are not among them.
_PARTS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?<![\w.-])`?{_NAMED}`?(?: API server| info)? ?[Vv]ersion(?: \(\w{{1,10}}\?\))?"
        rf"(?: {{0,40}}[:=]| \.{{3,40}})? {{0,40}}{_NUMBER}(?![\w.]\w)",
        rf"(?<![\w.-])(?P<name>deepspeed) info(?: \.{{3,40}}|: version=) {{0,4}}{_NUMBER}",
        rf"\b(?P<name>Unsloth) {_NUMBER}(?=: Fast)",
        rf"\b(?P<name>Transformers|vLLM|Torch|Triton|Xformers): {_NUMBER}(?=\. |\.?$)",
        rf"(?:site|dist)-packages/{_NAMED}-{_NUMBER}(?:-py3\.\d{{1,2}})?\.(?:dist-info|egg)\b",
        rf"^Requirement already satisfied: {_NAMED}(?:[\[<>=!~ ,;].{{0,200}})?\({_NUMBER}\)$",
        rf"\b(?:but )?(?:you have|found) {_NAMED}(?: |==){_NUMBER}(?![\w.]\w)",
        rf"^(?:ERROR: )?{_NAMED} {_NUMBER} (?:requires|has requirement) ",
        rf"\bcannot be run in (?P<name>NumPy) {_NUMBER} ",
        rf"^\s{{0,8}}(?P<name>PyTorch) [^\n]{{1,60}} \(you have {_NUMBER}\)",
        r"/(?P<name>python)(?P<version>3\.\d{1,2})/(?:site|dist)-packages/",
    )
)
# Before a release that a program requires; and the table whose release of CUDA is the newest that a driver supports.
_REQUIRED = re.compile(
    r"\b(?:requires?|required|needs?|needed|expects?|expected|minimum|recommended|latest)\W{1,3}$", re.I
)
_DRIVER_TABLE = re.compile(r"\bNVIDIA-SMI\b|\bDriver Version: ")
_ENGINE = re.compile(rf"\bInitializing an? (?:V1 )?LLM engine \({_NUMBER}\)")
# Of two lines: of pip show, and of the file in which a vendor's toolkit has its version.
_TWO_LINES = re.compile(rf"(?:Name: |package_name=\w{{1,20}}-){_NAMED}(?:-toolkit)?\n(?:Version: |version=){_NUMBER}$")
_INSTALLED = re.compile(r"^Successfully installed (.{3,4000})$")
_WHEEL = re.compile(rf"^{_NAMED}-{_NUMBER}$")
_OTHER_NAMES = {
    "pytorch": "torch",
    "flash-attention": "flash-attn",
    "llama-factory": "llamafactory",
    "swift": "ms-swift",
}
# Packages whose release a remedy asks for, in addition to those that have to fit another one.
_MORE = (
    *("python", "setuptools", "click", "scipy", "protobuf", "fastapi", "gradio-client", "diffusers", "autoawq"),
    *("causal-conv1d", "mamba-ssm"),
    *(
        "wandb",
        "swanlab",
        "tensorboard",
        "tensorflow",
        "sentence-transformers",
        "torchao",
        "vllm-ascend",
        "opencv-python",
    ),
)
# Packages that a command lists, or installs.
_LISTING = re.compile(r"pip list 2>/dev/null \| grep -i -?E '([^']{1,300})'")
_INSTALLING = re.compile(r"pip install (?:-\S{1,30} ){0,4}'?([A-Za-z][^'\s]{1,120})'?(?=\s|$)")
# Engines, and the packages of which each of their releases requires some releases only.
_ENGINES = {"vllm", "sglang"}
_PINNED = {"transformers", "torch", "tokenizers"}


@dataclass(frozen=True)
class PrintedVersion:
    """A version of a package, named as in pip with hyphens, and the line that prints it."""

    package: str
    version: str
    line: int


def read_versions(lines: Iterable[str], first: int = 1) -> tuple[PrintedVersion, ...]:
    """Return the versions of known packages that the lines print, each once; `first` is the first line's number."""
    found: dict[tuple[str, str], int] = {}
    before = ""
    for number, line in enumerate(lines, first):
        text = line[:WIDTH].rstrip()
        two = _TWO_LINES.match(f"{before}\n{text}")
        before = text
        for name, version in [(two["name"], two["version"])] if two else _read_line(text):
            package = normalize_name(name)
            if package in _list_known() and _is_version(version):
                found.setdefault((package, version), number)
    return tuple(PrintedVersion(package, version, number) for (package, version), number in found.items())


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def list_wheels(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and version of what pip installed: `torch-2.6.0 torch_npu-2.6.0`."""
    yield from ((one["name"], one["version"]) for one in filter(None, map(_WHEEL.match, text.split())))


def _read_line(line: str) -> Iterator[tuple[str, str]]:
    own = find_own_text(line)
    text = line if own is None else own
    if installed := _INSTALLED.match(text):
        yield from list_wheels(installed[1])
        return
    if listed := _read_list(_SEPARATOR.split(text)):
        yield from ((one["name"], one["version"]) for one in listed)
        return
    for pattern in _PARTS if not _DRIVER_TABLE.search(text) else ():
        for part in pattern.finditer(text):
            if not _REQUIRED.search(text[: part.start()]):
                yield part["name"], part["version"]
    if engine := _ENGINE.search(text):
        yield "vllm", engine["version"]


def _read_list(parts: Sequence[str]) -> list[re.Match[str]]:
    """Return the versions of a line, or of its parts if it begins with one: `torch 2.6.0 | peft 0.14.0`."""
    found = [next(filter(None, (pattern.match(part) for pattern in _LINES)), None) for part in parts]
    return [one for one in found if one] if found[0] else []


def normalize_name(name: str) -> str:
    """Return the name as pip compares it, with hyphens; another name of the same package is replaced."""
    plain = re.sub(r"[-_.]+", "-", name).lower().strip("-")
    return _OTHER_NAMES.get(plain, plain)


@functools.cache
def _list_known() -> frozenset[str]:
    packages = raised_place.load_packages()
    fitting = (name for package in packages for name in raised_place.list_fitting(package))
    return frozenset(map(normalize_name, (*packages, *fitting, *_MORE, *load_components())))


def choose_versions(printed: Iterable[PrintedVersion]) -> Mapping[str, str]:
    """Return the version of each package, the most exact text; none of a package of which two are printed."""
    found: dict[str, list[str]] = {}
    for one in printed:
        found.setdefault(one.package, []).append(one.version)
    return {name: max(some, key=len) for name, some in found.items() if _are_one(some)}


def _are_one(versions: list[str]) -> bool:
    """Return whether all are of one release, of which some texts leave out the end: 2.6, 2.6.0 and 2.6.0+cu124."""
    longest = Version(max(versions, key=len))
    read = [Version(one) for one in versions]
    return all(
        longest.release[: len(one.release)] == one.release and longest.is_prerelease == one.is_prerelease
        for one in read
    )


def check_requirement(requirement: str, installed: Mapping[str, str]) -> bool | None:
    """Return whether the installed version meets the requirement; None if this is unknown.

    It is unknown too of a development version of the release at the bound.
    """
    try:
        wanted = Requirement(requirement)
        version = Version(installed.get(normalize_name(wanted.name), ""))
    except (InvalidRequirement, InvalidVersion):
        return None
    results = {wanted.specifier.contains(one, prereleases=True) for one in (version.public, version.base_version)}
    return results.pop() if len(results) == 1 else None


def contradicts(requirements: Iterable[str], installed: Mapping[str, str]) -> bool:
    """Return whether a printed version excludes a cause that needs these versions."""
    return any(check_requirement(one, installed) is False for one in requirements)


def list_named_versions(commands: Iterable[str], installed: Mapping[str, str]) -> list[str]:
    """Return the printed versions, `torch 2.6.0`, of the packages that the commands list or install."""
    names = dict.fromkeys(name for command in commands for name in _list_packages(command))
    return [f"{name} {installed[name]}" for name in names if name in installed]


def select_commands(commands: Iterable[str], installed: Mapping[str, str]) -> tuple[str, ...]:
    """Leave out what is known by the log: commands that list known versions, or install what is installed.

    Nor is a package upgraded alone of which an installed engine requires releases of its own.
    """
    return tuple(one for one in commands if not _is_known(one, installed))


def _is_known(command: str, installed: Mapping[str, str]) -> bool:
    names = {*_list_packages(command)}
    if " -U " in command and names & _PINNED and not names & _ENGINES and _ENGINES & installed.keys():
        return True
    if _LISTING.search(command):
        return bool(names) and names <= installed.keys()
    wanted = _INSTALLING.findall(command)
    return (
        bool(wanted)
        and "--force-reinstall" not in command
        and all("=" in one or "<" in one for one in wanted)
        and all(check_requirement(one, installed) for one in wanted)
    )


def _list_packages(command: str) -> list[str]:
    listed = [re.findall(r"[A-Za-z][\w.-]{1,60}", found) for found in _LISTING.findall(command)]
    wanted = [re.split(r"[\[<>=!~ ;]", found)[0] for found in _INSTALLING.findall(command)]
    return [normalize_name(name) for name in (*(name for names in listed for name in names), *wanted)]
