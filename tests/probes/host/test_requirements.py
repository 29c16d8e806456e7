"""Missing requirements of installed packages, read from package metadata only."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.collect.host import installed
from probes.host import decode, requirements


def read_unmet(folder: Path) -> tuple[str, ...]:
    """The unmet requirements of the environment in the folder."""
    found = decode.decode_packages(installed.inspect_environment(folder))
    assert found and found.unmet is not None
    return found.unmet


def install_distributions(folder: Path, **packages: tuple[str, str]) -> Path:
    """A virtual environment's folders: name -> (version, requirements, one a line)."""
    site = folder / "lib" / "python3.11" / "site-packages"
    for name, (version, wanted) in packages.items():
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = "".join(f"Requires-Dist: {line}\n" for line in wanted.splitlines())
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}\nRequires-Dist: x\n"
        )
    (folder / "pyvenv.cfg").write_text("version = 3.11.7\n")
    return folder


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("torch==2.7.0", ["vllm 0.9.1 requires torch==2.7.0; 2.5.1+cpu is installed"]),
        ("torch<3,>=2.5", []),
        ("torch==2.5.1", []),
        ("Typing_Extensions", ["vllm 0.9.1 requires Typing_Extensions; not installed"]),
        ('absent; extra == "dev"', []),
        ('absent; python_version < "3.9"', []),
        ('absent; python_version >= "3.11"', ["vllm 0.9.1 requires absent; not installed"]),
        ("this is (no requirement", []),
        (
            "torch==2.7.0\nabsent",
            ["vllm 0.9.1 requires torch==2.7.0; 2.5.1+cpu is installed", "vllm 0.9.1 requires absent; not installed"],
        ),
    ],
)
def test_unmet(tmp_path: Path, wanted: str, said: list[str]) -> None:
    """Same result as `pip check`: extras and markers for other Pythons are skipped; lines of the description are not
    read."""
    made = install_distributions(tmp_path, vllm=("0.9.1", wanted), torch=("2.5.1+cpu", ""))
    assert read_unmet(made) == tuple(said)


def test_others_quarrels(tmp_path: Path) -> None:
    """Packages unrelated to training are skipped."""
    assert read_unmet(install_distributions(tmp_path, jupyter=("1", "absent"))) == ()


def test_agrees_with_pip(torch_environment: Path) -> None:
    """On a real environment: nothing where pip check finds nothing."""
    assert read_unmet(torch_environment) == ()


def test_bounded(tmp_path: Path) -> None:
    """Only the head of a very large metadata file is read."""
    made = install_distributions(tmp_path, vllm=("1", "\n".join(f"absent{n}" for n in range(5000))))
    assert len(read_unmet(made)) == requirements.UNMET_LIMIT
