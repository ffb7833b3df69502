use super::*;
use squall_data::Variable;
use squall_model::Backend;
use squall_model::ops::loss::{Focal, Normalisation};

fn error(text: &str, overrides: &[&str]) -> String {
    let overrides: Vec<String> = overrides.iter().map(|o| o.to_string()).collect();
    Recipe::parse(text, &overrides).unwrap_err().to_string()
}

#[test]
fn mistakes_name_line_key_and_what_would_be_right() {
    let texts = [
        "name = 'a'\n[optimizer]\nrule = 'sgd'",
        "[schedule]\nlearning_rate = 0.1",
        "[optimiser]\nrule = 'adamm'",
        "[data]\nchannels = ['TMQ', 'u850']",
        "[training]\nbatch = -1",
        "seed = = 1",
        "[training]\nepochs = 1.0\nsteps = 5",
        "[training]\nbatch = 0",
        "[network]\nwidth = -1.0",
        "[network]\nname = 'deeplabv3+'",
        "[loss]\nclass_weights = [1.0, 2.0]",
        "[network]\nclasses = 7",
    ];
    let mut all: Vec<String> = texts.iter().map(|text| error(text, &[])).collect();
    all.extend(["training.bach=3", "batch", "seed.x=1"].map(|change| error("seed = 1", &[change])));
    insta::assert_snapshot!(all.join("\n\n"));
}

/// What is more than any run has would wrap around where memory and time are counted.
#[test]
fn absurd_numbers_are_refused_by_key() {
    for (key, value) in [
        ("training.batch", "1000000000000000000"),
        ("training.batch", "0"),
        ("training.accumulate", "0"),
        ("training.accumulate", "1000000000"),
        ("training.average", "0"),
        ("training.average", "1"),
        ("training.average", "nan"),
        ("distributed.global_batch", "9223372036854775807"),
        ("training.steps", "9000000000000000000"),
        ("training.steps", "-3"),
        ("training.epochs", "inf"),
        ("training.epochs", "1e30"),
        ("training.epochs", "nan"),
        ("data.prefetch", "1000000000000"),
        ("data.threads", "1000000000"),
        ("schedule.rate", "nan"),
        ("schedule.power", "inf"),
        ("network.blocks", "[1, 1000000000]"),
        ("network.atrous_rates", "[9000000000000000000]"),
    ] {
        let said = error("seed = 1", &[&format!("{key}={value}")]);
        let last = key.rsplit('.').next().unwrap_or(key);
        assert!(said.contains(last), "{key}={value}: {said}");
    }
    // A step is a multiple of no 0, and nothing is a 0th of a run.
    for (changes, key) in [
        ("training.steps=0", "`training.steps`"),
        (
            "training.validate_every_steps=0",
            "`training.validate_every_steps`",
        ),
        (
            "training.validation_samples=0",
            "`training.validation_samples`",
        ),
        (
            "training.checkpoint_every_steps=0",
            "`training.checkpoint_every_steps`",
        ),
        ("data.clip_stride=0", "`data.clip_stride`"),
        ("data.threads=0", "`data.threads`"),
        ("data.prefetch=0", "`data.prefetch`"),
        ("training.epochs=0", "`training.epochs`"),
        (
            "training.checkpoint_every_seconds=0",
            "`training.checkpoint_every_seconds`",
        ),
        (
            "training.checkpoint_every_seconds=nan",
            "`training.checkpoint_every_seconds`",
        ),
        ("training.max_seconds=-1", "`training.max_seconds`"),
        ("training.max_seconds=nan", "`training.max_seconds`"),
        ("training.target_score=0", "`training.target_score`"),
        ("training.target_score=nan", "`training.target_score`"),
        (
            "training.target_score=0.5 distributed.groups=2",
            "`training.target_score`: with",
        ),
        ("distributed.groups=0", "`distributed.groups`"),
        ("distributed.servers=0", "`distributed.servers`"),
        ("distributed.global_batch=0", "`distributed.global_batch`"),
        (
            "distributed.check_every_steps=0",
            "`distributed.check_every_steps`",
        ),
        ("distributed.bucket_mb=0", "`distributed.bucket_mb`"),
        ("distributed.bucket_mb=nan", "`distributed.bucket_mb`"),
        ("distributed.stall_seconds=0", "`distributed.stall_seconds`"),
        ("distributed.momentum=-0.1", "`distributed.momentum`"),
        ("data.channels=[]", "`data.channels`"),
        ("data.channels=['PSL','PSL']", "`data.channels`"),
        ("loss.class_weights=[1,-1,1]", "`loss.class_weights`"),
        ("loss.class_weights=[0,0,0]", "`loss.class_weights`"),
        ("loss.class_weights=[1,inf,1]", "`loss.class_weights`"),
        (
            "task=detect network.name=detector-dense network.mask_classes=2",
            "`network.mask_classes`",
        ),
        ("network.name=detector-2d", "needs \"detect\""),
        ("task=detect", "needs \"segment\""),
        ("detection.labelled_share=0", "`detection.labelled_share`"),
        ("detection.labelled_share=1.5", "`detection.labelled_share`"),
        ("detection.labelled_share=nan", "`detection.labelled_share`"),
        (
            "detection.pseudo_min_confidence=1.5",
            "`detection.pseudo_min_confidence`",
        ),
        (
            "detection.pseudo_min_confidence=-0.5",
            "`detection.pseudo_min_confidence`",
        ),
    ] {
        let said = error("seed = 1", &changes.split(' ').collect::<Vec<_>>());
        assert!(said.contains(key), "{changes}: {said}");
    }
    // What lies at the end of a range belongs to it. Never again, and until it is told to stop.
    for fine in [
        "training.target_score=1",
        "distributed.momentum=0",
        "loss.class_weights=[0,1,1]",
        "detection.labelled_share=1",
        "detection.pseudo_min_confidence=0",
        "detection.pseudo_min_confidence=1",
        "training.checkpoint_every_seconds=inf",
        "training.steps=1000000000000",
    ] {
        Recipe::parse("seed = 1", &[fine.to_string()]).unwrap();
    }
}

