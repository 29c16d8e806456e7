"""The table of cards: names of tools and users, and cards that it lacks."""

from __future__ import annotations

import pytest

from envcheck.core.errors import UsageError
from envcheck.vendors import VENDORS
from launch.catalogue import devices

OF_TOOLS = {
    "nvidia NVIDIA H200": "nvidia-h200", "nvidia NVIDIA H20": "nvidia-h20", "nvidia NVIDIA L40S": "nvidia-l40s",
    "nvidia NVIDIA A100-SXM4-40GB": "nvidia-a100-40g", "nvidia NVIDIA A10G": "nvidia-a10g",
    "nvidia NVIDIA GeForce RTX 4090": "nvidia-rtx-4090", "npu 910B3": "ascend-910b3", "npu Ascend910B4": "ascend-910b4",
    "npu Ascend910": "ascend-910c", "npu 910B2C": "ascend-910b2c", "iluvatar Iluvatar BI-V150": "iluvatar-bi-v150",
    "xpu P800 OAM": "kunlunxin-p800", "nvidia NVIDIA GB200": "nvidia-gb200", "nvidia Tesla T4": "nvidia-t4",
}  # fmt: skip


def test_names_of_tools() -> None:
    """Each tool's name of a card selects its own entry, not one whose name it contains."""
    assert {text: devices.find_device(text, text.split()[0]).name for text in OF_TOOLS} == OF_TOOLS


@pytest.mark.parametrize(
    ("text", "name"),
    [("nvidia Tesla P40", "tesla-p40"), ("npu 910A", "910a"), ("iluvatar Iluvatar MR-V100", "mr-v100")],
)
def test_unlisted_cards_keep_their_names(text: str, name: str) -> None:
    """A card that is not in the table is planned with the figures of another one, under its own name."""
    card = devices.find_device(text, text.split()[0])

    assert card.name == name and card.vendor == text.split()[0]
    assert devices.assumed_card(card) and card.figures_of in f"{devices.assumed_card(card)}"


@pytest.mark.parametrize("word", ["GPU", "gpus", "NPU", "DCU", "MLU"])
def test_kinds_of_cards_are_no_names(word: str) -> None:
    """A word for any card is not taken for the name of one, a longer word is."""
    assert devices.find_device(word).name != word.lower()
    assert devices.find_device("Quadro").name == "quadro"


def test_users_name_every_card() -> None:
    """Each listed word and each full name select one card; the figures are complete and plausible."""
    for word in devices.list_device_words():
        card = devices.find_named_device(word)
        assert devices.find_named_device(card.name) == card == devices.find_named_device(word.upper())
        assert 8 <= card.memory_gib < 300 and card.tflops > 20 and card.cards_per_node in (4, 8, 16)
    with pytest.raises(UsageError, match="unknown device"):
        devices.find_named_device("abacus")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("RTX4090", "nvidia-rtx-4090"),
        ("4090D", "nvidia-rtx-4090d"),
        ("A100-80G", "nvidia-a100"),
        ("A100-SXM4-40GB", "nvidia-a100-40g"),
        ("a800", "nvidia-a800"),
        ("V100-16G", "nvidia-v100-16g"),
        ("H20-3e", "nvidia-h20-141g"),
        ("a10 24g", "nvidia-a10"),
        ("Ascend910B3", "ascend-910b3"),
        ("Atlas 800T A2", "ascend-910b"),
        ("Iluvatar BI-V150", "iluvatar-bi-v150"),
        ("Kunlun P800", "kunlunxin-p800"),
        ("A100-80G-PCIe", "nvidia-a100"),
        ("A100 40GB PCIe", "nvidia-a100-40g"),
        ("a100sxm4", "nvidia-a100"),
        ("H100PCIe 80G", "nvidia-h100"),
        ("h800-80", "nvidia-h800"),
        ("h800-80-pcie", "nvidia-h800"),
        ("4090 24", "nvidia-rtx-4090"),
    ],
)
def test_names_as_sold(text: str, name: str) -> None:
    """Makers, series, sockets and the memory may be around a card's name."""
    assert devices.find_named_device(text).name == name


@pytest.mark.parametrize(
    "text",
    ["MR-V100", "h100 nvl", "a100-96g", "a100-96", "a100-8", "a100-80g-40g", "910a", "rtx", "40g", "sxm4", "80", ""],
)
def test_other_cards_are_not_taken_for_one(text: str) -> None:
    with pytest.raises(UsageError, match="unknown device"):
        devices.find_named_device(text)


@pytest.mark.parametrize(
    ("name", "given", "memory_gib"),
    [
        ("a10", 24, 22.5),
        ("a10", 22.2, 22.2),
        ("h100", 80, 79.6),
        ("h100", 96, 96),
        ("h100", 84, 84),
        ("h20", 102, 102),
        ("4090", 48, 48),
        ("a100", 80, 80),
        ("h20", 96, 95.6),
        ("h200", 141, 140.4),
        ("2080ti", 16, 16),
    ],
)
def test_memory_as_sold(name: str, given: float, memory_gib: float) -> None:
    """The size that a card is sold with means what its tool prints; any other size is kept."""
    assert devices.find_named_device(name).correct_memory(given) == memory_gib


def test_each_vendor_has_a_typical_card() -> None:
    """The first entry of a vendor is its typical card, and not one with another card's figures."""
    assert not [name for name in VENDORS if devices.find_default_device(name).figures_of]
