"""[site] of envcheck.toml with a real index behind a proxy with a login, and a clone at another address."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installers.provision_helpers import ProvisionCommand, serve_index, write_recipe, write_wheel
from tests.installers.software.source_parts import make_project

pytestmark = pytest.mark.real
LOGIN = "me:geheim"


class LoginProxy(http.server.ThreadingHTTPServer):
    """A proxy for http that requires LOGIN, and finds every host at `origin`; `asked` are the URLs."""

    def __init__(self, origin: str) -> None:
        self.origin, self.asked, self.refused = origin, list[str](), 0
        super().__init__(("127.0.0.1", 0), _ProxyHandler)


class _ProxyHandler(http.server.BaseHTTPRequestHandler):
    server: LoginProxy

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        known = base64.b64encode(LOGIN.encode()).decode()
        if self.headers.get("Proxy-Authorization") != f"Basic {known}":
            self.server.refused += 1
            self.send_response(407)
            self.end_headers()
            return
        self.server.asked.append(self.path)
        path = "/" + self.path.partition("://")[2].partition("/")[2]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.server.origin + path, timeout=60) as answer:
            body, kind = answer.read(), answer.headers["Content-Type"]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[LoginProxy]:
    write_wheel(tmp_path / "index", "alpha", "1.0", needs="beta>=1")
    write_wheel(tmp_path / "index", "beta", "1.0")
    with serve_index(tmp_path / "index") as index:
        made = LoginProxy(index.base_url)
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()
        made.server_close()


def test_behind_a_proxy(tmp_path: Path, proxy: LoginProxy) -> None:
    """Index, second index and clone are reached as the file says; plan, lock and journal show no password."""
    commit = make_project(tmp_path / "mirror" / "tool", {"tool.py": "made = True\n"})
    machine = ProvisionCommand(tmp_path, "http://nobody.invalid/simple")
    clone = tmp_path / "work" / "tool"
    write_recipe(
        machine.recipes, "alpha ==1.0", more=f'[[checkouts]]\nurl = "https://git.invalid/tool"\nref = "{commit}"\n'
        f'directory = "{clone}"\nsource = "test"\n'
    )  # fmt: skip
    recipe = machine.recipes / "little.toml"
    recipe.write_text(
        recipe.read_text().replace('name = "alpha"', 'name = "alpha"\nindex = "https://vendor.invalid/x"')
    )
    config = tmp_path / "site.toml"
    config.write_text(
        f'[site]\nindex = "http://pypi.corp.test/"\nproxy = "http://{LOGIN}@127.0.0.1:{proxy.server_port}"\n'
        f'[site.rewrites]\n"https://git.invalid/" = "file://{tmp_path}/mirror/"\n'
        '"https://vendor.invalid/x" = "http://wheels.corp.test"\n'
        '[site.environment]\nPIP_TRUSTED_HOST = "pypi.corp.test wheels.corp.test"\n'
    )
    done = machine.run_command("--yes", "--config", str(config))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "proxy = http://***@127.0.0.1" in done.stdout
    assert any(url.startswith("http://wheels.corp.test/alpha") for url in proxy.asked)
    assert not proxy.refused
    lock, journal = machine.lock_path.read_text(), (machine.notes_folder / "journal.jsonl").read_text()
    assert "[site]" in lock
    used = [entry for entry in map(json.loads, journal.splitlines()) if entry["event"] == "used"]
    assert used[0]["values"]["index"] == "http://pypi.corp.test/"
    logs = "".join(path.read_text(errors="replace") for path in machine.notes_folder.rglob("*.log"))
    assert "geheim" not in done.stdout + done.stderr + lock + journal + logs
    again = machine.run_command("--yes", "--config", str(config))
    assert "nothing to do" in again.stdout
    locked = machine.run_command("--yes", "--locked", str(machine.lock_path), "--config", str(config))
    assert locked.returncode == 0, locked.stderr
