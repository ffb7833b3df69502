//! Packing, missing values and valid ranges, in real files and in ones made for the test.

use super::*;
use crate::archive::nc;

fn read(file: &str, name: &str) -> Option<(Vec<f32>, usize)> {
    let path = crate::testdata::real(&format!("netcdf-stress/{file}"))?;
    let netcdf = nc::open(&path).unwrap();
    let variable = netcdf.variable(name).unwrap();
    let decoder = Decoder::new(&variable, Conversion::IDENTITY);
    let stored = variable.get_values::<f64, _>(..).unwrap();
    let values: Vec<f32> = stored.iter().map(|v| decoder.value(*v)).collect();
    if decoder.single {
        let mut single = variable.get_values::<f32, _>(..).unwrap();
        decoder.decode_single(&mut single);
        let same = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
        assert!(single.iter().zip(&values).all(same), "{file} {name}");
    }
    let missing = values.iter().filter(|v| v.is_nan()).count();
    Some((values, missing))
}

fn range(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::MAX, f32::MIN), |(low, high), &v| {
        (low.min(v), high.max(v))
    })
}

/// Ranges as the table of SOURCE.md gives them (netCDF4-python).
#[test]
fn ranges_of_files_that_break_readers() {
    for (file, name, (low, high)) in [
        // unsigned 16 bits, valid range "0, -6"
        ("20171025_2056.Cloud_Top_Height.nc", "HT", (0.0, 15_430.0)),
        // negative scale factors, NaN as fill value of integers
        ("eraint_uvz.nc", "z", (10_300.0, 123_300.0)),
        ("eraint_uvz.nc", "u", (-24.56, 78.5)),
        ("ubyte.nc", "ub", (0.0, 255.0)),
        ("ubyte.nc", "sb", (-128.0, 127.0)),
        ("coads_climatology.nc", "SST", (-2.6, 33.15)),
        ("basin_mask.nc", "basin", (1.0, 58.0)),
    ] {
        let Some((values, missing)) = read(file, name) else {
            return;
        };
        let found = range(&values);
        let near = |a: f32, b: f32| (a - b).abs() <= 1e-2 * b.abs().max(0.1);
        assert!(
            near(found.0, low) && near(found.1, high),
            "{file} {name}: {found:?}"
        );
        assert!(missing < values.len());
    }
}

/// The values of a variable that holds these numbers.
fn decoded<T>(stored: &[T], attributes: &[(&str, f64)], fill: Option<T>) -> Vec<f32>
where
    T: netcdf::NcTypeDescriptor + Into<netcdf::AttributeValue> + Copy + Send + Sync,
{
    let attributes = attributes.iter();
    let attributes = attributes.map(|&(name, value)| (name, netcdf::AttributeValue::from(value)));
    decoded_by(stored, attributes.collect(), fill)
}

fn decoded_by<T>(
    stored: &[T],
    attributes: Vec<(&str, netcdf::AttributeValue)>,
    fill: Option<T>,
) -> Vec<f32>
where
    T: netcdf::NcTypeDescriptor + Into<netcdf::AttributeValue> + Copy + Send + Sync,
{
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.nc");
    nc::on_library_thread(|| {
        let mut file = netcdf::create(&path).unwrap();
        file.add_dimension("x", stored.len()).unwrap();
        let mut variable = file.add_variable::<T>("q", &["x"]).unwrap();
        for (name, value) in attributes {
            variable.put_attribute(name, value).unwrap();
        }
        if let Some(fill) = fill {
            variable.put_attribute("_FillValue", fill).unwrap();
        }
        variable.put_values(stored, ..).unwrap();
        file.close().unwrap();
        let file = nc::open(&path).unwrap();
        let variable = file.variable("q").unwrap();
        let decoder = Decoder::new(&variable, Conversion::IDENTITY);
        let stored = variable.get_values::<f64, _>(..).unwrap();
        let values: Vec<f32> = stored.into_iter().map(|v| decoder.value(v)).collect();
        // What the reader does with these types, which has loops of its own.
        if decoder.single {
            let mut single = variable.get_values::<f32, _>(..).unwrap();
            decoder.decode_single(&mut single);
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&single), bits(&values));
        }
        values
    })
}

/// What netCDF (9.97e36), CMIP (1e20) and Ferret (1e34) leave, with and without a fill value of another kind.
#[test]
fn huge_numbers_are_missing_whatever_the_file_says() {
    let netcdf_fill = 9.969_21e36f32;
    let stored = [
        5.0f32,
        -999.0,
        1e20,
        -1e34,
        netcdf_fill,
        f32::INFINITY,
        f32::NAN,
    ];
    for told in [&[][..], &[-999.0], &[-999.0, -888.0]] {
        let mut attributes = Vec::new();
        for (name, value) in ["_FillValue", "missing_value"].into_iter().zip(told) {
            let value: f32 = *value;
            attributes.push((name, netcdf::AttributeValue::from(value)));
        }
        let values = decoded_by(&stored, attributes, None);
        let known: Vec<f32> = values.iter().copied().filter(|v| !v.is_nan()).collect();
        let expected = if told.is_empty() {
            &stored[..2]
        } else {
            &stored[..1]
        };
        assert_eq!(known, expected, "{told:?}: {values:?}");
    }
}

