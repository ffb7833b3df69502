"""Seconds of one operation in PyTorch, eager, on random data.

Answers every line on standard input, an operation as JSON (what `squall bench ops` asks for), with one JSON line, so that it
can be timed in alternation with another program on the same machine. Fields are channels_last. Kernels are as autocast has
them: kept in f32, rounded once in a step, which counts as part of the forward pass, and their gradients become f32.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from memory import peak_mb

LEAST_SECONDS = 0.005
# Threads spin for a while after their last operation, on the cores of the program whose turn is next.
QUIET_SECONDS = 0.02
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=list(TYPES), default="f32")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--serve", action="store_true", help="answer lines of standard input (there is nothing else)")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU")
    return options


class Peer:
    """Operations on one device in one type."""

    def __init__(self, options: argparse.Namespace):
        torch.manual_seed(1)
        torch.set_num_threads(options.threads)
        self.device, self.dtype = torch.device(options.device), TYPES[options.precision]
        if options.device == "cuda":
            torch.backends.cudnn.benchmark = True
            # f32 is f32, as in Squall.
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        self.last: tuple[str, Callable[[], object], int] | None = None

    def field(self, shape: list[int], dtype: torch.dtype | None = None) -> torch.Tensor:
        """Random values of a shape (b, h, w, c), channels_last."""
        b, h, w, c = shape
        x = torch.randn(b, c, h, w, device=self.device, dtype=dtype or self.dtype)
        return x.to(memory_format=torch.channels_last)

    def work(self, case: dict) -> Callable[[], object]:
        """The operation, ready to be run."""
        op, x, y = case["op"], case["x"], case["y"]
        if op in ("convolution", "depthwise"):
            return self.convolution(case)
        if op == "batch_norm":
            gamma = torch.ones(x[3], device=self.device, requires_grad=True)
            beta = torch.zeros(x[3], device=self.device, requires_grad=True)
            return self.differentiated(case, lambda x: F.relu(F.batch_norm(x, None, None, gamma, beta, True, 0.1, 1e-5), inplace=True), [gamma, beta])
        if op == "max_pool":
            return self.differentiated(case, lambda x: F.max_pool2d(x, case["kernel"], case["stride"], case["padding"]))
        if op == "global_average":
            return self.differentiated(case, lambda x: F.adaptive_avg_pool2d(x, 1))
        if op == "resize":
            return self.differentiated(case, lambda x: F.interpolate(x, y[1:3], mode="bilinear"))
        if op == "add":
            a, b = self.field(x), self.field(x)
            return lambda: a + b
        if op == "dropout":
            a = self.field(x)
            return lambda: F.dropout(a, 0.2, True)
        logits = self.field(x, torch.float32)
        if op == "argmax":
            # Masks are wanted in host memory, a byte a pixel.
            on_host = self.device.type == "cpu"
            return lambda: logits.argmax(1) if on_host else logits.argmax(1).to(torch.uint8).cpu()
        if op == "loss":
            labels = torch.randint(0, x[3], x[:3], device=self.device)
            weights = torch.ones(x[3], device=self.device)
            logits.requires_grad_()

            def judged() -> tuple[float, torch.Tensor]:
                loss = F.cross_entropy(logits, labels, weights)
                return loss.item(), torch.autograd.grad(loss, logits)[0]
            return judged
        raise ValueError(f"no such operation: {op}")

    def differentiated(self, case: dict, function: Callable, parameters: list[torch.Tensor] | None = None) -> Callable[[], object]:
        """A function, or its gradient with respect to the field and these parameters."""
        x = self.field(case["x"])
        if case["direction"] == "forward":
            def forward() -> torch.Tensor:
                with torch.no_grad():
                    return function(x)
            return forward
        y, dy = function(x.requires_grad_()), self.field(case["y"])
        return lambda: torch.autograd.grad(y, [x, *(parameters or [])], dy, retain_graph=True)

    def convolution(self, case: dict) -> Callable[[], object]:
        x, dy = self.field(case["x"]), self.field(case["y"])
        groups, (kh, kw) = case["groups"], case["kernel"]
        kernel = torch.randn(case["y"][3], case["x"][3] // groups, kh, kw, device=self.device).to(memory_format=torch.channels_last)
        stride, padding, dilation = [case["stride"]] * 2, list(case["padding"]), [case["dilation"]] * 2
        if case["direction"] == "forward":
            def forward() -> torch.Tensor:
                return torch.ops.aten.convolution(x, kernel.to(self.dtype), None, stride, padding, dilation, False, [0, 0], groups)
            return forward
        wanted = [case["direction"] == "input", case["direction"] == "kernel", False]
        rounded = kernel.to(self.dtype)

        def backward() -> torch.Tensor:
            dx, dkernel, _ = torch.ops.aten.convolution_backward(dy, x, rounded, None, stride, padding, dilation, False, [0, 0], groups, wanted)
            return dx if wanted[0] else dkernel.float()
        return backward

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def timed(self, act: Callable[[], object], times: int) -> float:
        """Seconds of one: on the CPU the median, on a GPU, which must not wait between them, the mean."""
        if self.device.type == "cpu":
            return statistics.median_high([self.once(act) for _ in range(times)])
        self.wait()
        start = time.perf_counter()
        for _ in range(times):
            act()
        self.wait()
        return (time.perf_counter() - start) / times

    def once(self, act: Callable[[], object]) -> float:
        start = time.perf_counter()
        act()
        return time.perf_counter() - start

    def answer(self, line: str) -> dict:
        """The time of the operation of a line; it runs before, too, once or, the first time for this one, five times."""
        if self.last is None or self.last[0] != line:
            self.last = None
            if self.device.type == "cuda":
                # The other program works on the same GPU.
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            act = self.work(json.loads(line))
            self.timed(act, 1)
            # The fastest of three: other work on the machine can make one a hundred times as long.
            once = min(self.timed(act, 1) for _ in range(3))
            times = max(1, min(1000, int(LEAST_SECONDS / once) + 1))
            self.last = (line, act, times)
        _, act, times = self.last
        time.sleep(QUIET_SECONDS)
        self.timed(act, 1)
        seconds = self.timed(act, times)
        if self.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated() / 1e6
        else:
            peak = peak_mb()
        return {"seconds": seconds, "peak_mb": peak, "torch": torch.__version__, "mode": "eager"}


def say(result: dict) -> None:
    print(json.dumps(result), flush=True)


def main() -> None:
    peer = Peer(arguments())
    say({"ready": True, "torch": torch.__version__})
    for line in sys.stdin:
        try:
            say(peer.answer(line.strip()))
        except (ValueError, KeyError, RuntimeError) as error:
            say({"error": str(error)})


if __name__ == "__main__":
    main()
