#!/usr/bin/env python3
"""Loss curves of a training on 1, 2 and 4 ranks on one plot, from the runs of validation/scaling.sh.

    python3 validation/rank_curves.py OUT PICTURE.svg

Reads OUT/ranks{1,2,4}/metrics.jsonl. Standard library only.
"""

import json
import math
import sys
from pathlib import Path

RUNS = {1: ("#1f6feb", 4.0), 2: ("#d1570a", 2.0), 4: ("#111", 0.8)}
LEFT, TOP, WIDTH, HEIGHT = 60, 40, 640, 280


def losses(folder):
    """Loss by step, and by step of validations."""
    training, validation = {}, {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == "step" and row["loss"] is not None:
            training[row["step"]] = row["loss"]
        elif row["kind"] == "validation":
            validation[row["step"]] = row["scores"]["loss"]
    return training, validation


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    out, picture = Path(sys.argv[1]), Path(sys.argv[2])
    runs = {ranks: losses(out / f"ranks{ranks}") for ranks in RUNS}
    values = [v for pair in runs.values() for points in pair for v in points.values()]
    last = max(s for pair in runs.values() for points in pair for s in points)
    # Decades of the loss, whole ones at the edges.
    low, high = math.floor(math.log10(min(values)) * 4) / 4, math.ceil(math.log10(max(values)) * 4) / 4
    x = lambda s: LEFT + WIDTH * s / last
    y = lambda v: TOP + HEIGHT * (high - math.log10(v)) / (high - low)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="730" height="380" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="730" height="380" fill="#fff"/>')
    parts.append(f'<text x="{LEFT}" y="24" font-weight="bold">Loss by step, a global batch of 4 on 1, 2 and 4 ranks (points: validation)</text>')
    parts.append(f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>')
    for k in range(-16, 17):
        for digit in (1, 2, 5):
            v = digit * 10.0**k
            if low <= math.log10(v) <= high:
                parts.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>')
                parts.append(f'<text x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g}</text>')
    for k in range(5):
        s = round(last * k / 4)
        parts.append(f'<text x="{x(s):.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{s}</text>')
    for k, (ranks, (colour, wide)) in enumerate(RUNS.items()):
        training, validation = runs[ranks]
        line = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in sorted(training.items()))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{wide}"/>')
        for s, v in validation.items():
            parts.append(f'<circle cx="{x(s):.1f}" cy="{y(v):.1f}" r="{4 + wide / 2}" fill="none" stroke="{colour}" stroke-width="{wide}"/>')
        at = LEFT + 130 * k
        parts.append(f'<line x1="{at}" x2="{at + 24}" y1="360" y2="360" stroke="{colour}" stroke-width="{wide}"/>')
        parts.append(f'<text x="{at + 30}" y="364">{ranks} rank{"s" if ranks > 1 else ""}</text>')
    picture.write_text("\n".join(parts + ["</svg>"]) + "\n")
    print(picture)


if __name__ == "__main__":
    main()
