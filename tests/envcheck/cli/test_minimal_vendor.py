"""A vendor with nothing but its record: commands that want more of it answer in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from envcheck.cli.main import main
from envcheck.core.errors import EnvcheckError
from envcheck.core.vendor import Vendor, run_question
from envcheck.vendors import VENDORS
from installers.drivers import installer_tables
from installers.recipes import catalogue


@pytest.fixture(autouse=True)
def abacus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vendor:
    """Its record, in a package that has no tables."""
    package = tmp_path / "abacus_vendor"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "abacus_vendor", raising=False)
    vendor = Vendor(
        name="abacus",
        package="abacus_vendor",
        title="Abacus",
        tool="abacus-smi",
        parser="probes.smi.nvidia_smi",
        pci_vendor="1fff",
        node_pattern="/dev/abacus[0-9]*",
        devices=(run_question("abacus-smi"),),
    )
    monkeypatch.setitem(VENDORS, "abacus", vendor)
    return vendor


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    """A folder with one for its cards, made from NVIDIA's."""
    text = (catalogue.OURS / "tiny-nvidia.toml").read_text()
    folder = tmp_path / "recipes"
    folder.mkdir()
    words = {'"tiny-nvidia"': '"tiny-abacus"', 'device = "nvidia"': 'device = "abacus"', "usual = true\n": ""}
    for old, new in words.items():
        text = text.replace(old, new)
    (folder / "tiny-abacus.toml").write_text(text)
    return folder


def run_envcheck(*argv: str) -> Result:
    return CliRunner().invoke(main, list(argv), catch_exceptions=True)


@pytest.mark.parametrize(
    ("argv", "seen"),
    [
        (("solve", "--device", "abacus", "--driver", "1.0"), "no version table covers --device abacus"),
        (
            ("plan", "--model", "21b", "--method", "lora", "--device", "abacus", "--cards", "8"),
            "--device abacus: not in the device table",
        ),
    ],
    ids=("solve", "plan"),
)
def test_missing_table_is_named(argv: tuple[str, ...], seen: str) -> None:
    """solve and plan name the table that lacks the vendor."""
    done = run_envcheck(*argv)

    assert isinstance(done.exception, EnvcheckError)
    assert done.exception.message == seen


def test_kubernetes_wants_the_resource(recipes: Path) -> None:
    """Without a known resource name, --resource is required."""
    train = ("train", "--recipe", "tiny-abacus", "--recipes", str(recipes))
    asked = (*train, "--on", "k8s", "--dry-run", "--image", "a/b:1", "--storage", "claim")

    refused, made = run_envcheck(*asked), run_envcheck(*asked, "--resource", "abacus.com/beads")

    assert "the Kubernetes resource name of --device abacus is unknown" in str(refused.exception)
    assert "abacus.com/beads: 1" in made.output


def test_slurm_is_asked_by_its_own_word(recipes: Path) -> None:
    """Without sinfo, Slurm's usual name of the devices is used, with a notice."""
    done = run_envcheck("train", "--recipe", "tiny-abacus", "--recipes", str(recipes), "--on", "slurm", "--dry-run")

    assert "--gres=gpu:1" in done.output


def test_driver_has_no_installer(recipes: Path) -> None:
    """There is no installer dialogue, and nothing fails for it."""
    recipe = catalogue.find_recipe(catalogue.load_all(recipes), "tiny-abacus")

    assert installer_tables.list_drivers(recipe) == ()


def test_explain_knows_the_others() -> None:
    """A code of another vendor is explained as ever."""
    assert "507033" in run_envcheck("explain", "507033").output
