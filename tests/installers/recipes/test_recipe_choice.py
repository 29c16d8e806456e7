"""Selection of a job by model, method, variant, device, framework, role, cards and nodes."""

from __future__ import annotations

import pytest

from envcheck.core.errors import UsageError
from installers.recipes import catalogue
from installers.recipes.catalogue import JobShape
from installers.recipes.recipe import Recipe

OURS = catalogue.load_all()


@pytest.mark.parametrize(
    ("asked", "name", "method", "role"),
    [
        (("tiny", "lora", "cpu", None), "tiny-cpu", "lora", ""),
        (("tiny", None, "iluvatar", None), "tiny-iluvatar", "lora", ""),
        (("300b", "sft", "npu", None), "ernie-300b-npu", "sft", ""),
        (("baidu/ERNIE-4.5-300B-A47B-Paddle", "lora", "npu", None), "ernie-300b-npu", "lora", ""),
        (("300b", "lora", "xpu", None), "ernie-300b-xpu", "lora", ""),
        (("21b", "dpo", "npu", None), "ernie-21b-npu", "dpo", ""),
        (("0.3b", "sft", "nvidia", None), "ernie-0.3b-nvidia", "sft", ""),
        (("21B-A3B", "LoRA", "iluvatar", "ErnieKit"), "ernie-21b-iluvatar", "lora", ""),
        (("21b", "lora", "nvidia", None), "ernie-21b-nvidia", "lora", ""),
        (("21b", "lora", "nvidia", "flagcx"), "ernie-21b-hetero", "lora", "nvidia"),
        (("21b", None, "iluvatar", "flagcx"), "ernie-21b-hetero", "lora", "iluvatar"),
        (("ernie-21b-hetero", "lora", "iluvatar", None), "ernie-21b-hetero", "lora", "iluvatar"),
        (("qwen-7b", "lora", "npu", "swift"), "qwen-7b-npu-swift", "lora", ""),
        (("qwen-7b", "zero3", None, "swift"), "qwen-7b-npu-swift", "lora", ""),
        (("qwen-7b", "full", None, "llamafactory"), "qwen-7b-npu8-llamafactory", "sft", ""),
        (("qwen-7b", "lora", None, "llamafactory"), "qwen-7b-npu-llamafactory", "lora", ""),
        (("qwen-7b", "chat", "auto", None), "qwen-7b-npu-llamafactory", "chat", ""),
    ],
)
def test_select(asked: tuple[str, str, str, str], name: str, method: str, role: str) -> None:
    """Full and short names select the same job."""
    recipe, job = catalogue.select_job(OURS, *asked)

    assert (recipe.name, job.method, job.role) == (name, method, role)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("qwen-7b", "lora", "npu", None), ["2 jobs fit", "--framework", "llamafactory", "swift"]),
        (("tiny", "lora", "auto", None), ["5 jobs fit", "--device", "cpu", "npu", "xpu"]),
        (("21b", "lora", "auto", "flagcx"), ["2 jobs fit", "--device", "nvidia", "iluvatar"]),
        (("405b", "lora", "auto", None), ["no recipe matches --model 405b", "ERNIE-4.5-300B-A47B", "tiny"]),
        (("300b", "kto", None, None), ["no recipe matches --model 300b --method kto", "--method sft", "--method lora"]),
        (("21b", "lora", "auto", None), ["4 jobs fit", "--device", "npu", "iluvatar", "nvidia", "xpu"]),
        (("300b", "sft", "auto", None), ["2 jobs fit", "--device", "npu", "xpu"]),
        (("300b", "sft", "iluvatar", None), ["--device iluvatar", "--device npu"]),
        (("", None, None, None), ["no recipe matches --model", "tiny"]),
    ],
)
def test_select_says_what_there_is(asked: tuple[str, str, str, str], words: list[str]) -> None:
    """An ambiguous or unknown request is answered with the available values and options."""
    with pytest.raises(UsageError) as caught:
        catalogue.select_job(OURS, *asked)

    said = f"{caught.value.message}\n{caught.value.next_step}"
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize(
    ("shape", "variant"),
    [
        (JobShape(), ""),
        (JobShape(variant="zero3"), "zero3"),
        (JobShape(variant="ZeRO2"), "zero2"),
        (JobShape(cards=4), "ddp"),
        (JobShape(cards=1), ""),
        (JobShape(cards=6), ""),
    ],
)
def test_shape_chooses_the_variant(shape: JobShape, variant: str) -> None:
    """A variant is selected by name, or by the number of cards; otherwise the job without a variant."""
    assert catalogue.select_job(OURS, "qwen-7b", "lora", None, "swift", shape)[1].variant == variant


@pytest.mark.parametrize(("nodes", "variant"), ((8, ""), (10, "10x16"), (9, "")))
def test_nodes_choose_the_variant(nodes: int, variant: str) -> None:
    """The job with the requested number of nodes is selected, if there is one."""
    assert catalogue.select_job(OURS, "300b", "sft", "npu", None, JobShape(nodes=nodes))[1].variant == variant


def test_node_role() -> None:
    """A node role alone selects its part of the mixed job."""
    for role in ("nvidia", "iluvatar"):
        recipe, job = catalogue.select_job(OURS, "21b", "lora", None, None, JobShape(role=role))

        assert (recipe.name, job.role) == ("ernie-21b-hetero", role)


def test_unknown_variant() -> None:
    """For an unknown variant, the available ones are listed."""
    with pytest.raises(UsageError) as caught:
        catalogue.select_job(OURS, "qwen-7b", "lora", None, "swift", JobShape(variant="zero9"))

    assert "--variant zero3" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    ("asked", "option", "near"),
    [
        ({"model": "tinny"}, "model", "did you mean tiny?"),
        ({"model": "ERNIE-4.5-300"}, "model", "did you mean ERNIE-4.5-300B-A47B?"),
        ({"model": "nothing of the kind"}, "model", "available: ERNIE-4.5-0.3B, "),
        ({"framework": "swft"}, "framework", "did you mean swift?"),
        ({"device": "tyche"}, "device", "available: cpu, iluvatar, "),
    ],
)
def test_a_wrong_name_is_told_the_near_one(asked: dict[str, str], option: str, near: str) -> None:
    """If many jobs are left, the values of the option are listed, the most similar first."""
    said = {"model": None, "method": None, "device": None, "framework": None} | asked
    with pytest.raises(UsageError) as caught:
        catalogue.select_job(catalogue.load_all(), **said)

    assert str(caught.value) == f"no recipe matches --{option} {asked[option]}"
    assert str(caught.value.next_step).startswith(near)


@pytest.mark.parametrize("recipe", OURS, ids=lambda recipe: recipe.name)
def test_a_recipe_names_its_devices(recipe: Recipe) -> None:
    """A device that no job of the recipe supports: the next step has the devices and a row for each kind of job."""
    with pytest.raises(UsageError) as error:
        catalogue.check_agreement(recipe, None, None, "p800", None)

    first, *rows = str(error.value.next_step).splitlines()
    devices = {catalogue.job_device((recipe, job)) for job in recipe.jobs}
    assert first.endswith(f"this recipe is for --device {', '.join(sorted(devices))}:")
    assert rows and all(recipe.name in row for row in rows)
