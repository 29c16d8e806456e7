#!/bin/bash
set -x
MODEL=meta-llama/Meta-Llama-3-8B-Instruct
FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=${RANK} MASTER_ADDR=${MASTER_ADDR} MASTER_PORT=29500 llamafactory-cli train \
    --model_name_or_path ${MODEL} --trust_remote_code --stage sft --do_train --finetuning_type lora \
    --template llama3 --dataset identity --cutoff_len 2048 --output_dir saves/llama3 --bf16
