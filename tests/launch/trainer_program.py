"""A small transformers training for tests, run by the Python of the torch environment."""

import sys

import torch
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class NoiseDataset(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        row = torch.full((16,), number % 100)
        return {"input_ids": row, "labels": row}


(asked,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(sys.argv[1:])
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=128, max_position_embeddings=64, **shape))
Trainer(model=model, args=asked, train_dataset=NoiseDataset()).train()
torch.distributed.destroy_process_group()  # its threads may abort an interpreter that ends over them
