//! Tracks synthetic storms over a century without input files, to measure rate and memory: `century [ROWS COLUMNS YEARS
//! STEP_HOURS [DIR]]`. With a folder, the tables are kept there, with tracks in all formats.
//!
//! There are two other modes for validation/century.sh. `century fields ROWS COLUMNS YEARS STEP_HOURS DIR [same]`
//! labels the fields of consecutive synthetic runs of ten years each (with `same`, all of the same weather) and tracks
//! their events in one stream; each decade's peak memory is measured separately, and the last must not exceed the
//! first. `century rivers ROWS COLUMNS YEARS STEP_HOURS DIR` writes the rivers among the storms as mask files of one
//! year each, for `squall events`.
//!
//! Prints steps per second and resident memory for every tenth of the run, and at the end the time spent on detection,
//! tracking and writing. The storms of every year are the same except for a shift in longitude.

use ndarray::Array2;
use squall_climate::ClimateError;
use squall_climate::events::{EventFields, ExtractOptions, extract};
use squall_climate::label::{Labeller, Pass, Thresholds};
use squall_climate::stream::{EventStream, Moment, RunFolder};
use squall_climate::track::TrackerOptions;
use squall_climate::track::formats::{Format, Setting, export};
use squall_data::grid::distance_km;
use squall_data::mask_file::{MaskFileOptions, MaskWriter};
use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun};
use squall_data::{Calendar, Class, ClassMask, LatLonGrid, Time};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A storm of a year: class, latitude and longitude of birth, radius in km, degrees east and north per day, birth and
/// life in days.
type Storm = (u8, f64, f64, f64, f64, f64, f64, f64);

/// About 80 cyclones and 1,500 rivers per year, spread evenly by the golden ratio.
fn storms() -> Vec<Storm> {
    let spread = |k: usize, seed: f64| (k as f64 * 0.618_033_988_75 + seed).fract();
    let cyclones = (0..80).map(|k| {
        let sign = if k % 3 == 0 { -1.0 } else { 1.0 };
        let (lat, lon) = (sign * (8.0 + 10.0 * spread(k, 0.1)), 360.0 * spread(k, 0.7));
        let life = 4.0 + 12.0 * spread(k, 0.3);
        let birth = 350.0 * k as f64 / 80.0;
        (
            1,
            lat,
            lon,
            250.0 + 200.0 * spread(k, 0.5),
            -4.0,
            sign,
            birth,
            life,
        )
    });
    let rivers = (0..1500).map(|k| {
        let sign = if k % 2 == 0 { -1.0 } else { 1.0 };
        let (lat, lon) = (
            sign * (25.0 + 25.0 * spread(k, 0.2)),
            360.0 * spread(k, 0.9),
        );
        let life = 0.5 + 4.0 * spread(k, 0.4);
        let birth = 360.0 * k as f64 / 1500.0;
        (
            2,
            lat,
            lon,
            350.0 + 500.0 * spread(k, 0.6),
            12.0,
            2.0 * sign,
            birth,
            life,
        )
    });
    cyclones.chain(rivers).collect()
}

/// Draws the storms active on a day of the year; `year` shifts them in longitude.
fn draw(grid: &LatLonGrid, storms: &[Storm], day: f64, year: f64, codes: &mut Array2<u8>) {
    codes.fill(0);
    for &(class, lat, lon, radius_km, east, north, birth, life) in storms {
        let age = day - birth;
        if !(0.0..life).contains(&age) {
            continue;
        }
        let (lat, lon) = (
            lat + north * age,
            (lon + east * age + 37.0 * year).rem_euclid(360.0),
        );
        let reach_deg = radius_km / 111.0;
        let south = grid.lat_deg().partition_point(|&v| v < lat - reach_deg);
        let north = grid.lat_deg().partition_point(|&v| v <= lat + reach_deg);
        for j in south..north {
            let row = grid.lat_deg()[j];
            let reach = reach_deg / row.to_radians().cos().max(0.05);
            let first = ((lon - reach) / grid.lon_spacing_deg()).floor() as isize;
            let cells = (2.0 * reach / grid.lon_spacing_deg()).ceil() as isize + 2;
            for i in first..first + cells {
                let column = i.rem_euclid(grid.shape().1 as isize) as usize;
                if distance_km(lat, lon, row, grid.lon_deg()[column]) < radius_km {
                    codes[[j, column]] = class;
                }
            }
        }
    }
}

/// Resident and peak resident memory, kB; 0 if the system does not report it.
fn memory_kb() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ["VmRSS:", "VmHWM:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    })
}

