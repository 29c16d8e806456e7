"""envcheck plan of a recipe's job on this machine: the job that doctor judges, and its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envcheck.cli import main
from envcheck.core.errors import UntoldError

LORA = ("--model", "21b", "--method", "lora")


def finding(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(found for found in document["findings"] if found["name"] == name)


@pytest.mark.parametrize(
    ("machine", "model"), [("bi-v150x8", "21b"), ("h200x8", "21b"), ("atlas-800t-a2", "0.3b"), ("h200x8", "0.3b")]
)
def test_the_job_and_its_memory_are_doctors(run_on: Any, machine: str, model: str) -> None:
    """The same job, and the answer that doctor's job.memory has."""
    words = ("--model", model, "--method", "lora", "--json")

    planned, examined = (json.loads(run_on(machine, verb, *words).stdout) for verb in ("plan", "doctor"))

    assert planned["job"] == examined["job"]
    assert planned["layout"]["cards"] == planned["job"]["cards"]
    assert (planned["verdict"] == "fits") is (finding(examined, "job.memory")["status"] == "OK")
    assert planned["reason"] in finding(examined, "job.memory")["seen"]


@pytest.mark.parametrize(("model", "verdict"), [("300b", "does not fit"), ("21b", "fits")])
def test_what_blocks_the_job_comes_first(run_on: Any, model: str, verdict: str) -> None:
    """The judge's own sentences and its exit code, also where memory suffices; then the plan of the cards here."""
    words = ("--model", model, "--method", "lora")
    done, examined = (run_on("atlas-800t-a2", verb, *words) for verb in ("plan", "doctor"))
    told = json.loads(run_on("atlas-800t-a2", "plan", *words, "--json").stdout)
    first, second, *_ = done.output.splitlines()

    assert first.startswith("blocked by: ") and "cards (" in first and "architecture (" in first
    assert second.startswith(verdict) and "8 x 64 GiB" in done.output
    assert (done.return_value, examined.return_value, told["exit_code"], told["error"]) == (1, 1, 1, first)
    assert told["next"] == f"envcheck doctor --model {told['job']['recipe']} --method lora"


def test_another_host_is_said_first(run_on: Any) -> None:
    """Where no such card is here the job is that of the recipe's host."""
    done = run_on("cpu", "plan", "--model", "300b", "--method", "lora", "--device", "npu")

    assert done.output.startswith("resolved for the recipe's host")


@pytest.mark.parametrize("more", [("--cards", "8"), ("--memory-gib", "32"), ("--tp", "4", "--pp", "4")])
def test_other_cards_or_degrees_are_no_recipes_job(run_on: Any, more: tuple[str, ...]) -> None:
    """The document has no job where the hardware or the layout is described."""
    done = run_on("bi-v150x8", "plan", *LORA, *more, "--json")

    assert json.loads(done.stdout)["job"] is None


def test_a_plan_that_cannot_be_made_is_a_document(run_on: Any) -> None:
    """A model that the planner does not know: the job, why, and what next."""
    done = run_on("h200x8", "plan", "--model", "tiny", "--method", "lora", "--json")

    assert isinstance(done.exception, UntoldError)
    document = done.exception.document
    assert (document["verdict"], document["job"]["recipe"]) == ("cannot-tell", "tiny-nvidia")
    assert "does not know tiny" in document["reason"] and done.exception.next_step


def test_a_start_that_nobody_can_tell_is_not_promised(on_machine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Of cards that the tool's answer does not hold nobody knows: neither "would start" nor "would not"."""
    on_machine("atlas-200t-a2-box16", "truncated")
    words = ["train", "--model", "300b", "--method", "lora", "--dry-run"]
    ends = []
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as left:
            main.entry([*words, *more])
        ends.append((left.value.code, capsys.readouterr().out))
    told = json.loads(ends[1][1])

    assert [code for code, _ in ends] == [3, 3] and told["exit_code"] == 3
    assert ends[0][1].startswith("envcheck cannot determine whether train would start here:")
    assert told["error"]
