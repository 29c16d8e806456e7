"""Names of devices: any case, aliases, what several vendors claim, and typos."""

from __future__ import annotations

import pytest

from envcheck.core.errors import UsageError
from envcheck.vendors import VENDORS
from envcheck.vendors.names import accelerator_names, device_names, resolve_device


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("NPU", "npu"),
        ("Ascend", "npu"),
        ("huawei", "npu"),
        ("iluvatar-corex", "iluvatar"),
        ("CoreX", "iluvatar"),
        ("iluvatar_gpu", "iluvatar"),
        ("CUDA", "nvidia"),
        (" nvidia ", "nvidia"),
        ("CPU", "cpu"),
        ("Auto", "auto"),
    ],
)
def test_names_and_aliases(said: str, name: str) -> None:
    """Device names and aliases are accepted in any case."""
    assert resolve_device(said) == name


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("gpu", "specify --device iluvatar (Iluvatar CoreX) or --device nvidia (NVIDIA)"),
        ("nvida", "did you mean nvidia?"),
        ("acsend", "did you mean npu?"),
        ("toaster", "choose one of npu, iluvatar, nvidia, xpu, cpu, auto"),
    ],
)
def test_what_is_refused(said: str, advice: str) -> None:
    """An unknown or ambiguous name gives an error with the possible names."""
    with pytest.raises(UsageError) as refused:
        resolve_device(said)

    assert refused.value.next_step == advice


def test_names_come_from_the_records() -> None:
    """All names come from the vendor records."""
    assert device_names() == (*VENDORS, "auto")
    assert set(accelerator_names()) == set(VENDORS) - {"cpu"}


def test_the_page_lists_them(request: pytest.FixtureRequest) -> None:
    """docs/supported.md has a row for each vendor with its aliases, title and tool."""
    page = (request.config.rootpath / "docs" / "supported.md").read_text(encoding="utf-8")
    claimed = [alias for vendor in VENDORS.values() for alias in vendor.aliases]

    for name, vendor in VENDORS.items():
        own = ", ".join(f"`{alias}`" for alias in vendor.aliases if claimed.count(alias) == 1)
        tool = f"`{vendor.tool}`" if vendor.tool else ""
        row = f"| `{name}` | {own} | {vendor.title} | {tool} |"
        assert row.replace("  ", " ") in page.replace("  ", " ")
