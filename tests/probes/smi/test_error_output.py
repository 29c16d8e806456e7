"""Error messages: the result word decides the category, whatever the words around it."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.kunlunxin.runtime_errors import OWN_PHRASES
from probes.smi import nvidia_smi
from probes.smi.error_output import list_wordings
from probes.smi.error_phrases import PHRASES, SIGNS

HANDLE = "Unable to determine the device handle for GPU 0000:01:00.0: "


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (HANDLE + "Not Found", "no-device"),
        (HANDLE + "Not Supported", "unsupported-query"),
        (HANDLE + "Insufficient Permissions", "permission-denied"),
        (HANDLE + "In use by another client", "device-busy"),
        (HANDLE + "Unknown Error", "device-lost"),
        ("Failed to initialize NVML: Not Supported", "unsupported-query"),
        ("GPU 00000000:01:00.0: Reset Required", "device-lost"),
        ("nvidia-smi: you have to be root to change the persistence mode, try again with sudo", "permission-denied"),
        ("nvidia-smi: This operation can only be performed by the superuser", "permission-denied"),
        ("Changing the ECC mode of GPU 0 needs administrator rights.", "permission-denied"),
        (r"bash: line 1: \"nvidia-smi\": command not found", "tool-not-found"),
        (r"exec: \"nvidia-smi\": executable file not found in $PATH: unknown", "tool-not-found"),
        (r"Field \"gpu.mood\" is not a valid field to query.", "bad-query"),
    ],
)
def test_category(text: str, category: str) -> None:
    """The message is recognized, also reworded and with escaped quotes."""
    error = nvidia_smi.parse(f"$ nvidia-smi\n{text}\n").error

    assert error is not None
    assert error.category == category


@pytest.mark.parametrize("wording", list_wordings((*PHRASES, *OWN_PHRASES), nvidia_smi.NAMES))
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_each_message_has_a_sign(wording: re.Pattern[str], data: st.DataObject) -> None:
    """What any of the patterns matches has one of the signs that are searched first."""
    message = data.draw(st.from_regex(wording, fullmatch=True))

    assert any(sign in message.lower() for sign in SIGNS)


LONG = 12_000
BEFORE = ("", "|", "| NVIDIA-SMI", "WARNING:", "# gpu idx\n# Idx ", "GPU0 GPU1\nGPU0 X NV1\nNV1 = a",
          "index, name\n0, ", "==NVSMI LOG==\nGPU 00000000:01:00.0\n  Product Name : ",
          "|  GPU   PID   Process name |\n| 0 ")  # fmt: skip


@pytest.mark.parametrize("before", BEFORE, ids=range(len(BEFORE)))
@pytest.mark.parametrize("filling", [" ", "=", "-", "|", " \n", "N/A ", "| "])
def test_a_long_line_takes_no_time(before: str, filling: str) -> None:
    """No pattern tries each pair of positions of a long line."""
    began = time.process_time()
    nvidia_smi.parse(before + filling * (LONG // len(filling)) + "x\n")

    assert time.process_time() - began < 1
