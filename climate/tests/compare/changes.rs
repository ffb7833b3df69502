//! The changes found between two runs and the output written from them.

use super::*;

#[test]
fn imposed_changes_are_found_where_they_are() {
    let a = Run::default();
    let b = Run {
        storms: 3,
        wind_m_s: 46.0,
        river_chance: 0.5,
        seed: 2,
        ..Run::default()
    };
    let found = compare(&a, &b, &options()).unwrap();
    let tracks = row(&found, Quantity::CycloneTracks, Group::ALL);
    assert!(
        tracks.significant && tracks.change.p.unwrap() < 0.002,
        "{tracks:?}"
    );
    // 3 to 7 storms a month become 1 to 5: -40 %.
    assert!(
        tracks.change.relative_interval.unwrap().holds(-0.4),
        "{tracks:?}"
    );
    let wind = row(&found, Quantity::CycloneWind, Group::ALL);
    assert!(
        wind.significant && wind.change.relative_interval.unwrap().holds(0.15),
        "{wind:?}"
    );
    let place = row(&found, Quantity::CycloneLatitude, Group::ALL);
    assert_eq!((place.change.a, place.change.b), (Some(18.0), Some(18.0)));
    assert!(!place.significant);
    let days = row(&found, Quantity::CycloneLifetime, Group::ALL);
    assert_eq!(days.change.a, Some(3.0));
    let rain = row(&found, Quantity::CycloneRain, Group::ALL);
    assert!((rain.change.a.unwrap() - 17.28).abs() < 1e-9);
    // All storms begin in the West Pacific.
    let pacific = row(
        &found,
        Quantity::CycloneTracks,
        Group::of_basin(Basin::WestPacific),
    );
    assert_eq!(pacific.change.a, tracks.change.a);
    let atlantic = row(
        &found,
        Quantity::CycloneTracks,
        Group::of_basin(Basin::NorthAtlantic),
    );
    assert_eq!(atlantic.change.no_interval, Some(NoInterval::NoEvents));
    let seasons: f64 = (0..4)
        .map(|s| {
            row(&found, Quantity::CycloneTracks, Group::of_season(s))
                .change
                .a
                .unwrap()
        })
        .sum();
    assert!((seasons - tracks.change.a.unwrap()).abs() < 1e-9);
    // The seasons of a basin add up to the basin; the bins of strength add up to all tracks.
    let of_pacific = |season| Group::of_both(Basin::WestPacific, season);
    for s in 0..4 {
        let [part, whole] = [of_pacific(s), Group::of_season(s)]
            .map(|group| row(&found, Quantity::CycloneTracks, group).change);
        assert_eq!((part.a, part.b), (whole.a, whole.b));
    }
    let of_atlantic = Group::of_both(Basin::NorthAtlantic, 2);
    let none = row(&found, Quantity::CycloneTracks, of_atlantic);
    assert_eq!(none.change.no_interval, Some(NoInterval::NoEvents));
    let winds = &found.distributions[0];
    assert_eq!(
        (winds.name.as_str(), winds.edges.len()),
        ("max_wind", winds.bins.len() + 1)
    );
    let all = |of: fn(&compare::Change) -> Option<f64>| -> f64 {
        winds.bins.iter().filter_map(|bin| of(&bin.change)).sum()
    };
    assert!((all(|c| c.a) - tracks.change.a.unwrap()).abs() < 1e-9);
    assert!((all(|c| c.b) - tracks.change.b.unwrap()).abs() < 1e-9);
    // Winds of 28 to 52 m/s become 32 to 60 m/s.
    let moved = |bin: &&compare::Bin| bin.significant && bin.change.difference > Some(0.0);
    assert!(winds.bins.iter().any(|bin| moved(&bin)), "{winds:?}");
    // The river map changes in its only marked cell: by the imposed 0.3 of the time, spread over the 5-degree cells.
    let map = |quantity, class: u8| {
        let wanted = |m: &&compare::MapChange| m.quantity == quantity && m.class.code() == class;
        found.map_changes.iter().find(wanted).unwrap()
    };
    let rivers = map(MapQuantity::Frequency, 2);
    let significant: Vec<usize> = rivers
        .significant(0.05)
        .enumerate()
        .filter(|(_, yes)| *yes)
        .map(|(k, _)| k)
        .collect();
    assert_eq!((significant.len(), rivers.tested()), (1, 1));
    let cell = significant[0];
    assert!(
        rivers.low[cell] < 0.3 && rivers.high[cell] > 0.3,
        "{} {}",
        rivers.low[cell],
        rivers.high[cell]
    );
    assert!(
        map(MapQuantity::GenesisDensity, 1)
            .significant(0.05)
            .any(|yes| yes)
    );
    assert!(
        found.statements[0].starts_with("Tropical cyclones become 4"),
        "{}",
        found.statements[0]
    );
    assert!(
        found.statements[0].ends_with("12 years against 12."),
        "{}",
        found.statements[0]
    );
    // Twelve annual maxima are enough for a fit.
    assert_eq!(found.return_levels.len(), 2);
    assert!(found.return_levels[0].changes[3].interval.unwrap().low > 0.0);
}

