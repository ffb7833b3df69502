//! Data-parallel training in somebody else's loop: five calls make it run on many ranks.
//!
//! `cargo run -p squall-jobs --example all_reduce` runs four ranks as threads, `mpirun -n N target/debug/examples/all_reduce` any number
//! as processes. Each rank has its own part of the points of a line and finds the line through all of them.

use squall_jobs::comm::collectives::{Choice, tree};
use squall_jobs::comm::{
    AllReduce, Communicator, Hierarchical, HierarchicalOptions, Result, Wire, agree, processes,
    threads,
};

/// Points of the line 3 x - 2, every rank its own.
fn points(rank: usize, ranks: usize) -> impl Iterator<Item = (f32, f32)> {
    let mine = (0..64).filter(move |point| point % ranks == rank);
    mine.map(|point| point as f32 / 32.0 - 1.0)
        .map(|x| (x, 3.0 * x - 2.0))
}

/// The slope and intercept that a rank ends with, and the bytes it has sent to other nodes.
fn train(comm: &mut dyn Communicator) -> Result<([f32; 2], u64)> {
    // 1. Begin: how gradients are summed. Both nodes have two ranks; both lead.
    let options = HierarchicalOptions {
        between: Choice::Ring,
        wire: Wire::F32,
        ..HierarchicalOptions::default()
    };
    let mut gradients_of_all = Hierarchical::new(comm, &options)?;

    // 2. Everybody starts from rank 0's parameters.
    let mut parameters = [comm.rank() as f32, 1.0];
    tree::broadcast_values(comm, &mut parameters, 0)?;

    let share = 1.0 / comm.size() as f32;
    for _ in 0..200 {
        let mut gradient = [0.0; 2];
        let mut count = 0.0;
        for (x, y) in points(comm.rank(), comm.size()) {
            let error = parameters[0] * x + parameters[1] - y;
            gradient[0] += 2.0 * error * x;
            gradient[1] += 2.0 * error;
            count += 1.0;
        }
        gradient.iter_mut().for_each(|g| *g /= count);

        // 3. The average over all ranks.
        gradients_of_all.all_reduce(&mut gradient, share)?;

        // 4. The step, the same bits on every rank.
        for (parameter, gradient) in parameters.iter_mut().zip(gradient) {
            *parameter -= 0.3 * gradient;
        }
    }

    // 5. End: nobody leaves before all hold the same.
    agree::same_parameters(comm, [("line", parameters.as_slice())])?;
    comm.barrier()?;
    Ok((parameters, gradients_of_all.bytes_sent()))
}

fn main() -> Result<()> {
    let lies_on_it = |line: [f32; 2]| {
        assert!(
            (line[0] - 3.0).abs() < 1e-3 && (line[1] + 2.0).abs() < 1e-3,
            "{line:?}"
        );
    };
    if let Some(mut rank) = processes(|name| std::env::var(name).ok())? {
        lies_on_it(train(&mut rank)?.0);
        return Ok(());
    }
    for trained in threads::run(threads::nodes(&[2, 2]), |mut rank| train(&mut rank)) {
        let (line, bytes) = trained?;
        lies_on_it(line);
        // Both ranks of a node lead, each with one of the two values: it sends 4 bytes in each of 200 steps.
        assert_eq!(bytes, 200 * 4);
    }
    Ok(())
}
