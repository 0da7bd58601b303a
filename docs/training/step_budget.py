#!/usr/bin/env python3
"""Memory, FLOPs, step time and GPU hours of training a dense decoder-only transformer.

Memory is bytes per GPU, counted from the model's shape; time is FLOPs / (GPUs x peak x utilisation).
Sources: ZeRO (arXiv 1910.02054) for the states, Korthikanti et al. (arXiv 2205.05198) for GPT activations
and the difference between MFU and HFU, PaLM (arXiv 2204.02311, appendix B) for FLOPs per token.
Exit codes: 0 fits, 1 does not fit (or --measure found a difference), 2 misuse.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass, replace
from typing import Any

GB = 1e9
GIB = 2**30


@dataclass(frozen=True)
class Model:
    """Shape of a dense decoder; `gated` (Llama) has three MLP matrices, RMSNorm and no biases."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool = True
    tied: bool = False  # input embedding and output projection share one matrix
    positions: int = 0  # learned position vectors
    embed_norm: bool = False

    @property
    def layer_matrices(self) -> int:
        """Weights of one layer that are matrices: attention and MLP."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return attention + (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def layer(self) -> int:
        """Parameters of one layer with norms and, unless gated, biases."""
        if self.gated:
            return self.layer_matrices + 2 * self.hidden
        biases = self.head_dim * (self.heads + 2 * self.kv_heads) + 2 * self.hidden + self.ffn
        return self.layer_matrices + biases + 4 * self.hidden

    @property
    def embedding(self) -> int:
        return (self.vocab + self.positions + (2 if self.embed_norm else 0)) * self.hidden

    @property
    def head(self) -> int:
        """Parameters after the last layer: final norm and, unless tied, the output projection."""
        return ((1 if self.gated else 2) + (0 if self.tied else self.vocab)) * self.hidden

    @property
    def total(self) -> int:
        return self.embedding + self.layers * self.layer + self.head


PRESETS = {
    "gpt2": Model(12, 768, 12, 12, 64, 3072, 50257, gated=False, tied=True, positions=1024),
    "bloom-176b": Model(70, 14336, 112, 112, 128, 57344, 250880, gated=False, tied=True, embed_norm=True),
    "llama2-7b": Model(32, 4096, 32, 32, 128, 11008, 32000),
    "llama2-13b": Model(40, 5120, 40, 40, 128, 13824, 32000),
    "llama2-70b": Model(80, 8192, 64, 8, 128, 28672, 32000),
    "llama3.2-1b": Model(16, 2048, 32, 8, 64, 8192, 128256, tied=True),
    "llama3-8b": Model(32, 4096, 32, 8, 128, 14336, 128256),
    "llama3-70b": Model(80, 8192, 64, 8, 128, 28672, 128256),
    "llama3-405b": Model(126, 16384, 128, 8, 128, 53248, 128256),
}

SHAPE = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")

# name: peak dense bf16 FLOP/s and memory in GB of one device, vendor's figures
DEVICES = {
    "a100": (312e12, 80),
    "h100": (989e12, 80),
    "h200": (989e12, 141),
    "mi300x": (1307e12, 192),
    "tpu-v5p": (459e12, 95),
}

# name: bytes per parameter for weights, gradients, optimizer (with the fp32 copy of the weights, if any)
RECIPES = {
    "bf16-adam": (2, 2, 12),
    "bf16-adam-fp32grad": (2, 4, 12),
    "fp32-adam": (4, 4, 8),
    "bf16-adam8bit": (2, 2, 6),
    "pure-bf16-adam": (2, 2, 4),
}

# name: bytes per logit at the peak of the loss, see loss_peak.py; fused: the gradient replaces bf16 logits in place
LOSS_BYTES = {"plain": 14.0, "fused": 2.0, "chunked": 14.0 / 8}


def states(params: float, recipe: str, zero: int, dp: int) -> dict[str, float]:
    """Bytes per GPU of weights, gradients and optimizer for `params` parameters; ZeRO divides them by `dp`."""
    weights, grads, optim = RECIPES[recipe]
    return {
        "weights": params * weights / (dp if zero >= 3 else 1),
        "gradients": params * grads / (dp if zero >= 2 else 1),
        "optimizer": params * optim / (dp if zero >= 1 else 1),
    }


def activation_per_token(m: Model, seq: int, attention: str) -> float:
    """Bytes that one layer keeps of one token for backward, in 16 bits.

    GPT with dropout: 34h + 5as (Korthikanti et al., equation 1). Gated: the norms' inputs and outputs (8h),
    q, k, v and the attention's output, and gate, up, silu(gate) and their product (8 ffn).
    """
    q, kv = m.heads * m.head_dim, m.kv_heads * m.head_dim
    linear = (8 * m.hidden + 8 * m.ffn) if m.gated else (10 * m.hidden + 4 * m.ffn)
    scores = {"flash": 4 * m.heads, "eager": (2 if m.gated else 5) * m.heads * seq, "none": 0}[attention]
    return linear + 4 * q + 4 * kv + scores


def activations(m: Model, o: argparse.Namespace, held: int) -> dict[str, float]:
    """Bytes per GPU at the end of a forward pass, when `held` micro-batches wait for their backward pass."""
    attention = "none" if o.recompute == "selective" and o.attention == "eager" else o.attention
    tokens = o.seq * o.micro_batch / o.tp  # with sequence parallelism tensor parallelism splits all of it
    layer = tokens * activation_per_token(m, o.seq, attention)
    waiting = held * math.ceil(m.layers / o.pp)
    if o.recompute == "full":
        return {"activations": waiting * tokens * 2 * m.hidden, "layer being recomputed": layer}
    return {"activations": waiting * layer}


def memory(m: Model, o: argparse.Namespace, dp: int) -> dict[str, float]:
    """Bytes per GPU, by part, of the fuller of the first and the last pipeline stage."""
    body, head = math.ceil(m.layers / o.pp) * m.layer, m.head + (m.vocab * m.hidden if m.tied else 0)
    stages = [(m.total, 1, True)]
    if o.pp > 1:  # 1F1B: the first stage holds one micro-batch for every stage; a tied matrix is on both ends
        stages = [(body + m.embedding, min(o.pp, o.accumulation), False), (body + head, 1, True)]
    results = []
    for params, held, loss in stages:
        parts = {**states(params / o.tp, o.recipe, o.zero, dp), **activations(m, o, held)}
        if o.zero == 3 and dp > 1:  # the layer at work and the next one, and one layer's gradients
            parts["gathered by ZeRO-3"] = max(m.layer, m.embedding) / o.tp * (2 * 2 + RECIPES[o.recipe][1])
        if loss:
            parts["logits and loss"] = o.seq * o.micro_batch * m.vocab / o.tp * LOSS_BYTES[o.loss]
        results.append({**parts, "reserve": o.reserve_gb * GB})
    return max(results, key=lambda parts: sum(parts.values()))


def flops_per_token(m: Model, o: argparse.Namespace) -> dict[str, float]:
    """FLOPs of one token: forward, model (forward + backward) and hardware (with what is recomputed)."""
    body, head = 2 * m.layers * m.layer_matrices, 2 * m.vocab * m.hidden
    attention = (2 if o.attention_flops == "causal" else 4) * m.layers * m.heads * m.head_dim * o.seq
    forward = body + head + attention
    redone = {"none": 0, "selective": attention if o.attention == "eager" else 0, "full": body + attention}
    return {
        "rule_6n": 6 * m.total,
        "forward": forward,
        "model": 3 * forward,
        "hardware": 3 * forward + redone[o.recompute],
        "attention_share": attention / forward,
    }


def budget(m: Model, o: argparse.Namespace) -> dict[str, Any]:
    """Everything that is printed, as one dictionary; bytes, seconds, FLOPs."""
    dp = o.gpus // (o.tp * o.pp)
    parts = memory(m, o, dp)
    flops = flops_per_token(m, o)
    tokens = o.seq * o.micro_batch * o.accumulation * dp
    executed = flops["model"] if o.mfu else flops["hardware"]
    rate = o.peak_tflops * 1e12 * (o.mfu or o.hfu)  # FLOP/s of one GPU
    total = sum(parts.values())
    result = {
        "parameters": m.total,
        "layout": {"gpus": o.gpus, "dp": dp, "tp": o.tp, "pp": o.pp, "zero": o.zero},
        "memory_bytes": parts,
        "memory_total_bytes": total,
        "memory_limit_bytes": o.memory_gb * GB,
        "fits": total <= o.memory_gb * GB,
        "flops_per_token": flops,
        "tokens_per_step": tokens,
        "step_seconds": tokens * executed / (o.gpus * rate),
        "mfu": (o.mfu or o.hfu) * (1 if o.mfu else flops["model"] / flops["hardware"]),
        "pipeline_bubble": (o.pp - 1) / (o.accumulation + o.pp - 1),
    }
    if o.tokens:
        hours = o.tokens * executed / rate / 3600
        result.update(gpu_hours=hours, days=hours / o.gpus / 24)
    return result


def show(r: dict[str, Any], o: argparse.Namespace) -> None:
    """Print a budget for people."""
    lay = r["layout"]
    print(f"{r['parameters']:,} parameters on {lay['gpus']} GPU(s): dp {lay['dp']} x tp {lay['tp']} x pp {lay['pp']}")
    print(f"recipe {o.recipe}, ZeRO {o.zero}, sequence {o.seq}, micro-batch {o.micro_batch}, recompute {o.recompute}")
    print("\nmemory of one GPU, GB")
    for name, value in r["memory_bytes"].items():
        print(f"  {name:<24}{value / GB:>9.1f}")
    total, limit = r["memory_total_bytes"], r["memory_limit_bytes"]
    verdict = "fits" if r["fits"] else "DOES NOT FIT"
    print(f"  {'total':<24}{total / GB:>9.1f}  ({total / GIB:.1f} GiB) of {limit / GB:.0f}: {verdict}")
    f = r["flops_per_token"]
    print(f"\nFLOPs per token: {f['model']:.3e} forward + backward (attention {f['attention_share']:.1%}),")
    print(f"  {f['hardware']:.3e} executed; the 6N rule gives {f['rule_6n']:.3e}")
    print(f"step: {r['tokens_per_step']:,} tokens in {r['step_seconds']:.2f} s at MFU {r['mfu']:.1%}", end="")
    print(f", pipeline bubble {r['pipeline_bubble']:.1%}" if lay["pp"] > 1 else "")
    if o.tokens:
        print(f"{o.tokens:.3g} tokens: {r['gpu_hours']:,.0f} GPU hours, {r['days']:.1f} days without interruptions")


def states_only(o: argparse.Namespace) -> int:
    """Print weights + gradients + optimizer for a bare parameter count, at each ZeRO stage."""
    dp = o.gpus // (o.tp * o.pp)
    rows = {stage: sum(states(o.params / o.tp / o.pp, o.recipe, stage, dp).values()) for stage in range(4)}
    if o.json:
        print(json.dumps({"parameters": o.params, "dp": dp, "recipe": o.recipe, "states_bytes_by_zero_stage": rows}))
    else:
        print(f"{o.params:.4g} parameters, recipe {o.recipe}, dp {dp}: weights + gradients + optimizer per GPU")
        print("\n".join(f"  ZeRO {stage}: {value / GB:8.1f} GB" for stage, value in rows.items()))
    return 0


def measure(o: argparse.Namespace) -> int:
    """Run one small layer of each kind forward on the CPU; compare parameters and saved bytes with the formulas."""
    try:
        import torch
        import torch.nn.functional as F
    except ImportError:
        print("PyTorch is missing: pip install torch --index-url https://download.pytorch.org/whl/cpu", file=sys.stderr)
        return 2
    seq, batch = 128, 2

    class FusedRMSNorm(torch.autograd.Function):  # keeps only its input, as the fused GPU kernels do
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return F.rms_norm(x, x.shape[-1:], weight)

    def run(name: str, m: Model, attention: str) -> dict[str, Any]:
        q, kv, h = m.heads * m.head_dim, m.kv_heads * m.head_dim, m.hidden
        sizes = {"q": (q, h), "k": (kv, h), "v": (kv, h), "o": (h, q), "up": (m.ffn, h), "down": (h, m.ffn)}
        sizes.update(norm1=(h,), norm2=(h,), **({"gate": (m.ffn, h)} if m.gated else {}))
        if not m.gated:
            sizes.update({f"{key}.bias": size[:1] for key, size in sizes.items()})
        w = {key: torch.randn(size, dtype=torch.bfloat16, requires_grad=True) for key, size in sizes.items()}

        def linear(key, y):
            return F.linear(y, w[key], w.get(f"{key}.bias"))

        def norm(key, y):
            return FusedRMSNorm.apply(y, w[key]) if m.gated else F.layer_norm(y, (h,), w[key], w[f"{key}.bias"])

        def drop(y):  # keeps a mask of one byte per element
            return y if m.gated else torch.native_dropout(y, 0.1, True)[0]

        def layer(x):  # [batch, seq, hidden]
            y = norm("norm1", x)
            q, k, v = (linear(key, y).view(batch, seq, -1, m.head_dim).transpose(1, 2) for key in "qkv")
            if attention == "flash":
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            else:
                y = drop((q @ k.transpose(2, 3)).softmax(-1)) @ v
            x = x + drop(linear("o", y.transpose(1, 2).reshape(batch, seq, -1)))
            y = norm("norm2", x)
            y = F.silu(linear("gate", y)) * linear("up", y) if m.gated else F.gelu(linear("up", y))
            return x + drop(linear("down", y))

        saved: dict[int, int] = {}

        def keep(t):
            saved[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            out = layer(torch.randn(batch, seq, h, dtype=torch.bfloat16, requires_grad=True))
        for weight in w.values():
            saved.pop(weight.untyped_storage().data_ptr(), None)
        del out  # was alive until here, so that no address was used twice
        return {
            "layer": name,
            "parameters": sum(weight.numel() for weight in w.values()),
            "parameters_formula": m.layer,
            "saved_bytes": sum(saved.values()),
            "saved_bytes_formula": batch * seq * activation_per_token(m, seq, attention),
        }

    llama, gpt = Model(1, 256, 4, 2, 64, 704, 512), Model(1, 256, 4, 4, 64, 1024, 512, gated=False)
    rows = [run("llama, flash", llama, "flash"), run("gpt, eager", gpt, "eager")]
    agree = all(abs(r[key] / r[f"{key}_formula"] - 1) < 0.005 for r in rows for key in ("parameters", "saved_bytes"))
    if o.json:
        print(json.dumps({"torch": torch.__version__, "layers": rows, "agree": agree}))
    else:
        print(f"PyTorch {torch.__version__}, CPU, bf16: one layer, sequence {seq}, batch {batch}")
        for r in rows:
            print(f"  {r['layer']:<13} parameters  {r['parameters']:>9,}  formula {r['parameters_formula']:>9,}")
            print(f"  {'':<13} saved bytes {r['saved_bytes']:>9,}  formula {r['saved_bytes_formula']:>9,}")
    return 0 if agree else 1


def number(text: str, most: float = 1e30) -> float:
    """Parse 7e9, 7B, 1.5T or 300M; must be positive."""
    scale = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text[-1:].upper(), 1)
    value = float(text[:-1] if scale != 1 else text) * scale
    if not 0 < value <= most:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most {most:g}, got {text}")
    return value


def count(text: str) -> int:
    number(text, most=1e12)
    return int(text)


def share(text: str) -> float:
    return number(text, most=1)


def parse(argv: list[str] | None) -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    raw = argparse.RawDescriptionHelpFormatter
    p = argparse.ArgumentParser(usage="%(prog)s [--model NAME] [options]", description=__doc__, formatter_class=raw)
    shape = p.add_argument_group("model")
    shape.add_argument("--model", choices=PRESETS, help="preset (llama2-7b if no shape is given); options change it")
    for name in SHAPE:
        shape.add_argument("--" + name.replace("_", "-"), type=count)
    shape.add_argument("--params", type=number, help="only a parameter count, such as 7.5B: prints states alone")
    layout = p.add_argument_group("layout and recipe")
    layout.add_argument("--gpus", type=count, default=1)
    layout.add_argument("--tp", type=count, default=1, help="tensor parallel degree")
    layout.add_argument("--pp", type=count, default=1, help="pipeline stages, 1F1B schedule")
    layout.add_argument("--zero", type=int, choices=range(4), default=0, help="ZeRO stage; 3 is FSDP full shard")
    layout.add_argument("--recipe", choices=RECIPES, default="bf16-adam")
    work = p.add_argument_group("work of one step")
    work.add_argument("--seq", type=count, default=4096)
    work.add_argument("--micro-batch", type=count, default=1, help="sequences per GPU and pass")
    work.add_argument("--accumulation", type=count, default=1, help="micro-batches per optimizer step")
    work.add_argument("--attention", choices=("flash", "eager"), default="flash")
    work.add_argument("--recompute", choices=("none", "selective", "full"), default="none")
    work.add_argument("--loss", choices=LOSS_BYTES, default="plain", help="chunked: 8 pieces")
    speed = p.add_argument_group("device and time")
    speed.add_argument("--device", choices=DEVICES, default="h100")
    speed.add_argument("--peak-tflops", type=number, help="dense peak of one device")
    speed.add_argument("--memory-gb", type=number, help="memory of one device")
    speed.add_argument("--reserve-gb", type=float, default=4.0, help="assumed: context, NCCL, fragmentation")
    rate = speed.add_mutually_exclusive_group()
    rate.add_argument("--hfu", type=share, default=0.4, help="executed FLOP/s over peak (default 0.4)")
    rate.add_argument("--mfu", type=share, help="model FLOP/s over peak, recomputation not counted")
    speed.add_argument("--attention-flops", choices=("causal", "full"), default="causal")
    speed.add_argument("--tokens", type=number, help="tokens of the whole run, such as 1T")
    p.add_argument("--json", action="store_true")
    p.add_argument("--measure", action="store_true", help="check the layer formulas with PyTorch on the CPU")
    return p.parse_args(argv), p


def chosen_model(o: argparse.Namespace, p: argparse.ArgumentParser) -> Model:
    """The preset with its changes, or a Llama-like model from a full set of shape options."""
    given = {name: getattr(o, name) for name in SHAPE if getattr(o, name)}
    if o.model or not given:
        return replace(PRESETS[o.model or "llama2-7b"], **given)
    missing = [f"--{name}" for name in ("layers", "hidden", "heads", "ffn", "vocab") if name not in given]
    if missing:
        p.error(f"a model of your own also needs {' '.join(missing)}; or start from a preset with --model")
    given.setdefault("kv_heads", o.heads)
    given.setdefault("head_dim", max(1, o.hidden // o.heads))
    return Model(**given)


def main(argv: list[str] | None = None) -> int:
    o, p = parse(argv)
    if o.measure:
        return measure(o)
    peak, capacity = DEVICES[o.device]
    o.peak_tflops, o.memory_gb = o.peak_tflops or peak / 1e12, o.memory_gb or capacity
    m = chosen_model(o, p)
    if o.gpus % (o.tp * o.pp):
        p.error(f"--gpus {o.gpus} is not a multiple of --tp {o.tp} x --pp {o.pp}")
    if o.params:
        return states_only(o)
    if m.heads % m.kv_heads:
        p.error(f"--heads {m.heads} is not a multiple of --kv-heads {m.kv_heads}")
    if m.heads % o.tp or m.kv_heads % o.tp:
        p.error(f"--tp {o.tp} does not divide {m.heads} heads and {m.kv_heads} key/value heads")
    if o.pp > m.layers:
        p.error(f"--pp {o.pp} is more than {m.layers} layers")
    if not 0 <= o.reserve_gb < math.inf:
        p.error("--reserve-gb must be a finite number and not negative")
    result = budget(m, o)
    if o.json:
        print(json.dumps(result))
    else:
        show(result, o)
    return 0 if result["fits"] else 1


if __name__ == "__main__":
    sys.exit(main())
