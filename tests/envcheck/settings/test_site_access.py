"""[site] of envcheck.toml: its values, what commands and containers get of them, and that no secret is shown."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from envcheck import settings
from envcheck.core.errors import UsageError
from envcheck.settings import site_access
from envcheck.settings.site_access import SiteAccess

WHOLE = """
[site]
registries = ["mirror.example.org:5000"]
index = "https://me:geheim@pypi.example.org/simple"
extra_index = ["https://wheels.example.org/simple"]
proxy = "http://me:geheim@proxy.example.org:3128"
no_proxy = ["example.org", "10.0.0.0/8"]
ca_bundle = "/etc/ssl/site.pem"
[site.rewrites]
"https://github.com/" = "https://git.example.org/hub/"
"https://github.com/PaddlePaddle/" = "https://git.example.org/paddle/"
"https://huggingface.co" = "https://hf.example.org"
[[site.mounts]]
source = "/data"
target = "/data"
read_only = true
[site.environment]
OMP_NUM_THREADS = "8"
HUB_TOKEN = "geheim"
"""


def load_site(folder: Path, text: str) -> SiteAccess:
    file = folder / "site.toml"
    file.write_text(text)
    return settings.load_access(str(file)).access


def test_whole_table(tmp_path: Path) -> None:
    """Every key reaches the commands as the variable that pip, git, requests and the hubs' clients read."""
    site = load_site(tmp_path, WHOLE)
    found = site_access.list_variables(site, "/in/the/container.crt")

    assert found["PIP_INDEX_URL"] == "https://me:geheim@pypi.example.org/simple"
    assert found["PIP_EXTRA_INDEX_URL"] == "https://wheels.example.org/simple"
    assert found["https_proxy"] == found["HTTP_PROXY"] == "http://me:geheim@proxy.example.org:3128"
    assert found["NO_PROXY"] == "example.org,10.0.0.0/8"
    assert found["REQUESTS_CA_BUNDLE"] == found["GIT_SSL_CAINFO"] == "/in/the/container.crt"
    assert found["HF_ENDPOINT"] == "https://hf.example.org"
    assert not {"MODELSCOPE_DOMAIN", "MODELSCOPE_ENDPOINT"} & set(found)
    assert found["OMP_NUM_THREADS"] == "8"
    assert [mount.target for mount in site_access.list_container_mounts(site)] == [
        "/data",
        site_access.CA_IN_CONTAINER,
    ]


def test_a_mirror_of_modelscope() -> None:
    """Newer clients get its URL, older ones its host."""
    found = site_access.list_variables(
        SiteAccess(rewrites={"https://www.modelscope.cn": "http://hub.example.org:8000"})
    )

    assert found["MODELSCOPE_ENDPOINT"] == "http://hub.example.org:8000"
    assert found["MODELSCOPE_DOMAIN"] == "hub.example.org:8000"


def test_longest_beginning(tmp_path: Path) -> None:
    """Of two beginnings the longer one is replaced; other URLs stay."""
    site = load_site(tmp_path, WHOLE)

    assert site_access.rewrite_url(site, "https://github.com/a/b") == "https://git.example.org/hub/a/b"
    assert site_access.rewrite_url(site, "https://github.com/PaddlePaddle/b") == "https://git.example.org/paddle/b"
    assert site_access.rewrite_url(site, "https://gitee.com/a/b") == "https://gitee.com/a/b"


def test_no_secret(tmp_path: Path) -> None:
    """What plan, lock and journal show has no password, and no value of a variable that is named like a secret."""
    shown = site_access.show_values(load_site(tmp_path, WHOLE))

    assert "geheim" not in json.dumps(shown)
    assert shown["index"] == "https://***@pypi.example.org/simple"
    assert shown["mounts./data"] == "/data (ro)"
    assert shown["environment.HUB_TOKEN"] == "***"


def test_git_understands(tmp_path: Path) -> None:
    """git itself replaces the beginning of a URL by the variable."""
    site = load_site(tmp_path, WHOLE)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **site_access.list_variables(site)}
    argv = ["git", "ls-remote", "--get-url", "https://github.com/PaddlePaddle/b"]
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert done.stdout.strip() == "https://git.example.org/paddle/b", done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    (
        ('index = "pypi.example.org"', "site.index: expected an http:// or https:// URL"),
        ('proxy = "http://"', "site.proxy: expected"),
        ('registries = ["https://mirror"]', "site.registries[0]: expected a registry"),
        ('ca_bundle = "ca.pem"', "site.ca_bundle: expected an absolute path"),
        ('[site.rewrites]\n"github" = "https://a"', "site.rewrites.github: expected beginnings"),
        ('[[site.mounts]]\nsource = "data"\ntarget = "/data"', "site.mounts[0]: expected absolute paths"),
        ('[[site.mounts]]\nsource = "/data"\ntarget = "//"', "site.mounts[0]: a mount cannot replace /"),
        ('[site.environment]\n"A B" = "1"', "site.environment.A B: expected the name of a variable"),
        ('indx = "https://a"', "site.indx: unknown key"),
    ),
)
def test_wrong_values(line: str, words: str, tmp_path: Path) -> None:
    """A wrong value is wrong usage: file, key, and what is expected."""
    with pytest.raises(UsageError) as caught:
        load_site(tmp_path, f"[site]\n{line}\n")

    assert words in str(caught.value.message)


def test_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the working folder may have come with an archive: its [site] is not used, and a note says so."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "envcheck.toml").write_text('[site]\nindex = "https://evil.example.org"\n')
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    assert settings.load_access().access.is_empty
    assert settings.find_unused_access() == "envcheck.toml"
    assert settings.load_access("envcheck.toml").access.index == "https://evil.example.org"
