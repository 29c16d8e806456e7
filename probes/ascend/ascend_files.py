"""The files beside the driver and the toolkit: key=value lines that say what is installed, and /etc/hccn.conf."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from envcheck.core.model import Document
from envcheck.core.text import LINE_LIMIT
from probes.ascend.npu_page import TOOL, Page, pair
from probes.ascend.npu_page import page as page_of

Fields = Mapping[str, str]

_PORT = re.compile(r"([A-Za-z]\w*?)_(\d{1,4})")
_PATH = re.compile(r"(/\S*(?:version\.info|version\.cfg|install\.info|hccn\.conf))")
_INSTALLED = re.compile(r"/ascend_(\w{1,20})_install\.info")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_NUMBERED = re.compile(r"\s*\d{1,4}\s{1,8}(?=\S)")  # cat -n
_GAP = re.compile(r"\s*(?:\.{3,}|…+)\s*")
# Names that announce one of these files; asked of the whole text before any line is read.
_WORDS = ("ersion", "nstall", "address_", "package_name", "UserName", "netmask_", "gateway_", "netdetect_", "_ip_")


def read(page: Page) -> Document | None:
    """The document of one of these files, or None."""
    if "=" not in page.body or not page.has(*_WORDS):
        return None
    fields = fields_of(page)
    path = _path(page)
    if ports := _ports(fields):
        truncated = any(_GAP.fullmatch(line) for line in page.lines)
        return Document(tool=TOOL, kind="hccn-conf", truncated=truncated, detail={"devices": ports, "path": path})
    kind = next((name for name, knows in _KINDS if knows(fields, path)), None)
    if kind is None:
        return None
    if kind == "package":
        kind = f"{_package_name(fields, path)}-install"
    document = Document(tool=TOOL, kind=kind, detail={"path": path, "fields": dict(fields), **_derived(kind, fields)})
    return replace(document, driver_version=fields.get("Version")) if kind == "driver-version" else document


def package(page: Page) -> dict[str, Any]:
    """A toolkit's install file that stands in the same text as a table; empty where there is none."""
    if "package_name" not in page.body:
        return {}
    start = next(
        (at for at, line in enumerate(page.lines) if line.lstrip().startswith("package_name")), len(page.lines)
    )
    fields: dict[str, Any] = dict(fields_of(page_of(page.lines[start : start + 20])))
    if "compatible_version" in fields:
        fields["compatible_version"] = _brackets(fields["compatible_version"])
    return fields


def fields_of(page: Page) -> dict[str, str]:
    """The key=value lines; the first of a name counts."""
    fields: dict[str, str] = {}
    last = ""
    for line in page.lines:
        if last and fields[last].count("[") > fields[last].count("]"):  # wrapped inside a bracket
            fields[last] += line.strip()
            last = last if len(fields[last]) < LINE_LIMIT else ""
        elif "=" in line and (found := _field(line)):
            last = found[0] if found[0] not in fields else ""
            fields.setdefault(*found)
        else:
            last = ""
    return fields


@lru_cache(maxsize=4096)  # the files of a fleet's hosts have most lines in common
def _field(line: str) -> tuple[str, str] | None:
    found = pair(_unnumbered(line), "=")
    return found if found and " " not in found[0] else None


def _unnumbered(line: str) -> str:
    return _NUMBERED.sub("", line, count=1) if line.lstrip()[:1].isdigit() else line


def _path(page: Page) -> str | None:
    """The file that the text names, on a command line or on one of its own."""
    places = (page.command, *page.lines[:20])
    return next((found[1] for place in places if (found := _PATH.search(place))), None)


def _ports(fields: Fields) -> dict[str, dict[str, str]]:
    """/etc/hccn.conf: NAME_N=VALUE, N the port's NPU."""
    ports: dict[str, dict[str, str]] = {}
    for key, value in fields.items():
        if found := _port(key):
            ports.setdefault(found[1], {})[found[0]] = value
    names = {name for port in ports.values() for name in port}
    return ports if names & {"address", "netmask", "gateway", "netdetect", "IPv6address", "IPv6_address"} else {}


