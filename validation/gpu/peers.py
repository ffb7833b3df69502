"""PyTorch's networks, compiled before they are timed, and tuned with the GPU to themselves.

Compiling takes one or two minutes. A peer starts with the script and compiles during the steps that time nothing. Other work affects tuning: cuDNN's choices
(`cudnn.benchmark`) and those of Triton's kernels would be worse than PyTorch's own. cuDNN's choices last as long as the process, whatever the settings. So
the process that compiled ends, which discards all choices: a second one finds the code on disk and tunes on request, with the GPU to itself. Then it waits
at two pipes, and `squall bench ... --peer "python peers.py FOLDER NAME"` times it alternately with ours: run like this, this file forwards requests and
answers.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

STEP = Path(__file__).resolve().parent.parent / "peers" / "step.py"
WORKS = ("step", "infer")
# Warm-up repetitions of each kind of work: load the code and tune, capture a CUDA graph, and run it.
WARM = 3
# Time limit for importing PyTorch, in seconds.
LONGEST_IMPORT = 60
# Batch and network, as `squall bench` passes them.
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


class Ended(Exception):
    """A process ended, or did not answer in time."""


class Peer:
    """A network in PyTorch."""

    def __init__(self, folder: Path, network: str, mode: str, environment: dict[str, str]):
        self.network, self.mode, self.folder, self.name = network, mode, folder, f"{network}-{mode}"
        self.code = folder / f"{self.name}-compiled"
        # Cache graphs, not only kernels; PyTorch versions without these variables ignore them.
        kept = {"TORCHINDUCTOR_CACHE_DIR": str(self.code), "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_AUTOGRAD_CACHE": "1"}
        self.environment = environment | kept
        self.parameters, self.why_not = 0, ""
        # Set once it is built and waits, or has failed.
        self.settled = threading.Event()
        self.lock, self.stopped = threading.Lock(), False
        self.child: subprocess.Popen | None = None
        self.pipes: list[int] = []
        threading.Thread(target=self.prepare, daemon=True).start()

    def prepare(self) -> None:
        """Compiles in one process, then builds another."""
        try:
            self.begin(f"{self.name}-compile.log", 0)
            for work in WORKS:
                self.ask(work)
            with self.lock:
                self.end()
            # Triton's choices are stored beside the code.
            for choice in self.code.rglob("*.best_config"):
                choice.unlink()
            self.parameters = self.begin(f"{self.name}.log", WARM)["parameters"]
        except Exception as error:  # Any kind: this thread is the only one to report it.
            self.give_up(f"it does not compile: {type(error).__name__}: {error}")
        finally:
            self.settled.set()

    def begin(self, log: str, warm: int) -> dict:
        """Starts a process, and returns its message once its network is built."""
        for end in self.pipes:
            os.close(end)
        self.pipes, self.heard, self.log = [], b"", self.folder / log
        questions, answers = (self.folder / f"{self.name}.{end}" for end in ("in", "out"))
        for pipe in (questions, answers):
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
        # Requests are open for both, so that no other process can end them. Answers end with the process, their only writer.
        self.pipes = [os.open(questions, os.O_RDWR), os.open(answers, os.O_RDONLY | os.O_NONBLOCK)]
        theirs = os.open(answers, os.O_WRONLY)
        batch, config = NETWORKS[self.network]
        options = {"--network": json.dumps(COMMON | config), "--size": "768x1152", "--batch": batch, "--precision": "bf16", "--mode": self.mode}
        words = [sys.executable, STEP, "--device", "cuda", "--serve", "--warmup", warm, *(word for pair in options.items() for word in pair)]
        try:
            with self.lock, self.log.open("w") as errors:
                if self.stopped:
                    raise Ended("it was stopped")
                self.child = subprocess.Popen(
                    list(map(str, words)), stdin=self.pipes[0], stdout=theirs, stderr=errors, env=self.environment, start_new_session=True
                )
        finally:
            os.close(theirs)
        return self.answer(math.inf)

    def ask(self, work: str, until: float = math.inf) -> dict:
        """Requests some work."""
        os.write(self.pipes[0], f"{work}\n".encode())
        return self.answer(until)

    def answer(self, until: float) -> dict:
        """Returns its next answer."""
        while b"\n" not in self.heard:
            # Checked first: an answer from before its end has then arrived.
            ended = self.child.poll() is not None
            if select.select([self.pipes[1]], [], [], 0 if ended else 0.5)[0]:
                part = os.read(self.pipes[1], 1 << 16)
                ended, self.heard = not part, self.heard + part
            elif not ended and time.monotonic() > until:
                raise Ended("it took too long")
            if ended:
                raise Ended(" ".join(["it ended:", *self.log.read_text(errors="replace").strip().splitlines()[-1:]]))
        line, _, self.heard = self.heard.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise Ended(answer["error"])
        return answer

    def tune(self, until: float) -> None:
        """Has it tune, and do each kind of work a few more times; nothing else may use the GPU."""
        try:
            for work in WORKS:
                if not self.why_not:
                    self.ask(work, until)
        except (Ended, OSError, ValueError) as error:
            self.give_up(str(error))

    def command(self) -> str:
        """The command for `--peer` of `squall bench`."""
        return f"{sys.executable} {Path(__file__).resolve()} {self.folder} {self.name}"

    def give_up(self, why_not: str) -> None:
        """Stops it and keeps the first reason: it must not run during timings."""
        self.why_not = self.why_not or why_not
        self.stop()

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            self.end()

    def end(self) -> None:
        if self.child is not None and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()


def sees_a_gpu(environment: dict[str, str]) -> bool:
    """Whether PyTorch is installed with a GPU that has memory for both programs."""
    # Slow from a cold disk; a hang must not use up the time of all steps.
    asked = "import torch, sys; sys.exit(not torch.cuda.is_available() or torch.cuda.get_device_properties(0).total_memory < 75e9)"
    try:
        return subprocess.run([sys.executable, "-c", asked], capture_output=True, env=environment, timeout=LONGEST_IMPORT).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def pass_on(folder: str, name: str) -> None:
    """Forwards lines of standard input to a warm peer, and its answers to standard output."""
    # Opening would block if the process has ended, because nobody writes answers.
    end = os.open(f"{folder}/{name}.out", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(end, True)
    with open(f"{folder}/{name}.in", "w") as ask, os.fdopen(end) as answers:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            print(line, end="", file=ask, flush=True)
            answer = answers.readline()
            if not answer:
                sys.exit(f"{name} has ended")
            print(answer.strip(), flush=True)


if __name__ == "__main__":
    pass_on(*sys.argv[1:3])
