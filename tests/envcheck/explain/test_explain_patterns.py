"""Each pattern of the catalogue is reachable: a matching line has a trigger and a word of its entry."""

from __future__ import annotations

import re

import pytest

from envcheck.explain import codes, explainer
from tests.envcheck.explain.diagnose_helpers import is_examined
from tests.envcheck.explain.pattern_texts import make_texts
from tests.envcheck.explain.test_explain_catalogue import ENTRIES, LINES

# What means it only where the lines say more: that a process ended, that a file was written, that Ray uploaded it.
IN_CONTEXT = {
    "exit.sigterm",
    "host.aborted",
    "host.data_disk",
    "host.killed",
    "kunlunxin.debug_word",
    "container.pyxis_path",
    "model.divide",
    "host.locks",
    "memory.engine",
    "host.semaphores",
    "host.unwritable",
    "host.program",
    "host.output_lost",
    "training.worker_lost",
    "launcher.backend_unset",
    "launcher.visible_list",
    "launcher.no_launcher",
    "ray.working_dir",
    "iluvatar.foreign_torch",
    "iluvatar.preload",
    "torch_npu.transformer_engine_search",
    "megatron.saved_config",
    "network.store_gone",
    "cuda.assert_reward",
    "cuda.worker_device",
    "nccl.foreign_file",
    "python.stale_extension",
    "cann.atb_operator",
    "cann.cuda_build",
    "nccl.imex",
    "mindie.file",
    "host.stale_cache",
    "launcher.ray_model_worker",
    "nccl.external_plugin",
    "nccl.host_memory",
    "options.single_card",
    "install.index_unreachable",
    "install.module_in_build",
    "install.package_fault",
    "install.stale_build",
    "install.wheel_download",
    "paddle.nccl_library",
    "training.data_wait",
    "network.loopback_master",
    "python.device_number",
    "training.save_wait",
    "training.evaluation_wait",
    "training.compile_wait",
    "training.tracker_process",
    "install.installed_conflict",
    "launcher.same_rank",
}
# What the readers take for something healthy in the short text that is made here, and never in the real one.
HEALTHY = {"cuda.assert": "Assertion t >= 0 failed", "cuda.assert_label": "t >= 0 failed"}


def make_entry_texts(name: str) -> list[tuple[re.Pattern[str], list[str]]]:
    """Return the texts that match each pattern of the entry, as exceptions print them."""
    return [(pattern, make_texts(pattern, "RuntimeError: ")) for pattern in ENTRIES[name].match]


def list_unreached(name: str) -> list[str]:
    index, healthy = explainer.load_index(), HEALTHY.get(name, "\n")
    return [
        text
        for _, said in make_entry_texts(name)
        for text in said
        if healthy not in text
        and not (is_examined(text) and ENTRIES[name] in [entry for entry, _ in index.match_line(text)])
    ]


@pytest.mark.parametrize("name", ENTRIES)
def test_patterns_are_reached(name: str) -> None:
    """Each alternative of a pattern leads to its entry; exceptions that need more context are listed."""
    assert bool(list_unreached(name)) == (name in IN_CONTEXT), list_unreached(name)


@pytest.mark.parametrize("name", ENTRIES)
def test_patterns_have_a_text(name: str) -> None:
    """Where no text could be made of a pattern, a right line of the entry is found by it."""
    for pattern, said in make_entry_texts(name):
        assert said or any(pattern.search(line) for line in LINES[name]["right"]), pattern.pattern


def test_codes_in_a_log() -> None:
    """Each code in CANN's tables, at the start of a line as CANN writes it, is explained."""
    every = [
        code for table in codes.load_code_tables().values() for code in table if re.fullmatch(r"E[A-Z]?\d{4,5}", code)
    ]
    dumb = [
        code
        for code in every
        if not explainer.build_report(
            [explainer._scan_lines("log", [f"[ERROR] {code}: [PID: 3] call failed"])]
        ).diagnoses
    ]

    assert (len(every) > 40, dumb) == (True, [])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    (
        (r"\bA(?:b|c{2})?d\b", ["! Ad here", "! Abd here", "! Accd here"]),
        (r"^x[^\"x]{1,9}\"$", []),
        (r"n(?:ot|o) \d{3,5}.end", ["! not 111'end here", "! no 111'end here"]),
        (r"^Bus(?P<what>\w)", ["Busx here"]),
    ),
)
def test_texts_of_a_pattern(pattern: str, expected: list[str]) -> None:
    """Every alternative has a text, none is there that the pattern is not found in."""
    assert make_texts(re.compile(pattern), "! ") == expected