/// Moves two of every three storms of a run: one to the South Indian Ocean, one to the North Atlantic.
fn spread_out(folder: &Path) {
    for (name, id, lon, lat) in [("tracks.csv", 0, 4, 5), ("events.csv", 5, 2, 3)] {
        let file = folder.join(name);
        let table = fs::read_to_string(&file).unwrap();
        let rows = table.lines().map(|row| {
            let mut cells: Vec<String> = row.split(',').map(str::to_string).collect();
            match cells[id].parse::<usize>().map(|id| id % 3) {
                Ok(0) => {
                    cells[lon] = "60.0".into();
                    cells[lat] = format!("-{}", cells[lat]);
                }
                Ok(1) => cells[lon] = "310.0".into(),
                _ => {}
            }
            cells.join(",") + "\n"
        });
        let rows: String = rows.collect();
        fs::write(&file, rows).unwrap();
    }
}

#[test]
fn hemispheres_are_the_sums_of_their_basins() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, storms) in [("a", 5), ("b", 3)] {
        Run {
            storms,
            ..Run::default()
        }
        .write(&path(name));
        spread_out(&path(name));
    }
    let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
    let seasons = || std::iter::once(None).chain((0..4).map(Some));
    let of = |quantity, region: Option<Region>, season: Option<usize>| {
        let change = row(&found, quantity, Group { region, season }).change;
        (change.a.unwrap(), change.b.unwrap())
    };
    for quantity in [
        Quantity::CycloneTracks,
        Quantity::Hurricanes,
        Quantity::CycloneEnergy,
        Quantity::CyclonesPresent,
    ] {
        for season in seasons() {
            let mut whole = (0.0, 0.0);
            for hemisphere in [Region::Northern, Region::Southern] {
                let (a, b) = of(quantity, Some(hemisphere), season);
                assert!(a > 0.0 && b > 0.0, "{quantity:?} {hemisphere:?} {season:?}");
                let basins = Basin::ALL
                    .into_iter()
                    .filter(|basin| hemisphere.holds(*basin));
                let parts = basins.map(|basin| of(quantity, Some(basin.into()), season));
                let sum = parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
                assert!((sum.0 - a).abs() < 1e-9 && (sum.1 - b).abs() < 1e-9);
                whole = (whole.0 + a, whole.1 + b);
            }
            let (a, b) = of(quantity, None, season);
            assert!((whole.0 - a).abs() < 1e-9 && (whole.1 - b).abs() < 1e-9);
        }
    }
    // The mean of a hemisphere equals the mean of the only basin that has storms.
    let south = of(Quantity::CycloneWind, Some(Region::Southern), None);
    let indian = of(Quantity::CycloneWind, Some(Basin::SouthIndian.into()), None);
    assert_eq!(south, indian);
    let table = {
        found.write(path("changes")).unwrap();
        fs::read_to_string(path("changes/changes.csv")).unwrap()
    };
    for begin in ["all,all", "NH,all", "SH,JJA"] {
        let begin = format!("\ntracks,tropical_cyclone,{begin},");
        assert_eq!(table.matches(&begin).count(), 1, "{begin}");
    }
    assert!(
        found.text().contains(" in the southern hemisphere "),
        "{}",
        found.text()
    );
    let page = changes_page(&found, "hemispheres", "").unwrap();
    assert!(page.contains(">Southern hemisphere</th>"));
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let a = Run::default();
    let found = compare(&a, &a, &options()).unwrap();
    assert!(found.changes.iter().all(|row| !row.significant));
    assert!(
        found
            .maps
            .iter()
            .all(|map| map.increases + map.decreases == 0)
    );
    let tracks = row(&found, Quantity::CycloneTracks, Group::ALL);
    assert_eq!(
        (tracks.change.difference, tracks.change.p),
        (Some(0.0), Some(1.0))
    );
    assert!(found.statements.iter().all(|text| !text.contains("become")));
}

#[test]
fn the_order_of_rows_changes_nothing_and_a_seed_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Run::default().write(&path("a"));
    Run {
        storms: 4,
        seed: 9,
        ..Run::default()
    }
    .write(&path("b"));
    let written = |out: &str| {
        let found = compare_with(side(&path("a"), "a"), side(&path("b"), "b"), &options()).unwrap();
        found.write(path(out)).unwrap();
        [
            "changes.csv",
            "statements.txt",
            "return_levels.csv",
            "distributions.csv",
        ]
        .map(|name| fs::read_to_string(path(out).join(name)).unwrap())
    };
    let first = written("one");
    assert_eq!(first, written("two"));
    let mut random = stream(3, "shuffle", &[]);
    for table in [
        "a/events.csv",
        "a/tracks.csv",
        "b/events.csv",
        "b/tracks.csv",
    ] {
        let text = fs::read_to_string(path(table)).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines[1..].shuffle(&mut random);
        fs::write(path(table), lines.join("\n")).unwrap();
    }
    assert_eq!(first, written("three"));
}

