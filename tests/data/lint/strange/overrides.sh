set -x
train=$HOME/data/train.parquet
files="['$train']"
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo data.train_files="$files" \
    actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct \
    trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.save_freq=20 $@
