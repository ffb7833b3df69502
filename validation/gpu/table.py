"""The results of check.py as a page of Markdown."""

from __future__ import annotations


def markdown(result: dict) -> str:
    """The contents of `check.json` as a page."""
    lines = [
        f"# {result['card'] or 'No GPU'}, {result['date']}",
        "",
        f"`validation/gpu/check.sh` ({result['extents']} extents) with {result['program'] or 'an unknown program'}.",
        "",
        "| step | what | came out | seconds |",
        "|---|---|---|---:|",
    ]
    for step in result["steps"]:
        lines.append(f"| {step['name']} | {cell(step['about'])} | {step['status']} | {step['seconds']:.1f} |")
    for step in result["steps"]:
        if not step["said"] and not step["rows"]:
            continue
        lines += ["", f"## {step['name']}"]
        if step["said"]:
            lines += ["", *(f"- {said}" for said in step["said"])]
        if step["rows"]:
            lines += ["", *rows(step["rows"])]
    return "\n".join(lines) + "\n"


def rows(all_rows: list[dict]) -> list[str]:
    """A table of the columns that are not empty."""
    columns = [c for c in all_rows[0] if any(row.get(c) not in (None, "") for row in all_rows)]
    numbers = {c for c in columns if any(isinstance(row.get(c), (int, float)) for row in all_rows)}
    lines = [
        "| " + " | ".join(column.replace("_", " ") for column in columns) + " |",
        "|" + "|".join("---:" if column in numbers else "---" for column in columns) + "|",
    ]
    return lines + ["| " + " | ".join(cell(row.get(column)) for column in columns) + " |" for row in all_rows]


def cell(value: object) -> str:
    """A value in a few characters."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value).replace("|", "\\|")
