# SPDX-License-Identifier: Apache-2.0
"""transformers on swakv pages: a model with random weights gives the tokens that it gives on its own cache.

Wants torch, transformers and a broker on the host backend: swakvd --backend host --size 512M
"""

import torch
import transformers

import swakv.transformers

config = transformers.AutoConfig.for_model(
    "mistral", vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, sliding_window=64, eos_token_id=None,
)  # fmt: skip
torch.manual_seed(0)
model = transformers.AutoModelForCausalLM.from_config(config).eval()
prompt = dict(input_ids=torch.randint(3, 1000, (2, 50)), attention_mask=torch.ones(2, 50, dtype=torch.long))
own = model.generate(**prompt, do_sample=False, max_new_tokens=200)

with swakv.transformers.attach(config, max_batch=2, max_seq=1024, dtype=model.dtype, form="joined") as session:
    cache = swakv.transformers.Cache(session, config)
    tokens = model.generate(**prompt, do_sample=False, max_new_tokens=200, past_key_values=cache)
    cache.close()
print(f"{(tokens != own).sum()} of {tokens.numel()} tokens differ")