#[test]
fn files_hold_what_was_found_and_the_page_needs_no_network() {
    let folder = tempfile::tempdir().unwrap();
    let b = Run {
        storms: 3,
        seed: 2,
        ..Run::default()
    };
    let found = compare(&Run::default(), &b, &options()).unwrap();
    found.write(folder.path()).unwrap();
    let table = fs::read_to_string(folder.path().join("changes.csv")).unwrap();
    assert_eq!(table.lines().count(), found.changes.len() + 1);
    assert!(
        table.starts_with(
            "quantity,class,basin,season,unit,a,b,difference,low,high,relative_change"
        )
    );
    let line = table
        .lines()
        .find(|l| l.starts_with("tracks,tropical_cyclone,all,all"))
        .unwrap();
    assert!(line.ends_with("yes,,12,12"), "{line}");
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("changes.json")).unwrap()).unwrap();
    assert_eq!(
        json["changes"].as_array().unwrap().len(),
        found.changes.len()
    );
    assert_eq!(json["changes"][0]["name"], "tracks");
    let back: Comparison = serde_json::from_value(json).unwrap();
    assert_eq!(back.changes, found.changes);
    let file = netcdf::open(folder.path().join("maps.nc")).unwrap();
    let values: Vec<f64> = file
        .variable("genesis_density_difference")
        .unwrap()
        .get_values(..)
        .unwrap();
    assert_eq!(values.len(), 2 * 36 * 72);
    let flags: Vec<i8> = file
        .variable("frequency_significant")
        .unwrap()
        .get_values(..)
        .unwrap();
    assert!(flags.iter().all(|f| *f == 0 || *f == 1));
    let page = changes_page(&found, "A <title>", "squall compare a b").unwrap();
    assert!(
        page.contains("A &lt;title&gt;") && !page.contains("http://") && !page.contains("https://")
    );
    for part in [
        "What changes",
        "How large, and how sure",
        "Where it changes",
        "Extremes",
        "How many of each strength",
        "by hemisphere, basin and season",
        "All numbers",
        "class=\"stipple\"",
        "difference, per year and million km²",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let text = fs::read_to_string(folder.path().join("statements.txt")).unwrap();
    assert!(
        text.contains("Tropical cyclones become") && text.contains("To know:"),
        "{text}"
    );
}

#[test]
fn a_comparison_read_back_is_a_section_of_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let b = Run {
        storms: 3,
        river_chance: 0.9,
        seed: 2,
        ..Run::default()
    };
    let found = compare(&Run::default(), &b, &options()).unwrap();
    assert!(!Comparison::is_in(folder.path()));
    found.write(folder.path()).unwrap();
    assert!(Comparison::is_in(folder.path()));
    let back = Comparison::read(folder.path()).unwrap();
    // Compared as text because NaN is not equal to itself.
    assert_eq!(format!("{back:?}"), format!("{found:?}"));
    assert_eq!(back.map_changes.len(), 4);

    let grid = Arc::new(LatLonGrid::global(19, 36).unwrap());
    let mut input = ReportInput::new("With changes", grid);
    input.comparisons = vec![back.clone(), back.clone()];
    let html = ReportBuilder::new(input).unwrap().html().unwrap();
    let start = html.find("<section id=\"changes-1\"").unwrap();
    let section = &html[start..start + html[start..].find("</section>").unwrap()];
    // Non-breaking spaces keep numbers together with their units.
    let section = &section.replace('\u{a0}', " ");
    assert!(html.contains("<section id=\"changes-2\""));
    // Text: every statement about the whole Earth and year, and those about return levels.
    for row in back.changes.iter().filter(|row| row.group() == Group::ALL) {
        if let Some(text) = compare::statement(row, &back) {
            let text = text
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('\'', "&#39;");
            assert!(section.contains(&text), "{text}");
        }
    }
    assert!(section.contains("The strongest wind of a tropical cyclone in 20 years"));
    // Maps: one dot per significant cell.
    let significant: usize = (back.map_changes.iter())
        .map(|map| map.significant(0.05).filter(|yes| *yes).count())
        .sum();
    assert!(significant > 0);
    let stipples = section.split("class=\"stipple\" d=\"").skip(1);
    let dots = stipples.map(|path| path.split('"').next().unwrap().matches("h0").count());
    assert_eq!(dots.sum::<usize>(), significant);
    assert!(section.contains("<h3>Extremes and how often they return</h3>"));

    fs::write(folder.path().join("changes.json"), "{}").unwrap();
    let error = Comparison::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("changes.json"), "{error}");
}

/// Otherwise `squall report` would show the new numbers next to the maps of the previous comparison.
#[test]
fn what_is_not_written_whole_is_no_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let found = compare(&Run::default(), &years(2013..=2024, 2), &options()).unwrap();
    found.write(folder.path()).unwrap();
    // A folder in place of the file makes replacing it fail.
    let maps = folder.path().join("maps.nc");
    fs::remove_file(&maps).unwrap();
    fs::create_dir(&maps).unwrap();
    assert!(found.write(folder.path()).is_err());
    assert!(!Comparison::is_in(folder.path()));
    fs::remove_dir(&maps).unwrap();
    found.write(folder.path()).unwrap();
    assert!(Comparison::is_in(folder.path()));
}
