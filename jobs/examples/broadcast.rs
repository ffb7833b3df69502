//! Parameters from one rank to all, and a check that all hold the same bits.
//!
//! `cargo run -p squall-jobs --example broadcast` runs seven ranks as threads,
//! `mpirun -n N target/debug/examples/broadcast` any number as processes.

use squall_jobs::comm::collectives::tree;
use squall_jobs::comm::{CommError, Communicator, Result, agree, processes, threads};

/// What a rank holds in the end, after it was told that ranks differed at the start.
fn share(comm: &mut dyn Communicator) -> Result<Vec<f32>> {
    let mut weights = vec![comm.rank() as f32 / 3.0; 100_000];
    weights[0] = 0.5;

    // Ranks that began with other numbers are noticed by their hashes, and all of them are told which tensor it is.
    let check = |comm: &mut dyn Communicator, weights: &[f32]| {
        agree::same_parameters(comm, [("norm", &weights[..1]), ("kernel", &weights[1..])])
    };
    match check(comm, &weights) {
        Err(CommError::Differs { what, .. }) => assert_eq!(what, "tensor kernel"),
        other => panic!("all ranks differ, but {other:?}"),
    }

    tree::broadcast_values(comm, &mut weights, 1)?;
    check(comm, &weights)?;
    Ok(weights)
}

fn main() -> Result<()> {
    let shared = match processes(|name| std::env::var(name).ok())? {
        Some(mut rank) => vec![share(&mut rank)],
        None => threads::run(threads::ranks(7), |mut rank| share(&mut rank)),
    };
    for weights in shared {
        assert!(weights?[1..].iter().all(|&w| w == 1.0 / 3.0));
    }
    Ok(())
}
