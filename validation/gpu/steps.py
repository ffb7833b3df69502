"""The steps of check.py: each takes the program and fills a `Step`, or raises `Failed`."""

from __future__ import annotations

import contextlib
import filecmp
import json
import re
import shutil
import statistics
import subprocess
import time

from peers import NETWORKS as PEERS
from program import Failed, Program, Step

# Names of `squall bench`; at 16 channels `deeplabv3plus` is the network of the 2018 paper with `deconv1x`.
NETWORKS = ["deepcam", "deeplabv3plus", "detector-2d"]
BATCHES = [1, 2, 8]
# Networks compared with PyTorch besides DeepCAM.
OTHERS = ["deeplabv3plus", "detector-2d"]
# Precisions: with two layers in f32, the default of training, or none, as in PyTorch's autocast.
DEFAULT, ALL_LAYERS = "bf16", "bf16, all layers"
# Step, then (network, batch, work, precision): the aim for its row, and the card that it applies to.
AIMS = [
    ("speed", ("deepcam", 8, "step", DEFAULT), "samples_per_second", 82.0, "H200"),
    ("speed", ("deepcam", 8, "infer", DEFAULT), "samples_per_second", 245.0, "H200"),
    # The figure of 26 November 2026, before bias and ReLU were part of convolutions.
    ("speed", ("deepcam", 8, "infer", ALL_LAYERS), "samples_per_second", 421.0, "H200"),
    ("speed", ("deeplabv3plus", 2, "step", DEFAULT), "percent_of_rate", 45.0, ""),
    ("pytorch", ("deepcam", 8, "step", ALL_LAYERS), "ratio", 1.1, ""),
    ("pytorch", ("deepcam", 8, "infer", ALL_LAYERS), "ratio", 1.1, ""),
]


def gpu(squall: Program, step: Step) -> None:
    """the GPU and libraries that the program finds"""
    if shutil.which("nvidia-smi"):
        query = "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit"
        step.said += squall.command(["nvidia-smi", query, "--format=csv,noheader"], "nvidia-smi", None).splitlines()
    version = " ".join(squall.run("--version", name="version").split())
    # VERSION, BUILD (SOURCES; PROCESSOR; GPUS).
    build, _, told = version.removesuffix(")").partition("; ")
    processor, _, gpus = told.partition("; ")
    squall.version = f"{build.replace(' (', ', ')}; {processor}"
    found = re.search(r"GPU 0: ([^,;]*)", gpus)
    if not found:
        raise Failed(f"no GPU: {gpus or version}")
    squall.card = found[1]
    step.said.append(gpus)


@contextlib.contextmanager
def going_on(step: Step):
    """Records a failure inside, so that the rest of the step still runs."""
    try:
        yield
    except Failed as reason:
        step.broken.append(str(reason))


def operations(squall: Program, step: Step) -> None:
    """operations and small networks against plain loops"""
    networks = ["--network", "deeplabv3plus"] if squall.quick else []
    judged(squall, step, "plain", *networks)


def extents(squall: Program, step: Step) -> None:
    """every convolution of the networks at their real sizes against the CPU"""
    size = "96x144" if squall.tiny else "384x576" if squall.quick else "768x1152"
    # Separately: finished ones are kept if time runs out.
    for network in ["deeplabv3plus"] if squall.tiny else ["deepcam", "deeplabv3plus"]:
        judged(squall, step, "cpu", "--network", network, "--size", size)


def judged(squall: Program, step: Step, judge: str, *words: str) -> None:
    """Adds rows of `bench parity`, and reports those that exceed their bounds."""
    name = "-".join(["parity", judge, *(word for word in words if word in NETWORKS)])
    report = squall.bench("parity", "--judge", judge, *words, name=name, expect=None)
    broken = []
    for row in report["rows"]:
        off = [worst["distance"] for worst in row["worst"]]
        bounds = [worst["bound"] for worst in row["worst"]]
        step.rows.append({"subject": row["subject"], "what": row["what"], "f32": off[0], "bf16": off[1], "f16": off[2]})
        # JSON has null for NaN.
        if any(d is None or b is not None and d > b for d, b in zip(off, bounds)):
            broken.append(f"{row['subject']} {row['what']} ({row['place']})")
    if broken:
        step.broken.append("further off than allowed: " + ", ".join(broken))


