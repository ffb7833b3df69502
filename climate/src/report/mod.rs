//! One self-contained HTML file of a run.
