"""Rank tables that a script uses: of other hosts, of another number of processes, or with mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envcheck.core.facts import Facts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.lint import linter
from envcheck.scripts import source_file

FAIL, WARN = Status.FAIL, Status.WARN


def make_table(servers: int, devices: int, **changes: Any) -> dict[str, Any]:
    """A table of the second format, with addresses of documentation networks."""
    listed = [
        {
            "server_id": f"192.0.2.{server + 1}",
            "device": [
                {
                    "device_id": str(number),
                    "device_ip": f"198.51.100.{server * devices + number + 1}",
                    "rank_id": str(server * devices + number),
                }
                for number in range(devices)
            ],
        }
        for server in range(servers)
    ]
    return {"version": "1.0", "status": "completed", "server_count": str(servers), "server_list": listed, **changes}


def lint_script(folder: Path, text: str) -> list[Status]:
    machine = TargetMachine(lambda: Facts(), live=True, folder=folder)
    result = linter.lint_source(source_file.make_source("run.sh", text.encode()), machine, "npu", others=False)
    return [remark.severity for remark in result.remarks if remark.rule == "launch.rank_table"]


TABLES = (
    (make_table(1, 8), []),
    (make_table(2, 8), [FAIL]),
    (make_table(1, 8, server_count="2"), [FAIL]),
    ({"group_list": []}, [FAIL]),
)
STARTS = (
    "export RANK_TABLE_FILE=table.json\ntorchrun --nproc_per_node 8 train.py",
    "RANK_TABLE_FILE=table.json torchrun --nproc_per_node 8 train.py",
    "msrun --worker_num 8 --local_worker_num 8 --rank_table_file table.json train.py",
)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("table", "expected"), TABLES)
def test_table_in_the_folder_of_the_script(
    table: dict[str, Any], expected: list[Status], start: str, tmp_path: Path
) -> None:
    """A table for as many processes is right; one with more ranks, a wrong count or an old format fails."""
    (tmp_path / "table.json").write_text(json.dumps(table))

    assert lint_script(tmp_path, f"#!/bin/bash\n{start}\n") == expected


def test_a_table_that_the_script_makes(tmp_path: Path) -> None:
    """What lies there now is replaced before the training."""
    (tmp_path / "table.json").write_text("{}")
    text = f"#!/bin/bash\npython make_table.py > table.json\n{STARTS[0]}\n"

    assert lint_script(tmp_path, text) == []


def test_other_cards_read_no_table(tmp_path: Path) -> None:
    """The variable has a meaning for NPUs only."""
    (tmp_path / "table.json").write_text("{}")
    machine = TargetMachine(lambda: Facts(), live=True, folder=tmp_path)
    source = source_file.make_source("run.sh", f"#!/bin/bash\n{STARTS[0]}\n".encode())
    result = linter.lint_source(source, machine, "nvidia", others=False)

    assert "launch.rank_table" not in {remark.rule for remark in result.remarks}
