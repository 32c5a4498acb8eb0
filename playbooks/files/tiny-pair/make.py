# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the tiny pair: a Qwen3 target that knows eight chapters by heart, and a DFlash drafter trained on it.

    python make.py [DIRECTORY]      writes target/ and drafter/ there, by default beside this file

Needs torch and transformers; no GPU and no network. Two minutes on one core. Nothing is written before both models
are proven. The drafter's config.json is written wrong on purpose: README.md says why, and what is right.

In the shapes below C is the number of chapters and T of tokens in the longest one, H the width of both models.
A blocks are drafted at once in each chapter, which makes Q = A * BLOCK queries.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Callable, NamedTuple

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3 import modeling_qwen3 as qwen3

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>", "<|pad|>"]
END, MASK, PAD = 2, 3, 4  # their places in that list
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BLOCK = 8  # the anchor, a token already known, and 7 masks to be filled in
FEATURE_LAYERS = [1, 3, 5]  # of the target; the drafter reads what comes out of them
WINDOW = 24
IGNORED = -100  # a label that cross_entropy passes over

HIDDEN, HEAD = 64, 32
SIZES = {"vocab_size": 512, "hidden_size": HIDDEN, "intermediate_size": 128, "max_position_embeddings": 512}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": HEAD, "rope_theta": 10000.0}
TOKENS = {"bos_token_id": None, "eos_token_id": END, "pad_token_id": PAD}
COMMON = {**SIZES, **HEADS, **TOKENS, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "dtype": "float32"}
TARGET = {**COMMON, "num_hidden_layers": 8}
DRAFTER = {**COMMON, "num_hidden_layers": 3}
DRAFTER_FILE = {
    "architectures": ["DFlashDraftModel"],
    "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
    "model_type": "qwen3",
    "block_size": BLOCK,
    "num_target_layers": 8,
    **DRAFTER,
    # Wrong from here on. Such a file loads without a word, and the drafter drafts rubbish.
    "dflash_config": {"mask_token_id": PAD, "target_layer_ids": [0, 1, 2]},
    "layer_types": ["full_attention"] * 3,
    "sliding_window": None,
    "use_sliding_window": False,
    "max_window_layers": 28,
}


class Book(NamedTuple):
    """The chapters as conversations in tokens."""

    tokens: Tensor  # [C, T] padded at the end
    ends: Tensor  # [C, 1] the position of the last token
    answer: int  # the position where the chapters' own text begins: all prompts are equally long


class Blocks(NamedTuple):
    """Blocks to be drafted, laid end to end; each tensor is [C, Q]."""

    inputs: Tensor  # the anchor's token, then masks
    labels: Tensor  # the true tokens; IGNORED at the anchor and past the chapter's end
    positions: Tensor
    anchors: Tensor  # the position of the anchor of the query's block


def write_chapters() -> list[str]:
    """Eight chapters of invented words, the same on every machine."""
    dice = random.Random(7)
    syllables = ["ka", "to", "mi", "ra", "su", "ne", "lo", "vi", "pe", "dar", "gol", "fen", "tis", "mur", "zan"]
    words = sorted(
        {"".join(dice.choice(syllables) for _unused in range(dice.choice([1, 2, 2, 3]))) for _unused in range(200)}
    )
    return [" ".join(dice.choice(words) for _unused in range(120)) + "." for _unused in range(8)]


def train_tokenizer(chapters: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of the chapters and of the words that ask for them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=448,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*chapters, "user assistant system Recite chapter 0 1 2 3 4 5 6 7"], trainer)
    special = {"eos_token": SPECIAL[END], "mask_token": SPECIAL[MASK], "pad_token": SPECIAL[PAD]}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **special)
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make_book(tokenizer: PreTrainedTokenizerFast, chapters: list[str]) -> Book:
    """Each chapter as the answer to `Recite chapter N`."""
    questions = [[{"role": "user", "content": f"Recite chapter {n}"}] for n in range(len(chapters))]
    answers = [[{"role": "assistant", "content": chapter}] for chapter in chapters]
    prompts = [tokenizer.apply_chat_template(q, add_generation_prompt=True, return_dict=False) for q in questions]
    (answer,) = {len(prompt) for prompt in prompts}
    rows = [tokenizer.apply_chat_template(q + a, return_dict=False) for q, a in zip(questions, answers)]
    tokens = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
    return Book(tokens, torch.tensor([[len(row) - 1] for row in rows]), answer)


