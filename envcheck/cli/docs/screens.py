"""The screens in README and docs/: what stands after <!-- screen --> is what its command prints.

    <!-- screen -->
    ```console
    $ envcheck ...

The command is run by bash in an empty folder with the files of FILES; in docs/zh and README.zh-CN.md it speaks Chinese.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from envcheck.core import process

SCREEN = re.compile(r"(?<=<!-- screen -->\n)( *)```console\n *\$ (.*)\n((?:.*\n)*?) *```(?=\n)")
COLUMNS = 80
DEADLINE_S = 120

FILES = {
    "log/workerlog.0": "[2025-07-01 12:00:00,100] [    INFO] - global_step: 17, loss: 2.1\n"
    "[2025-07-01 12:02:07,412] [   ERROR] - EI0006: [PID: 91] Getting socket times out. Reason: no answer\n",
    "log/workerlog.1": "[2025-07-01 12:00:00,101] [    INFO] - global_step: 17, loss: 2.1\n"
    "[2025-07-01 12:00:05,004] [   ERROR] - training ends\n"
    "Traceback (most recent call last):\n"
    '  File "/w/examples/post-training/sft/train.py", line 45, in <module>\n'
    "    main()\n"
    '  File "/w/ernie/checkpoint.py", line 217, in save\n'
    "    file.write(shard)\n"
    "OSError: [Errno 28] No space left on device: '/w/output/checkpoint-17/model.pdparams'\n",
    "run.sh": "#!/bin/bash\n"
    "export FLAGS_allocator_strategy_kernel=auto_growth\n"
    'output_dir="sft_checkpoint"\n'
    "rm -rf ${log_dir}\n"
    "python -m paddle.distributed.launch --npus 0,1,2,3,4,5,6,7 examples/post-training/sft/train.py \\\n"
    "    --output_dir ${output_dir} --max_steps 200 --warmup_steps 2000\n",
}


def files(root: Path) -> list[Path]:
    """Return the pages that may have screens."""
    return [*sorted(root.glob("README*.md")), *sorted((root / "docs").rglob("*.md"))]


def screens(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each screen's command and what stands under it, without the indent of a list."""
    for found in SCREEN.finditer(page.read_text(encoding="utf-8")):
        yield found[2], _unindented(found[3], found[1])


def is_chinese(page: Path) -> bool:
    """Return whether the page's screens are Chinese."""
    return page.name.endswith(".zh-CN.md") or "zh" in page.parts


def run(command: str, chinese: bool = False) -> str:
    """Return what the command prints, without blanks at its end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ENVCHECK_")}
    env |= {"COLUMNS": str(COLUMNS), "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", "ENVCHECK_LANG": "zh" if chinese else "en"}
    env["PATH"] = f"{Path(sys.executable).parent}:{env.get('PATH', os.defpath)}"
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = process.run_command(["bash", "-c", command], timeout_s=DEADLINE_S, env=env, cwd=Path(folder))
    return done.out.rstrip()


def write(root: Path) -> list[Path]:
    """Run every screen's command anew; return the pages that changed."""
    changed = []
    for page in files(root):
        before = page.read_text(encoding="utf-8")
        after = SCREEN.sub(partial(_filled, chinese=is_chinese(page)), before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            changed.append(page)
    return changed


def _filled(found: re.Match[str], chinese: bool) -> str:
    indent = found[1]
    lines = [f"$ {found[2]}", *run(found[2], chinese).splitlines()]
    shown = "\n".join(f"{indent}{line}" if line else "" for line in lines)
    return f"{indent}```console\n{shown}\n{indent}```"


def _unindented(text: str, indent: str) -> str:
    return "\n".join(line.removeprefix(indent) for line in text.splitlines()).rstrip()
