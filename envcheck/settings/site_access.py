"""How a site reaches the outside: [site] of envcheck.toml, and its effect on commands and containers.  Pure.

[site]
registries = ["mirror.example.org:5000"]     # tried first for images
index = "https://pypi.example.org/simple"
extra_index = ["https://wheels.example.org/simple"]
proxy = "http://proxy.example.org:3128"
no_proxy = ["example.org", "10.0.0.0/8"]
ca_bundle = "/etc/ssl/certs/ca-certificates.crt"

[site.rewrites]                              # beginnings of URLs: package indexes, git, model hubs
"https://github.com/" = "https://git.example.org/github/"

[[site.mounts]]                              # of containers
source = "/data"
target = "/data"
read_only = true

[site.environment]                           # of containers and commands
OMP_NUM_THREADS = "8"
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from envcheck.core.messages import Message, _
from envcheck.core.secrets import redact_text, redact_variable

CA_IN_CONTAINER = "/etc/envcheck/site-ca.crt"
# Variables by which pip, requests, curl, Python's ssl and git find certificates.
_CA_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "GIT_SSL_CAINFO")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_HOST = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:\]-]{0,253}(?:/[a-z0-9][a-z0-9._/-]{0,200})?")


@dataclass(frozen=True)
class HubServer:
    """The server of a model hub; its client finds another one by `variable`, a URL, or `host_variable`, a host."""

    url: str
    variable: str
    host_variable: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables that set the server."""
        return tuple(filter(None, (self.variable, self.host_variable)))


# modelscope reads a URL since 1.40, and before it a host that has TLS.
HUB_SERVERS = {
    "huggingface": HubServer("https://huggingface.co", "HF_ENDPOINT"),
    "modelscope": HubServer("https://www.modelscope.cn", "MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN"),
}


@dataclass(frozen=True)
class SiteMount:
    """A folder of the host that every container of a recipe gets."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class SiteAccess:
    """The values of [site]; rewrites are beginnings of URLs and what replaces them."""

    registries: tuple[str, ...] = ()
    index: str = ""
    extra_index: tuple[str, ...] = ()
    proxy: str = ""
    no_proxy: tuple[str, ...] = ()
    ca_bundle: str = ""
    rewrites: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[SiteMount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the file says nothing about the site."""
        return self == NO_SITE


NO_SITE = SiteAccess()


def rewrite_url(site: SiteAccess, url: str) -> str:
    """Return the URL with its longest beginning in `rewrites` replaced."""
    matching = [start for start in site.rewrites if url.startswith(start)]
    start = max(matching, key=len, default="")
    return site.rewrites[start] + url.removeprefix(start) if start else url


def list_variables(site: SiteAccess, ca_bundle: str = "") -> dict[str, str]:
    """Return the variables of commands; `ca_bundle` is the path of the certificates where they run."""
    found = dict(site.environment)
    if site.index:
        found["PIP_INDEX_URL"] = site.index
    if site.extra_index:
        found["PIP_EXTRA_INDEX_URL"] = " ".join(site.extra_index)
    if site.proxy:
        found |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), site.proxy)
    if site.no_proxy:
        found |= {name: ",".join(site.no_proxy) for name in ("no_proxy", "NO_PROXY")}
    if site.ca_bundle:
        found |= dict.fromkeys(_CA_VARIABLES, ca_bundle or site.ca_bundle)
    for server in HUB_SERVERS.values():
        if (other := rewrite_url(site, server.url)) != server.url:
            values = (other.rstrip("/"), urlsplit(other).netloc)
            found |= dict(zip(server.variables, values, strict=False))
    if site.rewrites:
        found["GIT_CONFIG_PARAMETERS"] = _render_git_rewrites(site)
    return found


def _render_git_rewrites(site: SiteAccess) -> str:
    """Return `git -c url.NEW.insteadOf=OLD ...` as the variable that git passes to its own children.

    GIT_CONFIG_COUNT would need git 2.31; images with Ubuntu 20.04 have 2.25.
    """
    settings = (f"url.{new}.insteadOf={old}" for old, new in site.rewrites.items())
    return " ".join("'" + each.replace("'", r"'\''") + "'" for each in settings)


def list_container_mounts(site: SiteAccess) -> tuple[SiteMount, ...]:
    """Return the mounts of every container: the site's own, and its certificates.

    Of the variables a container keeps only `environment`: `docker inspect` would show passwords of proxies and indexes.
    """
    ca = (SiteMount(site.ca_bundle, CA_IN_CONTAINER, True),) if site.ca_bundle else ()
    return (*site.mounts, *ca)


def show_values(site: SiteAccess) -> dict[str, str]:
    """Return the values by key of the file, without secrets, for plan, lock and journal."""
    plain = {
        "registries": " ".join(site.registries),
        "index": site.index,
        "extra_index": " ".join(site.extra_index),
        "proxy": redact_variable("https_proxy", site.proxy),
        "no_proxy": ",".join(site.no_proxy),
        "ca_bundle": site.ca_bundle,
        **{f"rewrites.{old}": new for old, new in site.rewrites.items()},
        **{f"mounts.{m.target}": m.source + (" (ro)" if m.read_only else "") for m in site.mounts},
    }
    shown = {redact_text(key): redact_text(value) for key, value in plain.items() if value}
    return shown | {f"environment.{name}": redact_variable(name, value) for name, value in site.environment.items()}


def find_complaints(site: SiteAccess) -> Iterator[tuple[str, Message]]:
    """Yield (key, what is wrong) for values that the types alone allow."""
    for number, name in enumerate(site.registries):
        if not _HOST.fullmatch(name):
            yield f"site.registries[{number}]", _("expected a registry such as mirror.example.org:5000")
    urls = {"index": site.index, "proxy": site.proxy} | {f"extra_index[{n}]": u for n, u in enumerate(site.extra_index)}
    for key, url in urls.items():
        if url and not _is_address(url):
            yield f"site.{key}", _("expected an http:// or https:// URL")
    for old, new in site.rewrites.items():
        if not re.match(r"[a-z+]{2,10}://[^\s/]|[\w.-]+@[\w.-]+:", old) or not re.fullmatch(r"[^\s=]+", new):
            yield f"site.rewrites.{old[:60]}", _("expected beginnings of URLs on both sides")
    if site.ca_bundle and not site.ca_bundle.startswith("/"):
        yield "site.ca_bundle", _("expected an absolute path")
    for number, mount in enumerate(site.mounts):
        if not (mount.source.startswith("/") and mount.target.startswith("/")):
            yield f"site.mounts[{number}]", _("expected absolute paths")
        elif posixpath.normpath(mount.target).strip("/") == "":
            yield f"site.mounts[{number}]", _("a mount cannot replace / of the container")
    for name in site.environment:
        if not _NAME.fullmatch(name):
            yield f"site.environment.{name[:60]}", _("expected the name of a variable")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not re.search(r"\s", url)
