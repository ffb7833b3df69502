//! Keeping memory alive between steps.

/// Tells the allocator to keep large buffers instead of giving them back to the system after every use.
///
/// A training step allocates the same activations again and again; with glibc's defaults each of them is a fresh
/// mapping whose pages fault one by one, which costs up to half of the step. Called once, first thing in `main`;
/// without effect where the C library is not glibc.
pub fn keep_large_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `mallopt` only changes parameters of the allocator; no other thread runs yet that could race with it.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
    }
}
