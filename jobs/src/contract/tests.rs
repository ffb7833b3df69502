use super::*;
use squall_data::channel_source::How;
use squall_data::normalise::{ChannelScale, NormalisationMethod};
use squall_model::networks::NetworkName;

fn contract() -> Contract {
    let normalisation = Normalisation {
        method: NormalisationMethod::MeanStd,
        channels: [Variable::Tmq, Variable::Psl]
            .map(|variable| ChannelScale::identity(variable, 1.0))
            .to_vec(),
    };
    let network = NetworkConfig {
        channels_in: 2,
        ..NetworkConfig::default()
    };
    let grid = LatLonGrid::global(24, 48).unwrap();
    Contract::new(&Recipe::default(), &network, &normalisation, &grid, "abc")
}

#[test]
fn a_file_gives_back_its_contract_and_a_changed_normalisation_is_seen() {
    let (path, contract) = (Path::new("m.safetensors"), contract());
    let mut file = ModelFile::default();
    assert!(
        Contract::of(&file.facts, path)
            .unwrap_err()
            .to_string()
            .contains("no contract")
    );
    contract.put(&mut file).unwrap();
    assert_eq!(Contract::of(&file.facts, path).unwrap(), contract);
    // Class weights come back as they are; of files without them nothing is known.
    assert!(!file.facts["contract"].contains("class_weights"));
    let weighted = Contract {
        class_weights: vec![0.1, 0.7, 0.2],
        ..contract.clone()
    };
    weighted.put(&mut file).unwrap();
    assert_eq!(Contract::of(&file.facts, path).unwrap(), weighted);
    let mut changed = contract.clone();
    changed.normalisation.channels[0].divide = 2.0;
    changed.put(&mut file).unwrap();
    let error = Contract::of(&file.facts, path).unwrap_err().to_string();
    assert!(error.contains("changed after training"), "{error}");
    // Said to be for regions, too, it would wrap them around the globe.
    let said = Contract {
        longitude_padding: "zero".into(),
        ..contract
    };
    said.put(&mut file).unwrap();
    let error = Contract::of(&file.facts, path).unwrap_err().to_string();
    assert!(error.contains("says `zero`"), "{error}");
}

#[test]
fn a_score_is_called_what_it_is() {
    let mut model = contract();
    assert_eq!(model.score_name(), "mean IoU");
    let by_area = ["training.best_by=area_mean_iou".to_string()];
    model.recipe = Recipe::parse("", &by_area).unwrap().to_toml();
    assert_eq!(model.score_name(), "area mean IoU");
    model.recipe = "of another version".into();
    assert_eq!(model.score_name(), "score of masks");
    model.network = NetworkConfig::of(NetworkName::Detector2d);
    assert_eq!(model.score_name(), "mAP");
    model.network = NetworkConfig {
        mask_classes: 3,
        ..NetworkConfig::of(NetworkName::DetectorDense)
    };
    assert_eq!(model.score_name(), "score of boxes and masks");
}

#[test]
fn a_network_with_latitude_input_refuses_a_band() {
    let mut contract = contract();
    let (globe, near) = (LatLonGrid::global(24, 48), LatLonGrid::global(25, 48));
    let (globe, near) = (globe.unwrap(), near.unwrap());
    let tropics = globe.lat_deg()[6..18].to_vec();
    let (tropics, _) = LatLonGrid::from_axes(tropics, globe.lon_deg().to_vec()).unwrap();
    assert!(contract.check(&tropics, &Variable::CHANNELS).is_ok());
    contract.network.latitude_input = true;
    assert!(contract.check(&globe, &Variable::CHANNELS).is_ok());
    assert!(contract.check(&near, &Variable::CHANNELS).is_ok());
    let reasons = contract.check(&tropics, &Variable::CHANNELS).unwrap_err();
    let expected = "over 180 degrees in training; those of the input lie over 86";
    assert!(
        reasons.len() == 1 && reasons[0].contains(expected),
        "{reasons:?}"
    );
    // Trained on the north; the south is as high.
    let of_rows = |rows: std::ops::Range<usize>| {
        let lat = globe.lat_deg()[rows].to_vec();
        LatLonGrid::from_axes(lat, globe.lon_deg().to_vec())
            .unwrap()
            .0
    };
    let (north, south) = (of_rows(12..24), of_rows(0..12));
    contract.grid = GridFacts::of(&north);
    assert_eq!(contract.check(&north, &Variable::CHANNELS), Ok(vec![]));
    let notes = contract.check(&south, &Variable::CHANNELS).unwrap();
    assert!(
        notes.len() == 2 && notes[1].contains("those of its training"),
        "{notes:?}"
    );
}

#[test]
fn mismatches_are_refused_with_every_reason() {
    let contract = contract();
    let same = LatLonGrid::global(24, 48).unwrap();
    assert_eq!(contract.check(&same, &Variable::CHANNELS), Ok(vec![]));
    let near = LatLonGrid::global(25, 48).unwrap();
    assert_eq!(contract.check(&near, &Variable::CHANNELS).unwrap().len(), 1);
    let finer = LatLonGrid::global(48, 96).unwrap();
    let reasons = contract.check(&finer, &[Variable::Tmq]).unwrap_err();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(reasons[0].contains("channels PSL are missing (the input has TMQ)"));
    assert!(reasons[2].contains("7.500 degrees between cells in longitude, the input has 3.750"));
    let lon = (0..20).map(|i| 7.5 * f64::from(i)).collect();
    let (regional, _) = LatLonGrid::from_axes(same.lat_deg().to_vec(), lon).unwrap();
    let reasons = contract.check(&regional, &Variable::CHANNELS).unwrap_err();
    assert!(reasons[0].contains("wraps around the globe"), "{reasons:?}");
}

