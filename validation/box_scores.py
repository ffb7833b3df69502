#!/usr/bin/env python3
"""Boxes of the small detectors on an unseen run, over the seeds of validation/boxes.sh.

    python3 validation/box_scores.py OUT DOCS

Reads OUT/RECIPE-STEPS-SEED.json; writes DOCS/box_scores.md. Standard library only.
"""

import json
import re
import sys
from pathlib import Path

from loss_curves import words

CLASSES = ["tropical_cyclone", "extratropical_cyclone", "atmospheric_river", "tropical_depression"]
RECIPES = ["detect", "detect-dense", "masks-and-boxes"]


def boxes(path):
    scores = json.loads(path.read_text())
    return scores.get("boxes", scores)


def of_class(scores, part, label):
    return next((row for row in scores[part]["classes"] if row["class"] == label), None)


def read(out):
    """Scores of every seed by recipe, and the common number of steps."""
    found, lengths = {}, set()
    for path in sorted(out.glob("*.json")):
        if m := re.fullmatch(r"(.+)-(\d+)-(\d+)\.json", path.name):
            found.setdefault(m[1], []).append(path)
            lengths.add(m[2])
    if len(lengths) != 1:
        sys.exit(f"{out}: expected trainings of one length, found {sorted(lengths) or 'none'}")
    place = lambda recipe: RECIPES.index(recipe) if recipe in RECIPES else len(RECIPES)
    return {recipe: found[recipe] for recipe in sorted(found, key=place)}, lengths.pop()


def page(found, steps):
    seeds = max(len(paths) for paths in found.values())
    names = [label.replace("_", " ") for label in CLASSES]
    lines = [
        "# Boxes of an unseen run",
        "",
        f"Thin detectors, trained for {steps} steps on 600 times of a synthetic run of 192x288 cells, and scored on 160 times of another run: means over seeds with 95 % intervals.",
        f"`validation/boxes.sh OUT {steps} {seeds} && python3 validation/box_scores.py OUT docs`; `squall score` gives intervals for each seed.",
        "",
        "Average precision; COCO's is the mean over overlaps of 0.5 to 0.95:",
        "",
        f"| recipe | overlap | mean | {' | '.join(names)} | seeds |",
        "|---|---|---|" + "---|" * (len(names) + 1),
    ]
    for recipe, paths in found.items():
        all_scores = [boxes(path) for path in paths]
        for key, what in [("at_10", "0.1"), ("at_50", "0.5"), ("coco", "COCO")]:
            cells = [words([scores["mean"][key] for scores in all_scores])]
            for label in CLASSES:
                rows = [next(row for row in scores["classes"] if row["class"] == label) for scores in all_scores]
                cells.append(words([row[key] if key == "coco" else row[key]["average_precision"] for row in rows]))
            lines.append("| " + " | ".join([recipe, what] + cells + [str(len(paths))]) + " |")
    lines += [
        "",
        "POD / FAR by time and by track, of boxes that `squall score` counts as events (`--min-confidence`):",
        "",
        f"| recipe | counted | {' | '.join(names)} |",
        "|---|---|" + "---|" * len(names),
    ]
    for recipe, paths in found.items():
        all_scores = [boxes(path) for path in paths]
        for part, what in [("events", "times"), ("tracks", "tracks")]:
            cells = []
            for label in CLASSES:
                rows = [row for scores in all_scores if (row := of_class(scores, part, label))]
                values = [[row[key] for row in rows if row[key] is not None] for key in ("pod", "far")]
                cells.append(" / ".join(words(those, 2) if those else "-" for those in values))
            lines.append("| " + " | ".join([recipe, what] + cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    out, docs = Path(sys.argv[1]), Path(sys.argv[2])
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "box_scores.md").write_text(page(*read(out)))
    print(docs / "box_scores.md")


if __name__ == "__main__":
    main()
