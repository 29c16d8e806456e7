"""Why a program cannot be started: the system's own message says that a program is missing if its interpreter is."""

import errno
import os


def describe_start_failure(program: str, err: OSError, path: str) -> str:
    """Return the reason in English, like the other errors of a program; "" if no folder of `path`, as in PATH, has
    the program."""
    found = _find_program(program, path)
    is_about_folder = err.filename not in (None, program)  # the working directory is missing, not the program
    if isinstance(err, FileNotFoundError) and (not found or is_about_folder):
        return ""
    if isinstance(err, PermissionError) and not found and not is_about_folder:
        return ""  # a folder of `path` is closed to this user, as root's after su
    if found and os.path.isdir(found):
        return found + " is a directory"
    if found and isinstance(err, FileNotFoundError):
        interpreter = _read_interpreter(found)
        if interpreter:
            return f"the interpreter of {found} does not exist: {interpreter}"
        return f"the loader that {found} needs does not exist"
    if err.errno == errno.ENOEXEC:
        return f"{found or program} is not a program for this machine (exec format error)"
    return (err.strerror or str(err)).lower()


def _find_program(program: str, path: str) -> str:
    """Return the file or folder that the name stands for: executable files first; "" if there is none."""
    if "/" in program:
        return program if os.path.lexists(program) else ""
    places = [os.path.join(folder or ".", program) for folder in path.split(os.pathsep)]
    there = [place for place in places if os.path.exists(place)]
    return next((place for place in there if os.path.isfile(place) and os.access(place, os.X_OK)), (there or [""])[0])


def _read_interpreter(program: str) -> str:
    try:
        with open(program, "rb") as file:
            line = file.readline(256)
    except OSError:
        return ""
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    return words[0] if words else ""
