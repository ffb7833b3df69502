"""PyTorch's networks, built, compiled and warm before they are timed.

Compiling takes one or two minutes. A peer starts with the script and does that beside the steps that time nothing; then it waits at two pipes, and
`squall bench ... --peer "python peers.py FOLDER NAME"` times it in turn with ours: started so, this file passes questions and answers on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

STEP = Path(__file__).resolve().parent.parent / "peers" / "step.py"
# Batch and network, as `squall bench` would tell them.
COMMON = {"channels_in": 16, "width": 1.0, "latitude_input": False}
NETWORKS = {
    "deepcam": (8, {
        "name": "deepcam", "classes": 3, "blocks": [16], "atrous_rates": [6, 12, 18], "batch_norm_decay": 0.9, "periodic_longitude": False,
    }),
    "deeplabv3plus": (2, {
        "name": "deeplabv3plus", "classes": 3, "blocks": [3, 4, 6, 3], "output_stride": 8, "atrous_rates": [12, 24, 36], "batch_norm": True,
        "batch_norm_decay": 0.97, "periodic_longitude": True, "dropout": 0.0,
    }),
    "detector-2d": (8, {
        "name": "detector-2d", "classes": 4, "blocks": [6], "kernel": 5, "batch_norm_decay": 0.9, "periodic_longitude": True, "box_relu": False,
    }),
}  # fmt: skip


class Peer:
    """A network in PyTorch, which gets warm on its own."""

    def __init__(self, folder: Path, network: str, mode: str, environment: dict[str, str]):
        self.network, self.mode, self.folder, self.name = network, mode, folder, f"{network}-{mode}"
        batch, config = NETWORKS[network]
        self.parameters, self.answers, self.ready = 0, [], threading.Event()
        ends = [folder / f"{self.name}.{end}" for end in ("in", "out")]
        for end in ends:
            end.unlink(missing_ok=True)
            os.mkfifo(end)
        # Open for both: nobody who opens or closes the other end lets a pipe end.
        self.ask, self.answer = (os.open(end, os.O_RDWR) for end in ends)
        options = {"--network": json.dumps(COMMON | config), "--size": "768x1152", "--batch": str(batch), "--precision": "bf16", "--mode": mode}
        words = [sys.executable, str(STEP), "--device", "cuda", "--serve", "--warmup", "1", *(word for pair in options.items() for word in pair)]
        with (folder / f"{self.name}.log").open("w") as log:
            self.child = subprocess.Popen(words, stdin=self.ask, stdout=self.answer, stderr=log, env=environment, start_new_session=True)
        threading.Thread(target=self.warm, daemon=True).start()

    def warm(self) -> None:
        """Has it do each kind of work once."""
        with os.fdopen(os.dup(self.answer), "r") as lines:
            self.parameters = json.loads(lines.readline())["parameters"]
            for work in ("step", "infer"):
                os.write(self.ask, f"{work}\n".encode())
                self.answers.append(lines.readline().strip())
        self.ready.set()

    def command(self) -> str:
        """What `--peer` of `squall bench` takes."""
        return f"{sys.executable} {Path(__file__).resolve()} {self.folder} {self.name}"

    def stop(self) -> None:
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()


def sees_a_gpu(environment: dict[str, str]) -> bool:
    """Whether PyTorch is there with a GPU that has room for it beside ours."""
    asked = "import torch, sys; sys.exit(not torch.cuda.is_available() or torch.cuda.get_device_properties(0).total_memory < 75e9)"
    return subprocess.run([sys.executable, "-c", asked], capture_output=True, env=environment).returncode == 0


def pass_on(folder: str, name: str) -> None:
    """Lines of standard input to a peer that is warm, its answers to standard output."""
    with open(f"{folder}/{name}.in", "w") as ask, open(f"{folder}/{name}.out") as answers:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            print(line, end="", file=ask, flush=True)
            print(answers.readline().strip(), flush=True)


if __name__ == "__main__":
    pass_on(*sys.argv[1:3])
