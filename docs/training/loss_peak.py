#!/usr/bin/env python3
"""Peak memory of the language-model loss, in bytes per logit, for several ways to write it (PyTorch, CPU).

One logit is one token times one vocabulary entry. Counted are the tensors that live at the same time during
projection, cross-entropy and backward, without the gradients of the weights and of the hidden states.
Exit codes: 0 fine, 2 misuse or PyTorch missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import weakref


def measure(tokens: int, hidden: int, vocab: int, chunks: int) -> dict[str, float]:
    """Run each variant once; return peak bytes / (tokens x vocab)."""
    import torch
    import torch.nn.functional as F
    from torch.utils._python_dispatch import TorchDispatchMode

    class Peak(TorchDispatchMode):
        """Adds up the storages that operators return, until they are freed."""

        def __init__(self) -> None:
            super().__init__()
            self.live = self.peak = 0
            self.known: set[int] = set()

        def freed(self, key: int, size: int) -> None:
            self.live -= size
            self.known.discard(key)

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for t in out if isinstance(out, (tuple, list)) else (out,):
                if isinstance(t, torch.Tensor) and t.untyped_storage()._cdata not in self.known:
                    storage = t.untyped_storage()
                    self.known.add(storage._cdata)
                    weakref.finalize(storage, self.freed, storage._cdata, storage.nbytes())
                    self.live += storage.nbytes()
                    self.peak = max(self.peak, self.live)
            return out

    weight = (torch.randn(vocab, hidden) * 0.02).bfloat16().requires_grad_()
    states = torch.randn(tokens, hidden).bfloat16().requires_grad_()
    labels = torch.randint(0, vocab, (tokens,))

    def upcast() -> None:
        F.cross_entropy((states @ weight.T).float(), labels).backward()

    def upcast_bf16_kept() -> None:
        logits = states @ weight.T  # still referenced, as in a model's output
        F.cross_entropy(logits.float(), labels).backward()

    def upcast_both_kept() -> None:
        logits = states @ weight.T
        upcasted = logits.float()
        F.cross_entropy(upcasted, labels).backward()

    def no_upcast() -> None:
        F.cross_entropy(states @ weight.T, labels).backward()

    def chunked() -> None:
        for part, label in zip(states.chunk(chunks), labels.chunk(chunks)):
            (F.cross_entropy((part @ weight.T).float(), label, reduction="sum") / tokens).backward()

    def torch_chunked() -> None:  # PyTorch 2.13 and later
        F.linear_cross_entropy(states, weight, labels, options=torch.nn.LinearCrossEntropyOptions()).backward()

    variants = [upcast, upcast_bf16_kept, upcast_both_kept, no_upcast, chunked]
    if hasattr(torch.nn, "LinearCrossEntropyOptions"):
        variants.append(torch_chunked)
    result = {}
    for variant in variants:
        weight.grad, states.grad = torch.zeros_like(weight), torch.zeros_like(states)
        with Peak() as peak:
            variant()
        result[variant.__name__] = peak.peak / (tokens * vocab)
    return result


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tokens", type=int, default=1024)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--vocab", type=int, default=16384)
    p.add_argument("--chunks", type=int, default=8)
    p.add_argument("--json", action="store_true")
    o = p.parse_args(argv)
    if not all(1 <= size <= 10**9 for size in (o.tokens, o.hidden, o.vocab, o.chunks)):
        p.error("all sizes must be from 1 to 1000000000")
    try:
        result = measure(o.tokens, o.hidden, o.vocab, o.chunks)
    except ImportError:
        print("PyTorch is missing: pip install torch --index-url https://download.pytorch.org/whl/cpu", file=sys.stderr)
        return 2
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        print(f"not enough memory, use fewer --tokens or a smaller --vocab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if o.json:
        print(json.dumps({"tokens": o.tokens, "vocab": o.vocab, "bytes_per_logit": result}))
        return 0
    for name, value in result.items():
        print(f"{name:<18}{value:>6.1f} bytes per logit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
