"""Which packages a recipe needs, by the metadata of installed packages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from installers.software.dependencies import compute_closure, inspect_dependencies
from installers.targets.target import VenvTarget

REQUIRES = {
    "alpha": ["Beta_B>=1", "gone", 'old; python_version < "3.9"', 'plot>1; extra == "draw"', "not a requirement!"],
    "beta-b": ['alpha; python_version >= "3.8"', "gamma [fast] @ https://example.org/gamma.whl"],
    "gamma": ['delta; extra == "fast"'],
    "strange": ['other; platform_release ~= "no version"'],
    "delta": [],
    "old": [],
    "plot": [],
    "other": [],
}


@pytest.mark.parametrize(
    ("roots", "expected"),
    (
        (["Alpha"], {"alpha", "beta-b", "gamma", "delta"}),
        (["alpha[draw]"], {"alpha", "beta-b", "gamma", "delta", "plot"}),
        (["gamma"], {"gamma"}),
        (["strange"], {"strange", "other"}),
        (["other", "nowhere", "no name!"], {"other"}),
        ([], set()),
    ),
)
def test_closure(roots: list[str], expected: set[str]) -> None:
    """The closure follows cycles, extras and markers (unknown ones apply), and has installed packages only."""
    assert compute_closure(roots, REQUIRES, "3.11.2") == expected


def test_an_older_python() -> None:
    """A marker applies to the environment's Python, not to envcheck's."""
    assert "old" in compute_closure(["alpha"], REQUIRES, "3.8.10")


def write_metadata(site: Path, name: str, requires: str = "", url: str = "") -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    more = f"Requires-Dist: {requires}\n" if requires else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{more}")
    if url:
        (info / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {"editable": True}}))


def test_asked_of_a_python(tmp_path: Path) -> None:
    """The environment's Python reports requirements and what is installed editable from the given folders, also
    through a link; a missing Python reports nothing.
    """
    site = tmp_path / f"v/lib/python3.{sys.version_info.minor}/site-packages"
    (tmp_path / "v/bin").mkdir(parents=True)
    (tmp_path / "v/bin/python").symlink_to(sys.executable)
    (tmp_path / "v/pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\ninclude-system-site-packages = false\n")
    (tmp_path / "link").symlink_to(tmp_path / "clone")
    write_metadata(site, "Mine", "beta>=1", (tmp_path / "clone").as_uri())
    write_metadata(site, "theirs", "", (tmp_path / "clone2").as_uri())
    requires, editable = inspect_dependencies(VenvTarget(tmp_path / "v"), [str(tmp_path / "link")])

    assert requires == {"mine": ["beta>=1"], "theirs": []}
    assert editable == ("Mine",)
    assert inspect_dependencies(VenvTarget(tmp_path / "none"), []) == ({}, ())
