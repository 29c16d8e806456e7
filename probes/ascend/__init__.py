"""Parsers of npu-smi, hccn_tool, and the files of Ascend's driver and toolkit."""
