//! What a page says of its fields: what concerns its numbers among the cautions, the rest beside the data.

use super::masks::Masks;
use squall_climate::report::{Provenance, ReportInput};
use squall_data::{Archive, Variable};

/// The channels of maps, and those of winds, pressures, water and rain in tables of events.
pub(super) const SHOWN: [Variable; 7] = [
    Variable::Tmq,
    Variable::U850,
    Variable::V850,
    Variable::Ubot,
    Variable::Vbot,
    Variable::Psl,
    Variable::Prect,
];

/// Adds the files of the fields and how they were read to the page: remarks on channels that the page or its masks are
/// of, and provenance for the others.
pub(super) fn say(fields: &Archive, masks: &[Masks], page: &mut ReportInput) {
    let (first, _) = fields.source_of(0);
    let files = crate::plan::counted(fields.file_count(), "file");
    page.provenance.push(Provenance::new(
        "fields",
        format!("{files}, first {}", first.display()),
    ));
    let mut used = SHOWN.to_vec();
    used.extend(masks.iter().flat_map(Masks::channels));
    let of_used = fields.problems_of(&used);
    let others = fields.problems().iter();
    let others: Vec<String> = others
        .filter(|told| !of_used.contains(told))
        .cloned()
        .collect();
    page.remarks.extend(without_details(of_used));
    if !others.is_empty() {
        page.provenance.push(Provenance {
            numbers: others,
            ..Provenance::new("fields, channels without use here", "")
        });
    }
}

/// Leaves out of how many files something is true, and says of both components of the wind what is true of both.
fn without_details(told: Vec<String>) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for text in &told {
        let words = match text.rsplit_once(" (") {
            Some((words, count)) if count.ends_with(" files)") => words,
            _ => text.as_str(),
        };
        let both = said.last().and_then(|before| of_both(before, words));
        match both {
            Some(both) => {
                said.pop();
                said.push(both);
            }
            None => said.push(words.to_string()),
        }
    }
    said
}

/// One sentence for both components of the wind near the ground, if they stand in for the same reason.
fn of_both(eastward: &str, northward: &str) -> Option<String> {
    let read = |text: &str, channel: Variable| -> Option<(String, String)> {
        let rest = text.strip_prefix(&format!("{channel} is read from "))?;
        let (name, reason) = rest.split_once(": ")?;
        Some((name.to_string(), reason.to_string()))
    };
    let (u, of_u) = read(eastward, Variable::Ubot)?;
    let (v, of_v) = read(northward, Variable::Vbot)?;
    (of_u == of_v).then(|| {
        format!(
            "{} and {} are read from {u} and {v}: {of_u}",
            Variable::Ubot,
            Variable::Vbot
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_components_of_the_wind_have_one_sentence() {
        let told =
            |texts: &[&str]| without_details(texts.iter().map(ToString::to_string).collect());
        let wind = "10 m wind instead of the lowest model level";
        let [u, v] = [("UBOT", "u10"), ("VBOT", "v10")].map(|(channel, name)| {
            format!("{channel} is read from `{name}`: {wind} (3 of 18 files)")
        });
        let said = told(&["PSL is missing at 3 times", u.as_str(), v.as_str()]);
        let both = format!("UBOT and VBOT are read from `u10` and `v10`: {wind}");
        assert_eq!(said, ["PSL is missing at 3 times", both.as_str()]);
        // For two reasons there are two sentences.
        let apart = ["UBOT is read from `u`: this", "VBOT is read from `v`: that"];
        assert_eq!(told(&apart), apart);
    }
}
