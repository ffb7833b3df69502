//! What the allocator keeps between steps.
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

use std::process::Command;

/// Says that this process is the one that the test is about.
const ALONE: &str = "SQUALL_TEST_OF_MEMORY";

/// Bytes of the heap.
fn heap() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let pieces = maps.lines().filter(|line| line.ends_with("[heap]"));
    let bytes = |piece: &str| {
        let (from, to) = piece.split(' ').next()?.split_once('-')?;
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
        Some(to - from)
    };
    pieces.filter_map(bytes).sum()
}

/// More than 2 GiB, the largest number that thresholds of the allocator have. Nothing is written to it, so that it takes
/// no memory. In a process of its own, whose threads share the heap that a program's main thread has.
#[test]
fn large_freed_buffers_stay_with_the_process() {
    if std::env::var_os(ALONE).is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["large_freed_buffers_stay_with_the_process", "--exact"]);
        command.env(ALONE, "1").env("MALLOC_ARENA_MAX", "1");
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{told}");
        return;
    }
    squall_model::memory::keep_large_buffers();
    let fields = [0; 3].map(|_| Vec::<u8>::with_capacity(900 << 20));
    drop(std::hint::black_box(fields));
    let kept = heap();
    assert!(kept > 2 << 30, "a heap of {kept} bytes is left");
}