/// By the tolerance of floats two thousand numbers on each side of the fill value had been missing.
#[test]
fn of_integers_only_the_fill_value_itself_is_missing() {
    for (missing, told) in [(-2_000_000_000_i32, true), (-2_147_483_647, false)] {
        let stored = [missing, missing - 1, missing + 1, missing + 1999, 0];
        let values = decoded(&stored, &[("scale_factor", 1e-6)], told.then_some(missing));
        assert!(values[0].is_nan(), "{values:?}");
        for (value, stored) in values.iter().zip(stored).skip(1) {
            assert_eq!(*value, (f64::from(stored) * 1e-6) as f32, "{stored}");
        }
    }
    let values = decoded(&[-999.9f32, -999.8], &[("missing_value", -999.9)], None);
    assert!(values[0].is_nan() && values[1] == -999.8, "{values:?}");
}

/// By rounding the lowest number, the pressure in the eye of a storm for instance, had been outside of it.
#[test]
fn the_ends_of_a_valid_range_are_valid() {
    let (low, high) = (92_345.1, 104_321.7);
    let (scale, offset) = ((high - low) / 65_534.0, (high + low) / 2.0);
    for [low, high] in [[low, high], [low, high].map(|end| f64::from(end as f32))] {
        let attributes = [
            ("scale_factor", scale),
            ("add_offset", offset),
            ("valid_min", low),
            ("valid_max", high),
        ];
        let values = decoded(&[-32_767i16, 32_767, 0], &attributes, Some(-32_768));
        assert_eq!(values, [92_345.1, 104_321.7, 98_333.4], "{low} to {high}");
    }
    // A step beyond is not.
    let attributes = [
        ("scale_factor", 0.1),
        ("valid_min", -1.5),
        ("valid_max", 3.0),
    ];
    let values = decoded(&[-16i16, -15, 30, 31], &attributes, None);
    assert!(values[0].is_nan() && values[3].is_nan(), "{values:?}");
    assert_eq!(values[1..3], [-1.5, 3.0]);
    let values = decoded(&[0.1f32, 0.100_001], &[("valid_max", 0.1)], None);
    assert!(values[0] == 0.1 && values[1].is_nan(), "{values:?}");
}

/// As NUG has it: of unsigned bytes the ends are unsigned, too.
#[test]
fn a_valid_range_may_be_a_pair() {
    let range = (
        "valid_range",
        netcdf::AttributeValue::from(vec![-1.0f32, 3.0]),
    );
    let values = decoded_by(&[-1.5f32, -1.0, 3.0, 3.5], vec![range], None);
    assert!(values[0].is_nan() && values[3].is_nan(), "{values:?}");
    assert_eq!(values[1..3], [-1.0, 3.0]);
    let attributes = vec![
        ("_Unsigned", "true".into()),
        ("valid_range", netcdf::AttributeValue::from(vec![0i8, -6])),
    ];
    let values = decoded_by(&[0i8, 127, -6, -5], attributes, None);
    assert_eq!(values[..3], [0.0, 127.0, 250.0]);
    assert!(values[3].is_nan(), "{values:?}");
}

/// As text, by which some tools write numbers.
#[test]
fn packing_may_be_told_in_text() {
    let attributes = vec![
        ("scale_factor", netcdf::AttributeValue::from("0.005")),
        ("add_offset", netcdf::AttributeValue::from(" 2 ")),
    ];
    let values = decoded_by(&[100i16, -200], attributes, None);
    assert_eq!(values, [2.5, 1.0]);
}

/// What was not written of short integers, if they are packed and name no fill value.
#[test]
fn the_fill_value_of_packed_numbers_need_not_be_told() {
    let values = decoded(&[-32_767i16, -32_766], &[("scale_factor", 0.5)], None);
    assert!(values[0].is_nan() && values[1] == -16_383.0, "{values:?}");
    assert_eq!(decoded(&[-32_767i16], &[], None), [-32_767.0]);
}

/// Where one end alone is named, all valid numbers had been missing, and the others had not.
#[test]
fn one_end_of_a_valid_range_holds_for_negative_scale_factors() {
    let packed = |end| {
        decoded(
            &[-11i16, -10, 0, 10, 11],
            &[("scale_factor", -0.5), end],
            None,
        )
    };
    let low = packed(("valid_min", -5.0));
    assert_eq!(low[..4], [5.5, 5.0, 0.0, -5.0]);
    assert!(low[4].is_nan(), "{low:?}");
    let high = packed(("valid_max", 5.0));
    assert!(high[0].is_nan(), "{high:?}");
    assert_eq!(high[1..], [5.0, 0.0, -5.0, -5.5]);
}

/// 255 and 65535 had been values where the fill value was named by them.
#[test]
fn a_missing_value_of_unsigned_numbers_may_be_named_by_a_large_one() {
    for missing in [-1.0f64, 255.0] {
        let attributes = vec![
            ("_Unsigned", "true".into()),
            ("missing_value", missing.into()),
        ];
        let values = decoded_by(&[-1i8, -2, 0, 127], attributes, None);
        assert!(values[0].is_nan(), "{missing}: {values:?}");
        assert_eq!(values[1..], [254.0, 0.0, 127.0], "{missing}");
    }
    let attributes = vec![
        ("_Unsigned", "true".into()),
        ("missing_value", 65_535.0f64.into()),
    ];
    let values = decoded_by(&[-1i16, -32_768], attributes, None);
    assert!(values[0].is_nan() && values[1] == 32_768.0, "{values:?}");
}

#[test]
fn attributes_as_text_count() {
    let Some((values, _)) = read("fnoc1.nc", "u") else {
        return;
    };
    // scale_factor = "0.005": winds of some m/s, not thousands.
    assert!(range(&values).1 < 50.0, "{:?}", range(&values));
}