/// Resets the peak resident memory, if the system can, so that each decade has its own peak.
fn forget_peak() {
    // See proc(5): writing 5 resets the peak.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Processor time of all threads of the process in seconds; 0 if the system does not report it.
fn processor_seconds() -> f64 {
    // The kernel counts in hundredths of a second. The program's name, in parentheses, may contain spaces.
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let numbers = text.rsplit_once(')').map_or("", |(_, numbers)| numbers);
    let used = numbers.split_whitespace().skip(11).take(2);
    used.filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// Parses rows, columns, years, hours between steps, and a folder.
fn sizes(arguments: &[String]) -> Result<([usize; 4], &str), Box<dyn Error>> {
    let [rows, columns, years, step_hours, out] = arguments else {
        return Err("expected ROWS COLUMNS YEARS STEP_HOURS DIR".into());
    };
    let sizes = [rows, columns, years, step_hours].map(|text| text.parse::<usize>());
    let [rows, columns, years, step_hours] = sizes;
    Ok(([rows?, columns?, years?, step_hours?], out))
}

/// Labels synthetic fields and tracks their events; prints a row for every ten years.
fn follow_fields(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    const YEARS_A_RUN: usize = 10;
    // Decades of the same weather need the same memory, unless something leaks.
    let (arguments, same) = match arguments {
        [first @ .., word] if word == "same" => (first, true),
        all => (all, false),
    };
    let ([rows, columns, years, step_hours], out) = sizes(arguments)?;
    let grid = Arc::new(LatLonGrid::global(rows, columns)?);
    let labeller = Labeller::new(&Thresholds::default(), grid.clone())?;
    let new = EventStream::new(&grid, TrackerOptions::default())?;
    let (mut folder, mut stream, _) = RunFolder::open(out, "fields", new, |_, _| true)?;
    let options = ExtractOptions::default();
    let mut print = std::io::stdout().lock();
    writeln!(
        print,
        "decade,steps,seconds,ms_per_step,processor_ms_per_step,resident_kb,peak_kb"
    )?;
    let mut peaks = Vec::new();
    for (decade, year) in (0..years).step_by(YEARS_A_RUN).enumerate() {
        let steps = (years - year).min(YEARS_A_RUN) * 365 * 24 / step_hours;
        let run = SyntheticRun::new(SyntheticConfig {
            rows,
            columns,
            start: Time::new(Calendar::NoLeap, 2000 + year as i64, 1, 1, 0, 0, 0)?,
            step_hours: step_hours as u32,
            steps,
            scenario: Scenario::PRESENT,
            seed: if same { 41 } else { 41 + decade as u64 },
        })?;
        forget_peak();
        let (clock, used) = (Instant::now(), processor_seconds());
        let read = |index, _: Pass| Ok::<_, ClimateError>(run.snapshot(index).0);
        let mut saved = 0;
        labeller.label_series(steps, read, |_, labelled| {
            let (mask, fields) = (&labelled.mask, EventFields::default());
            let found = extract(mask, &grid, &fields, &options)?;
            let moment = Moment {
                time: mask.time,
                mask: Some(mask),
                hours: step_hours as f64,
                fields_hours: step_hours as f64,
                fields: &fields,
            };
            folder.write(&stream.add(&moment, found)?)?;
            saved += 1;
            if saved % (steps / 10).max(1) == 0 {
                folder.save(&stream, stream.counts().times)?;
            }
            Ok(())
        })?;
        let (seconds, [now, most]) = (clock.elapsed().as_secs_f64(), memory_kb());
        let each = |seconds: f64| 1000.0 * seconds / steps as f64;
        writeln!(
            print,
            "{},{steps},{seconds:.1},{:.3},{:.3},{now},{most}",
            2000 + year,
            each(seconds),
            each(processor_seconds() - used)
        )?;
        print.flush()?;
        peaks.push(most);
    }
    let finished = folder.finish(stream)?;
    writeln!(print, "# {:?}", finished.counts)?;
    if let [first, .., last] = peaks[..] {
        assert!(
            last as f64 <= 1.02 * first as f64,
            "memory grew from {first} to {last} kB"
        );
    }
    Ok(())
}

/// Writes a file of river masks for every year.
fn write_rivers(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let ([rows, columns, years, step_hours], out) = sizes(arguments)?;
    let grid = LatLonGrid::global(rows, columns)?;
    let storms: Vec<Storm> = storms()
        .into_iter()
        .filter(|storm| storm.0 == Class::AtmosphericRiver.code())
        .collect();
    std::fs::create_dir_all(out)?;
    let options = MaskFileOptions {
        title: "made-up rivers".into(),
        ..MaskFileOptions::default()
    };
    let mut codes = Array2::zeros(grid.shape());
    for year in 0..years {
        let begin = Time::new(Calendar::NoLeap, 1980 + year as i64, 1, 1, 0, 0, 0)?;
        let path = Path::new(out).join(format!("rivers.{}.nc", begin.year()));
        let mut file = MaskWriter::create(&path, &grid, begin, &options)?;
        for step in 0..365 * 24 / step_hours {
            let hours = step_hours * step;
            draw(&grid, &storms, hours as f64 / 24.0, year as f64, &mut codes);
            let mask = ClassMask::new(begin.add_seconds(3600 * hours as i64), codes)?;
            file.write(&mask, None)?;
            codes = mask.codes;
        }
        file.finish()?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("fields") => return follow_fields(&arguments[1..]),
        Some("rivers") => return write_rivers(&arguments[1..]),
        _ => {}
    }
    let number = |k: usize, other: usize| arguments.get(k).map_or(Ok(other), |text| text.parse());
    // By default, a few years on a coarse grid.
    let (rows, columns) = (number(0, 48)?, number(1, 72)?);
    let (years, step_hours) = (number(2, 2)?, number(3, 6)?);
    let scratch = std::env::temp_dir().join(format!("century-{}", std::process::id()));
    let out = arguments.get(4).map_or(scratch.clone(), Into::into);
    let grid = LatLonGrid::global(rows, columns)?;
    let storms = storms();
    let per_year = 365 * 24 / step_hours;
    let steps = years * per_year;
    let begin = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0)?;
    let new = EventStream::new(&grid, TrackerOptions::default())?;
    let (mut folder, mut stream, _) = RunFolder::open(&out, "century", new, |_, _| true)?;
    let options = ExtractOptions::default();
    let mut codes = Array2::zeros(grid.shape());
    let [mut drawing, mut finding, mut following, mut writing] = [Duration::ZERO; 4];
    let mut print = std::io::stdout().lock();
    let mut tenth = Instant::now();
    let mut measured = Vec::new();
    for step in 0..steps {
        let clock = Instant::now();
        let day = (step % per_year) as f64 * step_hours as f64 / 24.0;
        draw(&grid, &storms, day, (step / per_year) as f64, &mut codes);
        let mask = ClassMask::new(begin.add_seconds((3600 * step_hours * step) as i64), codes)?;
        drawing += clock.elapsed();
        let clock = Instant::now();
        let fields = EventFields::default();
        let found = extract(&mask, &grid, &fields, &options)?;
        finding += clock.elapsed();
        let clock = Instant::now();
        let moment = Moment {
            time: mask.time,
            mask: Some(&mask),
            hours: step_hours as f64,
            fields_hours: step_hours as f64,
            fields: &fields,
        };
        let decided = stream.add(&moment, found)?;
        following += clock.elapsed();
        let clock = Instant::now();
        folder.write(&decided)?;
        if step % (steps / 50).max(1) == 0 {
            folder.save(&stream, step + 1)?;
        }
        writing += clock.elapsed();
        codes = mask.codes;
        if (step + 1) % (steps / 10).max(1) == 0 {
            let rate = (steps / 10) as f64 / tenth.elapsed().as_secs_f64();
            let [now, most] = memory_kb();
            measured.push(most);
            writeln!(
                print,
                "{:3} of 10: {rate:8.0} steps/s, resident {now} kB, most {most} kB, waiting rows {}",
                measured.len(),
                stream.waiting_rows()
            )?;
            tenth = Instant::now();
        }
    }
    let clock = Instant::now();
    let finished = folder.finish(stream)?;
    let [_, most] = memory_kb();
    writeln!(
        print,
        "{:?}\nend in {:.1} s, most {most} kB",
        finished.counts,
        clock.elapsed().as_secs_f64()
    )?;
    for (what, time) in [
        ("drawing", drawing),
        ("finding events", finding),
        ("following and counting", following),
        ("writing", writing),
    ] {
        let seconds = time.as_secs_f64();
        writeln!(
            print,
            "{what}: {seconds:.2} s, {:.0} steps/s",
            steps as f64 / seconds
        )?;
    }
    assert!(
        finished.counts.cyclone_tracks >= 70 * years,
        "storms were lost"
    );
    if let (Some(&first), Some(&last)) = (measured.first(), measured.last()) {
        // The allocator's retained memory varies by some pages.
        assert!(
            last as f64 <= 1.02 * first as f64 + 256.0,
            "memory grew from {first} to {last} kB"
        );
    }
    if out == scratch {
        std::fs::remove_dir_all(&out)?;
        return Ok(());
    }
    let clock = Instant::now();
    let times: Vec<Time> = (0..steps)
        .map(|step| begin.add_seconds((3600 * step_hours * step) as i64))
        .collect();
    let setting = Setting {
        grid: &grid,
        times: &times,
        calendar: Calendar::NoLeap,
        source: "made-up storms",
    };
    let files = export(&out, &Format::ALL, &setting)?;
    let [_, most] = memory_kb();
    writeln!(
        print,
        "{} files in {:.1} s, most {most} kB",
        files.len(),
        clock.elapsed().as_secs_f64()
    )?;
    Ok(())
}