#[test]
fn the_resolved_recipe_reads_back_the_same() {
    let text = "name = 'x'\nprecision = 'bf16'\n[training]\nsteps = 7\n[data]\nchannels = ['PSL', 'TMQ']\n[optimiser]\nrule = 'adam'\nlarc = {}\n[network]\nwidth = 0.25";
    let overrides = [
        "network.name=deeplabv3plus-bilinear".to_string(),
        "seed=9".into(),
    ];
    let recipe = Recipe::parse(text, &overrides).unwrap();
    assert_eq!(recipe.seed, 9);
    assert_eq!(recipe.network.name.as_str(), "deeplabv3plus-bilinear");
    assert_eq!(
        recipe.data.channels,
        Some(vec![Variable::Psl, Variable::Tmq])
    );
    assert!(recipe.optimiser.larc.is_some());
    assert_eq!(Recipe::parse(&recipe.to_toml(), &[]).unwrap(), recipe);
}

#[test]
fn the_recipes_of_this_repository_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let recipe = Recipe::read(&path, &[]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# "), "{}: no header", path.display());
        assert_eq!(
            Some(recipe.name.as_str()),
            path.file_stem().unwrap().to_str()
        );
        names.push(recipe.name);
    }
    names.sort();
    assert_eq!(
        names,
        [
            "cgnet",
            "deepcam",
            "deeplabv3plus-published",
            "detect",
            "detect-dense",
            "detect-over-time",
            "detect-published",
            "full",
            "masks-and-boxes",
            "small",
            "tiramisu"
        ]
    );
}

/// As mlcommons/hpc `deepcam` computes it, on the schedule of the best runs with a global batch of 128.
#[test]
fn the_recipe_deepcam_is_the_benchmarks() {
    let named = |changes: &[&str]| {
        let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
        Recipe::named(Path::new("deepcam"), &changes).unwrap()
    };
    let recipe = named(&[]);
    assert_eq!(recipe.data.normalisation, NormalisationChoice::MinMax);
    assert_eq!(recipe.loss.normalisation, Normalisation::Pixels);
    let training = &recipe.training;
    assert_eq!(training.best_by, BestBy::SampleMeanIou);
    let steps = training.passes() * 121_266.0 / 128.0;
    assert!((steps - 9000.0).abs() < 10.0, "{steps}");
    assert_eq!(recipe.optimiser, OptimizerConfig::mlperf_deepcam());
    // 64 ranks of 2, 16 of 8 and one of 128 samples a step.
    let whole = named(&["distributed.global_batch=128"]);
    for schedule in [
        recipe.scaled_schedule(64),
        whole.scaled_schedule(16),
        whole.scaled_schedule(1),
    ] {
        assert_eq!(schedule.rate, 1.55e-3);
        assert_eq!((schedule.warmup_steps, schedule.end), (0, 0.0));
    }
    let alone = recipe.scaled_schedule(1).rate;
    assert_eq!(alone, 1.55e-3 / 8.0);
}

