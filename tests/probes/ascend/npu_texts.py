"""Texts in the layout of `npu-smi info`: our own, with invented values."""

from __future__ import annotations

HEAD = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc1                 Version: 24.1.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
"""
RULE = "+===========================+===============+====================================================+\n"
FIRST = "| 0     910B3               | OK            | 101.8       43                5    / 9             |\n"
SECOND = "| 0                         | 0000:C1:00.0  | 7           1    / 2          3318 / 65536         |\n"
OTHER = """\
| 1     910B3               | OK            | 92.0        39                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3314 / 65536         |
"""
PROCESSES = """\
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 1234          | python                   | 3000                    |
"""
TABLE = HEAD + RULE + FIRST + SECOND + RULE + OTHER + RULE


def damage_table(*damages: tuple[str, str]) -> str:
    """Return the table with the first occurrence of each text replaced by another one of the same width."""
    text = TABLE
    for printed, damaged in damages:
        assert printed in text
        text = text.replace(printed, damaged.ljust(len(printed)), 1)
    return text
