"""The torch that each release of a package requires, by the version tables and by its number; pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from envcheck.compat import pair_verdicts
from envcheck.compat.components import load_components
from envcheck.compat.table_loader import own_version_table
from envcheck.explain.exceptions import installed_versions, raised_place

TORCH = "torch"
# Packages whose releases count on with torch's: torch's second number is added to the first number here, and the last
# one is that of the newest torch with a release of its own, from the wheels on PyPI.
_COUNTED = {"torchvision": ("0", 15, 14), "torchaudio": ("2", 0, 11)}
# Packages that pip compiles for the installed torch if they have no wheel for it, by the names of their modules.
_COMPILED = {one: one for one in ("flash-attn", "causal-conv1d", "mamba-ssm")} | {"selective-scan": "mamba-ssm"}
_RELEASE = re.compile(r"2\.(\d{1,2})\.(\d{1,2})(?:\+(?:cu\d{2,3}|cpu))?$")  # not a vendor's build
_FIRST = re.compile(r"(?:>=)?(\d[\w.]{0,20})")


@functools.cache
def describe_torch_releases(package: str) -> str:
    """Return `0.8.0: 2.6.0, 0.9.0: 2.7.0`: the first release that requires each torch; "" for an unknown package."""
    rows = [row for row in own_version_table().rows if row.of == package and "torch" in row.others and not row.partner]
    firsts = {row.others["torch"][0]: found[1] for row in reversed(rows) if (found := _FIRST.match(row.version[0]))}
    return ", ".join(f"{first}: {torch}" for torch, first in reversed(firsts.items()))


def describe_pair(package: str, installed: Mapping[str, str]) -> dict[str, str]:
    """Return the partner that stays and the pair that belongs to it: of a package and torch.

    `kept` is the partner as pip writes it: with it in the command, pip installs its other requirements as well.

    Nothing if the log does not print their versions, or if they belong together; of a compiled one, what to build.
    """
    name = installed_versions.normalize_name(package)
    torch, own = installed.get(TORCH, ""), installed.get(name, "")
    if compiled := _COMPILED.get(name):
        return {"rebuild": f"{compiled}=={installed[compiled]}" if compiled in installed else compiled}
    if release := _find_release(name, torch):
        pair, partner, version = f"{name}=={release}", TORCH, torch
    elif own and name in load_components() and (needed := pair_verdicts.list_tested(name, own, TORCH)):
        pair, partner, version = f"{TORCH}=={needed[0]}", name, own
    else:
        return {}
    fits = installed_versions.check_requirement(pair, installed)
    return {} if fits else {"pair": pair, "partner": f"{partner} {version}", "kept": f"{partner}=={version}"}


def _find_release(name: str, torch: str) -> str:
    """Return the package's release for this torch; "" if it is unknown, or follows another rule."""
    found = _RELEASE.match(torch)
    if found is None:
        return ""
    minor, patch = int(found[1]), int(found[2])
    if name in _COUNTED:
        first, number, newest = _COUNTED[name]
        ahead = minor == 0  # torchvision 0.15.1 and torchaudio 2.0.1 require torch 2.0.0
        return f"{first}.{number + minor}.{patch + ahead}" if minor <= newest else ""
    pairs = raised_place.load_packages().get(name, {}).get("pairs", {})
    known = pairs if isinstance(pairs, dict) else {}
    return str(known.get(f"2.{found[1]}.{found[2]}") or known.get(f"2.{found[1]}") or "")


def describe_partner(partners: Sequence[str], installed: Mapping[str, str]) -> dict[str, str]:
    """Return the version of the second component that the printed one of the first needs; nothing if it is unknown."""
    name, other = partners
    own = installed.get(name, "")
    tested = pair_verdicts.list_tested(name, own, other) if own else ()
    return {"pair": f"{load_components()[other].title} {tested[0]}", "partner": f"{name} {own}"} if tested else {}