def golden(squall: Program, step: Step) -> None:
    """twenty steps in f32 as on the CPU; the same bits twice; TF32 differs; bf16 and f16 near f32"""
    squall.store()
    steps = 4 if squall.tiny else 20
    gpu = squall.train("golden-f32", "cuda", steps, "precision=f32")
    with going_on(step):
        cpu = squall.train("golden-cpu", "cpu", steps, "precision=f32")
        near(step, "f32 on the GPU", gpu, cpu, 0.01, first=5, later=0.1)
    with going_on(step):
        squall.train("golden-again", "cuda", steps, "precision=f32")
        if not filecmp.cmp(squall.out / "golden-f32/metrics.jsonl", squall.out / "golden-again/metrics.jsonl", shallow=False):
            raise Failed("the same run twice gives other bits")
    with going_on(step):
        tf32 = squall.train("golden-tf32", "cuda", steps, 'precision={ compute = "f32", tf32 = true }')
        # On the few pixels of tiny fields normalisation amplifies small differences.
        near(step, "TF32", tf32, gpu, 0.05 if squall.tiny else 0.01, first=5, later=0.1)
        if tf32 == gpu and not squall.tiny:
            raise Failed("TF32 changes nothing: is f32 computed in TF32 too?")
    for precision, within in (("bf16", 0.1 if squall.tiny else 0.05), ("f16", 0.05 if squall.tiny else 0.02)):
        with going_on(step):
            losses = squall.train(f"golden-{precision}", "cuda", steps, f"precision={precision}")
            near(step, precision, losses, gpu, within, first=5, later=0.2)


def near(step: Step, what: str, a: list[float], b: list[float], within: float, *, first: int, later: float) -> None:
    """Checks the first losses against one relative bound, and all against another: different rounding drifts apart."""
    if not a or len(a) != len(b):
        raise Failed(f"{what}: {len(a)} losses, not {len(b)}")
    off = [abs(x - y) / abs(y) for x, y in zip(a, b)]
    head, all_ = max(off[:first]), max(off)
    step.rows.append({"run": what, "steps": len(a), "last loss": a[-1], "beside": b[-1], "first off": head, "most off": all_})
    if not (head <= within and all_ <= later):
        raise Failed(f"{what}: the losses are off by {head:.2g} in the first {first} steps, {all_:.2g} in all")


def graphs(squall: Program, step: Step) -> None:
    """passes launched as CUDA graphs: the same bits as single operations, and the time of a step with both"""
    squall.store()
    with going_on(step):
        losses = [
            squall.train(f"graphs-{on}", "cuda", 6, "precision=bf16", f"training.cuda_graphs={on}")
            for on in ("false", "true")
        ]
        if "no CUDA graphs" in (squall.out / "graphs-true.log").read_text():
            raise Failed("the passes were not launched as graphs: see graphs-true.log")
        if losses[0] != losses[1]:
            raise Failed(f"other losses: {losses[1]} instead of {losses[0]}")
    cases = [("small", 1)] if squall.tiny else [("deepcam", 1), ("deeplabv3plus", 1), ("deepcam", 8)]
    # A failure does not prevent the next measurement.
    for network, batch in cases:
        size = "32x48" if squall.tiny else "768x1152"
        words = ("--network", network, "--size", size, "--batch", batch, "--precision", "bf16", "--repeat", squall.repeat)
        rows = []
        try:
            for more, how in (((), "one by one"), (("--graphs",), "as graphs")):
                name = f"graphs-step-{network}-{batch}{'-graphs' if more else ''}"
                row = squall.bench("step", *words, *more, name=name)[0]
                rows.append(row)
                step.rows.append({"launched": how, **timing(row, network, batch, "step", "bf16")})
        except Failed as reason:
            step.broken.append(f"{network}, batch {batch}: {reason}")
            continue
        if rows[1]["ours"] > rows[0]["ours"] and batch == 1 and not squall.tiny:
            step.broken.append(f"{network}, batch {batch}: graphs are slower than operations one by one")
        if rows[1]["peak_mb"] > 1.1 * rows[0]["peak_mb"] and not squall.tiny:
            step.broken.append(f"{network}, batch {batch}: graphs take {rows[1]['peak_mb']:.0f} MB instead of {rows[0]['peak_mb']:.0f}")


