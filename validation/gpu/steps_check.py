"""Tests of steps that are interrupted or fail in part: wrong results are reported, and the rest still runs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

import check
import steps
from program import Failed, OutOfTime, Step


def squall(answers: list) -> SimpleNamespace:
    """A program that gives these answers in turn, and then is out of time."""
    left = iter(answers)

    def bench(*_, **__):
        answer = next(left, None)
        if answer is None:
            raise OutOfTime("no time left")
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(tiny=False, quick=False, repeat=1, card="", bench=bench)


def ran(act, *answers) -> Step:
    step = Step("name", "about")
    check.attempt(squall(list(answers)), step, act)
    return step


def parity(distance: float) -> dict:
    worst = [{"distance": distance, "bound": 1e-3}] * 3
    return {"rows": [{"subject": "conv1", "what": "dw", "place": "0", "worst": worst}]}


def timed(peak_mb: float) -> list[dict]:
    row = {"ours": 1.0, "flops_per_second": 1.0, "ceiling_percent": 1.0, "peak_mb": peak_mb, "predicted_mb": 100.0}
    return [row | dict.fromkeys(["peer", "peer_mode", "peer_peak_mb", "ratio"])]


def trains(act, folder: Path, losses: dict, seeds: list[int]) -> Step:
    """Runs a step whose trainings have these losses, by default equal ones; a training without losses fails."""

    def train(name, *_):
        if not losses.setdefault(name, [1.0] * 20):
            raise Failed(f"{name} is broken")
        run = folder / name
        run.mkdir(exist_ok=True)
        lines = [{"kind": "step", "loss": loss} for loss in losses[name]] + [{"kind": "validation", "scores": {"mean_iou": losses[name][-1]}}]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / f"{name}.log").write_text("")
        return losses[name]

    def bench(*_, **__):
        return timed(50.0)

    step = Step("name", "about")
    program = {"tiny": False, "quick": False, "repeat": 1, "card": "", "seeds": seeds, "out": folder}
    check.attempt(SimpleNamespace(**program, store=lambda: None, train=train, bench=bench), step, act)
    return step


def goes_on(folder: Path) -> None:
    """A failure inside a step does not prevent its rest."""
    golden = trains(steps.golden, folder, {"golden-cpu": [2.0] * 20, "golden-again": [1.5] * 20, "golden-bf16": []}, [])
    assert golden.status == "failed" and [row["run"] for row in golden.rows] == ["f32 on the GPU", "TF32", "f16"], golden
    for told in ("f32 on the GPU: the losses are off", "other bits", "TF32 changes nothing", "golden-bf16 is broken"):
        assert any(told in said for said in golden.said), (told, golden)
    graphs = trains(steps.graphs, folder, {"graphs-true": [2.0]}, [])
    assert graphs.status == "failed" and len(graphs.rows) == 6 and any("other losses" in said for said in graphs.said), graphs
    # One seed is left for bf16, and f16 shares none with f32.
    learning = trains(steps.learning, folder, {"learn-bf16-1": [], "learn-f32-2": [], "learn-f16-1": [], "learn-f16-3": []}, [1, 2, 3])
    assert learning.status == "failed" and len(learning.rows) == 5, learning
    assert any("IoU of bf16 beside f32, the same seeds: +0.0000" in said for said in learning.said), learning
    assert not any("IoU of f16" in said for said in learning.said), learning


def counts() -> None:
    """GPUs for two ranks: neither MIG instances, nor hidden ones."""
    one = "GPU 0: A100 (UUID: GPU-1)\n  MIG 3g.20gb Device 0: (UUID: MIG-1)\n  MIG 3g.20gb Device 1: (UUID: MIG-2)\n"
    two = "GPU 0: H200 (UUID: GPU-1)\nGPU 1: H200 (UUID: GPU-2)\n"
    for listed, visible, expected in [("", None, 0), (one, None, 1), (two, None, 2), (two, "0,1", 2), (two, "1", 1), (two, "", 0)]:
        assert steps.seen(listed, visible) == expected, (listed, visible)


def names() -> None:
    """The program with its processor, and its GPUs, as `squall --version` has them."""
    processor = "squall 0.1.0, sources 1a, release (training and inference: sources 2b; oneDNN 2.6.3, AVX2, 2 threads"
    version = f"{processor}; GPU 0: NVIDIA H200, 139 GB; GPU 1: NVIDIA H200, 139 GB)\n"
    program = SimpleNamespace(card="", version="", run=lambda *_, **__: version, command=lambda *_: "")
    step = Step("gpu", "about")
    steps.gpu(program, step)
    assert program.card == "NVIDIA H200" and program.version == processor.replace(" (", ", "), program
    assert step.said[-1] == "GPU 0: NVIDIA H200, 139 GB; GPU 1: NVIDIA H200, 139 GB", step
    program.run = lambda *_, **__: f"{processor}; no GPU: NVIDIA's driver sees none)"
    check.attempt(program, step, steps.gpu)
    assert step.status == "failed" and not any("oneDNN" in said for said in step.said), step


def main() -> None:
    counts()
    names()
    with tempfile.TemporaryDirectory() as made:
        goes_on(Path(made))
    # The second network of `extents` is out of time: the first one's miss is reported.
    cut = ran(steps.extents, parity(1.0))
    assert cut.status == "failed" and len(cut.rows) == 1, cut
    assert any("conv1 dw" in said for said in cut.said) and "no time left" in cut.said, cut
    held = ran(steps.extents, parity(1e-4))
    assert (held.status, held.said) == ("out of time", ["no time left"]), held
    whole = ran(steps.extents, parity(1e-4), parity(1e-4))
    assert (whole.status, whole.said) == ("passed", []), whole
    missed = ran(steps.extents, parity(1e-4), parity(1.0))
    assert missed.status == "failed" and len(missed.said) == 1, missed
    # An unexpected answer ends only its step.
    odd = ran(steps.speed, [{**timed(1.0)[0], "ours": 0.0}])
    assert odd.status == "failed" and any("ZeroDivisionError" in said for said in odd.said), odd
    # A case of `speed` fails, another takes too much memory, the third is out of time.
    slow = ran(steps.speed, Failed("broken"), timed(111.0))
    assert slow.status == "failed" and len(slow.rows) == 1, slow
    for told in ("broken", "more memory than was predicted", "no time left"):
        assert any(told in said for said in slow.said), (told, slow)


if __name__ == "__main__":
    main()
    print("what was missed is told, and the rest looked at")
