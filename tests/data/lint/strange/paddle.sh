#!/bin/bash
set -euo pipefail
task=hybrid
source /usr/local/Ascend/ascend-toolkit/set_env.sh
source /usr/local/Ascend/nnal/atb/set_env.sh
export PADDLE_XCCL_BACKEND=npu PYTHONPATH=/src/project:${PYTHONPATH:-}
cd /src/project/llm
python -u -m paddle.distributed.launch --npus "0,1,2,3,4,5,6,7" --log_dir "logs/$task" \
    run_pretrain.py --model_type llama --model_name_or_path facebook/llama-7b \
    --tensor_parallel_degree 8 --pipeline_parallel_degree 1 --bf16 --max_steps 10000 --save_steps 5000 \
    --warmup_ratio 0.01 --logging_steps 20\
    --sharding "" --do_train --device npu
