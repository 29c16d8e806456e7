"""config.json of many families compared with their published weights; invalid files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.core.errors import UsageError
from launch.catalogue import model_config
from launch.catalogue.architecture import Model
from launch.planner import machines, resolve, verdict

PUBLISHED: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data/configs/published.json").read_text())
# The vision towers of Llama 4 have a pixel shuffle and two matrices that are not counted.
PART_COUNTED = {"llama4-scout": 0.001, "llama4-maverick": 0.001}
# Classes of transformers 5.23 with their defaults, and their parameters counted by torch on the meta device.
DEFAULTS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data/configs/defaults.json").read_text())
SMALL = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 99}


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: str(case["name"]))
def test_count_of_the_published_weights(case: dict[str, Any]) -> None:
    """The parameters of a configuration equal those of its weights."""
    counted = model_config.parse_model(case["config"], case["name"], "config.json").params

    assert abs(counted - case["parameters"]) <= PART_COUNTED.get(case["name"], 0) * case["parameters"]


@pytest.mark.parametrize("case", DEFAULTS, ids=lambda case: str(case["name"]))
def test_count_of_default_classes(case: dict[str, Any]) -> None:
    """Default configurations of transformers classes have exactly the parameters that torch counts."""
    assert model_config.parse_model(case["config"], case["name"], "config.json").params == case["parameters"]


@pytest.mark.parametrize("fields", [{"layer_types": ["linear_attention", "full_attention"]}, {"mamba_d_state": 16}])
def test_layers_that_are_not_modelled(fields: dict[str, Any]) -> None:
    """A model with unmodelled layers gets a verdict only if half and twice the figure agree; the reason names them."""
    known, odd = (model_config.parse_model({**SMALL, **more}, "x", "config.json") for more in ({}, fields))
    job = resolve.build_planned_job(machines.build_described_machine("nvidia", 1, 80), "llama-2-7b", "lora", {})
    tight = replace(job, memory_gib=1.3 * verdict.evaluate_job(job).need_gib)

    assert not known.foreign and odd.foreign in str(model_config.list_assumptions({**SMALL, **fields}))
    assert verdict.evaluate_job(tight).verdict == "fits"
    plan = verdict.evaluate_job(replace(tight, model=replace(job.model, foreign=odd.foreign)))
    assert plan.verdict == "unknown" and plan.reason.endswith(f"{odd.foreign} layers")


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: str(case["name"]))
def test_published_configurations_are_known(case: dict[str, Any]) -> None:
    """A configuration of a known family has no unknown fields."""
    assert not [text for text in model_config.list_assumptions(case["config"]) if "unknown" in text]


def test_unknown_fields_are_named() -> None:
    """An ignored size is listed with its value, and so is an unknown type."""
    assumed = model_config.list_assumptions({**SMALL, "model_type": "frob", "memory_layer_size": 512})

    assert any("frob" in text for text in assumed)
    assert any("memory_layer_size = 512" in text for text in assumed)


@pytest.mark.parametrize(
    ("fields", "caps"),
    [
        ({}, (False, False)),
        ({"model_type": "gemma2"}, (True, True)),
        ({"model_type": "gemma2", "attn_logit_softcapping": None}, (True, False)),
        ({"final_logit_softcapping": 15.0}, (True, False)),
    ],
)
def test_soft_capping(fields: dict[str, Any], caps: tuple[bool, bool]) -> None:
    """Soft capping is read from its fields; Gemma 2 has it by default."""
    model = model_config.parse_model({**SMALL, **fields}, "small", "config.json")

    assert (model.caps_logits, model.caps_scores) == caps


def write_config(folder: Path, text: str | bytes) -> Path:
    (folder / "config.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": "64"}, "hidden_size is '64'"),
        ({"hidden_size": 64.5}, "hidden_size is 64.5"),
        ({"final_logit_softcapping": "30"}, "final_logit_softcapping is '30'"),
        ({"attn_logit_softcapping": -1.0}, "attn_logit_softcapping is -1.0"),
        ({"hidden_size": -64}, "hidden_size is -64"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"hidden_size": [64, "x"]}, "hidden_size is"),
        ({"hidden_size": 10**30}, "hidden_size is 1000"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers is 1000000"),
        ({"num_attention_heads": 128}, "num_attention_heads is 128"),
        ({"num_key_value_heads": 8}, "num_key_value_heads is 8"),
        ({"hidden_size": {}}, "hidden_size is"),
        ({"num_local_experts": 4, "num_experts_per_tok": 5}, "num_experts_per_tok is 5"),
        ({"q_lora_rank": "x", "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8}, "q_lora_rank is 'x'"),
        ({"vision_config": {"depth": "x"}}, "vision_config: depth is 'x'"),
        ({"vision_config": {"mlp_ratio": "x", "embed_dim": [1, None]}}, "vision_config: embed_dim is"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_invalid_sizes(change: dict[str, Any], message: str) -> None:
    """An invalid size is rejected with its field and value."""
    with pytest.raises(UsageError) as refused:
        model_config.parse_model({**SMALL, **change}, "m", "config.json")

    assert message in refused.value.message


@pytest.mark.parametrize("value", [-64, 0, 10**7])
def test_an_invalid_size_has_its_range(value: int) -> None:
    with pytest.raises(UsageError) as refused:
        model_config.parse_model({**SMALL, "hidden_size": value}, "m", "config.json")

    assert refused.value.message == f"config.json: hidden_size is {value}"
    assert refused.value.next_step == "hidden_size must be a positive integer below 10000000"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(SMALL)[:-1] + ', "hidden_size": 8}', "'hidden_size' is listed twice"),
        (json.dumps(SMALL)[:-1] + ', "x": NaN}', "NaN is not a number"),
        ("[" * 100_000, "nested too deeply"),
        ("{" * 5000, "is not a valid config.json"),
        ('"text"', "not a JSON object"),
        (b"\xff\xfe\x00", "is not a valid config.json"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "is not a valid config.json"),
        (b" " * ((16 << 20) + 1), "larger than 16 MiB"),
    ],
    ids=["twice", "nan", "deep", "open", "text", "binary", "digits", "huge"],
)
def test_invalid_files(text: str | bytes, message: str, tmp_path: Path) -> None:
    """An invalid file is rejected with one short message."""
    with pytest.raises(UsageError) as refused:
        model_config.read_model(write_config(tmp_path, text))

    assert message in refused.value.message
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 600


def test_devices_pipes_and_folders_are_not_read(tmp_path: Path) -> None:
    """An endless device, a pipe without a writer, a folder and a dangling link are rejected at once."""
    for name, make in (("zero", lambda p: p.symlink_to("/dev/zero")), ("pipe", os.mkfifo), ("folder", Path.mkdir),
                       ("dangling", lambda p: p.symlink_to("nowhere"))):  # fmt: skip
        place = tmp_path / name
        place.mkdir()
        make(place / "config.json")
        with pytest.raises(UsageError):
            model_config.read_model(place)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(model_config.READ | {"model_type", "mlp_only_layers"})),
        st.none() | st.booleans() | st.integers(-3, 1 << 70) | st.text(max_size=5) | st.floats(allow_nan=False)
        | st.lists(st.integers(-2, 300) | st.text(max_size=2), max_size=3)
        | st.dictionaries(st.sampled_from(sorted(model_config.READ)), st.integers(-1, 4096) | st.text(max_size=2)),
        max_size=8,
    )
)  # fmt: skip
def test_any_fields(fields: dict[str, Any]) -> None:
    """Any fields give a model or a UsageError."""
    try:
        made = model_config.parse_model({**SMALL, **fields}, "m", "config.json")
        model_config.list_assumptions({**SMALL, **fields})
    except UsageError:
        return

    assert isinstance(made, Model)
    assert made.params > 0