#[test]
fn only_what_changes_results_keeps_a_run_from_going_on() {
    let old = Recipe::default();
    let mut new = old.clone();
    new.training.checkpoint_every_steps = Some(3);
    new.training.max_seconds = Some(10.0);
    new.training.target_score = Some(0.8);
    new.training.patience = Some(3);
    new.data.threads = Some(7);
    new.training.recompute = Recompute::Blocks;
    new.training.ignore_memory = true;
    new.distributed.stall_seconds = 900.0;
    new.distributed.check_every_steps = 7;
    assert!(new.changes_of_result(&old).is_empty());
    let mut rounded = new.clone();
    rounded.training.saved_activations = SavedActivations::Bf16;
    let changes = rounded.changes_of_result(&old);
    assert_eq!(
        changes,
        [
            "`training.recompute` was \"none\", is \"blocks\"",
            "`training.saved_activations` was \"same\", is \"bf16\""
        ]
    );
    new.seed = 2;
    new.data.augmentation.roll = true;
    new.training.accumulate = 2;
    new.training.best_by = BestBy::AreaMeanIou;
    let changes = new.changes_of_result(&old);
    assert_eq!(
        changes,
        [
            "`data.augmentation.roll` was false, is true",
            "`seed` was 1, is 2",
            "`training.accumulate` was 1, is 2",
            "`training.best_by` was \"mean_iou\", is \"area_mean_iou\"",
        ]
    );
    // A step of as many samples, in twice as many batches.
    let [one, two] = [1, 2].map(|accumulate| {
        let mut recipe = old.clone();
        recipe.distributed.global_batch = Some(8);
        recipe.training.accumulate = accumulate;
        recipe
    });
    assert_eq!(two.changes_of_result(&one), Vec::<String>::new());
}

/// Runs from before there was the key go on, and model files stay as they were.
#[test]
fn a_step_of_one_batch_is_written_down_as_before() {
    let one = Recipe::default();
    assert!(!one.to_toml().contains("accumulate"));
    let given = Recipe::parse("", &["training.accumulate=1".into()]).unwrap();
    assert_eq!(given.to_toml(), one.to_toml());
    let two = Recipe::parse("", &["training.accumulate=2".into()]).unwrap();
    assert_eq!(Recipe::parse(&two.to_toml(), &[]).unwrap(), two);
    let groups = error("", &["training.accumulate=2", "distributed.groups=2"]);
    let words = "`training.accumulate`: expected 1 with `distributed.groups`, found 2";
    assert!(groups.contains(words), "{groups}");
}

/// Model files of runs without it stay as they were, and what they would hold with it is another result.
#[test]
fn an_average_is_written_down_where_there_is_one() {
    let none = Recipe::default();
    assert!(!none.to_toml().contains("average") && !none.lines().contains("average"));
    let averaged = Recipe::parse("", &["training.average=0.999".into()]).unwrap();
    assert_eq!(Recipe::parse(&averaged.to_toml(), &[]).unwrap(), averaged);
    assert_eq!(
        averaged.changes_of_result(&none),
        ["`training.average` was nothing, is 0.999"]
    );
    let said = error("", &["training.average=1.5"]);
    let words = "`training.average`: expected above 0 and below 1, such as 0.999, found 1.5";
    assert!(said.contains(words), "{said}");
    let groups = error("", &["training.average=0.9", "distributed.groups=2"]);
    let words = "`training.average`: with `distributed.groups`";
    assert!(groups.contains(words), "{groups}");
}

