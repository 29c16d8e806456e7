"""The numbers that HCCL's variables accept, for the checks of a machine and for lint."""

from __future__ import annotations

from envcheck.core.lint.vendor_vocabulary import ModelLimit, VariableRange

REFERENCE = "CANN 7.0 to 9.0, Environment Variables"
# Names in npu-smi: 910B1 to 910B4 are Atlas A2, Ascend910 is a die of A3; 910B without a number is of either series.
_RDMA_TIMEOUT = (
    ModelLimit(r"910B\d\w*|Ascend910(_93\d*)?|910_93\d*|910C", 20, "Atlas A2 / A3"),
    ModelLimit(r"910(A|Pro\w*|Premium\w*)|310\w*", 24),
)
INT_MAX = 2**31 - 1
RANGES = {
    "HCCL_CONNECT_TIMEOUT": VariableRange(120, 7200, REFERENCE, "s"),
    "HCCL_EXEC_TIMEOUT": VariableRange(0, INT_MAX, REFERENCE, "s"),
    "HCCL_RDMA_TIMEOUT": VariableRange(5, 24, REFERENCE, by_model=_RDMA_TIMEOUT),
    "HCCL_RDMA_RETRY_CNT": VariableRange(1, 7, REFERENCE),
    "HCCL_RDMA_TC": VariableRange(0, 255, REFERENCE, step=4),
    "HCCL_RDMA_SL": VariableRange(0, 7, REFERENCE),
    "HCCL_RDMA_QPS_PER_CONNECTION": VariableRange(1, 32, REFERENCE),
    "HCCL_WHITELIST_DISABLE": VariableRange(0, 1, REFERENCE),
    "HCCL_BUFFSIZE": VariableRange(1, INT_MAX, REFERENCE, "MB"),
}
