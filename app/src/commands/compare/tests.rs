use super::*;
use crate::arguments::parsed;
use crate::failure::classify;

/// What sides are called, or why they are not.
fn labels(more: &[&str]) -> Result<[String; 2], String> {
    labels_of("present/events", more)
}

fn labels_of(a: &str, more: &[&str]) -> Result<[String; 2], String> {
    let words = [a, "--out", "changes"];
    let call: Compare = parsed(words.iter().chain(more)).unwrap();
    let sides = call.inputs([vec![], vec![]]);
    let sides = sides.map_err(|error| error.to_string())?;
    Ok(sides.map(|side| side.label))
}

#[test]
fn both_sides_have_names_of_their_own() {
    let names =
        |a: &str, b: &str| -> Result<[String; 2], String> { Ok([a.to_string(), b.to_string()]) };
    let [same, other] = ["warmer/events", "warmer/masks"];
    assert_eq!(labels(&[other]), names("events", "masks"));
    let letters = names("A (present/events)", "B (warmer/events)");
    assert_eq!(labels(&[same]), letters);
    let years = |b| ["--years-a", "1-5", "--years-b", b, same];
    assert_eq!(labels(&years("6-9")), names("1-5", "6-9"));
    assert_eq!(labels(&years("1-5")), letters);
    // Of patterns the folder that holds all members, of lists their own names.
    let ensembles = labels_of("runs/present/m*/events", &["runs/warmer/m*/events"]);
    assert_eq!(ensembles, names("present", "warmer"));
    let [one, two] = ["runs/hist-*", "runs/ssp-[0-9]/events"];
    let letters = names("A (runs/hist-*)", "B (runs/ssp-[0-9]/events)");
    assert_eq!(labels_of(one, &[two]), letters);
    assert_eq!(labels_of("m*", &["warmer"]), names("m*", "warmer"));
    let folder = tempfile::tempdir().unwrap();
    let lists = ["present.txt", "warmer.txt"].map(|name| folder.path().join(name));
    lists
        .iter()
        .for_each(|list| std::fs::write(list, "").unwrap());
    let [one, two] = lists.each_ref().map(|list| list.to_str().unwrap());
    assert_eq!(labels_of(one, &[two]), names("present", "warmer"));
    for one in [
        &[same, "--label-a", "x", "--label-b", "x"][..],
        &[other, "--label-b", "events"],
    ] {
        let said = labels(one).unwrap_err();
        assert!(said.contains("both sides are called"), "{said}");
    }
}

#[test]
fn twice_the_years_take_twice_the_time() {
    let (thirty, sixty) = (seconds(0, 10_000, 60), seconds(0, 10_000, 120));
    assert!((sixty - 2.0 * thirty).abs() < 1e-9, "{thirty} {sixty}");
    // As it was for the usual thirty years on each side.
    assert!((4.0..6.0).contains(&thirty), "{thirty}");
}

#[test]
fn the_command_on_the_page_makes_the_same_page() {
    let words = [
        "ibtracs",
        "my model",
        "--out",
        "changes",
        "--label-b",
        "a model's",
        "--calendar",
        "365_day",
        "--year-start",
        "7",
        "--title",
        "Two seasons",
    ];
    let call: Compare = parsed(words).unwrap();
    let command = call.command();
    for part in [
        "--calendar noleap",
        "--year-start 7",
        "--title 'Two seasons'",
        "squall compare ibtracs 'my model' --label-b 'a model'\\''s' ",
    ] {
        assert!(command.contains(part), "{command}");
    }
}

#[test]
fn the_command_on_the_page_names_members_and_units() {
    let words = ["present/m*/events", "list of runs.txt", "--out", "changes"];
    let unit = |unit: &[&str]| -> String {
        let call: Compare = parsed(words.iter().chain(unit)).unwrap();
        call.command()
    };
    let command = unit(&["--unit", "pair"]);
    let inputs = "squall compare 'present/m*/events' 'list of runs.txt' ";
    assert!(command.starts_with(inputs), "{command}");
    assert!(
        command.contains("--year-start 1 --unit pair --conf"),
        "{command}"
    );
    assert!(unit(&[]).contains("--year-start 1 --block-years 1 --conf"));
}

