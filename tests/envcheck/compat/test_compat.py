"""Verdicts on version pairs: tested, known bad or unknown, each with source and date."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.compat import pair_verdicts, table_loader
from envcheck.compat.components import load_components
from envcheck.compat.version_records import Confidence, PairStatus, PairVerdict, VersionRow

TESTED, UNKNOWN, BAD = PairStatus.TESTED, PairStatus.UNKNOWN, PairStatus.BAD
TABLE = table_loader.own_version_table()


def judge_pair(left: str, mine: str, right: str, other: str) -> PairVerdict:
    found = pair_verdicts.evaluate_pair(left, right, {left: mine, right: other})
    assert found is not None
    return found


# Pairs from vendor documents and from reported failures, and pairs that neither mentions.
PAIRS = [
    ("cann 8.0.RC1", "npu-driver 24.1.rc1", TESTED),
    ("cann 8.0.RC1", "npu-driver 24.1.rc1.b030", TESTED),
    ("cann 8.0.RC1", "npu-driver 23.0.3", TESTED),
    ("cann 8.0.RC1", "npu-driver 24.1.rc2", UNKNOWN),
    ("cann 8.0.RC1", "npu-driver 22.0.4", BAD),
    ("cann 8.2.RC1", "npu-driver 25.2.0", TESTED),
    ("cann 8.2.RC1", "npu-driver 24.1.0", TESTED),
    ("cann 8.2.RC1", "npu-driver 24.1.rc1", BAD),
    ("cann 8.0.0", "npu-driver 24.1.0", UNKNOWN),
    ("cann 8.5.0", "npu-driver 25.5.2", TESTED),
    ("cann 8.5.0", "npu-driver 25.3.rc1", TESTED),
    ("cann 9.1.0", "npu-driver 25.0.rc1.1", BAD),
    ("cann 9.1.1", "npu-driver 26.1.1", TESTED),
    ("cann 8.0.RC2.alpha003", "npu-driver 24.1.rc2", UNKNOWN),
    ("npu-driver 24.1.rc1", "npu-firmware 7.1.0.6.220", TESTED),
    ("npu-driver 24.1.rc1", "npu-firmware 7.0.1.2.220", UNKNOWN),
    ("torch-npu 2.7.1.post2", "cann 8.5.0", TESTED),
    ("torch-npu 2.7.1.post2", "cann 8.0.0", UNKNOWN),
    ("torch-npu 2.7.1", "cann 8.2.RC1", TESTED),
    ("torch-npu 2.7.1", "cann 9.0.0-beta.2", BAD),
    ("torch-npu 2.7.1.post4", "cann 9.0.0", TESTED),
    ("torch-npu 2.7.1.post2", "torch 2.7.1", TESTED),
    ("torch-npu 2.7.1.post2", "torch 2.7.1+cpu", TESTED),
    ("torch-npu 2.2.0", "torch 2.3.1", BAD),
    ("torch-npu 2.13.0", "torch 2.13.0", TESTED),
    ("torch-npu 2.10.0rc2", "torch 2.10.0+cpu", TESTED),
    ("torch-npu 2.5.1.dev20250218", "torch 2.5.1", TESTED),
    ("torch-npu 2.13.0", "torch 2.13.0rc1", BAD),
    ("torch 2.7.1", "python 3.11.9", TESTED),
    ("torch 2.7.1", "python 3.12.1", UNKNOWN),
    ("paddle-custom-npu 3.1.0", "paddlepaddle 3.1.0a0", TESTED),
    ("paddle-custom-npu 3.1.0", "paddlepaddle 3.1.0", UNKNOWN),
    ("paddle-custom-npu 3.1.0", "paddlepaddle 3.1.1", UNKNOWN),
    ("paddle-custom-npu 3.1.0", "paddlepaddle 3.3.0", BAD),
    ("paddle-custom-npu 3.1.0", "paddlepaddle 3.0.0b1", BAD),
    ("paddle-custom-npu 3.0.0.dev20250527", "paddlepaddle 3.1.0", UNKNOWN),
    ("paddle-custom-npu 3.3.0", "cann 8.5.1", BAD),
    ("paddle-custom-npu 3.0.0", "cann 8.1.RC1", BAD),
    ("paddle-custom-npu 3.1.0", "chip 910B3", TESTED),
    ("paddle-custom-npu 3.1.0", "chip 910A", BAD),
    ("paddle-iluvatar-gpu 3.3.0", "corex-driver 4.3.8", TESTED),
    ("paddle-iluvatar-gpu 3.1.0", "corex-driver 4.3.8", UNKNOWN),
    ("paddle-iluvatar-gpu 3.0.0.dev20250926", "paddlepaddle 3.2.0", TESTED),
    ("corex 4.2.0", "corex-driver 3.1.1", BAD),
    ("cuda 12.4", "nvidia-driver 550.54.15", TESTED),
    ("cuda 12.6.85", "nvidia-driver 530.30.02", TESTED),
    ("cuda 12.6", "nvidia-driver 470.103.01", BAD),
    ("cuda 13.0", "nvidia-driver 570.124.06", BAD),
    ("paddlepaddle-gpu 3.1.0", "architecture aarch64", BAD),
    ("numpy 2.4.1", "paddlepaddle 3.3.1", BAD),
    ("numpy 2.0.0", "paddlepaddle 3.3.1", UNKNOWN),
    ("numpy 1.26.4", "paddlepaddle 3.3.1", TESTED),
    ("numpy 2.0.0", "opencv-python 4.5.5.64", BAD),
    ("numpy 2.1.0", "paddleformers 0.3.1", BAD),
    ("cann 8.2.RC1", "numpy 2.1.0", BAD),
    ("cann 8.5.0", "numpy 2.1.0", UNKNOWN),
    ("ms-swift 4.6.0", "cann 8.5.0", BAD),
    ("llamafactory 0.9.4", "torch-npu 2.7.1", TESTED),
    ("cann x.x.x", "npu-driver 24.1.rc1", UNKNOWN),
]


@pytest.mark.parametrize(("left", "right", "standing"), PAIRS, ids=[f"{a}, {b}" for a, b, _ in PAIRS])
def test_pair(left: str, right: str, standing: PairStatus) -> None:
    """The verdict of each pair follows the vendor documents and reports; pairs they do not mention are unknown."""
    assert judge_pair(*left.split(), *right.split()).standing is standing


@pytest.mark.parametrize(("left", "right", "standing"), [p for p in PAIRS if p[2] is not UNKNOWN])
def test_known_pair_says_who_and_what(left: str, right: str, standing: PairStatus) -> None:
    """A known pair has a source and a date; a bad pair also has the symptom and a remedy."""
    found = judge_pair(*left.split(), *right.split())

    assert found.source and found.date and found.confidence
    assert (bool(found.symptom), bool(found.remedy)) == (standing is BAD, standing is BAD)


def test_order_of_asking_does_not_matter() -> None:
    """A pair is the same from either side."""
    assert judge_pair("npu-driver", "24.1.rc1", "cann", "8.0.RC1") == judge_pair(
        "cann", "8.0.RC1", "npu-driver", "24.1.rc1"
    )


def test_unknown_names_what_is_tested() -> None:
    """For an unknown pair the tested partners of the first component are listed."""
    assert judge_pair("cann", "8.0.RC1", "npu-driver", "25.5.2").named == ("24.1.RC1", "23.0.3")


def test_inferred_is_not_tested() -> None:
    """A row that is only inferred counts as unknown, and the text says so."""
    found = judge_pair("cann", "8.0.0", "npu-driver", "24.1.rc3")

    assert (found.standing, found.confidence) == (UNKNOWN, Confidence.INFERRED)


def test_machine_is_judged_by_all_its_pairs() -> None:
    """Each two components that the tables know together have one verdict; others have none."""
    here = {"cann": "8.0.RC1", "npu-driver": "24.1.rc1", "numpy": "2.4.0", "paddlepaddle": "3.1.0", "gcc": "9.4"}
    found = {(v.left, v.right): v.standing for v in pair_verdicts.evaluate_pairs(here)}

    assert found == {("cann", "npu-driver"): TESTED, ("cann", "numpy"): BAD, ("numpy", "paddlepaddle"): BAD}


def test_nothing_installed_is_nothing_judged() -> None:
    """Zero or one installed component gives no verdict."""
    assert pair_verdicts.evaluate_pairs({}) == () == pair_verdicts.evaluate_pairs({"cann": "8.0.0"})
    assert pair_verdicts.evaluate_pair("cann", "gcc", {"cann": "8.0.0", "gcc": "9.4"}) is None


def test_the_machines_own_words_count() -> None:
    """Firmware ranges from the driver's own file count like a table row."""
    row = VersionRow(("24.1.0",), {"npu-firmware": (">7.9",)}, ("its file",), "", of="npu-driver", standing=BAD)
    found = pair_verdicts.evaluate_pairs({"npu-driver": "24.1.0", "npu-firmware": "8.0.0"}, [row])

    assert [(v.standing, v.source) for v in found] == [(BAD, ("its file",))]


@given(st.dictionaries(st.sampled_from(sorted(load_components())), st.text(max_size=40), max_size=6))
def test_any_text_is_judged(installed: dict[str, str]) -> None:
    """Arbitrary version text gives a verdict for each pair and no exception."""
    known = {(a, b) for a, b in TABLE.pairs if a in installed and b in installed}

    assert {(v.left, v.right) for v in pair_verdicts.evaluate_pairs(installed)} == known


@given(st.data())
def test_tested_versions_never_turn_bad_by_a_label(data: st.DataObject) -> None:
    """A local label (+cpu, +cu126) changes no verdict."""
    left, right = data.draw(st.sampled_from(sorted(TABLE.pairs)))
    row = data.draw(st.sampled_from(TABLE.pairs[left, right] or [None]))
    if row is None or load_components()[left].word or row.version[0][:1] in "<>=" or row.version[0] == "any":
        return
    mine = row.version[0].replace(".X", ".1").partition("+")[0]
    other = "1.0" if not load_components()[right].word else "x86_64"

    plain, labelled = (judge_pair(left, version, right, other) for version in (mine, f"{mine}+cpu"))

    assert plain.standing is labelled.standing
