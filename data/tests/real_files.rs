//! The reader on files of other people.

use squall_data::archive::precipitable_water;
use squall_data::testdata::real;
use squall_data::{Archive, Variable, inspect};

fn open(name: &str) -> Option<Archive> {
    let path = real(name)?;
    Some(Archive::open(path.to_str().unwrap()).unwrap())
}

#[test]
fn gfs_column_water_from_humidity() {
    let Some(archive) = open("gfs-2p5deg-20111011/gfs_2p5deg_20111011T00.nc") else {
        return;
    };
    assert_eq!(archive.grid().shape(), (73, 144));
    let wanted = [Variable::Tmq, Variable::Psl, Variable::Ps];
    let snapshot = archive.read(0, &wanted).unwrap();
    let file = snapshot.field(Variable::Tmq).unwrap();
    let difference = |ours: &ndarray::Array2<f32>| {
        let off: Vec<f64> = ours
            .iter()
            .zip(file)
            .map(|(a, b)| f64::from(a - b))
            .collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / off.len() as f64;
        let bias = mean(&mut off.iter().copied());
        (bias, mean(&mut off.iter().map(|v| v * v)).sqrt())
    };
    // The independent check of SOURCE.md: bias +0.43, rmse 0.51, unweighted, humidity constant below the lowest level.
    let (levels_pa, q) = archive.read_levels(0, "Q").unwrap();
    let ps = snapshot.field(Variable::Ps);
    let (bias, rmse) = difference(&precipitable_water(&levels_pa, q.view(), ps, None));
    assert!(
        (bias - 0.43).abs() < 0.01 && (rmse - 0.51).abs() < 0.01,
        "bias {bias:.3}, rmse {rmse:.3} kg m-2"
    );
    // With the 2 m humidity at the bottom, which helps where levels are few, 0.04 more.
    let near_ground = archive.read(0, &[Variable::Qrefht]).unwrap();
    let qref = near_ground.field(Variable::Qrefht);
    let (bias, rmse) = difference(&precipitable_water(&levels_pa, q.view(), ps, qref));
    assert!(
        (bias - 0.47).abs() < 0.02 && (rmse - 0.54).abs() < 0.02,
        "bias {bias:.3}, rmse {rmse:.3} kg m-2"
    );
    // Jova: 990.2 hPa at 17.5N 105W, after turning the descending latitudes.
    let (j, i) = archive.grid().nearest(17.5, 255.0);
    assert!((snapshot.field(Variable::Psl).unwrap()[[j, i]] - 99_020.0).abs() < 10.0);
}

#[test]
fn packed_pressure_on_an_uneven_axis() {
    let Some(archive) = open("mslp-ecmwf-0p4-202208/mslp.nc") else {
        return;
    };
    let times: Vec<String> = archive.times().iter().map(ToString::to_string).collect();
    assert_eq!(
        times,
        [
            "2022-08-17T00:00:00",
            "2022-08-18T00:00:00",
            "2022-08-18T12:00:00",
            "2022-08-19T00:00:00"
        ]
    );
    let snapshot = archive.read(3, &[Variable::Psl]).unwrap();
    let psl = snapshot.field(Variable::Psl).unwrap();
    let (j, i) = archive.grid().nearest(20.8, 90.0);
    let low = psl
        .slice(ndarray::s![j - 3..j + 4, i - 3..i + 4])
        .iter()
        .copied()
        .fold(f32::INFINITY, f32::min);
    assert!((low - 99_610.0).abs() < 60.0, "{low}");
}

#[test]
fn noleap_cam_history() {
    let Some(archive) = open("cesm-1deg-precip-daily/zfp1e-7.PRECT.60days.nc") else {
        return;
    };
    assert_eq!(
        (archive.calendar().cf_name(), archive.times().len()),
        ("noleap", 60)
    );
    assert_eq!(archive.available(), [Variable::Prect]);
    let said = archive.problems().join("\n");
    assert!(said.contains("times are the ends of that"), "{said}");
    let rain = archive.read(59, &[Variable::Prect]).unwrap();
    assert!(rain.fields.iter().all(|v| (-1e-6..1e-4).contains(v)));
    let error = archive.read(0, &[Variable::Tmq]).unwrap_err().to_string();
    assert!(error.contains("TMQ") && error.contains("PRECT"), "{error}");
}

