"""Download a model from a hub, in the environment or container of a recipe; run again, it resumes the download.

Usage: fetch_weights.py HUB REPOSITORY FOLDER [REVISION].  HUB is huggingface or modelscope, whose library must be
installed; with FOLDER "" the model stays in the cache of the hub.  The last line of output is the folder of the files.
Each file with a checksum on the hub is compared with it; a damaged one is fetched once more.
It uses the libraries' functions because their commands were renamed (huggingface-cli, now hf).
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

ABSENT = 3  # exit code: the library of this hub is not installed
LEFT_OUT = ["*.bin", "*.pth", "*.pt", "*.h5", "*.msgpack", "*.onnx", "*.gguf", "original/*"]  # copies in other formats


CHUNK = 1 << 22


def fetch_from_huggingface(repository: str, folder: str, revision: str) -> str:
    """Download a model from Hugging Face; return the folder of its files."""
    from huggingface_hub import snapshot_download

    where = {"revision": revision or None, "local_dir": folder or None}
    found = str(snapshot_download(repository, ignore_patterns=LEFT_OUT, **where))
    try:
        from huggingface_hub import HfApi, hf_hub_download

        listed = HfApi().model_info(repository, revision=revision or None, files_metadata=True).siblings
        sums = {each.rfilename: each.lfs["sha256"] for each in listed if each.lfs}
    except Exception as err:  # a mirror without this part of the interface
        print("checksums are unknown:", err, file=sys.stderr)
        return found

    def fetch_again(name: str) -> None:
        hf_hub_download(repository, name, force_download=True, **where)

    check_sums(found, sums, fetch_again)
    return found


def fetch_from_modelscope(repository: str, folder: str, revision: str) -> str:
    """Download a model from ModelScope; return the folder of its files."""
    from modelscope import snapshot_download

    where = {"revision": revision or None, "local_dir": folder or None}
    found = str(snapshot_download(repository, ignore_file_pattern=LEFT_OUT, **where))
    try:
        from modelscope.hub.api import HubApi

        listed = HubApi().get_model_files(repository, revision=revision or "master", recursive=True)
        sums = {each["Path"]: each["Sha256"] for each in listed if each.get("Sha256")}
    except Exception as err:  # an older client, or a mirror without this part of the interface
        print("checksums are unknown:", err, file=sys.stderr)
        return found

    def fetch_again(name: str) -> None:
        (Path(found) / name).unlink()
        snapshot_download(repository, allow_file_pattern=[name], **where)

    check_sums(found, sums, fetch_again)
    return found


def check_sums(folder: str, sums: dict[str, str], fetch_again) -> None:  # type: ignore[no-untyped-def]
    """Compare the files that are there with their SHA-256; fetch a damaged one again, and end if that does not help."""
    for name in sorted(sums):
        path = Path(folder) / name
        if path.is_file() and compute_sum(path) != sums[name]:
            print("damaged, fetched again:", name, file=sys.stderr)
            fetch_again(name)
            if compute_sum(path) != sums[name]:
                sys.exit("consistency check failed: " + name)


def compute_sum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for part in iter(lambda: file.read(CHUNK), b""):
            digest.update(part)
    return digest.hexdigest()


HUBS = {"huggingface": fetch_from_huggingface, "modelscope": fetch_from_modelscope}


def main(hub: str, repository: str, folder: str, revision: str = "") -> int:
    """Download, print the folder, and return the exit code."""
    try:
        print(HUBS[hub](repository, folder, revision))
    except ModuleNotFoundError as err:
        print(f"{hub}: {err}", file=sys.stderr)
        return ABSENT
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