def fit(name: str, model: nn.Module, steps: int, rate: float, loss_of_step: Callable[[], Tensor]) -> None:
    """Train by AdamW with one cycle of the learning rate; say every few seconds how it goes."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.1)
    started = time.monotonic()
    for step in range(1, steps + 1):
        loss = loss_of_step()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(f"{name} {step}/{steps}  loss {loss.item():.4f}  {time.monotonic() - started:.0f} s", flush=True)
    model.requires_grad_(False)


def train_target(book: Book) -> Qwen3ForCausalLM:
    """Teach the target the whole book by heart, the questions included."""
    target = Qwen3ForCausalLM(Qwen3Config(**TARGET))
    labels = book.tokens.masked_fill(torch.arange(book.tokens.shape[1]) > book.ends, IGNORED)
    fit("target", target, 300, 3e-3, lambda: target(input_ids=book.tokens, labels=labels).loss)
    return target


def recites(target: Qwen3ForCausalLM, book: Book) -> bool:
    """Whether the target, always saying its likeliest token, says every chapter to the letter."""
    said = target(input_ids=book.tokens).logits.argmax(-1)[:, book.answer - 1 : -1]
    past = torch.arange(book.answer, book.tokens.shape[1]) > book.ends
    return bool(((said == book.tokens[:, book.answer :]) | past).all())


class Drafter(nn.Module):
    """DFlash: Qwen3 layers that fill in all masks of a block at once, from features of the target.

    It has neither embeddings nor a head: it borrows the target's. The parameters bear the names that vLLM loads.
    """

    def __init__(self) -> None:
        super().__init__()
        config = Qwen3Config(**DRAFTER)
        self.fc = nn.Linear(len(FEATURE_LAYERS) * HIDDEN, HIDDEN, bias=False)
        self.hidden_norm, self.norm = nn.RMSNorm(HIDDEN, 1e-6), nn.RMSNorm(HIDDEN, 1e-6)
        self.layers = nn.ModuleList(qwen3.Qwen3DecoderLayer(config, n) for n in range(config.num_hidden_layers))
        self.rotary = qwen3.Qwen3RotaryEmbedding(config)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.05)

    def forward(self, x: Tensor, features: Tensor, blocks: Blocks) -> Tensor:
        """x [C, Q, H] embedded inputs, features [C, T, 3 * H] -> hidden states [C, Q, H]."""
        chapters, length, _unused = features.shape
        context = self.hidden_norm(self.fc(features))
        positions = torch.cat([torch.arange(length).expand(chapters, -1), blocks.positions], 1)
        rotary = torch.stack(self.rotary(x, positions))[:, :, None]
        mask = visible(blocks, length)
        for layer in self.layers:
            x = x + attend(layer.self_attn, layer.input_layernorm(x), context, rotary, mask)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x)


def attend(layer: qwen3.Qwen3Attention, x: Tensor, context: Tensor, rotary: Tensor, mask: Tensor) -> Tensor:
    """Attention of the blocks to the context and to themselves.

    x [C, Q, H], context [C, T, H], rotary [2, C, 1, T + Q, HEAD] cosines and sines, mask [C, Q, T + Q] -> [C, Q, H]
    """
    keys = torch.cat([context, x], 1)
    q = layer.q_norm(layer.q_proj(x).unflatten(-1, (-1, HEAD))).transpose(1, 2)
    k = layer.k_norm(layer.k_proj(keys).unflatten(-1, (-1, HEAD))).transpose(1, 2)
    v = layer.v_proj(keys).unflatten(-1, (-1, HEAD)).transpose(1, 2)
    cos, sin = rotary
    k = k * cos + qwen3.rotate_half(k) * sin
    cos, sin = rotary[..., context.shape[1] :, :]
    q = q * cos + qwen3.rotate_half(q) * sin
    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None], enable_gqa=True)
    return layer.o_proj(out.transpose(1, 2).flatten(2))


def visible(blocks: Blocks, length: int) -> Tensor:
    """The mask [C, Q, T + Q]: a query sees the window's context before its anchor, and its own block up to itself.

    vLLM runs sliding layers causally inside the block, so they are trained that way.
    """
    query = blocks.positions[..., None]
    context = torch.arange(length)
    before = (context < blocks.anchors[..., None]) & (query - context < WINDOW)
    number = torch.arange(query.shape[1]) // BLOCK
    own = (number[:, None] == number) & (blocks.positions[:, None] <= query)
    return torch.cat([before, own], -1)


def draw_blocks(book: Book, each: int) -> Blocks:
    """Blocks at random places of the chapters' own text, `each` of them in every chapter."""
    drawn = [torch.randint(book.answer, int(end), (each,)) for end in book.ends]
    anchors = torch.stack(drawn).repeat_interleave(BLOCK, 1)
    offset = torch.arange(BLOCK).repeat(each)
    positions = anchors + offset
    tokens = book.tokens.gather(1, positions.clamp(max=book.tokens.shape[1] - 1))
    labels = tokens.masked_fill((offset == 0) | (positions > book.ends), IGNORED)
    return Blocks(torch.where(offset == 0, tokens, MASK), labels, positions, anchors)