#[test]
fn western_longitudes_move_to_the_east() {
    let Some(archive) = open("gfs-wind-1deg-20161120-22/gfs_wind10_20161120_22.nc") else {
        return;
    };
    assert_eq!(
        (archive.grid().lon_deg()[0], archive.times().len()),
        (0.0, 9)
    );
    let wind = archive.read(8, &[Variable::Ubot, Variable::Vbot]).unwrap();
    // Gap winds of Tehuantepec at 15N 95W.
    let (j, i) = archive.grid().nearest(15.0, 265.0);
    let speed = wind.fields[[0, j, i]].hypot(wind.fields[[1, j, i]]);
    assert!(speed > 10.0, "{speed}");
    assert!(
        archive.problems().iter().any(|p| p.contains("10 m wind")),
        "{:?}",
        archive.problems()
    );
}

#[test]
fn files_that_break_readers_are_described_or_refused() {
    let Some(folder) = real("netcdf-stress") else {
        return;
    };
    let (mut described, mut refused) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match inspect::inspect(path.to_str().unwrap()) {
            Ok(inspection) => {
                assert!(!inspection.to_string().is_empty());
                described += 1;
            }
            Err(error) => {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                assert!(error.to_string().contains(&name), "{error}");
                refused += 1;
            }
        }
    }
    assert!(
        described >= 20 && refused >= 2,
        "{described} described, {refused} refused"
    );
}

#[test]
fn gfs_levels_are_the_file_s_own_channels() {
    let Some(archive) = open("gfs-2p5deg-20111011/gfs_2p5deg_20111011T00.nc") else {
        return;
    };
    for (name, pa, channel) in [
        ("U", 85_000.0, Variable::U850),
        ("geopotential", 100_000.0, Variable::Z1000),
        ("ta", 20_000.0, Variable::T200),
    ] {
        let (pressure, field) = archive.read_levels(0, name).unwrap();
        assert_eq!((pressure.len(), pressure[0]), (19, 20_000.0));
        let level = pressure.iter().position(|p| (p - pa).abs() < 1.0).unwrap();
        let plane = archive.read(0, &[channel]).unwrap();
        assert_eq!(
            plane.field(channel).unwrap(),
            field.index_axis(ndarray::Axis(0), level)
        );
    }
    // The file has every channel but the lowest model level, which is stated.
    assert_eq!(archive.available(), Variable::CHANNELS);
    let said = archive.problems().join("\n");
    for word in ["UBOT", "VBOT", "ZBOT"] {
        assert!(said.contains(word), "{said}");
    }
    let all = archive.read(0, &Variable::CHANNELS).unwrap();
    for variable in Variable::CHANNELS {
        let (low, high) = variable.entry().plausible;
        for value in all.field(variable).unwrap() {
            assert!((low..=high).contains(value), "{variable} {value}");
        }
    }
}

#[test]
fn a_file_without_time_axis_needs_a_date_in_its_name() {
    let Some(path) = real("netcdf-stress/eraint_uvz.nc") else {
        return;
    };
    let error = Archive::open(path.to_str().unwrap()).unwrap_err();
    assert!(error.to_string().contains("no time axis"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let dated = folder.path().join("eraint_20010115.nc");
    std::fs::copy(path, &dated).unwrap();
    let inspection = inspect::inspect(dated.to_str().unwrap()).unwrap();
    let (first, _, count) = inspection.times.unwrap();
    assert_eq!((first.as_str(), count), ("2001-01-15T00:00:00", 1));
    assert_eq!(inspection.grid_shape, Some((241, 480)));
    // Its fields have two months, which is no dimension of a channel.
    assert!(inspection.channels.is_empty());
}

#[test]
fn model_levels_give_the_lowest_one() {
    let Some(archive) = open("cam3-t42-snapshot/80.nc") else {
        return;
    };
    let wind = archive.read(0, &[Variable::Ubot]).unwrap();
    assert!(wind.fields.iter().all(|v| v.abs() < 40.0));
    assert!(
        !archive.available().contains(&Variable::U850),
        "hybrid levels are no pressures"
    );
    assert_eq!(archive.grid().shape(), (64, 128));
}
