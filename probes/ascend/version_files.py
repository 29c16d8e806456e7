"""Parses the version files of driver and toolkit (key=value lines), and /etc/hccn.conf."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from envcheck.core.model import Document
from envcheck.core.tool_text import LINE_LIMIT
from probes.ascend.npu_page import TOOL, OutputPage, parse_pair
from probes.ascend.npu_page import make_page as page_of

Fields = Mapping[str, str]

_PORT = re.compile(r"([A-Za-z]\w*?)_(\d{1,4})")
_PATH = re.compile(r"(/\S{0,300}(?:version\.info|version\.cfg|install\.info|hccn\.conf))")
_INSTALLED = re.compile(r"/ascend_(\w{1,20})_install\.info")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_NUMBERED = re.compile(r"(?<!\s)\s*\d{1,4}\s{1,8}(?=\S)")  # cat -n
_VARIABLE = re.compile(r"\s*(?:export )?[A-Z][A-Z0-9]{0,30}_[A-Z0-9_]{1,60}=")  # of the environment, as `env` prints it
_GAP = re.compile(r"\s*(?:\.{3,}|…+)\s*")
# Words of which each of these files has one; tested before the lines are parsed.
_WORDS = ("ersion", "nstall", "address_", "package_name", "UserName", "netmask_", "gateway_", "netdetect_", "_ip_")


def read_version_file(page: OutputPage) -> Document | None:
    """Return the document of one of these files, or None."""
    if "=" not in page.body or not page.has_any(*_WORDS):
        return None
    fields = parse_fields(page)
    path = _find_file_path(page)
    if ports := _group_port_fields(fields):
        truncated = any(_GAP.fullmatch(line) for line in page.lines)
        return Document(tool=TOOL, kind="hccn-conf", truncated=truncated, detail={"devices": ports, "path": path})
    kind = next((name for name, knows in _KINDS if knows(fields, path)), None)
    if kind is None:
        return None
    if kind == "package":
        kind = f"{_find_package_name(fields, path)}-install"
    document = Document(
        tool=TOOL, kind=kind, detail={"path": path, "fields": dict(fields), **_derive_versions(kind, fields)}
    )
    return replace(document, driver_version=fields.get("Version")) if kind == "driver-version" else document


def read_package_fields(page: OutputPage) -> dict[str, Any]:
    """Return the fields of a toolkit's install file in the same text as a table; empty without one."""
    if "package_name" not in page.body:
        return {}
    start = next(
        (at for at, line in enumerate(page.lines) if line.lstrip().startswith("package_name")), len(page.lines)
    )
    fields: dict[str, Any] = dict(parse_fields(page_of(page.lines[start : start + 20])))
    if "compatible_version" in fields:
        fields["compatible_version"] = _split_brackets(fields["compatible_version"])
    return fields


def parse_fields(page: OutputPage) -> dict[str, str]:
    """Return the key=value lines; the first one of a name wins."""
    fields: dict[str, str] = {}
    last = ""
    for line in page.lines:
        if last and fields[last].count("[") > fields[last].count("]"):  # wrapped inside a bracket
            fields[last] += line.strip()
            last = last if len(fields[last]) < LINE_LIMIT else ""
        elif "=" in line and not _VARIABLE.match(line) and (found := _parse_field(line)):
            last = found[0] if found[0] not in fields else ""
            fields.setdefault(*found)
        else:
            last = ""
    return fields


_QUOTED = re.compile(r"""^\\?(["'])(.*?)\\?\1$""")


@lru_cache(maxsize=4096)  # most lines are equal on all hosts of a fleet
def _parse_field(line: str) -> tuple[str, str] | None:
    if line.partition("=")[0][-1:].isspace():  # of a program
        return None
    found = parse_pair(_strip_line_number(line), "=")
    return (found[0], _QUOTED.sub(r"\2", found[1])) if found and " " not in found[0] else None


def _strip_line_number(line: str) -> str:
    return _NUMBERED.sub("", line, count=1) if line.lstrip()[:1].isdigit() else line


def _find_file_path(page: OutputPage) -> str | None:
    """Return the file's path if the text has it, in the command or on a separate line."""
    places = (page.command, *page.lines[:20])
    return next((found[1] for place in places if (found := _PATH.search(place))), None)


