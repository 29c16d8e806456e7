"""What installed packages lack, by their metadata alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.collect.host import installed
from probes.host import decode, requirements


def unmet(folder: Path) -> tuple[str, ...]:
    """What is read of the environment in the folder."""
    found = decode.packages(installed.of_environment(folder))
    assert found and found.unmet is not None
    return found.unmet


def installed_in(folder: Path, **packages: tuple[str, str]) -> Path:
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
        ("torch==2.7.0", ["vllm 0.9.1 wants torch==2.7.0, 2.5.1+cpu is there"]),
        ("torch<3,>=2.5", []),
        ("torch==2.5.1", []),
        ("Typing_Extensions", ["vllm 0.9.1 wants Typing_Extensions, none is there"]),
        ('absent; extra == "dev"', []),
        ('absent; python_version < "3.9"', []),
        ('absent; python_version >= "3.11"', ["vllm 0.9.1 wants absent, none is there"]),
        ("this is (no requirement", []),
        (
            "torch==2.7.0\nabsent",
            ["vllm 0.9.1 wants torch==2.7.0, 2.5.1+cpu is there", "vllm 0.9.1 wants absent, none is there"],
        ),
    ],
)
def test_unmet(tmp_path: Path, wanted: str, said: list[str]) -> None:
    """As pip check says it, extras and other Pythons left aside; a line of the description is none."""
    made = installed_in(tmp_path, vllm=("0.9.1", wanted), torch=("2.5.1+cpu", ""))
    assert unmet(made) == tuple(said)


def test_others_quarrels(tmp_path: Path) -> None:
    """Packages that no training needs are not looked at."""
    assert unmet(installed_in(tmp_path, jupyter=("1", "absent"))) == ()


def test_agrees_with_pip(torch_environment: Path) -> None:
    """On a real environment: nothing where pip check finds nothing."""
    assert unmet(torch_environment) == ()


def test_bounded(tmp_path: Path) -> None:
    """A metadata file without an end costs no more than its head."""
    made = installed_in(tmp_path, vllm=("1", "\n".join(f"absent{n}" for n in range(5000))))
    assert len(unmet(made)) == requirements.UNMET_LIMIT