#[test]
fn epochs_or_steps() {
    let length = |text: &str| {
        Recipe::parse(text, &[])
            .unwrap()
            .training
            .total_steps(14, 2)
    };
    assert_eq!(length(""), 140);
    assert_eq!(length("training.epochs = 1.5"), 11);
    assert_eq!(length("training.steps = 5"), 5);
}

/// Of 50 samples; at most a step more than that, whatever the batch.
#[test]
fn epochs_are_as_many_samples_whatever_the_batch() {
    for (epochs, batch, expected) in [
        (4, 1, 200),
        (4, 8, 25),
        (4, 30, 7),
        (4, 50, 4),
        (3, 26, 6),
        (1, 26, 2),
    ] {
        let recipe = Recipe::parse(&format!("training.epochs = {epochs}.0"), &[]);
        let found = recipe.unwrap().training.total_steps(50, batch);
        assert_eq!(found, expected, "{epochs} in steps of {batch}");
    }
}

/// Products of binary fractions lie a little beside the whole numbers that are meant.
#[test]
fn hundredths_of_epochs_have_no_step_too_many() {
    for hundredths in 1..400usize {
        let recipe = Recipe::parse(
            &format!("training.epochs = {:?}", hundredths as f64 / 100.0),
            &[],
        );
        let training = recipe.unwrap().training;
        for steps in [1, 7, 25, 50, 100, 300, 12_100] {
            for of_step in [1, 3, 7, 64] {
                let expected = (hundredths * steps).div_ceil(100);
                let found = training.total_steps(steps * of_step, of_step);
                assert_eq!(
                    found, expected as u64,
                    "{hundredths} of {steps} of {of_step}"
                );
            }
        }
    }
}

#[test]
fn what_mlperf_and_the_paper_run_can_be_written_down() {
    let mlperf = "
        precision = { compute = 'f32', loss_scale = { kind = 'dynamic', initial = 65536.0, growth_interval = 2000 } }
        [loss]
        weighting = 'deepcam'
        normalisation = 'pixels'
        [optimiser]
        rule = 'lamb'
        epsilon = 1e-6
        weight_decay = 0.01
        decay_all = true
        clip_norm = 1.0
        [schedule]
        rate = 5.5e-3
        decay = 'multistep'
        warmup_steps = 400
        milestones = [800]";
    let recipe = Recipe::parse(mlperf, &[]).unwrap();
    assert_eq!(recipe.optimiser, OptimizerConfig::mlperf_deepcam());
    assert_eq!(recipe.loss.normalisation, Normalisation::Pixels);
    assert!(recipe.precision.loss_scale.unwrap().is_dynamic());
    assert_eq!(Recipe::parse(&recipe.to_toml(), &[]).unwrap(), recipe);

    let focal = "[loss]\nfocal = { gamma = 1.5 }\nnormalisation = { sum = 1e-5 }\n[optimiser]\nrule = 'adam'\nlarc = {}";
    let recipe = Recipe::parse(focal, &["precision=bf16".into()]).unwrap();
    let expected = Focal {
        alpha: 1.0,
        gamma: 1.5,
    };
    assert_eq!(recipe.loss.focal, Some(expected));
    assert_eq!(recipe.loss.normalisation, Normalisation::Sum(1e-5));
    assert_eq!(recipe.optimiser, OptimizerConfig::larc_adam());
    assert_eq!(Recipe::parse(&recipe.to_toml(), &[]).unwrap(), recipe);

    for (text, key) in [
        ("[loss]\nfocal = { alpha = 0.0 }", "focal.alpha"),
        (
            "[loss]\nnormalisation = { sum = -1.0 }",
            "normalisation.sum",
        ),
        ("[optimiser]\nrule = 'lamb'\nlarc = {}", "larc"),
        (
            "precision = { loss_scale = { kind = 'static', scale = 0.0 } }",
            "loss_scale",
        ),
        (
            "precision = { loss_scale = { kind = 'dynamic', initial = 0.5, growth_interval = 1 } }",
            "loss_scale.initial",
        ),
        (
            "precision = { compute = 'f32', kernels = 'stochastic' }",
            "`precision.kernels`",
        ),
        (
            "precision = { compute = 'f16', kernels = 'stochastic' }",
            "`precision.kernels`",
        ),
        (
            "precision = { kernels = 'stochastic' }\n[distributed]\ngroups = 2",
            "`precision.kernels`",
        ),
        ("[training]\ntarget_score = 1.5", "`training.target_score`"),
        ("[training]\npatience = 0", "`training.patience`"),
        (
            "[training]\npatience = 3\n[distributed]\ngroups = 2",
            "`training.patience`: with `distributed.groups`",
        ),
        ("precision = { keep = [] }", "did you mean `keep_f32`?"),
        ("precision = 'fp32'", "did you mean `f32`?"),
    ] {
        let text = error(text, &[]);
        assert!(text.contains(key), "{text}");
    }
}

