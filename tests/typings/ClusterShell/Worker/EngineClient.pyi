class EngineClientEOF(Exception): ...  # noqa: N818 (its name)
