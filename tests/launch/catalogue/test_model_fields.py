"""A model given by fields of config.json as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from launch.catalogue import model_fields
from launch.planner.resolve import pick_model

LLAMA = model_fields.EXAMPLE


def test_fields_describe_a_model() -> None:
    """The example has the size of Llama 2 7B."""
    model = pick_model(LLAMA)

    assert model.params / 1e9 == pytest.approx(6.74, abs=0.01)
    assert model.name == "32x4096"


@pytest.mark.parametrize("name", ["epoch=3-step=100", "lr=1e-4,step=100"])
def test_a_folder_with_an_equals_sign(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a checkpoint is no list of fields."""
    (tmp_path / name).mkdir()
    fields = dict(part.split("=") for part in LLAMA.split(","))
    config = {key: int(value) for key, value in fields.items()}
    (tmp_path / name / "config.json").write_text(json.dumps({**config, "model_type": "llama"}))
    monkeypatch.chdir(tmp_path)

    assert pick_model(name).layers == 32
    assert pick_model(str(tmp_path / name)).layers == 32


@pytest.mark.parametrize(
    ("more", "message", "hint"),
    [
        ("num_key_value_head=8", "unknown field num_key_value_head", "num_key_value_heads"),
        ("colour=8", "unknown field colour", "config.json"),
        ("num_layers=16", "num_layers is given twice", "once"),
        ("head_dim=wide", "head_dim is wide", "whole number"),
        ("head_dim=0", "head_dim is 0", "whole number"),
        ("tie_word_embeddings=maybe", "tie_word_embeddings is maybe", "=true"),
        ("num_key_value_heads=5", "32 heads cannot share 5 key/value heads", "divisor"),
        ("head_dim", "invalid fields", "--model"),
    ],
)
def test_mistakes_in_fields(more: str, message: str, hint: str) -> None:
    """A key that nothing reads, or that is given twice, is refused: it would change nothing."""
    with pytest.raises(UsageError) as caught:
        pick_model(f"{LLAMA},{more}")

    assert message in str(caught.value)
    assert hint in str(caught.value.next_step)


def test_a_fraction_is_a_number() -> None:
    """The share of each head that is rotated is read."""
    assert pick_model(f"{LLAMA},partial_rotary_factor=0.5").partly_rotated
