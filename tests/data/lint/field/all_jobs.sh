# sourced by all jobs
export ASCEND_HOME=/usr/local/Ascend
source $ASCEND_HOME/ascend-toolkit/set_env.sh
source $ASCEND_HOME/nnal/atb/set_env.sh
export HCCL_WHITELIST_DISABLE=1
export HCCL_IF_IP=$(hostname -I | awk '{print $1}')
export TASK_QUEUE_ENABLE=2
export CPU_AFFINITY_CONF=1
export COMBINED_ENABLE=1
export HCCL_EXEC_TIMEOUT=5400
export ASCEND_SLOG_PRINT_TO_STDOUT=0
export ASCEND_GLOBAL_LOG_LEVEL=3
export PYTORCH_NPU_ALLOC_CONF="expandable_segment:True"
export MULTI_STREAM_MEMORY_REUSE=1
ulimit -n 65535
