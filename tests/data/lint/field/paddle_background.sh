#!/bin/bash
set -e
unset PADDLE_TRAINERS_NUM PADDLE_ELASTIC_JOB_ID PADDLE_TRAINER_ENDPOINTS DISTRIBUTED_TRAINER_ENDPOINTS FLAGS_START_PORT PADDLE_ELASTIC_TIMEOUT
export PADDLE_XCCL_BACKEND=iluvatar_gpu
export LD_PRELOAD=/usr/local/corex/lib64/libcuda.so.1
export CUDA_VISIBLE_DEVICES=0,1,2,3
model=baidu/ERNIE-4.5-21B-A3B-Paddle
out=output/$(date +%m%d_%H%M)
mkdir -p $out
nohup python -u -m paddle.distributed.launch --log_dir $out/log --gpus 0,1,2,3,4,5,6,7 \
  examples/post-training/sft/train.py --model_name_or_path $model --output_dir $out \
  --tensor_parallel_degree 1 --pipeline_parallel_degree 4 --max_steps 500 --warmup_steps 2000 > $out/run.log 2>&1 &
echo "pid $!"
