#!/bin/bash
where=$1
stage=${2:-3}
if [ "$where" == "" ]; then
    where=./output
fi
mkdir -p $where
deepspeed --hostfile hostfile --master_port 29600 --module chat.main \
   --data_path a/first b/second c/third --data_split 2,4,4 \
   --model_name_or_path facebook/opt-66b --max_seq_len 512 --learning_rate 9.65e-6 \
   --num_warmup_steps 0 --deepspeed --zero_stage $stage --output_dir $where &> $where/training.log
