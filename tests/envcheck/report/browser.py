"""A headless Chromium for the tests of the page: rendering, clicks, console output."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import not_in_fast

NAMES = ("chromium", "chromium-browser", "google-chrome")
MARK = "results-of-the-test"
# Errors are collected before the page's own script runs, the steps are taken after it; the end is written into the DOM,
# which --dump-dom prints.  The page forbids strange scripts, so that its policy is left out of the copy.
FIRST = "<script>window.seen=[];addEventListener('error',function(e){seen.push(String(e.message))});</script>"
LAST = """<script>addEventListener('load',function(){var result;
try{result=(function(){%s})()}catch(e){seen.push(String(e))}
var end=document.createElement('script');end.type='application/json';end.id='%s';
end.textContent=JSON.stringify({errors:seen,result:result}).replace(/</g,'\\\\u003c');
document.body.appendChild(end)})</script>"""


def find_browser() -> str:
    """Its path; a test without one is skipped."""
    not_in_fast("a browser")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found or pytest.skip("chromium on this machine not found")


def run_browser(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Start the browser once, with its own profile; console output goes to standard error."""
    common = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
    quiet = ("--no-first-run", "--disable-extensions", "--disable-background-networking", "--enable-logging=stderr")
    with tempfile.TemporaryDirectory(prefix="envcheck-chromium-", ignore_cleanup_errors=True) as profile:
        argv = [find_browser(), *common, *quiet, f"--user-data-dir={profile}", *options, page.resolve().as_uri()]
        return subprocess.run(argv, capture_output=True, text=True, timeout=180)


def read_console(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What was written to the console: errors, refusals of the policy, warnings."""
    return [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def run_steps(page: Path, steps: str, *options: str) -> Any:
    """What the steps return, a function's body in JavaScript; fails where anything went wrong on the page."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', lambda found: FIRST, text, count=1)
    copy = page.with_name(f"probed-{page.name}")
    copy.write_text(text.replace("</body>", LAST % (steps, MARK) + "</body>"), encoding="utf-8")
    done = run_browser(copy, "--dump-dom", "--virtual-time-budget=4000", *options)
    found = re.search(rf'<script type="application/json" id="{MARK}">(.*?)</script>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    told = json.loads(unescape(found[1]))

    assert (told["errors"], read_console(done)) == ([], [])
    return told["result"]