#[test]
fn a_cpu_keeps_its_cores_for_computing() {
    let mut data = Recipe::default().data;
    assert_eq!(data.readers(Backend::Reference), (2, 2));
    data.threads = Some(5);
    assert_eq!(data.readers(Backend::Reference), (5, 5));
    data.threads = Some(1);
    assert_eq!(data.readers(Backend::Reference), (1, 2));
    data.prefetch = Some(7);
    assert_eq!(data.readers(Backend::Reference), (1, 7));
}

#[test]
fn a_word_for_the_precision_leaves_the_rest_of_its_section() {
    let text = "[precision]\ncompute = 'f32'\nkeep_f32 = ['decoder']";
    let recipe = Recipe::parse(text, &["precision=bf16".into()]).unwrap();
    assert_eq!(recipe.precision.compute, squall_model::Precision::Bf16);
    assert_eq!(recipe.precision.keep_f32, ["decoder"]);
    let both = ["precision.tf32=true", "precision=bf16"].map(str::to_string);
    for recipe in [
        Recipe::parse("", &both).unwrap(),
        Recipe::parse("precision = 'f32'", &both).unwrap(),
    ] {
        let found = (recipe.precision.compute, recipe.precision.tf32);
        assert_eq!(found, (squall_model::Precision::Bf16, true));
    }
    // A table replaces all of it.
    let table = "precision={ compute = 'bf16' }".to_string();
    let recipe = Recipe::parse(text, &[table]).unwrap();
    assert!(recipe.precision.keep_f32.is_empty());
}

/// A run's recipe.toml has the section, recipes of one's own have the word.
#[test]
fn a_word_for_the_precision_may_be_set_like_its_section() {
    for text in ["precision = 'bf16'", "[precision]\ncompute = 'bf16'", ""] {
        let recipe = Recipe::parse(text, &["precision.compute=f32".into()]).unwrap();
        assert_eq!(
            recipe.precision.compute,
            squall_model::Precision::F32,
            "{text}"
        );
    }
}

/// The keys that are known where `zzz` is none; nothing where that is no section.
fn known_beside_zzz(changes: &[&str]) -> Option<Vec<String>> {
    let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
    let said = Recipe::parse("", &changes).err()?.to_string();
    let (_, rest) = said.split_once("unknown key `zzz`")?;
    let (_, known) = rest.split_once("(known: ")?;
    let (known, _) = known.split_once(')')?;
    Some(known.split(", ").map(str::to_string).collect())
}

/// Every key under a section, which is empty or ends with a dot.
fn keys_under(section: &str) -> Vec<String> {
    let change = format!("{section}zzz=1");
    let known = known_beside_zzz(&[change.as_str()]).unwrap_or_default();
    let keys = known.iter().flat_map(|key| {
        let key = format!("{section}{key}");
        let inner = keys_under(&format!("{key}."));
        if inner.is_empty() { vec![key] } else { inner }
    });
    keys.collect()
}

#[test]
fn every_key_has_its_line_in_the_docs() {
    use std::collections::BTreeSet;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/recipe.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: BTreeSet<String> = rows.map(str::to_string).collect();
    let mut keys: BTreeSet<String> = keys_under("").into_iter().collect();
    // What stands beside a kind depends on the kind.
    let scale = "precision.loss_scale";
    assert!(keys.remove(scale), "{keys:?}");
    keys.insert(format!("{scale}.kind"));
    for kind in ["static", "dynamic"] {
        let kind = format!("{scale}.kind={kind}");
        let own = known_beside_zzz(&[kind.as_str(), "precision.loss_scale.zzz=1"]).unwrap();
        keys.extend(own.iter().map(|key| format!("{scale}.{key}")));
    }
    for section in [
        "network.width",
        "data.augmentation.roll",
        "loss.focal.gamma",
    ] {
        assert!(keys.contains(section), "{section} is not in {keys:?}");
    }
    let lacking: Vec<&String> = keys.difference(&rows).collect();
    assert!(lacking.is_empty(), "not in docs/recipe.md: {lacking:?}");
    let unknown: Vec<&String> = rows.difference(&keys).collect();
    assert!(unknown.is_empty(), "docs/recipe.md has {unknown:?}");
}

