//! By which rules what a page shows was found.

use super::inputs::Masks;
use crate::made_by;
use squall_climate::compare::Coverage;
use squall_data::Class;
use squall_data::mask_file::About;
use std::path::Path;

/// By which rules or network masks were made, and events and tracks chosen, as far as their files say it.
pub(super) fn of(masks: &Masks) -> Vec<(&'static str, String)> {
    let first = masks.archive.paths().next();
    let title = first.and_then(|path| About::read(path).ok()?.attributes.remove("title"));
    let all = [
        ("rules of masks", of_masks(title, masks.archive.made_by())),
        ("rules of events and tracks", of_events(&masks.tables)),
    ];
    let told = all.into_iter().filter(|(_, lines)| !lines.is_empty());
    told.map(|(what, lines)| (what, lines.join("\n"))).collect()
}

/// Those of masks that tell theirs. The title of others may say anything.
fn of_masks(title: Option<String>, made_by: &[(&str, String)]) -> Vec<String> {
    let numbers = lines(made_by::numbers(made_by));
    let title = title.filter(|title| !title.is_empty() && !numbers.is_empty());
    title.into_iter().chain(numbers).collect()
}

/// Those of the statistics in a folder, without the masks' own and those of classes that masks do not have.
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
        let title = || Some("rivers by some rules".to_string());
        let told = of_masks(title(), &[("thresholds", r#"{"a": 1}"#.to_string())]);
        assert_eq!(told, ["rivers by some rules", "a = 1"]);
        assert!(of_masks(title(), &[]).is_empty());
    }
}
