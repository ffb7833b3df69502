//! Quoting for shell scripts.

/// Quotes a word, if needed, so that the shell takes it literally.
pub(super) fn quote(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "._-/=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_string();
    }
    escaped(word, &['"', '\\', '`', '$'])
}

/// Quotes a word so that the shell expands variables but does not split it.
pub(super) fn quote_with_variables(word: &str) -> String {
    escaped(word, &['"', '\\', '`'])
}

fn escaped(word: &str, special: &[char]) -> String {
    let mut text = String::from("\"");
    for c in word.chars() {
        if special.contains(&c) {
            text.push('\\');
        }
        text.push(c);
    }
    text + "\""
}

/// Replaces all characters of a name that may need quoting by `_`.
pub(super) fn plain_letters(name: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "._-".contains(c) => c,
        _ => '_',
    };
    name.chars().map(plain).collect()
}

/// A shell array of quoted words; the words of a line belong together.
pub(super) fn array(name: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
    format!("{name}=(\n{lines})\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_reads_back_what_was_quoted() {
        for word in [
            "plain",
            "",
            "two words",
            "it's",
            "$HOME",
            "a\"b`c\\d",
            "~",
            "*",
            "é",
        ] {
            let command = format!("printf %s {}", quote(word));
            let output = std::process::Command::new("bash")
                .args(["-c", &command])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }

    #[test]
    fn variables_are_replaced_and_nothing_is_split() {
        let command = format!(
            "A='x  y'; printf %s {}",
            quote_with_variables("/$A/\"q\"/{node}")
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &command])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "/x  y/\"q\"/{node}"
        );
    }

    #[test]
    fn names_of_folders_are_made_plain() {
        assert_eq!(plain_letters("a store's $1"), "a_store_s__1");
    }
}