#[test]
fn the_program_takes_the_command_on_the_page() {
    for unit in ["year", "member", "pair"] {
        let words = ["a", "b", "--unit", unit, "--out", "changes"];
        let call: Compare = parsed(words).unwrap();
        let command = call.command();
        let again: Compare = parsed(command.split(' ').skip(2)).unwrap();
        assert_eq!((again.unit, again.command()), (call.unit, command));
    }
}

#[test]
fn months_and_years_are_read() {
    assert_eq!(months("6-8,11").unwrap().0, [6, 7, 8, 11]);
    assert_eq!(months("12-2").unwrap().0, [1, 2, 12]);
    assert!(months("13").is_err() && months("6-").is_err());
    // The tables' names of seasons had been refused.
    for (name, expected) in [
        ("DJF", &[1, 2, 12][..]),
        ("MAM", &[3, 4, 5]),
        ("jja", &[6, 7, 8]),
        ("SON", &[9, 10, 11]),
        ("NDJFM", &[1, 2, 3, 11, 12]),
        ("JJA, 11", &[6, 7, 8, 11]),
    ] {
        assert_eq!(months(name).unwrap().0, expected, "{name}");
    }
    // Three months begin with J.
    for name in ["J", "", "JAJ", "JFMAMJJASONDJ", "summer"] {
        assert!(months(name).is_err(), "{name}");
    }
    assert_eq!(years("1979-2008").unwrap(), (1979, 2008));
    assert!(years("2008-1979").is_err() && years("2008").is_err());
}

/// No test had a call whose options differ from the usual ones: any of them could have been passed over.
#[test]
fn every_option_reaches_the_comparison_and_the_command_on_the_page() {
    let words = "a b --out changes --label-a x --label-b y --years-a 1981-2000 --years-b 2001-2020 --months 12-2 \
                 --year-start 7 --block-years 3 --confidence 0.9 --resamples 500 --seed 9 --interval bca \
                 --calendar noleap --any-grid --title page";
    let call: Compare = parsed(words.split_whitespace()).unwrap();
    let expected = CompareOptions {
        draws: DrawOptions {
            draws: 500,
            confidence: 0.9,
            seed: 9,
            method: IntervalMethod::Bca,
        },
        months: vec![1, 2, 12],
        year_start: 7,
        unit: Unit::Year,
        block_years: 3,
        calendar: Some(Calendar::NoLeap),
        any_grid: true,
    };
    assert_eq!(call.options(), expected);
    let folders = ["a", "b"].map(|name| vec![PathBuf::from(name)]);
    let [a, b] = call.inputs(folders).unwrap();
    assert_eq!((a.years, b.years), (Some((1981, 2000)), Some((2001, 2020))));
    assert_eq!((a.label.as_str(), b.label.as_str()), ("x", "y"));
    assert_eq!(
        [a.folders, b.folders].concat(),
        ["a", "b"].map(PathBuf::from)
    );
    // The command on the page asks for the same.
    let command = call.command();
    let again: Compare = parsed(command.split(' ').skip(2)).unwrap();
    assert_eq!(again.options(), expected);
    assert_eq!((again.years_a, again.years_b), (call.years_a, call.years_b));
    assert_eq!(
        (&again.a, &again.b, &again.out),
        (&call.a, &call.b, &call.out)
    );
    assert_eq!(again.title.as_deref(), Some("page"));
    for (name, unit) in [("member", Unit::Member), ("pair", Unit::Pair)] {
        let call: Compare = parsed(["a", "b", "--out", "c", "--unit", name]).unwrap();
        assert_eq!(call.options().unit, unit);
    }
    let usual: Compare = parsed(["a", "b", "--out", "c"]).unwrap();
    assert_eq!(usual.options(), CompareOptions::default());
}

/// Of 20 days the hint was --months, which led to the same error and the same hint.
#[test]
fn other_months_are_no_advice_where_none_is_whole() {
    let advises = |reason: String| {
        let path = PathBuf::from("events");
        let error = with_advice(ClimateError::Period { path, reason });
        let (_, hint) = classify(&error);
        hint.expect("a hint").contains("--months")
    };
    assert!(advises(
        "no year is whole; 2001: month 4 has 65 % of its times".into()
    ));
    let none = format!("{NO_WHOLE_MONTH}; January 2000 has 65 % of its times");
    assert!(!advises(none));
}