#[test]
fn values_of_another_type_are_told_in_words() {
    for (change, words) in [
        (
            "training.batch=many",
            "expected a whole number of 0 or more, found \"many\"",
        ),
        (
            "seed=9223372036854775808",
            "at most 9223372036854775807 as in all TOML, found",
        ),
        ("data.augmentation=true", "expected a table, found true"),
        ("data.channels=3", "expected a list, found 3"),
    ] {
        let said = error("", &[change]);
        assert!(said.contains(words), "{said}");
    }
    let said = error("seed = 9223372036854775808", &[]);
    let words = "line 1: expected at most 9223372036854775807 as in all TOML";
    assert!(said.contains(words), "{said}");
}

#[test]
fn channels_follow_from_the_data() {
    let two = "[data]\nchannels = ['TMQ', 'PSL']\n";
    let said = error(two, &["network.channels_in=3"]);
    assert!(
        said.contains("`network.channels_in`: expected 2, the channels of the data, found 3"),
        "{said}"
    );
    assert!(Recipe::parse(two, &["network.channels_in=2".into()]).is_ok());
    // Whether it is right the store decides.
    let three = Recipe::parse("", &["network.channels_in=3".into()]).unwrap();
    assert!(three.with_channels(4).is_err());
    let left_out = Recipe::default();
    let fitted = left_out.with_channels(4).unwrap();
    assert_eq!(fitted.network.channels_in, 4);
    let noted = Recipe::parse(&fitted.to_toml(), &["data.channels=['PSL']".into()]).unwrap();
    assert_eq!(noted.network, left_out.network);
    // Runs from before it was noted go on.
    assert!(fitted.changes_of_result(&left_out).is_empty());
}

/// It would have been that of the store, without a word.
#[test]
fn the_normalisation_of_a_model_needs_the_model() {
    let keep = "data.normalisation=start_from";
    let said = error("", &[keep]);
    let words =
        "`data.normalisation`: \"start_from\" is that of the model of `training.start_from`";
    assert!(said.contains(words), "{said}");
    let start = "training.start_from=model.safetensors";
    let changes = [keep, start].map(String::from);
    let recipe = Recipe::parse("", &changes).unwrap();
    assert_eq!(recipe.normalised_as(), Some(Path::new("model.safetensors")));
    assert_eq!(Recipe::parse(&recipe.to_toml(), &[]).unwrap(), recipe);
    let own = Recipe::parse("", &[start.to_string()]).unwrap();
    assert_eq!(own.normalised_as(), None);
    assert_eq!(
        recipe.changes_of_result(&own),
        ["`data.normalisation` was \"mean-std\", is \"start_from\""]
    );
}

#[test]
fn a_schedule_by_milestones_needs_some() {
    let said = error("", &["schedule.decay=multistep"]);
    assert!(
        said.contains("[schedule]") && said.contains("`milestones`"),
        "{said}"
    );
}

#[test]
fn changes_are_told_as_they_were_written() {
    let of = |decay: &str| Recipe::parse("", &[format!("optimiser.weight_decay={decay}")]).unwrap();
    assert_eq!(
        of("0.01").changes_of_result(&of("0.1")),
        ["`optimiser.weight_decay` was 0.1, is 0.01"]
    );
}

