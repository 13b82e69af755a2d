"""What cuBLAS, cuDNN, copies and compiled maps take here, by torch: medians,
random data, and a buffer larger than the L2 cache written before each."""
import contextlib
import statistics

import torch
import torch.nn.functional as F

BACKENDS = ("CUDNN_ATTENTION", "FLASH_ATTENTION")


def milliseconds(run, times=20):
    flush = torch.empty(1 << 28, device="cuda", dtype=torch.uint8)
    for _ in range(5):
        run()
    spans = []
    for _ in range(times):
        flush.fill_(0x5a)
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        spans.append(start.elapsed_time(end))
    return statistics.median(spans)


def contraction(m, n, k):
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
    ms = milliseconds(lambda: a @ b)
    print(f"cuBLAS     {m}x{n}x{k} {ms:9.3f} ms "
          f"{2 * m * n * k / ms * 1e-6:9.1f} GFLOP/s")


def only(name):
    """Attention by that backend, if this torch has it; else by its choice."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        return sdpa_kernel(getattr(SDPBackend, name))
    except (ImportError, AttributeError):
        return contextlib.nullcontext()


def attention(batch, heads, kv, seq, dim, backend):
    def some(n):
        return torch.randn(batch, n, seq, dim, device="cuda",
                           dtype=torch.bfloat16, requires_grad=True)

    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                              enable_gqa=heads != kv)

    q, k, v = some(heads), some(kv), some(kv)
    flops = 2 * batch * heads * seq * seq * dim
    what = f"{backend.lower():15} {batch}x{heads}/{kv}x{seq}x{dim}"
    try:
        with only(backend):
            with torch.no_grad():
                ms = milliseconds(forward)
            print(f"{what} forward {ms:9.3f} ms "
                  f"{flops / ms * 1e-6:9.1f} GFLOP/s")
            out = forward()
            grad = torch.randn_like(out)
            ms = milliseconds(lambda: torch.autograd.grad(
                out, (q, k, v), grad, retain_graph=True))
            print(f"{what} backward {ms:8.3f} ms "
                  f"{2.5 * flops / ms * 1e-6:9.1f} GFLOP/s")
    except (RuntimeError, TypeError) as why:
        print(f"{what} left out: {str(why).splitlines()[0]}")


def norm(x, w):
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5) *
            w.float()).to(x.dtype)


def gate(x, y):
    return F.silu(x) * y


def maps():
    """As llmc's maps: torch.compile makes one kernel of each."""
    def some(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    for name, function, operands in (
            ("rmsnorm", norm, (some(4096, 4096), some(4096))),
            ("silu mul", gate, (some(4096, 14336), some(4096, 14336)))):
        try:
            run = torch.compile(function)
            ms = milliseconds(lambda: run(*operands))
        except Exception as why:  # no compiler on this machine
            print(f"{name:15} left out: {type(why).__name__}")
            continue
        moved = sum(x.numel() for x in operands) + operands[0].numel()
        print(f"{name:15} {ms:9.4f} ms {2 * moved / ms * 1e-6:9.0f} GB/s")


def main():
    print(f"torch      {torch.__version__}, {torch.cuda.get_device_name()}")
    for shape in ((4096, 4096, 4096), (8192, 8192, 8192),
                  (4096, 14336, 4096), (4096, 4096, 14336),
                  (1024, 4096, 4096), (8192, 28672, 8192),
                  (16384, 2304, 768), (16384, 50257, 768)):
        contraction(*shape)
    for backend in BACKENDS:
        attention(1, 32, 8, 4096, 128, backend)
        attention(16, 12, 12, 1024, 64, backend)
    maps()
    x = torch.randn(1 << 28, device="cuda", dtype=torch.float32)
    y = torch.empty_like(x)
    ms = milliseconds(lambda: y.copy_(x))
    print(f"copy       {8 * x.numel() / ms * 1e-6:.0f} GB/s")


if __name__ == "__main__":
    main()
