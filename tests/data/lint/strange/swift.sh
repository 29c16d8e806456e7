# Two cards, counted by a variable.
cards=2
MAX_PIXELS=1003520 \
CUDA_VISIBLE_DEVICES=0,1 \
NPROC_PER_NODE=$cards \
swift sft \
    --model Qwen/Qwen2.5-VL-7B-Instruct \
    --dataset 'AI-ModelScope/alpaca-gpt4-data-zh#500' \
              'AI-ModelScope/alpaca-gpt4-data-en#500' \
    --tuner_type lora --torch_dtype bfloat16 --learning_rate 1e-4 \
    --target_modules all-linear \
    --gradient_accumulation_steps $(expr 16 / $cards) \
    --eval_steps 50 --save_steps 50 --warmup_ratio 0.05 --deepspeed zero2
