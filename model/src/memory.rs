//! Keeping memory alive between steps, and giving it back after the last.

/// Tells the allocator to keep large buffers instead of giving them back to the system after every use.
///
/// A training step allocates the same activations again and again; with glibc's defaults each of them is a fresh
/// mapping whose pages fault one by one, which costs up to half of the step. Called once, first thing in `main`;
/// without effect where the C library is not glibc.
pub fn keep_large_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: glibc's `mallopt` holds the allocator's lock while it writes its parameters, each of them one aligned
    // word, so that a thread that allocates meanwhile sees the old or the new value; either is valid.
    unsafe {
        // -1 is never: a number is at most 2 GiB, and a step that freed more gave all of it back.
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
        // Older versions (2.28, say) refuse a threshold above 32 MiB, and keep one of 128 KiB then.
        if libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30) == 0 {
            libc::mallopt(libc::M_MMAP_MAX, 0);
        }
    }
}

/// Gives what was freed back to the system, which [`keep_large_buffers`] lets the allocator keep: what is measured next
/// is not to count the memory of what was measured before. Without effect where the C library is not glibc.
pub fn give_back_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: glibc's `malloc_trim` holds the lock of an arena while it gives back pages of it that no buffer has.
    unsafe {
        libc::malloc_trim(0);
    }
}
