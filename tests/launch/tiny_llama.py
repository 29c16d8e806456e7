"""Make a tiny random Llama with a tokenizer of single bytes in FOLDER; run by the Python of a training framework."""

import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

words = ["<s>", "</s>", "<unk>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
made = Tokenizer(models.BPE(vocab={word: n for n, word in enumerate(words)}, merges=[], unk_token="<unk>"))
made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
config = LlamaConfig(vocab_size=len(words), max_position_embeddings=128, num_key_value_heads=2, **shape)
LlamaForCausalLM(config).save_pretrained(sys.argv[1])
PreTrainedTokenizerFast(tokenizer_object=made, **special).save_pretrained(sys.argv[1])
