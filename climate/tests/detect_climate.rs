//! Rivers by the percentiles of a known climate: the run's own, or that of another run.

mod common;

use common::detect_series;
use ndarray::Axis;
use squall_climate::ClimateError;
use squall_climate::detect::percentile::{ClimateOrigin, PercentileThresholds, SavedClimatology};
use squall_climate::detect::{
    DetectFields, Detector, DetectorThresholds, FirstPass, Method, MethodLabels,
};
use squall_climate::error::Result;
use squall_climate::label::Pass;
use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun};
use squall_data::{Calendar, Class, Time, Variable};

/// A synthetic run whose water is multiplied by a factor, and rules for it.
struct World {
    run: SyntheticRun,
    water: f32,
    rules: DetectorThresholds,
}

impl World {
    fn new(water: f32, rules: PercentileThresholds) -> Self {
        let config = SyntheticConfig {
            rows: 48,
            columns: 72,
            start: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap(),
            step_hours: 6,
            steps: 60,
            scenario: Scenario::PRESENT,
            seed: 3,
        };
        Self {
            run: SyntheticRun::new(config).unwrap(),
            water,
            rules: DetectorThresholds {
                percentile: rules,
                ..DetectorThresholds::default()
            },
        }
    }

    fn fields(&self, index: usize) -> DetectFields {
        let mut snapshot = self.run.snapshot(index).0;
        let place = (snapshot.variables.iter()).position(|v| *v == Variable::Tmq);
        let mut water = snapshot.fields.index_axis_mut(Axis(0), place.unwrap());
        water.mapv_inplace(|value| self.water * value);
        DetectFields::from_snapshot(snapshot)
    }

    /// One detector per method, with the given climatology if there is one.
    fn detectors(&self, methods: &[Method], known: Option<&SavedClimatology>) -> Vec<Detector> {
        let of = |method: &Method| {
            let detector = Detector::new(*method, &self.rules, self.run.grid()).unwrap();
            match known {
                Some(climatology) => detector.of_climate(climatology),
                None => detector,
            }
        };
        methods.iter().map(of).collect()
    }

    /// The run's climatology, after a round trip through a file.
    fn climatology(&self) -> SavedClimatology {
        let detectors = self.detectors(&[Method::Percentile], None);
        let read = |index: usize, _: Pass| -> Result<Option<DetectFields>> {
            Ok(Some(self.fields(index)))
        };
        let mut first = FirstPass::new(&detectors);
        let times = self.run.len();
        first.run(&detectors, times, &read, |_| Ok(())).unwrap();
        let conclusions = first.conclude(&detectors).unwrap();
        let origin = ClimateOrigin {
            input: "synthetic".into(),
            span: [0, times - 1].map(|index| self.run.time(index).to_string()),
            calendar: "noleap".into(),
            transport: None,
            moisture: None,
        };
        let usual = conclusions.percentiles().unwrap().clone();
        let grid = self.run.grid().clone();
        let made = SavedClimatology::new(usual, &self.rules.percentile, grid, origin).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("percentile_thresholds.nc");
        made.write(&path).unwrap();
        SavedClimatology::read(&path).unwrap()
    }

    /// The labels of its first times; reading is only allowed in these passes.
    fn labels(
        &self,
        detectors: &[Detector],
        times: usize,
        passes: &[Pass],
    ) -> Result<Vec<MethodLabels>> {
        let read = |index: usize, pass: Pass| -> Result<DetectFields> {
            if passes.contains(&pass) {
                Ok(self.fields(index))
            } else {
                Err(ClimateError::Invalid(format!("{pass:?} pass of {index}")))
            }
        };
        let mut all = Vec::new();
        detect_series(detectors, times, read, |_, labels| {
            all.extend(labels);
            Ok(())
        })?;
        Ok(all)
    }
}

#[test]
fn a_run_by_its_own_climatology_from_a_file_has_the_masks_of_both_passes() {
    const BOTH: [Pass; 2] = [Pass::First, Pass::Second];
    let world = World::new(1.0, PercentileThresholds::default());
    let own = world.detectors(&[Method::Percentile], None);
    let expected = world.labels(&own, 60, &BOTH).unwrap();
    let rivers: usize = expected.iter().map(|l| l.labelled.objects.len()).sum();
    assert!(rivers > 60, "{rivers}");
    assert!(world.labels(&own, 60, &[Pass::Second]).is_err());
    let climatology = world.climatology();
    let given = world.detectors(&[Method::Percentile], Some(&climatology));
    assert!(!given[0].needs_first_pass() && own[0].needs_first_pass());
    // Every time is read only once.
    let found = world.labels(&given, 60, &[Pass::Second]).unwrap();
    assert!(found == expected);
    // Combined with a method that needs both passes.
    let beside = |known: Option<&SavedClimatology>| {
        let detectors = world.detectors(&[Method::Deepcam, Method::Percentile], known);
        world.labels(&detectors, 60, &BOTH).unwrap()
    };
    assert!(beside(Some(&climatology)) == beside(None));
    // A few times are too few to build a climatology, but enough to apply one.
    let few: Vec<Time> = (0..3).map(|index| world.run.time(index)).collect();
    assert!(own[0].check_times(&few).is_err() && given[0].check_times(&few).is_ok());
    let first = world.labels(&given, 3, &[Pass::Second]).unwrap();
    assert!(first[..] == expected[..3]);
}

/// A run's own thresholds rise with its water. Geometry is disabled: a cell that exceeds more thresholds may belong to
/// an area that is too wide.
///
/// An independent count (numpy, on the same fields) gives 15,493 cells of 60 x 48 x 72 for the original run. A run with
/// 20 % more water has 16,750 by its own percentiles and 41,157 by the original run's.
#[test]
fn a_moister_run_has_more_river_cells_by_the_climate_of_before() {
    let anything = PercentileThresholds {
        min_length_km: 0.0,
        min_length_over_width: 0.0,
        min_poleward_kg_m_s: -1e6,
        max_deviating_share: 1.0,
        max_deviation_deg: 180.0,
        ..PercentileThresholds::default()
    };
    let present = World::new(1.0, anything.clone());
    let moister = World::new(1.2, anything);
    let cells = |world: &World, climatology: &SavedClimatology| -> usize {
        let given = world.detectors(&[Method::Percentile], Some(climatology));
        let labels = world.labels(&given, 60, &[Pass::Second]).unwrap();
        let river = Class::AtmosphericRiver.code();
        let marked = |l: &MethodLabels| {
            let codes = l.labelled.mask.codes.iter();
            codes.filter(|code| **code == river).count()
        };
        labels.iter().map(marked).sum()
    };
    let (of_present, of_moister) = (present.climatology(), moister.climatology());
    assert_ne!(of_present.describe(), of_moister.describe());
    let found = [
        cells(&present, &of_present),
        cells(&moister, &of_moister),
        cells(&moister, &of_present),
    ];
    // Values at the edge of a bin may be rounded differently.
    for (found, expected) in found.into_iter().zip([15_493.0, 16_750.0, 41_157.0]) {
        let off = found as f64 / expected - 1.0;
        assert!(off.abs() < 0.05, "{found}, expected {expected}");
    }
}
