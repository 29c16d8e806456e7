#!/usr/bin/env bash
# ernie-21b-iluvatar, lora: LoRA with rank 32 on one node with 16 chips
# Written by envcheck train --dry-run --as-script.
# Note: image 3.3.0 was published with driver 4.3.8 and Paddle 3.3.0, and there is no known tag from the time of
# Paddle 3.1; if driver 4.3.0 works with an older image, pin that image by digest in your own recipe
# Note: 4 stages and 2 accumulation steps leave the pipeline idle in 3 of 5 steps (60 %)
# Note: the six data sets are public but not in the repository; download and convert them first
# Note: the evaluation at the end reads up to 10000 steps of six data sets and takes long
#
# Run it inside the recipe's container. Start and enter the container with:
#   docker run \
#       --detach \
#       --interactive \
#       --tty \
#       --name envcheck-ernie-21b-iluvatar \
#       --workdir /workspace \
#       --shm-size 64g \
#       --device /dev/iluvatar0 \
#       --device /dev/iluvatar1 \
#       --device /dev/iluvatar2 \
#       --device /dev/iluvatar3 \
#       --device /dev/iluvatar4 \
#       --device /dev/iluvatar5 \
#       --device /dev/iluvatar6 \
#       --device /dev/iluvatar7 \
#       --device /dev/iluvatar8 \
#       --device /dev/iluvatar9 \
#       --device /dev/iluvatar10 \
#       --device /dev/iluvatar11 \
#       --device /dev/iluvatar12 \
#       --device /dev/iluvatar13 \
#       --device /dev/iluvatar14 \
#       --device /dev/iluvatar15 \
#       --mount "type=bind,source=$PWD,target=/workspace" \
#       --mount type=bind,source=/home,target=/home \
#       --mount type=bind,source=/usr/src,target=/usr/src,readonly \
#       --mount type=bind,source=/lib/modules,target=/lib/modules,readonly \
#       ccr-2vdh3abv-pub.cnc.bj.baidubce.com/device/paddle-ixuca:3.3.0 bash
#   docker exec --interactive --tty envcheck-ernie-21b-iluvatar bash -l
set -euo pipefail

# A new folder for each run and node: the launcher appends to existing logs.
runs=/workspace/runs
RUN_DIR="${RUN_DIR:-$runs/$(date +%Y%m%d-%H%M%S)-ernie-21b-iluvatar-lora}"
OUTPUT_DIR="${OUTPUT_DIR:-$RUN_DIR/output}"
LOG_DIR="${LOG_DIR:-$RUN_DIR/log}"

# Relative paths below start here.
cd -- /workspace/ERNIE

# Without these files the job fails late, with an unrelated message.
need() { [ -e "$1" ] || { printf '%s: %s is missing\n' "$0" "$1" >&2; exit 1; }; }
need /usr/local/corex/lib64/libcuda.so.1
need baidu/ERNIE-4.5-21B-A3B-Paddle/config.json
need examples/post-training/sft/train.py
need examples/data/ARC-Challenge/train.json
need examples/data/ARC-Challenge/dev.json
need examples/data/boolq/train.json
need examples/data/boolq/dev.json
need examples/data/piqa/train.json
need examples/data/piqa/dev.json
need examples/data/winogrande/train.json
need examples/data/winogrande/dev.json
need examples/data/hellaswag/train.json
need examples/data/hellaswag/dev.json
need examples/data/ARC-Easy/train.json
need examples/data/ARC-Easy/dev.json

mkdir -p -- "$OUTPUT_DIR"
# Launchers log their environment there, which may contain secrets.
(umask 077 && mkdir -p -- "$LOG_DIR")

# Variables left by job platforms and earlier runs override the launcher's options.
unset -v ILUVATAR_GPU_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES XPU_VISIBLE_DEVICES PADDLE_MASTER PADDLE_NNODES \
  PADDLE_RANK PADDLE_DEVICES PADDLE_NPROC_PER_NODE PADDLE_RUN_MODE PADDLE_JOB_ID PADDLE_LOG_DIR PADDLE_LOG_LEVEL \
  PADDLE_LOG_OVERWRITE PADDLE_SORT_IP PADDLE_MAX_RESTART PADDLE_ELASTIC_LEVEL PADDLE_ELASTIC_TIMEOUT \
  PADDLE_ELASTIC_JOB_ID PADDLE_SERVER_NUM PADDLE_TRAINER_NUM PADDLE_SERVERS_ENDPOINTS PADDLE_TRAINERS_ENDPOINTS \
  PADDLE_GLOO_PORT PADDLE_WITH_GLOO PADDLE_START_PORT PADDLE_IPS POD_IP FLAGS_START_PORT \
  PADDLE_AUTO_PARALLEL_CONFIG PADDLE_AUTO_CLUSTER PADDLE_TRAINER_ID PADDLE_TRAINERS_NUM PADDLE_TRAINER_ENDPOINTS \
  DISTRIBUTED_TRAINER_ENDPOINTS PADDLE_DISTRI_BACKEND PADDLE_WORKERS_IP_PORT_LIST PADDLE_TRAINERS \
  PADDLE_NUM_GRADIENT_SERVERS
