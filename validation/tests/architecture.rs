//! What ARCHITECTURE.md and docs/decisions.md promise about the shape of the code, checked.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Which crates of ours each crate may depend on.
const ARROWS: [(&str, &[&str]); 6] = [
    ("data", &[]),
    ("model", &[]),
    ("climate", &["data"]),
    ("jobs", &["data", "model"]),
    ("validation", &["climate", "data", "model"]),
    ("app", &["climate", "data", "jobs", "model", "validation"]),
];

/// Libraries of others that a crate must not depend on: names, or what names begin with before a hyphen.
const FOREIGN_FORBIDDEN: [(&str, &[&str]); 3] = [
    ("data", &["candle", "mpi"]),
    ("climate", &["candle", "mpi"]),
    ("model", &["mpi", "netcdf"]),
];

/// What loops over the cells of fields and masks, which the program leaves to libraries.
const LOOPS_OVER_CELLS: [&str; 7] = [
    "from_shape_fn",
    "mapv",
    "mapv_inplace",
    "indexed_iter",
    "outer_iter",
    "axis_iter",
    "azip",
];

/// The only places with `unsafe`: the list of ARCHITECTURE.md.
const UNSAFE_ALLOWED: [&str; 8] = [
    "model/onednn-sys/",
    "model/candle-kernels/",
    "model/src/ops/onednn/",
    "model/src/ops/cuda/",
    "model/src/memory.rs",
    "model/tests/stand_in_gpu/",
    "jobs/src/comm/mpi/ffi/",
    "jobs/src/comm/nccl/ffi.rs",
];

/// The only files of libraries that read the environment, for tests: the list of ARCHITECTURE.md.
const READS_ENVIRONMENT: [&str; 2] = ["model/src/ops/asked.rs", "data/src/testdata.rs"];

/// A file longer than this holds more than one concept.
const MAX_LINES: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the workspace folder exists")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder)
        .expect("a readable folder")
        .map(|e| e.expect("a readable entry").path())
    {
        if entry.is_dir() && entry.file_name().is_some_and(|name| name != "target") {
            rust_files(&entry, found);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            found.push(entry);
        }
    }
}

fn all_rust_files() -> Vec<(String, String)> {
    let root = root();
    let mut files = Vec::new();
    ARROWS
        .iter()
        .for_each(|(name, _)| rust_files(&root.join(name), &mut files));
    assert!(
        files.len() > 30,
        "only {} Rust files found: the walk is broken",
        files.len()
    );
    let relative = |path: &PathBuf| {
        path.strip_prefix(&root)
            .expect("under the root")
            .to_string_lossy()
            .into_owned()
    };
    files
        .iter()
        .map(|path| {
            (
                relative(path),
                fs::read_to_string(path).expect("UTF-8 source"),
            )
        })
        .collect()
}

/// A line of source without its comment and string literals.
fn code_of(line: &str) -> String {
    let without_comment = line.split("//").next().unwrap_or("");
    without_comment.split('"').step_by(2).collect()
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .any(|token| token == word)
}

/// What the manifest of a crate names as dependencies, of all kinds and for all platforms.
fn dependencies_of(name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(name).join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = toml::from_str(&text).expect("valid TOML");
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms = platforms
        .into_iter()
        .flat_map(|all| all.values())
        .filter_map(toml::Value::as_table);
    let mut found = BTreeSet::new();
    for table in platforms.chain([&manifest]) {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let listed = table.get(section).and_then(toml::Value::as_table);
            found.extend(listed.into_iter().flat_map(|named| named.keys().cloned()));
        }
    }
    assert!(!found.is_empty(), "{name} has no dependencies");
    found
}

#[test]
fn arrows_between_crates_hold() {
    for (name, allowed) in ARROWS {
        for dependency in dependencies_of(name) {
            let Some(ours) = dependency.strip_prefix("squall-") else {
                continue;
            };
            assert!(
                allowed.contains(&ours) || (name, ours) == ("model", "onednn-sys"),
                "{name} -> {ours} is not an arrow of the design"
            );
        }
    }
}

