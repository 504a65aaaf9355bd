"""Make the scripted backend's small tokenizer and chat template from this repository's own texts.

Run by hand when the shape of the tokenizer should change; its output is committed, because prompts' reference
hashes depend on it.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "engine" / "roundtable_local" / "backends" / "scripted_model"
VOCABULARY = 2048
SPECIAL = ("<|bos|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
TEMPLATE = """{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>
{{ message.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""


def main() -> None:
    """Train and write."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "prompts").rglob("*.j2"))]
    texts.append((TARGET / "words.txt").read_text("utf-8"))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.save(str(TARGET / "tokenizer.json"), pretty=False)
    config = {"bos_token": "<|bos|>", "eos_token": "<|end|>"}
    (TARGET / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    (TARGET / "chat_template.jinja").write_text(TEMPLATE, "utf-8")


if __name__ == "__main__":
    main()