/// A file does not have them where they are as by default, but they have a value all the same.
#[test]
fn keys_that_files_leave_out_are_told_with_their_default() {
    let usual = Recipe::default();
    for (key, was, is) in [
        ("training.accumulate", "1", "2"),
        ("training.best_by", "\"mean_iou\"", "\"area_mean_iou\""),
        ("precision.all_layers", "false", "true"),
        ("precision.tf32", "false", "true"),
    ] {
        let (section, last) = key.split_once('.').unwrap();
        let file: toml::Table = toml::from_str(&usual.to_toml()).unwrap();
        assert!(file[section].get(last).is_none(), "{key}");
        let changed = Recipe::parse("", &[format!("{key}={is}")]).unwrap();
        let expected = format!("`{key}` was {was}, is {is}");
        assert_eq!(changed.changes_of_result(&usual), [expected]);
    }
}

/// A new key that files leave out fails here, until `table` gives its default or it is known to have none.
#[test]
fn no_key_that_files_leave_out_is_forgotten() {
    let usual = Recipe::default();
    let file = serde_json::to_value(&usual).unwrap();
    // In JSON a key without a value is null.
    let is_left_out = |key: &String| {
        let pointer = format!("/{}", key.replace('.', "/"));
        let (section, last) = pointer.rsplit_once('/').unwrap();
        let section = file.pointer(section).and_then(|keys| keys.as_object());
        section.is_some_and(|keys| !keys.contains_key(last)) && usual.value_of(key).is_none()
    };
    // A network's file has just the keys that say something about it.
    let keys = keys_under("").into_iter();
    let keys = keys.filter(|key| !key.starts_with("network."));
    let left_out: Vec<String> = keys.filter(is_left_out).collect();
    let without_default = [
        "precision.loss_scale",
        "data.threads",
        "data.prefetch",
        "optimiser.rates",
    ];
    assert_eq!(left_out, without_default);
}

#[test]
fn a_value_is_told_as_set_takes_it() {
    let changes = ["schedule.rate=2e-3", "optimiser.rule=sgd"].map(String::from);
    let recipe = Recipe::parse("[training]\nbatch = 4", &changes).unwrap();
    let check = |key: &str, expected: Option<&str>| {
        assert_eq!(recipe.value_of(key).as_deref(), expected, "{key}");
    };
    check("training.batch", Some("4"));
    check("schedule.rate", Some("0.002"));
    check("optimiser.rule", Some("sgd"));
    check("training.accumulate", Some("1"));
    check("training.best_by", Some("mean_iou"));
    check("training.max_seconds", None);
    check("training.batch.size", None);
}

/// The rate of a step of eight batches of two, over all ranks and what each adds up.
#[test]
fn the_rate_of_a_run_follows_its_ranks_and_batches() {
    let rate = |changes: &[&str], ranks: usize| {
        let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
        let recipe = Recipe::parse("schedule.rate = 0.5", &changes).unwrap();
        recipe.scaled_schedule(ranks).rate
    };
    let linear = "distributed.rate_scaling=linear";
    assert_eq!(rate(&[], 8), 0.5);
    assert_eq!(rate(&[linear], 1), 0.5);
    assert_eq!(rate(&[linear], 8), 4.0);
    assert_eq!(rate(&[linear, "training.accumulate=4"], 2), 4.0);
    assert_eq!(rate(&["distributed.rate_scaling=sqrt"], 4), 1.0);
    // Six times the two samples of a batch, on any number of ranks.
    let global = "distributed.global_batch=12";
    assert_eq!(rate(&[linear, global], 1), 3.0);
    assert_eq!(rate(&[linear, global], 4), 3.0);
}

/// From 10 to 2 evenly over the run, and no further.
#[test]
fn the_weight_of_the_reconstruction_changes_evenly() {
    let parse = |changes: &[&str]| {
        let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
        Recipe::parse("", &changes).unwrap().detection
    };
    let start = "detection.loss.reconstruction=10";
    let falls = parse(&[start, "detection.reconstruction_end=2"]);
    let at = |progress: f64| falls.loss_at(progress).reconstruction;
    assert_eq!(
        [0.0, 0.25, 1.0, 1.5].map(at),
        [10.0, 8.0, 2.0, 2.0],
        "{falls:?}"
    );
    assert_eq!(parse(&[start]).loss_at(0.75).reconstruction, 10.0);
    let none = "detection.loss.reconstruction=0";
    assert!(!parse(&[none]).reconstructs());
    assert!(parse(&[none, "detection.reconstruction_end=2"]).reconstructs());
    assert!(parse(&[start, "detection.reconstruction_end=0"]).reconstructs());
}