#[test]
fn crates_link_no_library_that_is_not_theirs() {
    for (name, forbidden) in FOREIGN_FORBIDDEN {
        for dependency in dependencies_of(name) {
            let is_one = |library: &&str| {
                let rest = dependency.strip_prefix(*library);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            assert!(
                !forbidden.iter().any(is_one),
                "{name} must not depend on {dependency}"
            );
        }
    }
}

#[test]
fn the_program_leaves_cells_to_libraries() {
    for (path, text) in all_rust_files() {
        if !path.starts_with("app/src/") || path.ends_with("/tests.rs") || path.contains("/tests/")
        {
            continue;
        }
        let program = text.split("#[cfg(test)]\nmod tests {").next();
        for line in program.unwrap_or_default().lines() {
            let code = code_of(line);
            let found = LOOPS_OVER_CELLS.iter().find(|word| has_word(&code, word));
            assert!(found.is_none(), "{path} goes through cells: {line}");
        }
    }
}

/// One that nobody uses lets every change of a crate rebuild another one and run its tests.
#[test]
fn crates_use_the_crates_that_they_depend_on() {
    let sources = all_rust_files();
    for (name, _) in ARROWS {
        let folder = format!("{name}/");
        for dependency in dependencies_of(name) {
            if !dependency.starts_with("squall-") {
                continue;
            }
            let word = dependency.replace('-', "_");
            let is_used = sources.iter().any(|(path, text)| {
                path.starts_with(&folder)
                    && text.lines().any(|line| has_word(&code_of(line), &word))
            });
            assert!(is_used, "{name} depends on {dependency} and never uses it");
        }
    }
}

#[test]
fn unsafe_stays_in_its_folders() {
    let mut outside = Vec::new();
    for (path, text) in all_rust_files() {
        let listed = UNSAFE_ALLOWED
            .iter()
            .any(|allowed| path.starts_with(allowed));
        let found = text.lines().any(|line| has_word(&code_of(line), "unsafe"));
        if found && !listed {
            outside.push(path);
        }
    }
    assert!(
        outside.is_empty(),
        "`unsafe` outside the listed folders: {outside:?}"
    );
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    for allowed in UNSAFE_ALLOWED {
        assert!(
            architecture.contains(&format!("`{}`", allowed.trim_end_matches('/'))),
            "{allowed} is not in ARCHITECTURE.md"
        );
    }
}

#[test]
fn crates_without_unsafe_say_so() {
    let forbidden = "#![forbid(unsafe_code)]";
    for (file, attribute) in [
        ("data/src/lib.rs", forbidden),
        ("climate/src/lib.rs", forbidden),
        // Only the interface of MPI has some, and allows it for itself.
        ("jobs/src/lib.rs", "#![deny(unsafe_code)]"),
        ("validation/src/lib.rs", forbidden),
        ("app/src/main.rs", forbidden),
    ] {
        let text = fs::read_to_string(root().join(file)).expect("the crate's root file");
        assert!(text.contains(attribute), "{file} lacks {attribute}");
    }
}

#[test]
fn files_hold_one_concept() {
    let long: Vec<_> = all_rust_files()
        .into_iter()
        .filter(|(_, text)| text.lines().count() > MAX_LINES)
        .map(|(path, _)| path)
        .collect();
    assert!(long.is_empty(), "longer than {MAX_LINES} lines: {long:?}");
}

#[test]
fn every_path_that_the_map_names_exists() {
    for (page, at_least) in [("ARCHITECTURE.md", 20), ("docs/decisions.md", 20)] {
        let text = fs::read_to_string(root().join(page)).expect(page);
        let mut checked = 0;
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path = ARROWS
                .iter()
                .any(|(name, _)| quoted.starts_with(&format!("{name}/")));
            if is_path && !quoted.contains(['*', '{', ' ']) {
                assert!(
                    root().join(quoted).exists(),
                    "{page} names `{quoted}`, which does not exist"
                );
                checked += 1;
            }
        }
        assert!(checked >= at_least, "{page} names only {checked} paths");
    }
}

#[test]
fn only_the_program_reads_arguments_and_environment() {
    for (path, text) in all_rust_files() {
        let library = path.contains("/src/") && !path.starts_with("app/");
        if library {
            let code: String = text.lines().map(code_of).collect();
            assert!(!code.contains("env::args"), "{path} reads arguments");
            assert!(
                !code.contains("env::var") || READS_ENVIRONMENT.contains(&path.as_str()),
                "{path} reads the environment"
            );
        }
    }
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map exists");
    for path in READS_ENVIRONMENT {
        assert!(page.contains(&format!("`{path}`")), "the map lacks {path}");
    }
}

/// Skipped tests are counted, and fail where what they need must not be missing, if they are skipped by `lacks` or
/// `skipped` of data/src/testdata.rs.
#[test]
fn tests_are_skipped_in_one_way() {
    for (path, text) in all_rust_files() {
        if path == "validation/tests/architecture.rs" {
            continue;
        }
        for own in ["println!(\"skipped", "nothing judged"] {
            assert!(!text.contains(own), "{path} skips tests by itself: {own}");
        }
    }
}

/// The bare remainder of a tiny negative longitude is 360 itself, which is no longitude in [0, 360). Tests may have
/// their own arithmetic.
#[test]
fn one_function_turns_longitudes() {
    for (path, text) in all_rust_files() {
        let is_test = !path.contains("/src/") || path.ends_with("/tests.rs");
        if is_test || path == "data/src/grid.rs" {
            continue;
        }
        let code = text.split("mod tests {").next().unwrap_or_default();
        let code: String = code.lines().map(code_of).collect();
        assert!(
            !code.contains("rem_euclid(360"),
            "{path}: use squall_data::grid::eastern_longitude"
        );
    }
}
