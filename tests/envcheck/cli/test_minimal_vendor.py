"""A vendor with nothing but its record: commands that want more of it answer in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from envcheck.cli.main import main
from envcheck.core.errors import EnvcheckError
from envcheck.core.vendor import Vendor, run
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
        devices=(run("abacus-smi"),),
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


def envcheck(*argv: str) -> Result:
    return CliRunner().invoke(main, list(argv), catch_exceptions=True)


@pytest.mark.parametrize(
    ("argv", "seen"),
    [
        (("solve", "--device", "abacus", "--driver", "1.0"), "no table names a set of versions for --device abacus"),
        (
            ("plan", "--model", "21b", "--method", "lora", "--device", "abacus", "--cards", "8"),
            "no table describes a card of --device abacus",
        ),
    ],
    ids=("solve", "plan"),
)
def test_missing_table_is_named(argv: tuple[str, ...], seen: str) -> None:
    """solve and plan say which table lacks the vendor."""
    done = envcheck(*argv)

    assert isinstance(done.exception, EnvcheckError)
    assert done.exception.message == seen


def test_kubernetes_wants_the_resource(recipes: Path) -> None:
    """Nothing tells what a cluster calls its cards: --resource does."""
    train = ("train", "--recipe", "tiny-abacus", "--recipes", str(recipes))
    asked = (*train, "--on", "k8s", "--dry-run", "--image", "a/b:1", "--storage", "claim")

    refused, made = envcheck(*asked), envcheck(*asked, "--resource", "abacus.com/beads")

    assert "no Kubernetes resource is known for --device abacus" in str(refused.exception)
    assert "abacus.com/beads: 1" in made.output


def test_slurm_is_asked_by_its_own_word(recipes: Path) -> None:
    """Where no sinfo answers, the cards are called as Slurm usually calls them, and that is told."""
    done = envcheck("train", "--recipe", "tiny-abacus", "--recipes", str(recipes), "--on", "slurm", "--dry-run")

    assert "--gres=gpu:1" in done.output


def test_driver_has_no_installer(recipes: Path) -> None:
    """There is no installer dialogue, and nothing fails for it."""
    recipe = catalogue.by_name(catalogue.load_all(recipes), "tiny-abacus")

    assert installer_tables.drivers_of(recipe) == ()


def test_explain_knows_the_others() -> None:
    """A code of another vendor is explained as ever."""
    assert "507033" in envcheck("explain", "507033").output