def learning(squall: Program, step: Step) -> None:
    """bf16 and f16 learn as well as f32: validation mean IoU within 0.01, mean over seeds, with its standard error (single runs differ by up to 0.025)"""
    squall.store()
    steps = 4 if squall.tiny else 400 if squall.quick else 1300
    seeds = [1] if squall.tiny else squall.seeds
    reached = {precision: {} for precision in ("f32", "bf16", "f16")}
    for seed in seeds:
        for precision, scores in reached.items():
            with going_on(step):
                name = f"learn-{precision}-{seed}"
                losses = squall.train(name, "cuda", steps, f"precision={precision}", f"seed={seed}", "training.cuda_graphs=true")
                lines = map(json.loads, (squall.out / name / "metrics.jsonl").read_text().splitlines())
                scored = [line["scores"]["mean_iou"] for line in lines if line.get("kind") == "validation"]
                if not scored:
                    raise Failed(f"{precision}: no score in metrics.jsonl")
                scores[seed] = scored[-1]
                step.rows.append({"precision": precision, "seed": seed, "steps": steps, "mean IoU": scored[-1], "last loss": losses[-1]})
    below = []
    for precision in ("bf16", "f16"):
        apart = [half - reached["f32"][seed] for seed, half in reached[precision].items() if seed in reached["f32"]]
        if not apart:
            continue
        mean, error = statistics.mean(apart), statistics.stdev(apart) / len(apart) ** 0.5 if len(apart) > 1 else 0.0
        step.said.append(f"mean IoU of {precision} beside f32, the same seeds: {mean:+.4f} +- {error:.4f} (standard error)")
        # With three seeds the standard error is nearly as large as the bound: `--seeds` takes more.
        if mean < -0.01 and not squall.tiny:
            below.append(precision)
    if below:
        raise Failed(f"mean IoU more than 0.01 below that of f32: {', '.join(below)}")


def inference(squall: Program, step: Step) -> None:
    """masks of the GPU against those of the CPU, f32"""
    squall.store()
    model = squall.out / "golden-f32/best.safetensors"
    if not model.is_file():
        squall.train("golden-f32", "cuda", 4, "precision=f32")
    for device in ("cuda", "cpu"):
        words = ("--model", model, "--out", f"masks-{device}", "--device", device, "--precision", "f32", "-q")
        shutil.rmtree(squall.out / f"masks-{device}", ignore_errors=True)
        squall.run("infer", "run", *words, name=f"infer-{device}")
    scores = json.loads(squall.run("score", "--prediction", "masks-cuda", "--truth", "masks-cpu", "--json", "-q"))
    iou = scores["pixels"]["mean_iou"]
    step.rows.append({"mean IoU": iou})
    if not iou > 0.99:
        raise Failed(f"mean IoU of the two is {iou}")


def memory(squall: Program, step: Step) -> None:
    """a batch that does not fit is refused, and one that fits is suggested"""
    network, size = ("small", "96x144") if squall.tiny else ("deepcam", "768x1152")
    words = ("--network", network, "--size", size, "--precision", "bf16", "--repeat", 1)
    squall.run("bench", "step", *words, "--batch", 300 if not squall.tiny else 3000, "--device", "cuda", name="refused", expect=2)
    told = " ".join((squall.out / "refused.log").read_text().split())
    step.said.append(told)
    fits = re.search(r"--batch (\d+) fits", told)
    if not fits:
        raise Failed("no batch that fits is named")
    if squall.quick:
        return
    row = squall.bench("step", *words, "--batch", fits[1], name="fits")[0]
    step.rows.append(timing(row, network, int(fits[1]), "step", ""))


def speed(squall: Program, step: Step) -> None:
    """samples per second in training and inference, bf16, with the share of the matrix rate measured alongside"""
    networks, batches = (["small", "detect"], [1]) if squall.tiny else (NETWORKS, BATCHES)
    cases = [(network, batch, work, DEFAULT) for batch in reversed(batches) for network in networks for work in ("step", "infer")]
    # The cases compared with PyTorch and earlier figures, right after the same ones by default.
    cases[2:2] = [(networks[0], batches[-1], work, ALL_LAYERS) for work in ("step", "infer")]
    try:
        measure(squall, step, cases, {})
    finally:
        for row in step.rows:
            if row["peak_mb"] > 1.1 * row["predicted_mb"] and not squall.tiny:
                case = f"{row['network']}, batch {row['batch']}, {row['work']}, {row['precision']}"
                step.broken.append(f"{case}: more memory than was predicted")


def pytorch(squall: Program, step: Step) -> None:
    """DeepCAM alternately with PyTorch: the faster of compiled and compiled with CUDA graphs, each tuned with the GPU to itself"""
    alternation(squall, step, "deepcam")


