"""launch/catalogue/models.toml and the counts made from it."""

from __future__ import annotations

import pytest

from envcheck.core.errors import UsageError
from launch.catalogue import models

# The one count that its publisher gives differently: a rotary buffer is counted there (27 layers x 64).
KNOWN_RESIDUAL = {"moonlight-16b-a3b": -1728}


@pytest.mark.parametrize("name", models.tables())
def test_count_is_the_published_one(name: str) -> None:
    """Parameters recomputed from the dimensions equal the published count."""
    model = models.load(name)
    if model.published_params is None:
        return  # only the rounded figure of the name is published; the next test holds it

    assert model.params - model.published_params == KNOWN_RESIDUAL.get(name, 0)


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("ernie-4.5-300b-a47b", 299_484_163_264),
        ("ernie-4.5-21b-a3b", 21_825_437_888),
        ("ernie-4.5-0.3b", 360_748_032),
        ("ernie-4.5-vl-28b-a3b", 29_255_069_056),
        ("ernie-4.5-vl-424b-a47b", 423_353_212_800),
        ("glm-4.5-air", 106_852_251_264),
        ("gpt3-13b", 12_848_384_000),
    ],
)
def test_nominal_counts(name: str, total: int) -> None:
    """Models whose publisher gives a rounded figure count to what the dimensions say."""
    assert models.load(name).params == total


@pytest.mark.parametrize("name", models.tables())
def test_every_shape_has_a_source(name: str) -> None:
    """Each shape says where it comes from."""
    assert models.load(name).source


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("300b", "ernie-4.5-300b-a47b"),
        ("21b", "ernie-4.5-21b-a3b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("baidu/ERNIE-4.5-21B-A3B-Paddle", "ernie-4.5-21b-a3b"),
        ("qwen-7b", "qwen-7b"),
    ],
)
def test_names(asked: str, found: str) -> None:
    """Short names and hub ids resolve."""
    assert models.find(asked).name == found


@pytest.mark.parametrize("asked", ["qwen", "no-such-model", "", "../../etc/passwd"])
def test_unclear_names_lead_to_the_choices(asked: str) -> None:
    """A name that fits several models or none is answered in a line, with the command that names all."""
    with pytest.raises(UsageError) as caught:
        models.find(asked)

    assert "envcheck plan --list-models" in caught.value.next_step
    assert len(caught.value.next_step) < 250
