"""A model given by fields of config.json as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envcheck.core.errors import UsageError
from launch.catalogue import model_config, model_fields
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


class RecordedFields(dict[str, Any]):
    """Fields that note by which keys they were asked."""

    def __init__(self, fields: Mapping[str, Any], asked: set[str]) -> None:
        super().__init__(fields)
        self.asked = asked

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)


@pytest.mark.parametrize("kind", ["llama", "falcon", "gpt_neox", "deepseek_v3", "mpt", "chatglm", "qwen3_moe"])
def test_every_field_that_is_read_can_be_given(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What model_config asks a configuration for is a field of --model, lists and tables aside."""
    asked: set[str] = set()
    select = model_config.select_text_fields
    monkeypatch.setattr(model_config, "select_text_fields", lambda data: RecordedFields(select(data), asked))
    fields = {key: int(value) for key, value in (part.split("=") for part in LLAMA.split(","))}

    model_config.parse_model({**fields, "model_type": kind, "num_experts": 8, "kv_lora_rank": 8}, "m", "here")

    tables = {*model_config.KINDS, "rope_parameters", "mlp_only_layers", "mlp_layer_types"}
    assert asked and asked - tables <= model_config.PLAIN_FIELDS
