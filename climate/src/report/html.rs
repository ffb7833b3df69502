//! HTML text: escaping, and tables.

use std::fmt::Write as _;

/// Escapes the five special characters of HTML and drops control characters.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Replaces spaces before percent signs and around the operators of p-values by non-breaking ones.
pub(crate) fn unbroken(sentence: &str) -> String {
    let sentence = sentence.replace(" %", "\u{a0}%");
    let sentence = sentence.replace("p = ", "p\u{a0}=\u{a0}");
    sentence.replace("p < ", "p\u{a0}<\u{a0}")
}

/// Text as HTML, with code between backticks.
pub(crate) fn marked(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // With an odd number of backticks, they are literal.
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let html = |(at, part): (usize, &&str)| match at % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    parts.iter().enumerate().map(html).collect()
}

/// JSON that is safe inside a `script` element: `<`, `>` and `&` are escaped in JSON strings.
pub(crate) fn script_json(value: &serde_json::Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Paragraphs of plain text, separated by blank lines.
pub(crate) fn paragraphs(text: &str) -> String {
    text.split("\n\n")
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .fold(String::new(), |mut out, part| {
            let _ = writeln!(out, "<p>{}</p>", escape(part));
            out
        })
}

/// A table. Headings are plain text; on narrow screens every cell shows its heading.
pub(crate) struct Table<'a> {
    /// Shown above, and read by screen readers.
    pub caption: &'a str,
    /// Heading and whether the column holds numbers.
    pub columns: &'a [(&'a str, bool)],
    /// One `Vec` of cells per row, already HTML.
    pub rows: &'a [Vec<String>],
}

impl Table<'_> {
    /// The table as HTML.
    pub(crate) fn html(&self) -> String {
        let mut out = format!(
            "<table class=\"cards\"><caption>{}</caption><thead><tr>",
            escape(self.caption)
        );
        for (heading, number) in self.columns {
            let class = if *number { " class=\"n\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(heading));
        }
        out.push_str("</tr></thead><tbody>\n");
        for row in self.rows {
            out.push_str("<tr>");
            for (k, (cell, (heading, number))) in row.iter().zip(self.columns).enumerate() {
                let class = if *number { " class=\"n\"" } else { "" };
                let heading = escape(heading);
                let _ = if k == 0 {
                    write!(
                        out,
                        "<th scope=\"row\"{class} data-label=\"{heading}\">{cell}</th>"
                    )
                } else {
                    write!(out, "<td{class} data-label=\"{heading}\">{cell}</td>")
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let evil = "<script>alert('x')</script> & \"quoted\"\u{7}";
        assert_eq!(
            escape(evil),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;quoted&quot;"
        );
        let json = script_json(&serde_json::json!({ "t": "</script><!--" }));
        assert!(!json.contains('<') && !json.contains('>'), "{json}");
        let back: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(back["t"], "</script><!--");
        assert_eq!(paragraphs("a\n\n\n<b>"), "<p>a</p>\n<p>&lt;b&gt;</p>\n");
    }

    #[test]
    fn names_between_backticks_are_code() {
        assert_eq!(
            marked("UBOT is read from `U<10>`: 10 m"),
            "UBOT is read from <code>U&lt;10&gt;</code>: 10 m"
        );
        assert_eq!(marked("`a` and `b`"), "<code>a</code> and <code>b</code>");
        assert_eq!(marked("a model`s own"), "a model`s own");
        assert_eq!(marked("none"), "none");
    }

    #[test]
    fn numbers_stay_with_their_signs() {
        assert_eq!(
            unbroken("rises by 114 % (95 % interval +90 to +142 %, p < 0.001)"),
            "rises by 114\u{a0}% (95\u{a0}% interval +90 to +142\u{a0}%, p\u{a0}<\u{a0}0.001)"
        );
        assert_eq!(unbroken("p = 0.22"), "p\u{a0}=\u{a0}0.22");
    }

    #[test]
    fn cells_carry_their_headings() {
        let table = Table {
            caption: "x",
            columns: &[("name", false), ("size", true)],
            rows: &[vec!["a".into(), "1".into()]],
        };
        let html = table.html();
        assert!(
            html.contains("<td class=\"n\" data-label=\"size\">1</td>"),
            "{html}"
        );
    }
}