def _group_port_fields(fields: Fields) -> dict[str, dict[str, str]]:
    """Return the fields of /etc/hccn.conf by port: NAME_N=VALUE, where N is the port's NPU."""
    ports: dict[str, dict[str, str]] = {}
    for key, value in fields.items():
        if found := _split_port_key(key):
            ports.setdefault(found[1], {})[found[0]] = value
    names = {name for port in ports.values() for name in port}
    return ports if names & {"address", "netmask", "gateway", "netdetect", "IPv6address", "IPv6_address"} else {}


@lru_cache(maxsize=1024)
def _split_port_key(key: str) -> tuple[str, str] | None:
    found = _PORT.fullmatch(key)
    return (found[1], found[2]) if found else None


def _find_package_name(fields: Fields, path: str | None) -> str:
    """Return `toolkit` for Ascend-cann-toolkit; older files have no name field, but a telling file name."""
    named = _INSTALLED.search(path or "")
    name = re.sub(r"[^a-z0-9-]", "", fields.get("package_name", named[1] if named else "").lower())
    return re.sub(r"^ascend-(?:cann-)?", "", name) or "package"


def _has_keys(*keys: str) -> Callable[[Fields, str | None], bool]:
    return lambda fields, path: any(key in fields for key in keys)


def _is_below(*folders: str) -> Callable[[Fields, str | None], bool]:
    """Return a test for a version.info in one of these folders."""
    return lambda fields, path: (
        ("Version" in fields or "version" in fields) and any(folder in (path or "") for folder in folders)
    )


# kind → test, tried in order
_KINDS: tuple[tuple[str, Callable[[Fields, str | None], bool]], ...] = (
    ("package", _has_keys("package_name")),
    ("package", lambda fields, path: bool(_INSTALLED.search(path or "")) and "version" in fields),
    ("version-cfg", lambda fields, path: any(re.search(r"_(?:running|installed|upgrade)_version$", k) for k in fields)),
    ("install-info", lambda fields, path: any(re.match(r"(?:Driver|Firmware)_Install_", key) for key in fields)),
    ("firmware-version", _has_keys("compatible_version_drv", "firmware_version")),
    ("driver-version", _has_keys("compatible_version_fw", "ascendhal_version", "tsfw_version", "dvppkernels_version")),
    ("toolkit-version", _has_keys("version_dir", "toolkit_version", "toolkit_installed_version")),
    ("firmware-version", _is_below("/firmware/")),
    ("driver-version", _is_below("/driver/")),
    (
        "toolkit-version",
        _is_below("toolkit", "/latest/", "/cann", "/compiler/", "/runtime/", "/opp/", "/nnae/", "/nnal/"),
    ),
    ("toolkit-install", _has_keys("innerversion")),
    ("install-info", lambda fields, path: {"UserName", "UserGroup"} <= fields.keys()),
    ("driver-version", lambda fields, path: {"Version", "package_version"} <= fields.keys()),
)


def _split_brackets(value: str) -> list[str]:
    """Return `[a],[b]` as a list; a value without brackets is its only element."""
    return _BRACKETS.findall(value) or ([value] if value else [])


def _derive_versions(kind: str, fields: Fields) -> dict[str, Any]:
    """Return the versions in the fields, and the version ranges that driver and firmware support."""
    found: dict[str, Any] = {}
    if "compatible_version" in fields:
        found["compatible_version"] = _split_brackets(fields["compatible_version"])
    if "compatible_version_fw" in fields:
        ranges = [part.split(",") for part in _split_brackets(fields["compatible_version_fw"])]
        found["firmware_range"] = ranges[0] if len(ranges) == 1 else ranges
    if "compatible_version_drv" in fields:
        found["driver_ranges"] = [part.split(",") for part in _split_brackets(fields["compatible_version_drv"])]
    if kind == "firmware-version":
        found["firmware_version"] = fields.get("Version")
    elif kind == "version-cfg":
        found["cann_version"] = _find_configured_version(fields)
    elif kind not in ("driver-version", "install-info"):
        found["cann_version"] = fields.get("version_dir") or fields.get("version") or fields.get("Version")
    return found


def _find_configured_version(fields: Fields) -> str | None:
    """Return the public version in version.cfg, [inner:public]; the running toolkit's first."""
    order = sorted(fields, key=lambda key: ("_running_" not in key, "toolkit" not in key))
    for key in order:
        for part in _split_brackets(fields[key]):
            if part:
                return part.rpartition(":")[2]
    return None
