"""Models that are not in the catalogue are read from the local caches of the hubs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from launch.catalogue import hub_cache
from launch.planner import machines, resolve

SHAPE = {
    "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "intermediate_size": 4096, "vocab_size": 32000,
}  # fmt: skip


def write_config(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(SHAPE))
    return folder


@pytest.fixture(autouse=True)
def _own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "MODELSCOPE_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


def test_model_of_the_hugging_face_cache(tmp_path: Path) -> None:
    """A cached model is planned by its hub id or its name, and the folder is listed as assumed."""
    folder = write_config(tmp_path / "hf_home/hub/models--Mine--Novel-1B/snapshots/abc")
    job = resolve.build_planned_job(machines.build_described_machine("nvidia", 1, 24), "mine/novel-1b", "lora", {})

    assert hub_cache.find_cached_model("Novel-1B") == folder
    assert (job.model.name, job.model.layers) == ("novel-1b", 4)
    assert f"model: config.json of {folder}" in [f"{text}" for text in job.assumed]


def test_model_of_the_modelscope_cache(tmp_path: Path) -> None:
    """ModelScope writes three underscores for a dot."""
    folder = write_config(tmp_path / "modelscope_cache/models/Mine/Novel-1___5B")

    assert hub_cache.find_cached_model("Mine/Novel-1.5B") == folder
    assert hub_cache.find_cached_model("novel-1.5b") == folder


def test_other_names_are_unknown(tmp_path: Path) -> None:
    """A part of a name is not enough, an empty cache is no error, and the catalogue wins."""
    write_config(tmp_path / "hf_hub_cache/models--Qwen--Qwen2.5-7B/snapshots/abc")

    assert hub_cache.find_cached_model("novel") is None
    with pytest.raises(UsageError, match="unknown --model"):
        resolve.pick_model("novel-1b")
    assert resolve.pick_model("Qwen/Qwen2.5-7B").layers == 28
