#!/usr/bin/env python3
"""Few labels, with and without unlabelled fields, from the runs of validation/semi_supervised.sh.

    python3 validation/loss_curves.py DOCS OUT...

Reads OUT/WAY-STEPS-SEED/metrics.jsonl and OUT/WAY-STEPS-SEED.json; writes DOCS/semi_supervised.md, a table for every OUT, and for each a
DOCS/semi_supervised_GRID.svg, the loss and the mean average precision on the validation samples during training. Standard library only.
"""

import json
import math
import re
import sys
from pathlib import Path

COLOURS = ["#1f6feb", "#8a8a8a", "#d1570a", "#2b8a3e", "#862e9c"]
# Two-sided 95 % points of Student's t by degrees of freedom.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]
NAMES = {"supervised": "supervised", "longer": "supervised, twice as long", "self-training": "self-training"}


def name(way):
    return NAMES.get(way) or f"reconstruction, λ {way.removeprefix('lambda')}"


def ways(out):
    """All ways, supervised first, and their numbers of steps."""
    found = {m.group(1, 2) for path in out.glob("*.json") if (m := re.fullmatch(r"(.+)-(\d+)-\d+\.json", path.name))}
    order = list(NAMES)
    place = lambda way: (order.index(way) if way in NAMES else len(order), float(re.sub(r"[^0-9.]", "", way) or 0))
    if len({steps for _, steps in found}) > 1:
        sys.exit(f"{out}: trainings of several lengths: {sorted(steps for _, steps in found)}")
    return sorted((way for way, _ in found), key=place), next((steps for _, steps in found), "0")


def curves(out, way, steps):
    """By seed: step -> (loss, mAP as the mean over overlaps of 0.1 and 0.5), and mAP on the unseen run."""
    found = {}
    for scores in sorted(out.glob(f"{way}-{steps}-*.json")):
        points = {}
        for line in (scores.with_suffix("") / "metrics.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["kind"] == "validation":
                s = row["scores"]
                points[row["step"]] = (s["loss"], (s["mean_ap_10"] + s["mean_ap_50"]) / 2)
        mean = json.loads(scores.read_text())["mean"]
        found[int(scores.stem.rsplit("-", 1)[1])] = (points, (mean["at_10"], mean["at_50"]))
    return found


def interval(values):
    """Mean and half the width of its 95 % interval; no width for one value."""
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, math.nan
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1))
    return mean, STUDENT[min(n - 2, len(STUDENT) - 1)] * spread / math.sqrt(n)


def words(values, digits=3, sign=""):
    mean, half = interval(values)
    text = f"{mean:{sign}.{digits}f}"
    return text if math.isnan(half) else f"{text} ± {half:.{digits}f}"


def panel(runs, which, left, title):
    """One plot: every seed thin, the mean thick."""
    width, height, top = 330, 220, 40
    values = [p[which] for found in runs.values() for points, _ in found.values() for p in points.values()]
    steps = sorted({s for found in runs.values() for points, _ in found.values() for s in points})
    low, high = min(values), max(values)
    pad = (high - low or 1.0) * 0.05
    low, high = (0.0 if which == 1 else low - pad), high + pad
    x = lambda s: left + width * (s - steps[0]) / max(steps[-1] - steps[0], 1)
    y = lambda v: top + height * (1 - (v - low) / (high - low))
    parts = [f'<text x="{left}" y="{top - 14}" font-weight="bold">{title}</text>']
    parts.append(f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#888"/>')
    for k in range(5):
        v = low + (high - low) * k / 4
        parts.append(f'<text x="{left - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.2f}</text>')
    for s in steps[:: max(1, len(steps) // 5)]:
        parts.append(f'<text x="{x(s):.1f}" y="{top + height + 16}" text-anchor="middle">{s}</text>')
    for colour, found in zip(COLOURS, runs.values()):
        line = lambda pts: " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in pts)
        for points, _ in found.values():
            pts = [(s, points[s][which]) for s in sorted(points)]
            parts.append(f'<polyline points="{line(pts)}" fill="none" stroke="{colour}" stroke-width="1" opacity="0.35"/>')
        pts = []
        for s in steps:
            here = [points[s][which] for points, _ in found.values() if s in points]
            if here:
                pts.append((s, sum(here) / len(here)))
        parts.append(f'<polyline points="{line(pts)}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
    return parts


def plot(runs):
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="820" height="335" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="820" height="335" fill="#fff"/>')
    parts += panel(runs, 0, 60, "loss of boxes on validation samples, by step")
    parts += panel(runs, 1, 460, "mAP on validation samples, by step")
    for k, (way, colour) in enumerate(zip(runs, COLOURS)):
        x, y = 60 + 240 * (k % 3), 300 + 20 * (k // 3)
        parts.append(f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{x + 30}" y="{y + 4}">{name(way)}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


INTRODUCTION = """# Boxes from a tenth of the labels

The `detect` recipe on synthetic runs, using the boxes of a tenth of the samples, a different tenth for every seed, and four labelled samples
per step in every way. Self-training: the supervised network finds boxes in the other fields, and a second one is trained on both
(arXiv:2005.04757). Reconstruction: the other fields contribute by their reconstruction, weighted by λ (arXiv:1612.02095). Scores are of the
best model of each training on an unseen run: means and their 95 % intervals over the number of seeds in the last column; differences are
seed by seed.
"""


def table(runs, settings, command):
    steps, grid = settings
    lines = [
        "",
        f"## {grid} cells, {steps} steps",
        "",
        f"By `{command}`.",
        "",
        f"![Loss and mAP on validation samples](semi_supervised_{grid}.svg)",
        "",
        "| way | mAP at an overlap of 0.1 | its difference to supervised | mAP at 0.5 | its difference | seeds |",
        "|---|---|---|---|---|---|",
    ]
    first = next(iter(runs))
    for way, found in runs.items():
        cells = [name(way)]
        for at in (0, 1):
            shared = [seed for seed in found if seed in runs[first]]
            apart = [found[seed][1][at] - runs[first][seed][1][at] for seed in shared] if way != first else []
            cells += [words([found[seed][1][at] for seed in found]), words(apart, sign="+") if apart else ""]
        lines.append("| " + " | ".join(cells + [str(len(found))]) + " |")
    return "\n".join(lines) + "\n"


def section(out, docs):
    """The table of one folder, with its plot."""
    tried, steps = ways(out)
    runs = {way: curves(out, way, steps) for way in tried}
    if len(runs) < 2 or not set.intersection(*(set(found) for found in runs.values())):
        sys.exit(f"{out}: no seed was trained in two ways: run validation/semi_supervised.sh first")
    store = json.loads((out / "store" / "store.json").read_text())
    grid = f"{len(store['lat_deg'])}x{len(store['lon_deg'])}"
    (docs / f"semi_supervised_{grid}.svg").write_text(plot(runs))
    seeds = max(len(found) for found in runs.values())
    command = f'validation/semi_supervised.sh OUT {seeds} {steps} "{" ".join(runs)}" {grid} && python3 validation/loss_curves.py docs OUT'
    return table(runs, (steps, grid), command)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    docs = Path(sys.argv[1])
    docs.mkdir(parents=True, exist_ok=True)
    sections = [section(Path(out), docs) for out in sys.argv[2:]]
    (docs / "semi_supervised.md").write_text(INTRODUCTION + "".join(sections))
    print(docs / "semi_supervised.md")


if __name__ == "__main__":
    main()
