//! The rules behind the results on a page.

use super::masks::Masks;
use crate::made_by;
use squall_climate::compare::Coverage;
use squall_climate::report::Provenance;
use squall_data::Class;
use squall_data::mask_file::About;
use std::path::Path;

/// The rules or network that made the masks, and those that selected events and tracks, as far as the files say.
pub(super) fn provenance_of(masks: &Masks) -> Vec<Provenance> {
    let first = masks.archive.paths().next();
    let title = first.and_then(|path| About::read(path).ok()?.attributes.remove("title"));
    let of_masks = lines(made_by::numbers(masks.archive.made_by()));
    let all = [
        ("rules of masks", title, of_masks),
        ("rules of events and tracks", None, of_events(&masks.tables)),
    ];
    let provenance =
        |(what, title, numbers)| provenance(format!("{what}: {}", masks.label), title, numbers);
    all.into_iter().filter_map(provenance).collect()
}

/// Provenance with these numbers; `None` without numbers, because a title alone proves nothing.
fn provenance(name: String, title: Option<String>, numbers: Vec<String>) -> Option<Provenance> {
    let said = Provenance::new(name, title.unwrap_or_default());
    (!numbers.is_empty()).then_some(Provenance { numbers, ..said })
}

/// The rules recorded in the statistics of a folder, without those of the masks themselves and of classes that masks
/// lack.
fn of_events(folder: &str) -> Vec<String> {
    let folder = Path::new(folder);
    if !folder.join("statistics.nc").is_file() {
        return Vec::new();
    }
    let rules = Coverage::read(folder, None).map(|found| found.rules);
    let mut others = vec!["masks"];
    let boxed = Class::TRACKED
        .iter()
        .filter(|class| !Class::EVENTS.contains(class));
    others.extend(boxed.map(|class| class.name()));
    let is_of_another = |name: &str| {
        name.split_once('.')
            .is_some_and(|(of, _)| others.contains(&of))
    };
    let rules = rules.unwrap_or_default().into_iter();
    lines(rules.filter(|(name, _)| !is_of_another(name)))
}

fn lines(numbers: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let numbers = numbers.into_iter();
    numbers
        .map(|(name, value)| format!("{name} = {value}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_a_rule_only_of_masks_that_tell_their_rules() {
        let provenance = |numbers: &[&str]| {
            let numbers = numbers.iter().map(ToString::to_string).collect();
            provenance("rules".into(), Some("rivers by some rules".into()), numbers)
        };
        let said = provenance(&["a = 1"]).unwrap();
        assert_eq!(said.value, "rivers by some rules");
        assert_eq!(said.numbers, ["a = 1"]);
        assert!(provenance(&[]).is_none());
    }
}