@lru_cache(maxsize=1024)
def _port(key: str) -> tuple[str, str] | None:
    found = _PORT.fullmatch(key)
    return (found[1], found[2]) if found else None


def _package_name(fields: Fields, path: str | None) -> str:
    """Ascend-cann-toolkit is the toolkit; older files do not say, but their own name does."""
    named = _INSTALLED.search(path or "")
    name = re.sub(r"[^a-z0-9-]", "", fields.get("package_name", named[1] if named else "").lower())
    return re.sub(r"^ascend-(?:cann-)?", "", name) or "package"


def _has(*keys: str) -> Callable[[Fields, str | None], bool]:
    return lambda fields, path: any(key in fields for key in keys)


def _at(*folders: str) -> Callable[[Fields, str | None], bool]:
    """A version.info whose path tells whose it is."""
    return lambda fields, path: (
        ("Version" in fields or "version" in fields) and any(folder in (path or "") for folder in folders)
    )


# kind → what tells it, tried in order
_KINDS: tuple[tuple[str, Callable[[Fields, str | None], bool]], ...] = (
    ("package", _has("package_name")),
    ("package", lambda fields, path: bool(_INSTALLED.search(path or "")) and "version" in fields),
    ("version-cfg", lambda fields, path: any(re.search(r"_(?:running|installed|upgrade)_version$", k) for k in fields)),
    ("install-info", lambda fields, path: any(re.match(r"(?:Driver|Firmware)_Install_", key) for key in fields)),
    ("firmware-version", _has("compatible_version_drv", "firmware_version")),
    ("driver-version", _has("compatible_version_fw", "ascendhal_version", "tsfw_version", "dvppkernels_version")),
    ("toolkit-version", _has("version_dir", "toolkit_version", "toolkit_installed_version")),
    ("firmware-version", _at("/firmware/")),
    ("driver-version", _at("/driver/")),
    ("toolkit-version", _at("toolkit", "/latest/", "/cann", "/compiler/", "/runtime/", "/opp/", "/nnae/", "/nnal/")),
    ("toolkit-install", _has("innerversion")),
    ("install-info", lambda fields, path: {"UserName", "UserGroup"} <= fields.keys()),
    ("driver-version", lambda fields, path: {"Version", "package_version"} <= fields.keys()),
)


def _brackets(value: str) -> list[str]:
    """`[a],[b]` as a list; a value without brackets is its only member."""
    return _BRACKETS.findall(value) or ([value] if value else [])


def _derived(kind: str, fields: Fields) -> dict[str, Any]:
    """What the fields mean: versions, and the ranges that driver and firmware allow each other."""
    found: dict[str, Any] = {}
    if "compatible_version" in fields:
        found["compatible_version"] = _brackets(fields["compatible_version"])
    if "compatible_version_fw" in fields:
        ranges = [part.split(",") for part in _brackets(fields["compatible_version_fw"])]
        found["firmware_range"] = ranges[0] if len(ranges) == 1 else ranges
    if "compatible_version_drv" in fields:
        found["driver_ranges"] = [part.split(",") for part in _brackets(fields["compatible_version_drv"])]
    if kind == "firmware-version":
        found["firmware_version"] = fields.get("Version")
    elif kind == "version-cfg":
        found["cann_version"] = _configured(fields)
    elif kind not in ("driver-version", "install-info"):
        found["cann_version"] = fields.get("version_dir") or fields.get("version") or fields.get("Version")
    return found


def _configured(fields: Fields) -> str | None:
    """version.cfg: [inner:public], the running toolkit's first."""
    order = sorted(fields, key=lambda key: ("_running_" not in key, "toolkit" not in key))
    for key in order:
        for part in _brackets(fields[key]):
            if part:
                return part.rpartition(":")[2]
    return None
