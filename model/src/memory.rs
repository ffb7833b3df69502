//! Keeps freed memory in the process between steps, and returns it to the system after the last.

/// Makes the allocator keep large buffers instead of returning them to the system after every use.
///
/// A training step allocates the same activations again and again. With glibc's defaults each of them is a fresh
/// mapping whose pages fault one by one, which costs up to half of the step. Call this once, at the start of `main`. It
/// has no effect if the C library is not glibc.
pub fn keep_large_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: glibc's `mallopt` holds the allocator's lock while it writes its parameters, each of them one aligned
    // word, so that a thread that allocates meanwhile sees the old or the new value; either is valid.
    unsafe {
        // -1 disables trimming. The largest threshold would be 2 GiB, and a step that freed more would return all of
        // it.
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
        // Older versions (such as 2.28) reject a threshold above 32 MiB and keep their default of 128 KiB.
        if libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30) == 0 {
            libc::mallopt(libc::M_MMAP_MAX, 0);
        }
    }
}

/// Returns freed memory, which [`keep_large_buffers`] made the allocator keep, to the system, so that a later memory
/// measurement does not include it. It has no effect if the C library is not glibc.
pub fn give_back_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: glibc's `malloc_trim` locks each arena while it returns pages that no allocation occupies.
    unsafe {
        libc::malloc_trim(0);
    }
}