def pytorch_others(squall: Program, step: Step) -> None:
    """the other networks alternately with PyTorch, like DeepCAM"""
    squall.stop_peers()
    squall.start_peers(*OTHERS)
    alternation(squall, step, *OTHERS)


def alternation(squall: Program, step: Step, *networks: str) -> None:
    if not squall.peers:
        step.status = "skipped"
        step.said.append("PyTorch with a GPU of 75 GB is not installed")
        return
    cases, beside = [], {}
    try:
        # Timing takes half a minute per network, and tuning some 20 s per peer.
        tuned = min(squall.ends, squall.deadline) - 30 * len(networks) - 10
        compiled = tuned - 20 * len(squall.peers)
        for peer in squall.peers:
            if not peer.settled.wait(max(compiled - time.monotonic(), 1)):
                peer.give_up("it was not compiled in time")
        ours = {network: json.loads(squall.run("summary", network, "--json"))["parameters"] for network in networks}
        # Compilation is over, and one peer tunes at a time.
        for peer in squall.peers:
            peer.tune(tuned)
        step.said += [f"{peer.name}: {peer.why_not}" for peer in squall.peers if peer.why_not]
        for network in networks:
            peers = [peer for peer in squall.peers if peer.network == network and not peer.why_not]
            if not peers or any(peer.parameters != ours[network] for peer in peers):
                step.said.append(f"{network}: parameters {[peer.parameters for peer in peers]}, not {ours[network]}")
                step.status = "failed"
                for peer in peers:
                    peer.give_up("it is another network")
                continue
            beside[network] = [word for peer in peers for word in ("--peer", peer.command())]
            # Autocast leaves no layer in f32.
            cases += [(network, PEERS[network][0], work, ALL_LAYERS) for work in ("step", "infer")]
        measure(squall, step, cases, beside)
    finally:
        squall.stop_peers()


def measure(squall: Program, step: Step, cases: list[tuple[str, int, str, str]], beside: dict[str, list[str]]) -> None:
    """Adds a row for each case, and its aim; a failure does not prevent the next measurement."""
    size = "32x48" if squall.tiny else "768x1152"
    try:
        for network, batch, work, precision in cases:
            words = ["--network", network, "--size", size, "--batch", batch, "--precision", "bf16", "--repeat", squall.repeat]
            name = f"{step.name}-{work}-{network}-{batch}"
            if precision == ALL_LAYERS:
                words, name = [*words, "--all-layers"], f"{name}-all-layers"
            try:
                row = squall.bench(work, *words, *beside.get(network, []), name=name)[0]
                step.rows.append(timing(row, network, batch, work, precision))
            except Failed as failed:
                step.said.append(f"{network}, batch {batch}, {work}, {precision}: {failed}")
                step.status = "failed"
    finally:
        step.said += aims(squall, step)


def aims(squall: Program, step: Step) -> list[str]:
    """Aims and results; a miss on the card that an aim applies to makes the step a miss."""
    told = []
    for name, case, what, aim, card in AIMS:
        rows = [r for r in step.rows if name == step.name and (r["network"], r["batch"], r["work"], r["precision"]) == case]
        got = rows[0].get(what) if rows else None
        if got is None:
            continue
        reached = got >= aim
        network, batch, work, precision = case
        told.append(f"{network}, batch {batch}, {work}, {precision}: {what} {got:.4g}, aim {aim:g}{f' on one {card}' if card else ''}: "
                    + ("reached" if reached else "missed"))
        if not reached and card in squall.card and step.status != "failed":
            step.status = "missed"
    return told


def optimizers(squall: Program, step: Step) -> None:
    """a step of every optimiser compared with the memory bandwidth"""
    for row in squall.bench("optimizer", "--repeat", squall.repeat, name="optimizer"):
        step.rows.append({"what": row["name"], "ms": 1e3 * row["ours"], "percent of the memory's rate": row["ceiling_percent"]})


def profile(squall: Program, step: Step) -> None:
    """a profile of a step, in profile.log"""
    network, size = ("small", "32x48") if squall.tiny else ("deepcam", "768x1152")
    words = ("--network", network, "--size", size, "--batch", 2, "--precision", "bf16", "--repeat", 1, "--profile")
    squall.run("bench", "step", *words, "--device", "cuda", name="profile")
    lines = (squall.out / "profile.log").read_text().splitlines()
    step.said += [" ".join(line.split()) for line in lines if " x  " in line][:12]