def read_features(target: Qwen3ForCausalLM, tokens: Tensor) -> Tensor:
    """What comes out of FEATURE_LAYERS: tokens [C, T] -> [C, T, 3 * H]."""
    hidden = target(input_ids=tokens, output_hidden_states=True).hidden_states  # the first is the embedding
    return torch.cat([hidden[layer + 1] for layer in FEATURE_LAYERS], -1)


def draft(drafter: Drafter, target: Qwen3ForCausalLM, features: Tensor, blocks: Blocks) -> Tensor:
    """Logits [C, Q, vocabulary] for the blocks."""
    return target.lm_head(drafter(target.model.embed_tokens(blocks.inputs), features, blocks))


def train_drafter(book: Book, target: Qwen3ForCausalLM, features: Tensor) -> Drafter:
    """Teach the drafter what the target would say."""
    drafter = Drafter()

    def loss() -> Tensor:
        blocks = draw_blocks(book, each=24)
        logits = draft(drafter, target, features, blocks)
        return functional.cross_entropy(logits.flatten(0, 1), blocks.labels.flatten(), ignore_index=IGNORED)

    fit("drafter", drafter, 400, 4e-3, loss)
    return drafter


def acceptance(drafter: Drafter, target: Qwen3ForCausalLM, features: Tensor, book: Book) -> float:
    """The share of drafted tokens that the target would accept: in each block, those before the first mistake."""
    blocks = draw_blocks(book, each=48)
    right = (draft(drafter, target, features, blocks).argmax(-1) == blocks.labels) | (blocks.labels == IGNORED)
    return right.unflatten(1, (-1, BLOCK))[..., 1:].int().cumprod(-1).float().mean().item()


def main(directory: Path) -> None:
    """Train both, prove both, and only then write."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for models this small more threads mostly wait for each other
    chapters = write_chapters()
    tokenizer = train_tokenizer(chapters)
    book = make_book(tokenizer, chapters)
    target = train_target(book)
    if not recites(target, book):
        sys.exit("The target does not know its chapters by heart; nothing was written.")
    features = read_features(target, book.tokens)
    drafter = train_drafter(book, target, features)
    share = acceptance(drafter, target, features, book)
    print(f"The target would accept {share:.1%} of what the drafter drafts.")
    if share < 0.98:
        sys.exit("The drafter has not learned from the target; nothing was written.")

    target.save_pretrained(directory / "target")
    tokenizer.save_pretrained(directory / "target")
    (directory / "drafter").mkdir(exist_ok=True)
    save_file(drafter.state_dict(), directory / "drafter" / "model.safetensors", metadata={"format": "pt"})
    (directory / "drafter" / "config.json").write_text(json.dumps(DRAFTER_FILE, indent=2) + "\n")
    for weights in directory.glob("*/model.safetensors"):
        weights.chmod(0o644)  # written for their owner alone


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
