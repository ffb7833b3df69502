//! Writes reports of synthetic weather, for viewing the page: `made_up_report OUT_FOLDER [DAYS]`.

#[path = "../tests/made_up/mod.rs"]
mod made_up;

use made_up::World;
use squall_climate::report::{
    Frame, Provenance, ReportBuilder, ReportInput, Score, Source, SourceKind,
};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: made_up_report OUT_FOLDER [DAYS]")?;
    let days: usize = arguments.next().map_or(Ok(60), |d| d.parse())?;
    let folder = Path::new(&folder);
    write(&folder.join("full.html"), 8 * days, &SourceKind::ALL)?;
    write(&folder.join("single.html"), 1, &[SourceKind::Heuristic])?;
    let world = World::new(24, 48, 1);
    ReportBuilder::new(ReportInput::new("Nothing at all", world.grid))?
        .write(folder.join("empty.html"))?;
    Ok(())
}

fn write(path: &Path, times: usize, kinds: &[SourceKind]) -> Result<(), Box<dyn Error>> {
    let world = World::new(192, 288, times);
    let mut input = ReportInput::new(
        "Sixty days of made-up weather: cyclones and rivers, heuristic and network",
        world.grid.clone(),
    );
    input.description = "Smooth synthetic fields with moving cyclones and rivers, written to look at this page. Nothing here is a simulation; every number below is made up.".into();
    for kind in kinds {
        let (events, tracks) = world.found_by(*kind);
        let label = match kind {
            SourceKind::Heuristic => "Heuristic",
            SourceKind::Other(_) => "TempestExtremes",
            SourceKind::Network => "DeepLabV3+",
            SourceKind::Truth => "Truth",
        };
        input
            .sources
            .push(Source::new(*kind, events, tracks).labelled(label));
    }
    if kinds.len() > 1 {
        let (group, other) = (
            "Network against heuristic labels, pixels",
            "Against the truth, events",
        );
        input.scores = vec![
            Score::fraction(
                group,
                "Mean IoU",
                0.781,
                "Mean over the three classes of intersection over union, counted over all pixels of all times (the MLPerf rule).",
            ),
            Score::fraction(
                group,
                "IoU of cyclones",
                0.583,
                "Of all pixels that either the network or the heuristic calls a cyclone, the share on which both agree.",
            ),
            Score::fraction(group, "IoU of rivers", 0.774, "The same for rivers."),
            Score::fraction(
                other,
                "POD of cyclones",
                0.913,
                "Probability of detection: the share of true cyclones that were found within 300 km.",
            ),
            Score::fraction(
                other,
                "FAR of cyclones",
                0.082,
                "False-alarm ratio: the share of found cyclones that are none.",
            ),
            Score::number(
                other,
                "Track error",
                61.3,
                "km",
                "Mean distance between found and true centres of matched cyclones.",
            ),
            Score::fraction(
                other,
                "POD of depressions",
                f64::NAN,
                "There was none in the data.",
            ),
        ];
    }
    input.provenance = vec![
        Provenance::new("Fields", "made up by tests/made_up (no simulation)"),
        Provenance::new("Calendar", "noleap, every 3 hours"),
        Provenance::new("Model", "deeplabv3plus, width 0.25, seed 1, 3000 steps"),
    ];
    input.recipe = Some("min_vorticity_850_per_s = 1.6e-4   # GFDL/TECA\nmax_pressure_distance_km = 350\nwarm_core_k = 0.8\ntmq_excess_kg_m2 = 20.0           # damped TMQ, DeepCAM recipe\nmin_length_km = 2000".into());
    input.commands = vec!["cargo run -p squall-climate --example made_up_report -- out".into()];
    let mut builder = ReportBuilder::new(input)?;
    for index in 0..times {
        let weather = world.weather(index);
        let masks: Vec<_> = kinds
            .iter()
            .map(|k| (*k, world.seen_by(&weather.truth, *k)))
            .collect();
        builder.add_frame(&Frame {
            field: Some(weather.tmq.view()),
            sea_level_pressure_pa: Some(weather.psl.view()),
            wind_m_s: Some((weather.u.view(), weather.v.view())),
            masks: masks.iter().map(|(k, m)| (*k, m.view())).collect(),
            ..Frame::new(weather.time)
        })?;
    }
    builder.write(path)?;
    Ok(())
}