def from_store(squall: Program, step: Step) -> None:
    """DeepCAM trained from a store of 768 x 1152 fields, read, copied and normalised meanwhile: as fast as the step alone"""
    if squall.tiny:
        step.status = "skipped"
        step.said.append("a step of a stand-in takes longer than any copy")
        return
    # Lines of timing.jsonl, of ten seconds each, must cover only steps: no checkpoint after every epoch.
    batch, steps = 8, 400
    squall.store("large", "768x1152", days=4, hours=6, block=1)
    settings = (f"training.batch={batch}", "precision=bf16", 'network={ name = "deepcam" }', f"training.checkpoint_every_steps={steps}")
    squall.train("from-store", "cuda", steps, *settings, store="large")
    lines = list(map(json.loads, (squall.out / "from-store/timing.jsonl").read_text().splitlines()))
    if len(lines) < 2:
        raise Failed("one line of timing.jsonl at most: it took less than ten seconds")
    # The first lines include the choice of engines, and prefetched fields; the last one ends early, at the checkpoint.
    last = lines[-2]
    words = ("--network", "deepcam", "--size", "768x1152", "--batch", batch, "--precision", "bf16", "--repeat", squall.repeat)
    alone = 1 / squall.bench("step", *words, name="from-store-alone")[0]["ours"]
    step.rows.append({
        "samples_per_second": last["samples_per_second"], "the step alone": alone, "waits, percent of a step":
        100 * last["wait_seconds"] / last["step_seconds"],
    })  # fmt: skip
    if last["samples_per_second"] < 0.9 * alone:
        raise Failed(f"{last['samples_per_second']:.1f} samples a second from the store, {alone:.1f} without")


def two_gpus(squall: Program, step: Step) -> None:
    """two GPUs: gradients summed in place by NCCL, against sums on the host"""
    looks = shutil.which("nvidia-smi") and not squall.tiny
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True) if looks else None
    visible = squall.environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None or seen(listed.stdout, visible) < 2 or not shutil.which("mpirun"):
        step.status = "skipped"
        step.said.append("fewer than two GPUs, or no mpirun")
        return
    squall.store()
    for name, algorithm in (("ring", "ring"), ("nccl", "nccl"), ("nccl-again", "nccl")):
        shutil.rmtree(squall.out / name, ignore_errors=True)
        command = ["mpirun", "-n", "2", squall.squall, "train", "--recipe", "small", "--data", "store", "--out", name]
        for setting in ("precision=f32", "training.steps=8", "training.validate_every_steps=8", "distributed.global_batch=4",
                        f"distributed.algorithm={algorithm}"):
            command += ["--set", setting]
        squall.command([*command, "--device", "cuda", "-q"], name)
    losses = []
    for name in ("nccl", "ring"):
        lines = map(json.loads, (squall.out / name / "metrics.jsonl").read_text().splitlines())
        losses.append([line["loss"] for line in lines if line.get("kind") == "step"])
    with going_on(step):
        near(step, "NCCL", *losses, 1e-4, first=8, later=1e-4)
    if not filecmp.cmp(squall.out / "nccl/metrics.jsonl", squall.out / "nccl-again/metrics.jsonl", shallow=False):
        raise Failed("the same run twice gives other bits")


def seen(listed: str, visible: str | None) -> int:
    """Number of GPUs that a process sees: those listed by `nvidia-smi -L`, without their MIG instances, up to the number in CUDA_VISIBLE_DEVICES."""
    count = sum(line.startswith("GPU ") for line in listed.splitlines())
    return count if visible is None else min(count, len([name for name in visible.split(",") if name.strip()]))


def timing(row: dict, network: str, batch: int, work: str, precision: str) -> dict:
    """A row of `squall bench`, in samples per second."""
    return {
        "network": network,
        "batch": batch,
        "work": work,
        "precision": precision,
        "samples_per_second": 1 / row["ours"],
        "tflop_per_second": row["flops_per_second"] / 1e12,
        "percent_of_rate": row["ceiling_percent"],
        "peak_mb": row["peak_mb"],
        "predicted_mb": row["predicted_mb"],
        "pytorch_samples_per_second": 1 / row["peer"] if row["peer"] else None,
        "pytorch_mode": row["peer_mode"],
        "pytorch_peak_mb": row["peer_peak_mb"],
        "ratio": row["ratio"],
    }
