"""Which packages a recipe needs, by the metadata of what is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from installers.software.dependencies import closure, look
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
    """Round a cycle, through extras, by markers, of which a strange one holds; to what is installed alone."""
    assert closure(roots, REQUIRES, "3.11.2") == expected


def test_an_older_python() -> None:
    """A marker is of the environment's Python, not of ours."""
    assert "old" in closure(["alpha"], REQUIRES, "3.8.10")


def installed(site: Path, name: str, requires: str = "", url: str = "") -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    more = f"Requires-Dist: {requires}\n" if requires else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{more}")
    if url:
        (info / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {"editable": True}}))


def test_asked_of_a_python(tmp_path: Path) -> None:
    """An environment's own Python tells what is required there, and what is installed editable from the folders that
    are asked for, also by a link; of a Python that is not there nothing is known."""
    site = tmp_path / f"v/lib/python3.{sys.version_info.minor}/site-packages"
    (tmp_path / "v/bin").mkdir(parents=True)
    (tmp_path / "v/bin/python").symlink_to(sys.executable)
    (tmp_path / "v/pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\ninclude-system-site-packages = false\n")
    (tmp_path / "link").symlink_to(tmp_path / "clone")
    installed(site, "Mine", "beta>=1", (tmp_path / "clone").as_uri())
    installed(site, "theirs", "", (tmp_path / "clone2").as_uri())
    requires, editable = look(VenvTarget(tmp_path / "v"), [str(tmp_path / "link")])

    assert requires == {"mine": ["beta>=1"], "theirs": []}
    assert editable == ("Mine",)
    assert look(VenvTarget(tmp_path / "none"), []) == ({}, ())
