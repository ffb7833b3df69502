//! From serde's errors to what a person can act on.

/// Line, problem, and the nearest word that would be right.
pub(crate) fn explain(text: &str, error: &toml::de::Error) -> String {
    let reason = explain_without_line(error);
    let Some(span) = error.span() else {
        return reason;
    };
    let line = text[..span.start.min(text.len())].matches('\n').count();
    let shown = text.lines().nth(line).unwrap_or("").trim();
    format!("line {}: {reason}\n  {} | {shown}", line + 1, line + 1)
}

/// As [`explain`], where the text is not the user's.
pub(super) fn explain_without_line(error: &toml::de::Error) -> String {
    let message = error.message().trim();
    let kinds = [
        ("unknown field ", "unknown key"),
        ("unknown variant ", "unknown value"),
    ];
    for (prefix, what) in kinds {
        if let Some((found, known)) = message
            .strip_prefix(prefix)
            .and_then(|rest| rest.split_once(','))
        {
            let found = found.trim().trim_matches('`');
            let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
            let hint = nearest(found, &known)
                .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return format!("{what} `{found}`{hint} (known: {})", known.join(", "));
        }
    }
    message.to_string()
}

/// The word that takes the fewest changes, if those are few for its length.
fn nearest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    let found = found.to_lowercase();
    let distance = |word: &str| edits(&found, &word.to_lowercase());
    let best = known.iter().min_by_key(|word| distance(word))?;
    (distance(best) <= found.len().max(best.len()).div_ceil(2)).then_some(*best)
}

/// Levenshtein's distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("optimizer", "optimiser"), 1);
        let known = ["training", "schedule", "seed"];
        assert_eq!(nearest("shedule", &known), Some("schedule"));
        assert_eq!(nearest("Seed", &known), Some("seed"));
        assert_eq!(nearest("zzzzzzzz", &known), None);
    }
}
