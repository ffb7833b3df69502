//! Labels by other methods than the usual one, through the program.

mod common;

use common::{path, run, simulate};
use squall_data::Class;
use squall_data::mask_file::MaskArchive;

#[test]
fn an_ensemble_of_thresholds_keeps_how_sure_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 3, 1);
    let labels = folder.path().join("bard");
    let label = ["label", path(&fields), "--method", "bard", "--out"];
    run(&[&label[..], &[path(&labels), "-q"]].concat());
    let masks = MaskArchive::open(path(&labels)).expect("masks");
    let (mut rivers, mut unsure) = (0, 0);
    for index in 0..masks.times().len() {
        let mask = masks.read(index).expect("a mask");
        let of = |class| masks.probability(index, class).expect("a probability");
        assert!(of(Class::TropicalCyclone).is_none(), "it knows no cyclones");
        let sure = of(Class::AtmosphericRiver).expect("that of rivers");
        for (&code, &p) in mask.codes.iter().zip(&sure) {
            // Two thirds, in steps of 1/250.
            let is_river = code == Class::AtmosphericRiver.code();
            assert!(if is_river { p > 0.66 } else { p < 0.671 }, "{code}: {p}");
            rivers += usize::from(is_river);
            unsure += usize::from(p > 0.1 && p < 0.6);
        }
    }
    assert!(rivers > 0 && unsure > 0, "{rivers} {unsure}");
}
