"""What cuBLAS, cuDNN and copies take here, by torch: medians, random data."""
import statistics

import torch
import torch.nn.functional as F


def milliseconds(run, times=20):
    for _ in range(5):
        run()
    spans = []
    for _ in range(times):
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


def attention(batch, heads, seq, dim):
    def some():
        return torch.randn(batch, heads, seq, dim, device="cuda",
                           dtype=torch.bfloat16, requires_grad=True)

    q, k, v = some(), some(), some()
    flops = 2 * batch * heads * seq * seq * dim
    with torch.no_grad():
        ms = milliseconds(lambda: F.scaled_dot_product_attention(
            q, k, v, is_causal=True))
    print(f"SDPA       {batch}x{heads}x{seq}x{dim} forward {ms:9.3f} ms "
          f"{flops / ms * 1e-6:9.1f} GFLOP/s")
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    grad = torch.randn_like(out)
    ms = milliseconds(lambda: torch.autograd.grad(out, (q, k, v), grad,
                                                  retain_graph=True))
    print(f"SDPA       {batch}x{heads}x{seq}x{dim} backward {ms:8.3f} ms "
          f"{2.5 * flops / ms * 1e-6:9.1f} GFLOP/s")


def main():
    print(f"torch      {torch.__version__}, {torch.cuda.get_device_name()}")
    for shape in ((4096, 4096, 4096), (8192, 8192, 8192),
                  (4096, 14336, 4096), (16384, 2304, 768),
                  (16384, 50257, 768)):
        contraction(*shape)
    attention(1, 32, 4096, 128)
    attention(16, 12, 1024, 64)
    x = torch.randn(1 << 28, device="cuda", dtype=torch.float32)
    y = torch.empty_like(x)
    ms = milliseconds(lambda: y.copy_(x))
    print(f"copy       {8 * x.numel() / ms * 1e-6:.0f} GB/s")


if __name__ == "__main__":
    main()
