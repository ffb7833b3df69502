//! What a test needs and a machine may lack: real files, which may not be shipped, `mpirun`, a compiler. Only for tests.
//!
//! A test that is skipped for lack of something says so on standard error, and adds a line to the file that
//! `SQUALL_SKIPPED` names. It fails instead if `SQUALL_REQUIRE` names what is missing: `SQUALL_REQUIRE=mpirun,realdata`,
//! for machines where that may not happen.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a machine may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Real files.
    RealData,
    /// What starts ranks.
    Mpirun,
    /// Python 3.
    Python,
    /// A C++ compiler.
    Cxx,
    /// The shell of most scripts.
    Bash,
}

impl Need {
    const ALL: [Self; 5] = [
        Self::RealData,
        Self::Mpirun,
        Self::Python,
        Self::Cxx,
        Self::Bash,
    ];

    /// The word for it in `SQUALL_REQUIRE`.
    fn word(self) -> &'static str {
        match self {
            Self::RealData => "realdata",
            Self::Mpirun => "mpirun",
            Self::Python => "python",
            Self::Cxx => "cxx",
            Self::Bash => "bash",
        }
    }
}

/// The path of a real test file or folder, or `None`, with [`lacks`], where it is not on this machine.
///
/// Looked for in the folder `SQUALL_REALDATA`, or else beside the repository.
///
/// # Panics
/// As [`lacks`].
pub fn real(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("SQUALL_REALDATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/realdata"),
        PathBuf::from,
    );
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    lacks(Need::RealData, &path.display().to_string());
    None
}

/// Says that this test is skipped because `what`, which is needed, is not here.
///
/// # Panics
/// If `SQUALL_REQUIRE` names it, or a word that nobody knows.
pub fn lacks(need: Need, what: &str) {
    let required = std::env::var_os("SQUALL_REQUIRE").unwrap_or_default();
    check(need, what, &required.to_string_lossy());
    skipped(&format!("{what} is not here"));
}

fn check(need: Need, what: &str, required: &str) {
    for word in required.split(',').filter(|word| !word.is_empty()) {
        assert!(
            Need::ALL.iter().any(|need| need.word() == word),
            "SQUALL_REQUIRE={required}: `{word}` is none of {:?}",
            Need::ALL.map(Need::word)
        );
        assert!(
            word != need.word(),
            "SQUALL_REQUIRE={required}: {what} is not here"
        );
    }
}

/// Says that this test is skipped, and why, where no machine can be asked to have what it needs.
///
/// # Panics
/// If the file that `SQUALL_SKIPPED` names cannot be written.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test"); // the test harness names a thread after its test
    // Not by `eprintln!`: the harness keeps what passing tests print by it to itself.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
    if let Some(list) = std::env::var_os("SQUALL_SKIPPED") {
        let program = std::env::current_exe().unwrap_or_default();
        let program = program.file_stem().unwrap_or_default().to_string_lossy();
        // Behind the hyphen is a number of cargo's.
        let program = program.split('-').next().unwrap_or_default();
        note(Path::new(&list), &format!("{program} {test}"), why);
    }
}

/// Appends a line at once: other tests do the same.
fn note(list: &Path, test: &str, why: &str) {
    let line = format!("{test}\t{}\n", why.replace('\n', " "));
    let opened = OpenOptions::new().create(true).append(true).open(list);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "{}: {written:?}", list.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_skipped_unless_it_is_required() {
        for (required, saying) in [
            ("", None),
            ("realdata,cxx", None),
            ("mpirun", Some("the launcher is not here")),
            ("cxx,mpirun", Some("the launcher is not here")),
            ("mpirum", Some("`mpirum` is none of")),
        ] {
            let judged = std::panic::catch_unwind(|| check(Need::Mpirun, "the launcher", required));
            match saying {
                None => assert!(judged.is_ok(), "{required}"),
                Some(saying) => {
                    let refused = judged.unwrap_err();
                    let message = refused.downcast_ref::<String>().unwrap();
                    assert!(message.contains(saying), "{required}: {message}");
                }
            }
        }
    }

    #[test]
    fn every_skipped_test_has_a_line_in_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("skipped");
        note(&list, "ranks one", "mpirun\nis not here");
        note(&list, "ranks two", "mpirun is not here");
        let text = std::fs::read_to_string(&list).unwrap();
        assert_eq!(
            text,
            "ranks one\tmpirun is not here\nranks two\tmpirun is not here\n"
        );
    }
}
