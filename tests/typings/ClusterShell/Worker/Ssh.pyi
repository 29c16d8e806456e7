from typing import Any

class SshClient:
    worker: Any
    def _read(self, sname: str, size: int = 65536) -> bytes: ...

class WorkerSsh:
    SHELL_CLASS: type[SshClient]
    def __init__(self, nodes: str, handler: Any, timeout: float, **kwargs: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
