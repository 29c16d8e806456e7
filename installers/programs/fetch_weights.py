"""Download a model from a hub, in the environment or container of a recipe; run again, it resumes the download.

Usage: fetch_weights.py HUB REPOSITORY FOLDER [REVISION].  HUB is huggingface or modelscope, whose library must be
installed; with FOLDER "" the model stays in the cache of the hub.  The last line of output is the folder of the files.
It uses the libraries' functions because their commands were renamed (huggingface-cli, now hf).
"""

from __future__ import annotations

import sys

ABSENT = 3  # exit code: the library of this hub is not installed
LEFT_OUT = ["*.bin", "*.pth", "*.pt", "*.h5", "*.msgpack", "*.onnx", "*.gguf", "original/*"]  # copies in other formats


def fetch_from_huggingface(repository: str, folder: str, revision: str) -> str:
    """Download a model from Hugging Face; return the folder of its files."""
    from huggingface_hub import snapshot_download

    found = snapshot_download(repository, revision=revision or None, local_dir=folder or None, ignore_patterns=LEFT_OUT)
    return str(found)


def fetch_from_modelscope(repository: str, folder: str, revision: str) -> str:
    """Download a model from ModelScope; return the folder of its files."""
    from modelscope import snapshot_download

    found = snapshot_download(
        repository, revision=revision or None, local_dir=folder or None, ignore_file_pattern=LEFT_OUT
    )
    return str(found)


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
