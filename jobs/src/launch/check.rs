//! Validates a job against a machine and derives its settings.

use super::{Job, reserved_cores};
use crate::error::{JobError, Result};
use crate::machine::{Batch, DeviceKind, Machine, Starter};

/// The key of a recipe that a script sets itself.
const MAX_SECONDS: &str = "training.max_seconds";

/// Settings that are fixed before the script is written.
pub(super) struct Plan {
    pub nodes: usize,
    pub ranks_per_node: usize,
    /// Wall time of one turn, in whole minutes, as batch systems count it.
    pub wall_minutes: u64,
    /// Recipe overrides, except the one of the time limit.
    pub overrides: Vec<String>,
    /// The recipe's own limit in seconds.
    pub limit: Option<f64>,
    /// The queue to name in the script.
    pub queue: Option<String>,
    /// The environment of the ranks.
    pub environment: Vec<(String, String)>,
}

pub(super) fn refused<T>(
    option: &'static str,
    expected: impl Into<String>,
    found: impl std::fmt::Display,
) -> Result<T> {
    Err(JobError::Submit {
        option,
        expected: expected.into(),
        found: found.to_string(),
    })
}

impl Plan {
    pub fn of(job: &Job, machine: &Machine) -> Result<Self> {
        check_words(job, machine.scheduler.kind)?;
        if job.nodes == 0 || job.nodes > machine.nodes {
            return refused("--nodes", format!("1 to {}", machine.nodes), job.nodes);
        }
        if let Some(samples) = job.per_node
            && (samples == 0 || !job.stage)
        {
            return refused(
                "--per-node",
                "1 or more, where samples are copied to nodes",
                samples,
            );
        }
        if let (Some(samples), 1) = (job.per_node, job.nodes) {
            let expected = "none with a single node, which needs all of them";
            return refused("--per-node", expected, samples);
        }
        if job.tries == 0 {
            return refused("--tries", "1 or more", 0);
        }
        if job.stage && machine.node.local_disk.is_none() {
            let expected = "a machine whose nodes have a disk of their own (`node.local_disk`)";
            return refused("--stage", expected, "none");
        }
        check_starter(machine)?;
        check_queue(job, machine)?;
        let ranks_per_node = ranks(job, machine)?;
        let wall_minutes = minutes(job, machine)?;
        let (overrides, limit) = limit(job)?;
        let mut environment = environment(machine)?;
        if reserved_cores(machine, ranks_per_node, ranks_per_node * job.nodes) {
            let (name, value) = ("SQUALL_RESERVE_CORES", "1");
            if !environment.iter().any(|(known, _)| known == name) {
                environment.push((name.into(), value.into()));
            }
        }
        Ok(Self {
            nodes: job.nodes,
            ranks_per_node,
            wall_minutes,
            overrides,
            limit,
            queue: job.queue.clone().or(machine.scheduler.queue.clone()),
            environment,
        })
    }

    pub fn wall_seconds(&self) -> u64 {
        60 * self.wall_minutes
    }

    /// The time of a turn as `hours:minutes`.
    pub fn wall_time(&self) -> String {
        format!("{}:{:02}", self.wall_minutes / 60, self.wall_minutes % 60)
    }
}

/// Rejects values that the shell or a batch system would misread.
fn check_words(job: &Job, batch: Batch) -> Result<()> {
    check_name("--name", &job.name)?;
    match batch {
        Batch::Slurm if job.exclude.is_empty() => {}
        Batch::Slurm => check_ranges("--exclude", &job.exclude.join(","))?,
        Batch::Lsf | Batch::Pbs | Batch::None => {
            for host in &job.exclude {
                check_name("--exclude", host)?;
            }
        }
    }
    if let Some(account) = &job.account {
        check_characters("--account", account, "@:/")?;
    }
    if let Some(queue) = &job.queue {
        check_characters("--queue", queue, "@:/=")?;
    }
    let paths = [
        ("--recipe", &job.recipe),
        ("--data", &job.store),
        ("--out", &job.out),
        ("--program", &job.program),
        ("--script", &job.script),
    ];
    for (option, path) in paths {
        check_text(option, path)?;
    }
    if job.made_by.contains(char::is_control) {
        return refused("made_by", "one line", format!("{:?}", job.made_by));
    }
    for change in &job.overrides {
        check_text("--set", change)?;
        if !change.contains('=') {
            return refused("--set", "KEY=VALUE", format!("`{change}`"));
        }
    }
    Ok(())
}

/// Checks a name of letters, digits, `.`, `_` and `-`.
fn check_name(option: &'static str, name: &str) -> Result<()> {
    check_characters(option, name, "")
}

/// Checks hosts as Slurm names several in short: `nid[001-004,007],login1`.
fn check_ranges(option: &'static str, hosts: &str) -> Result<()> {
    // In each, brackets with numbers and ranges become a digit, which makes a plain name.
    let mut names = vec![String::new()];
    let (mut rest, mut is_whole) = (hosts, true);
    while let Some(at) = rest.find(['[', ']', ',']) {
        let last = names.len() - 1;
        names[last].push_str(&rest[..at]);
        let (sign, after) = (rest.as_bytes()[at], &rest[at + 1..]);
        rest = after;
        match (sign, after.split_once(']')) {
            (b',', _) => names.push(String::new()),
            (b'[', Some((ranges, after))) if ranges.split(',').all(is_range) => {
                names[last].push('0');
                rest = after;
            }
            _ => is_whole = false,
        }
    }
    let last = names.len() - 1;
    names[last].push_str(rest);
    if !is_whole {
        let expected = "ranges of numbers in brackets, such as `nid[001-004,007]`";
        return refused(option, expected, format!("{hosts:?}"));
    }
    names.iter().try_for_each(|name| check_name(option, name))
}