/// A network that learnt from 10 m wind ran on the wind of the lowest level without a word.
#[test]
fn other_sources_than_in_training_are_told() {
    let read = |name: &str| ChannelSource {
        variable: Some(name.into()),
        how: How::Read,
    };
    let summed = ChannelSource {
        variable: Some("hus".into()),
        how: How::Computed,
    };
    let sources = |water: ChannelSource| -> ChannelSources {
        // PS is not of the model.
        ChannelSources::from([
            (Variable::Tmq, BTreeSet::from([water])),
            (Variable::Psl, BTreeSet::from([read("msl")])),
            (Variable::Ps, BTreeSet::from([read("sp")])),
        ])
    };
    let (of_column, of_levels) = (sources(read("prw")), sources(summed));
    let old = contract();
    assert!(old.other_sources(&of_levels).is_empty());
    let model = old.clone().with_sources(&of_column);
    assert!(model.channels[0].sources.contains(&read("prw")));
    assert!(model.other_sources(&ChannelSources::new()).is_empty());
    assert!(model.other_sources(&sources(read("tcwv"))).is_empty());
    let told = model.other_sources(&of_levels);
    let expected = "TMQ was `prw` in training; here it is computed from `hus`";
    assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
    // Models of earlier versions name none.
    let (path, mut file) = (Path::new("m.safetensors"), ModelFile::default());
    for (contract, is_named) in [(old, false), (model, true)] {
        contract.put(&mut file).unwrap();
        assert_eq!(file.facts[FACT].contains("\"sources\""), is_named);
        assert_eq!(Contract::of(&file.facts, path).unwrap(), contract);
    }
}

/// Events in pixels are those that kernels learnt up to 15 % of the spacing, finer or coarser.
#[test]
fn cells_may_be_a_little_larger_or_smaller() {
    let contract = contract();
    // Trained with 48 columns: 42 are 14.3 % wider, 41 are 17.1 %, 56 are 14.3 % narrower, 57 are 15.8 %.
    for (columns, is_near) in [(42, true), (41, false), (56, true), (57, false)] {
        let grid = LatLonGrid::global(24, columns).unwrap();
        let checked = contract.check(&grid, &Variable::CHANNELS);
        assert_eq!(checked.is_ok(), is_near, "{columns}: {checked:?}");
    }
    let coarser = LatLonGrid::global(12, 24).unwrap();
    let reasons = contract.check(&coarser, &Variable::CHANNELS).unwrap_err();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
}

/// A model of another program, or of a later version of this one.
#[test]
fn what_means_something_else_here_is_refused() {
    let grid = LatLonGrid::global(24, 48).unwrap();
    let refused = |contract: &Contract| {
        let reasons = contract.check(&grid, &Variable::CHANNELS).unwrap_err();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        reasons[0].clone()
    };
    let mut units = contract();
    units.channels[1].unit = "hPa".into();
    let said = refused(&units);
    let words = "takes PSL in hPa, this program reads it in Pa";
    assert!(said.contains(words), "{said}");
    let mut classes = contract();
    classes.classes.swap(1, 2);
    let said = refused(&classes);
    assert!(
        said.contains("the model's classes are background, a"),
        "{said}"
    );
    let mut masks = contract();
    masks.mask_classes = vec!["background".into()];
    let said = refused(&masks);
    assert!(
        said.contains("the model's masks are background, "),
        "{said}"
    );
    let of = |change: &dyn Fn(&mut Contract)| {
        let mut contract = contract();
        change(&mut contract);
        let mut file = ModelFile::default();
        contract.put(&mut file).unwrap();
        let read = Contract::of(&file.facts, Path::new("m.safetensors"));
        read.unwrap_err().to_string()
    };
    let said = of(&|contract| contract.version = 2);
    assert!(said.contains("has version 2"), "{said}");
    let changes: [&dyn Fn(&mut Contract); 3] = [
        &|contract| contract.channels.swap(0, 1),
        &|contract| contract.network.channels_in = 3,
        &|contract| drop(contract.classes.pop()),
    ];
    for change in changes {
        let said = of(change);
        assert!(said.contains("network disagree"), "{said}");
    }
}

/// Inference computes as training did.
#[test]
fn the_precision_of_training_is_in_the_contract() {
    let text =
        "[precision]\ncompute = 'bf16'\nkeep_f32 = ['decoder']\nall_layers = true\ntf32 = true";
    let recipe = Recipe::parse(text, &[]).unwrap();
    let of = contract();
    let grid = LatLonGrid::global(24, 48).unwrap();
    let contract = Contract::new(&recipe, &of.network, &of.normalisation, &grid, "abc");
    assert_eq!(contract.precision, Precision::Bf16);
    assert_eq!(contract.keep_f32, ["decoder"]);
    assert!(contract.all_layers && contract.tf32);
    assert!(of.keep_f32.is_empty() && !of.all_layers && !of.tf32);
}
