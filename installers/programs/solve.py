"""Run `pip install --dry-run`, keep its downloads, and print its report as one line of JSON after its own output.

Run with -c by the recipe's own Python, so it must be self-contained and work with 3.8.  Arguments: the folder for
downloads, the file for the report, pip's own arguments.  pip removes its temporary folders at the end of a dry run;
Python raises an audit event (shutil.rmtree) before that, in which the downloads are moved away.  So the installation
needs no second download, even if the index forbids caching.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import runpy
import sys
import tarfile
import zipfile

COMPILED = (".c", ".cc", ".cpp", ".cxx", ".pyx", ".cu", ".rs", ".f", ".f90", ".go", "CMakeLists.txt")
KEPT = (".whl", ".tar.gz", ".zip", ".tar.bz2")
MEMBERS = 50_000  # maximum number of files of a source archive to check
OLDEST = (22, 2)  # the first pip with --report


def keep_downloads(store: str) -> None:
    """Move pip's downloads to `store` whenever pip removes its temporary folders."""

    def listen(event: str, details: tuple[object, ...]) -> None:
        if event != "shutil.rmtree":
            return
        folder = os.fspath(str(details[0]))
        if os.path.basename(folder).startswith("pip-unpack-") and os.path.isdir(folder):  # noqa: PTH112, PTH119
            for name in os.listdir(folder):  # noqa: PTH208
                if name.endswith(KEPT):
                    os.replace(os.path.join(folder, name), os.path.join(store, name))  # noqa: PTH105, PTH118

    sys.addaudithook(listen)


def find_compiled_file(path: str) -> str:
    """Return the first file of a source archive that needs a compiler, "" if there is none."""
    try:
        if path.endswith(".zip"):
            with zipfile.ZipFile(path) as packed:
                names = packed.namelist()[:MEMBERS]
        else:
            with tarfile.open(path) as archive:
                names = [member.name for member, _ in zip(archive, range(MEMBERS))]  # noqa: B905 (3.8 has no strict)
    except (OSError, tarfile.TarError, zipfile.BadZipFile):
        return ""
    apart = ("test", "tests", "docs", "doc", "examples")
    return next((n for n in names if n.endswith(COMPILED) and not set(n.split("/")[1:-1]) & set(apart)), "")


def run_pip(arguments: list[str]) -> int:
    """Run pip in this process and return its exit code."""
    sys.argv = ["pip", *arguments]
    try:
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def drop_description(item: dict[str, object]) -> dict[str, object]:
    """Return an item of pip's report without the package description, which is most of its size."""
    about = item.get("metadata")
    wanted = ("name", "version", "requires_dist", "requires_python")
    return {**item, "metadata": {k: about[k] for k in wanted if k in about}} if isinstance(about, dict) else item


def list_installed() -> list[dict[str, object]]:
    """Return the installed packages with their requirements."""
    found = importlib.metadata.distributions()
    packages = [(d.metadata["Name"], d.version, list(d.requires or ())) for d in found]
    return [{"name": name, "version": version, "requires": needs} for name, version, needs in packages if name]


def main() -> int:
    """Run the dry run, print the report, and return the exit code; with an old pip, print its version only."""
    store, report, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    version = importlib.metadata.version("pip")
    document: dict[str, object] = {"pip_version": version}
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= OLDEST:
        os.makedirs(store, exist_ok=True)  # noqa: PTH103
        keep_downloads(store)
        status = run_pip(["install", "--dry-run", f"--report={report}", *arguments])
        if status:
            return status
        with open(report, encoding="utf-8") as file:  # noqa: PTH123
            result = json.load(file)
        kept = sorted(os.listdir(store))  # noqa: PTH208
        sources = {name: find_compiled_file(os.path.join(store, name)) for name in kept if not name.endswith(".whl")}  # noqa: PTH118
        document = {
            **result,
            "install": [drop_description(item) for item in result["install"]],
            "kept": kept,
            "sources": sources,
            "there": list_installed(),
        }
    print("\nENVCHECK " + json.dumps(document))
    return 0


sys.exit(main())
