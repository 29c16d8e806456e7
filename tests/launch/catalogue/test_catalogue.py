"""launch/catalogue/models.toml and its parameter counts."""

from __future__ import annotations

import re

import pytest

from envcheck.core.errors import UsageError
from launch.catalogue import models

# The only count that differs from the publisher's, which includes a rotary buffer (27 layers x 64).
KNOWN_RESIDUAL = {"moonlight-16b-a3b": -1728}


@pytest.mark.parametrize("name", models.load_tables())
def test_count_is_the_published_one(name: str) -> None:
    """Parameters recomputed from the dimensions equal the published count."""
    model = models.load_model(name)
    if model.published_params is None:
        return  # only a rounded figure is published; see the next test

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
        ("llama-4-scout", 107_769_861_120),
        ("llama-4-maverick", 400_711_848_960),
        ("qwen3-next-80b-a3b", 79_039_358_976),
        ("glm-4.5", 352_797_829_024),
        ("minimax-m2", 228_689_764_864),
        ("gemma-3-27b", 27_009_346_304),
    ],
)
def test_nominal_counts(name: str, total: int) -> None:
    """Models with a rounded published figure have the count of their dimensions."""
    assert models.load_model(name).params == total


def test_estimated_layers_come_near_the_real_count() -> None:
    """Linear attention is estimated as attention: within 1 % of what torch counts on transformers' class."""
    model = models.load_model("qwen3-next-80b-a3b")

    assert model.foreign and model.params == pytest.approx(79_674_391_296, rel=0.01)


def test_an_indexer_adds_its_matrices() -> None:
    """DeepSeek-V3.2 has the parameters of V3 and, in each layer, those that torch counts of its indexer."""
    plain, indexed = models.load_model("deepseek-v3"), models.load_model("deepseek-v3.2")

    assert indexed.params - plain.params == 61 * (8192 * 1536 + 128 * 7168 + 2 * 128 + 64 * 7168)


@pytest.mark.parametrize("name", models.load_tables())
def test_every_shape_has_a_source(name: str) -> None:
    """Each model cites its source."""
    assert models.load_model(name).source


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("300b", "ernie-4.5-300b-a47b"),
        ("21b", "ernie-4.5-21b-a3b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("baidu/ERNIE-4.5-21B-A3B-Paddle", "ernie-4.5-21b-a3b"),
        ("qwen-7b", "qwen-7b"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek-v3"),
        ("Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("zai-org/GLM-4.6", "glm-4.5"),
        ("Qwen2.5-Coder-7B-Instruct", "qwen2.5-7b"),
        ("gpt-oss-120b", "gpt-oss-120b"),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", "llama-4-maverick"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-v3.2"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3-next-80b-a3b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("llama3.1-8b", "llama-3.1-8b"),
        ("Llama3-70B-Instruct", "llama-3-70b"),
        ("glm4.5", "glm-4.5"),
        ("qwen25_7b", "qwen2.5-7b"),
        ("opt13b", "opt-13b"),
        ("Qwen/Qwen3-VL-8B-Thinking", "qwen3-vl-8b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b-v0.1"),
        ("internlm/internlm2_5-7b-chat", "internlm2-7b"),
        ("Qwen/Qwen1.5-4B-Chat", "qwen1.5-4b"),
        ("deepseek-ai/DeepSeek-V2", "deepseek-v2"),
        ("gpt2", "gpt2"),
        ("smollm3", "smollm3-3b"),
        ("qwen2.5:7b", "qwen2.5-7b"),
    ],
)
def test_names(asked: str, found: str) -> None:
    """Short names and hub ids resolve."""
    assert models.find_model(asked).name == found


@pytest.mark.parametrize("name", models.load_tables())
def test_each_name_is_its_own(name: str) -> None:
    assert models.find_model(name).name == models.find_exact_name(name) == name


# A separator between digits: one digit to the left, to the right, one more, one less before a size.
MOVES = (
    (r"(?<=\d)(\d)([-.])(?=\d)", r"\2\1"),
    (r"(?<=\d)([-.])(\d)(?=\d)", r"\2\1"),
    (r"(?<=\d)(?=\d)", "-"),
    (r"(?<=\d)[-.](?=\d+b)", ""),
)


@pytest.mark.parametrize("name", models.load_tables())
def test_a_moved_separator_is_another_name(name: str) -> None:
    """A separator one digit further is not ignored: qwen2-57b is not qwen2.5-7b, nor gpt-oss-2-0b gpt-oss-20b."""
    moved = {
        name[: gap.start()] + gap.expand(other) + name[gap.end() :]
        for sign, other in MOVES
        for gap in re.finditer(sign, name)
    }
    digits = re.sub(r"\D", "", name)
    similar = {other for other in models.load_tables() if re.sub(r"\D", "", other) == digits} - {name}

    assert {models.find_exact_name(other) for other in moved} <= {"", *similar}


@pytest.mark.parametrize("asked", ["qwen2-57b", "llama-3-18b", "gemma-327b", "qwen1-57b", "gpt-oss-2-0b", "qwen25-15b"])
def test_other_numbers_are_no_name(asked: str) -> None:
    """Digits of version and size are not joined."""
    assert models.find_exact_name(asked) == ""


@pytest.mark.parametrize(
    ("asked", "named", "other"),
    [
        ("7b", "qwen2.5-7b", "a47b"),
        ("qwen", "qwen-7b", "ernie"),
        ("llama3", "did you mean llama-3-8b, llama-3-70b?", "llama-3.1"),
        ("llama-3", "did you mean llama-3-8b, llama-3-70b?", "llama-30b"),
    ],
)
def test_suggestions_are_whole_words(asked: str, named: str, other: str) -> None:
    """A model is suggested for its words and their beginnings, not for a part inside of them."""
    with pytest.raises(UsageError) as caught:
        models.find_model(asked)

    assert named in caught.value.next_step
    assert other not in caught.value.next_step


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ("Qwen2.5-7B-Instruct-AWQ", "--model qwen2.5-7b --quant awq-int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "--model qwen2.5-7b --quant gptq-int4"),
        ("unsloth/llama-3-8b-bnb-4bit", "--model llama-3-8b --quant nf4"),
    ],
)
def test_a_quantised_checkpoint_leads_to_its_base(asked: str, options: str) -> None:
    """The name of a quantised checkpoint is refused with the options that plan it."""
    with pytest.raises(UsageError) as caught:
        models.find_model(asked)

    assert caught.value.next_step == f"use {options}"


@pytest.mark.parametrize(
    "asked", ["qwen", "llama-3", "falcon-4", "Qwen/Qwen1.5-3B", "no-such-model", "", "../../etc/passwd"]
)
def test_unclear_names_lead_to_the_choices(asked: str) -> None:
    """A name that matches several models or none gets a short answer with the command that lists all."""
    with pytest.raises(UsageError) as caught:
        models.find_model(asked)

    assert "envcheck plan --list-models" in caught.value.next_step
    assert len(caught.value.next_step) < 250
