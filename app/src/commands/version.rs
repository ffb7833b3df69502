//! `squall --version`: what is built in.

/// Describes the GPU, if requested: detection takes a second.
fn gpu() -> String {
    let asked = |word: std::ffi::OsString| word == "--version" || word == "-V";
    if std::env::args_os().skip(1).any(asked) {
        crate::device::version()
    } else {
        String::new()
    }
}

/// Version, code state and the compute backend in use. Files of training and inference name the second hash of sources.
pub fn text() -> String {
    format!(
        "{} (training and inference: sources {}; {}{})",
        crate::code::version(),
        squall_jobs::code::sources(),
        squall_model::ops::Backend::best_of_cpu().describe(),
        gpu()
    )
}