/// Whether a text is a number, or a range of numbers upwards.
fn is_range(text: &str) -> bool {
    let number = |text: &str| -> Option<u64> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits)
    };
    match text.split_once('-') {
        Some((from, to)) => number(from)
            .zip(number(to))
            .is_some_and(|(from, to)| from <= to),
        None => number(text).is_some(),
    }
}

/// Checks a name of letters, digits, `.`, `_`, `-` and the characters in `also`.
fn check_characters(option: &'static str, name: &str, also: &str) -> Result<()> {
    let known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c) || also.contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if begins && name.chars().all(known) {
        return Ok(());
    }
    let others: String = also.chars().map(|c| format!("`{c}`, ")).collect();
    let expected = format!(
        "letters, digits, {others}`.`, `_` and `-`, the first of them a letter, a digit or `_`"
    );
    refused(option, expected, format!("{name:?}"))
}

/// Checks that a text is one line and does not look like an option.
fn check_text(option: &'static str, text: &str) -> Result<()> {
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        let expected = "one line that is not empty and does not begin with `-`";
        return refused(option, expected, format!("{text:?}"));
    }
    Ok(())
}

/// Checks that the launcher works with the machine's batch system.
fn check_starter(machine: &Machine) -> Result<()> {
    let scheduler = &machine.scheduler;
    let belongs = match scheduler.launcher {
        Starter::Jsrun => scheduler.kind == Batch::Lsf,
        Starter::Srun => scheduler.kind == Batch::Slurm,
        Starter::Mpirun | Starter::Mpiexec => true,
    };
    if !belongs {
        let found = format!("`{}`", scheduler.launcher.name());
        return refused(
            "scheduler.launcher",
            "a launcher of this batch system",
            found,
        );
    }
    Ok(())
}

/// Rejects a quality of service where the batch system would take it for a queue name.
fn check_queue(job: &Job, machine: &Machine) -> Result<()> {
    let has_queues_alone = matches!(machine.scheduler.kind, Batch::Lsf | Batch::Pbs);
    let named = match (&job.queue, &machine.scheduler.queue) {
        (Some(queue), _) => Some(("--queue", queue)),
        (None, own) => own.as_ref().map(|queue| ("scheduler.queue", queue)),
    };
    match named {
        Some((key, queue)) if has_queues_alone && queue.contains('=') => refused(
            key,
            "the name of a queue: `qos=NAME` is for Slurm",
            format!("`{queue}`"),
        ),
        _ => Ok(()),
    }
}

/// Ranks per node.
fn ranks(job: &Job, machine: &Machine) -> Result<usize> {
    let most = match machine.device.kind {
        DeviceKind::Gpu => Some(machine.node.ranks),
        DeviceKind::Cpu => machine.node.cores,
    };
    let ranks = job.ranks_per_node.unwrap_or(machine.node.ranks);
    match most {
        _ if ranks == 0 => refused("--ranks-per-node", "1 or more", 0),
        Some(most) if ranks > most => refused("--ranks-per-node", format!("1 to {most}"), ranks),
        _ => Ok(ranks),
    }
}

/// Whole minutes per turn.
fn minutes(job: &Job, machine: &Machine) -> Result<u64> {
    // Without a limit of the machine, one year is the limit: a clock cannot represent arbitrarily many seconds.
    let most = machine.scheduler.max_hours.unwrap_or(8760.0);
    let below = format!("above 0 and at most {most}");
    if !job.hours.is_finite() || job.hours <= 0.0 || job.hours > most {
        return refused("--hours", below, job.hours);
    }
    // A tenth of an hour is 6 minutes, but its nearest floating-point number may round down to 5.
    let minutes = (60.0 * job.hours + 1e-6).floor();
    if minutes * 60.0 <= job.margin_seconds as f64 {
        let expected = format!(
            "whole minutes that are longer than the {} s kept for the last checkpoint",
            job.margin_seconds
        );
        return refused("--hours", expected, format!("{minutes} minutes"));
    }
    Ok(minutes as u64)
}

/// Overrides without the time limit, and the recipe's time limit.
fn limit(job: &Job) -> Result<(Vec<String>, Option<f64>)> {
    let value = |change: &String| {
        let (key, value) = change.split_once('=')?;
        (key.trim() == MAX_SECONDS).then(|| value.trim().to_string())
    };
    let (own, others): (Vec<String>, Vec<String>) =
        (job.overrides.iter().cloned()).partition(|change| value(change).is_some());
    // As in recipes, the last override wins.
    let limit = match own.last().and_then(value) {
        None => job.max_seconds,
        Some(text) => match text.parse() {
            Ok(limit) => Some(limit),
            Err(_) => {
                return refused(
                    "--set",
                    format!("{MAX_SECONDS}=SECONDS"),
                    format!("`{text}`"),
                );
            }
        },
    };
    match limit {
        Some(limit) if !limit.is_finite() || limit <= 0.0 => refused(
            "--set",
            format!("{MAX_SECONDS} above 0"),
            format!("`{limit}`"),
        ),
        limit => Ok((others, limit)),
    }
}

/// The machine's environment.
fn environment(machine: &Machine) -> Result<Vec<(String, String)>> {
    let variables = &machine.scheduler.environment;
    for (name, value) in variables {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !begins || !name.chars().all(letter) || value.contains('\n') {
            let expected = "names of variables, with a value of one line";
            return refused(
                "scheduler.environment",
                expected,
                format!("{name:?} = {value:?}"),
            );
        }
    }
    Ok(variables.clone().into_iter().collect())
}
