//! Data-parallel training in somebody else's loop: five calls make it run on many ranks.
//!
//! `cargo run -p squall-jobs --example all_reduce` runs four ranks as threads,
//! `mpirun -n N target/debug/examples/all_reduce` any number as processes. Each rank has its own part of the points of
//! a line and finds the line through all of them.

use squall_jobs::comm::collectives::{Choice, tree};
use squall_jobs::comm::reducer::Plan;
use squall_jobs::comm::{
    AllReduce, Communicator, Hierarchical, HierarchicalOptions, Reducer, Result, Wire, agree,
    processes, threads,
};

/// Points of the line 3 x - 2, every rank its own.
fn points(rank: usize, ranks: usize) -> impl Iterator<Item = (f32, f32)> {
    let mine = (0..64).filter(move |point| point % ranks == rank);
    mine.map(|point| point as f32 / 32.0 - 1.0)
        .map(|x| (x, 3.0 * x - 2.0))
}

/// The gradient of the mean square error over a rank's own points.
fn gradient(line: [f32; 2], comm: &dyn Communicator) -> [f32; 2] {
    let (mut gradient, mut count) = ([0.0; 2], 0.0);
    for (x, y) in points(comm.rank(), comm.size()) {
        let error = line[0] * x + line[1] - y;
        gradient[0] += 2.0 * error * x;
        gradient[1] += 2.0 * error;
        count += 1.0;
    }
    gradient.map(|sum| sum / count)
}

/// A step down the gradient.
fn update(line: &mut [f32; 2], gradient: &[f32]) {
    for (parameter, gradient) in line.iter_mut().zip(gradient) {
        *parameter -= 0.3 * gradient;
    }
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
        let mut gradient = gradient(parameters, comm);

        // 3. The average over all ranks.
        gradients_of_all.all_reduce(&mut gradient, share)?;

        // 4. The step, the same bits on every rank.
        update(&mut parameters, &gradient);
    }

    // 5. End: nobody leaves before all hold the same.
    agree::same_parameters(comm, [("line", parameters.as_slice())])?;
    comm.barrier()?;
    Ok((parameters, gradients_of_all.bytes_sent()))
}

/// The same with gradients that are a step late: another thread averages them while the next ones are computed.
fn train_delayed(comm: &mut dyn Communicator) -> Result<[f32; 2]> {
    let gradients_of_all = Hierarchical::new(comm, &HierarchicalOptions::default())?;
    let plan = Plan {
        rank: comm.rank(),
        lengths: vec![2],
        scale: 1.0 / comm.size() as f32,
        cores: vec![],
    };
    let mut average = Reducer::start(Box::new(gradients_of_all), plan)?;
    let mut line = [comm.rank() as f32, 1.0];
    tree::broadcast_values(comm, &mut line, 0)?;
    for _ in 0..200 {
        average.submit(0, gradient(line, comm).to_vec())?;
        // With 0 instead of 1 they are those of this step.
        if average.outstanding() > 1
            && let Some(averaged) = average.wait()?
        {
            update(&mut line, &averaged.values);
        }
    }
    average.finish()?;
    agree::same_parameters(comm, [("line", line.as_slice())])?;
    comm.barrier()?;
    Ok(line)
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
        lies_on_it(train_delayed(&mut rank)?);
        return Ok(());
    }
    for trained in threads::run(threads::nodes(&[2, 2]), |mut rank| train(&mut rank)) {
        let (line, bytes) = trained?;
        lies_on_it(line);
        // Both ranks of a node lead, each with one of the two values: it sends 4 bytes in each of 200 steps.
        assert_eq!(bytes, 200 * 4);
    }
    for line in threads::run(threads::nodes(&[2, 2]), |mut rank| train_delayed(&mut rank)) {
        lies_on_it(line?);
    }
    Ok(())
}
