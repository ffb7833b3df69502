//! An archive that many processes looked at, each at a share of its files, is the one that a single process opens.

#[allow(dead_code)] // each test file uses its part
mod archive_support;

use archive_support::{Field, FileSpec, path_of, write};
use squall_data::archive::{BadFiles, Survey, files_of, on_library_thread};
use squall_data::{Archive, DataError, Variable, wire};
use std::fs;
use std::path::Path;

/// The archive by so many parts; what the first of them saw stays as it is, the rest goes over the wire.
fn by_parts(input: &str, parts: usize, bad_files: BadFiles) -> Result<Archive, DataError> {
    let paths = files_of(input)?;
    let surveys = (0..parts).map(|part| {
        let survey = Survey::of_share(&paths, (part, parts), bad_files);
        assert!(survey.len() <= paths.len().div_ceil(parts));
        match part {
            0 => Ok(survey),
            _ => wire::from_bytes(&wire::to_bytes(&survey)?),
        }
    });
    let surveys = surveys.collect::<Result<Vec<_>, _>>()?;
    Archive::from_surveys(input, &paths, surveys, bad_files)
}

/// All that an archive says and gives, fields as bits.
fn contents(archive: &Archive) -> (String, Vec<Vec<u32>>) {
    let read = |index| -> Vec<u32> {
        let offered = |v: &Variable| archive.offers(index, *v);
        let channels: Vec<Variable> = Variable::CHANNELS.into_iter().filter(offered).collect();
        let snapshot = archive.read(index, &channels).unwrap();
        snapshot
            .fields
            .iter()
            .map(|value| value.to_bits())
            .collect()
    };
    let count = archive.times().len();
    let places: Vec<_> = (0..count).map(|index| archive.source_of(index)).collect();
    let facts = format!(
        "{:?} {:?} {:?} {:?} {places:?} {:?}",
        archive.grid(),
        archive.calendar(),
        archive.times(),
        archive.available(),
        archive.problems()
    );
    (facts, (0..count).map(read).collect())
}

/// A run whose files differ in what they hold, how it is packed and what is valid.
fn mixed(folder: &Path) {
    for day in 0..5 {
        let mut packed = Field::named("PSL", "hPa");
        packed.scale = Some(0.25 + 0.25 * f64::from(day));
        let spec = FileSpec {
            times: vec![f64::from(day), f64::from(day) + 0.5],
            fields: vec![packed],
            hole: true,
            ..FileSpec::default()
        };
        write(&path_of(folder, day), &spec);
    }
    // Surface pressure in files of its own; one time stands twice, and one is before all others.
    for (name, times) in [
        ("ps_a.nc", vec![-1.0, 0.0]),
        ("ps_b.nc", vec![0.0, 0.5, 4.5]),
    ] {
        let spec = FileSpec {
            times,
            fields: vec![Field::named("PS", "Pa"), Field::named("u10", "m s-1")],
            ..FileSpec::default()
        };
        write(&folder.join(name), &spec);
    }
    // A valid range with an open end.
    on_library_thread(|| {
        let mut file = netcdf::append(folder.join("ps_a.nc")).unwrap();
        let mut field = file.variable_mut("PS").unwrap();
        field.put_attribute("valid_min", 3.0).unwrap();
        file.close().unwrap();
    });
}

#[test]
fn any_number_of_parts_gives_the_same_archive() {
    let folder = tempfile::tempdir().unwrap();
    mixed(folder.path());
    let input = folder.path().to_str().unwrap();
    let alone = Archive::open(input).unwrap();
    assert_eq!(alone.file_count(), 7);
    let expected = contents(&alone);
    assert!(expected.0.contains("missing at") && expected.0.contains("more than one file"));
    let of_range = &expected.1[0];
    assert!(
        of_range.iter().any(|bits| f32::from_bits(*bits).is_nan()),
        "values below the range count as missing"
    );
    for parts in [1, 2, 3, 7, 9] {
        let archive = by_parts(input, parts, BadFiles::Fail).unwrap();
        assert_eq!(contents(&archive), expected, "{parts} parts");
    }
}

#[test]
fn bad_files_are_named_as_by_a_single_process() {
    let folder = tempfile::tempdir().unwrap();
    mixed(folder.path());
    let input = folder.path().to_str().unwrap();
    // The third and the sixth by name.
    fs::write(path_of(folder.path(), 2), b"not netCDF at all").unwrap();
    let other_grid = FileSpec {
        rows: 9,
        times: vec![7.0],
        ..FileSpec::default()
    };
    write(&folder.path().join("ps_a.nc"), &other_grid);
    let alone = Archive::open(input).unwrap_err().to_string();
    assert!(alone.contains("day02.nc"), "{alone}");
    let expected = contents(&Archive::open_with(input, BadFiles::Skip).unwrap());
    for parts in [2, 3, 4] {
        let error = by_parts(input, parts, BadFiles::Fail).unwrap_err();
        assert_eq!(error.to_string(), alone, "{parts} parts");
        // Whole where it happened, in words elsewhere.
        let elsewhere = matches!(error, DataError::Elsewhere(_));
        assert_eq!(elsewhere, 2 % parts != 0, "{parts} parts: {error:?}");
        let rest = by_parts(input, parts, BadFiles::Skip).unwrap();
        assert_eq!(contents(&rest), expected, "{parts} parts");
    }
    // A file that does not fit the first is found where all come together.
    let spec = FileSpec {
        times: vec![2.0],
        ..FileSpec::default()
    };
    write(&path_of(folder.path(), 2), &spec);
    let error = by_parts(input, 3, BadFiles::Fail).unwrap_err();
    assert!(
        matches!(&error, DataError::Mismatch { what: "grid", path, .. } if path.ends_with("ps_a.nc")),
        "{error}"
    );
}

#[test]
fn a_file_without_a_survey_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    mixed(folder.path());
    let input = folder.path().to_str().unwrap();
    let paths = files_of(input).unwrap();
    let half = Survey::of_share(&paths, (0, 2), BadFiles::Fail);
    let surveys = vec![half, Survey::default()];
    let error = Archive::from_surveys(input, &paths, surveys, BadFiles::Fail).unwrap_err();
    assert!(error.to_string().contains("day01.nc"), "{error}");
    assert!(wire::from_bytes::<Survey>(b"no survey").is_err());
}