export PADDLE_XCCL_BACKEND=iluvatar_gpu
export LD_PRELOAD=/usr/local/corex/lib64/libcuda.so.1
export FLAGS_embedding_deterministic=1
export FLAGS_set_to_1d=False
export FLAGS_dataloader_use_file_descriptor=False
export PYTHONPATH=/workspace/ERNIE"${PYTHONPATH:+:$PYTHONPATH}"

# exec: the script exits with the status of the job.
exec python3 -m paddle.distributed.launch \
  --log_dir "${LOG_DIR}" \
  --gpus 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 \
  examples/post-training/sft/train.py \
  --logging_dir "${LOG_DIR}"/vdl \
  --model_name_or_path baidu/ERNIE-4.5-21B-A3B-Paddle \
  --output_dir "${OUTPUT_DIR}" \
  --per_device_train_batch_size 1 \
  --per_device_eval_batch_size 1 \
  --train_dataset_path examples/data/ARC-Challenge/train.json,examples/data/boolq/train.json,examples/data/piqa/train.json,examples/data/winogrande/train.json,examples/data/hellaswag/train.json,examples/data/ARC-Easy/train.json \
  --train_dataset_prob 0.2,0.1,0.1,0.2,0.2,0.2 \
  --train_dataset_type erniekit,erniekit,erniekit,erniekit,erniekit,erniekit \
  --eval_dataset_path examples/data/ARC-Challenge/dev.json,examples/data/boolq/dev.json,examples/data/piqa/dev.json,examples/data/winogrande/dev.json,examples/data/hellaswag/dev.json,examples/data/ARC-Easy/dev.json \
  --eval_dataset_prob 0.2,0.1,0.1,0.2,0.2,0.2 \
  --eval_dataset_type erniekit,erniekit,erniekit,erniekit,erniekit,erniekit \
  --max_steps 500 \
  --max_evaluate_steps 10000 \
  --eval_accumulation_steps 100 \
  --save_steps 100 \
  --logging_steps 1 \
  --eval_steps 500 \
  --weight_decay 0.01 \
  --do_train \
  --do_eval \
  --evaluation_strategy steps \
  --device iluvatar_gpu \
  --tensor_parallel_degree 4 \
  --pipeline_parallel_degree 4 \
  --sharding_parallel_degree 1 \
  --sharding stage1 \
  --max_seq_len 8192 \
  --seed 23 \
  --gradient_accumulation_steps 2 \
  --warmup_steps 50 \
  --lr_scheduler_type linear \
  --learning_rate 3e-4 \
  --num_samples_each_epoch 6000000 \
  --bf16 \
  --fp16_opt_level O2 \
  --amp_custom_white_list lookup_table lookup_table_v2 flash_attn matmul matmul_v2 fused_gemm_epilogue \
  --amp_custom_black_list reduce_sum softmax_with_cross_entropy c_softmax_with_cross_entropy elementwise_div sin cos \
  --disable_tqdm True \
  --recompute 1 \
  --offload_optim 0 \
  --recompute_granularity full \
  --dataloader_num_workers 1 \
  --distributed_dataloader 1 \
  --use_flash_attention 1 \
  --use_sparse_head_and_loss_fn 0 \
  --use_attn_mask_start_row_indices 0 \
  --use_sparse_flash_attn 0 \
  --tensor_parallel_output 0 \
  --pipeline_parallel_config 'disable_partial_send_recv enable_clear_every_step_cache disable_batch_p2p_comm' \
  --greedy_intokens 1 \
  --sequence_parallel 1 \
  --release_grads 1 \
  --recompute_use_reentrant True \
  --fuse_rope 1 \
  --moe_multimodal_dispatch_use_allgather '' \
  --lora \
  --lora_rank 32 \
  --fuse_rms_norm False \
  --moe_group mp
