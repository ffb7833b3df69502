//! Validation of machine descriptions.

use super::{Batch, Link, MOST_RANKS, Machine, PRECISIONS};

/// `Err` holds the key, what was expected and what was found.
type Checked = Result<(), String>;

impl Machine {
    /// Rejects impossible values.
    pub(super) fn check(&self) -> Checked {
        self.check_counts()?;
        self.check_links_are_there()?;
        self.check_precisions()?;
        self.check_positive()?;
        self.check_utilisation()?;
        self.check_not_negative()?;
        self.check_rates_of_links()?;
        self.check_spreads()?;
        self.check_directives()
    }

    fn check_counts(&self) -> Checked {
        let (nodes, ranks) = (self.nodes, self.node.ranks);
        for (key, count) in [("nodes", nodes), ("node.ranks", ranks)] {
            if count == 0 {
                return Err(format!("`{key}`: expected 1 or more, found {count}"));
            }
        }
        if nodes.saturating_mul(ranks) > MOST_RANKS {
            return Err(format!(
                "`nodes`: expected at most {MOST_RANKS} ranks in all, found {nodes} nodes of {ranks}"
            ));
        }
        Ok(())
    }

    /// Rejects several ranks without a link between them.
    fn check_links_are_there(&self) -> Checked {
        let several = [self.node.ranks > 1, self.nodes > 1];
        for ((key, link), needed) in self.links().into_iter().zip(several) {
            if needed && link.gb_s.is_infinite() {
                return Err(format!(
                    "`{key}.gb_s` and `{key}.latency_us`: expected, of a machine of {} nodes with {} ranks each",
                    self.nodes, self.node.ranks
                ));
            }
        }
        Ok(())
    }

    fn links(&self) -> [(&'static str, &Link); 2] {
        [("inside", &self.inside), ("network", &self.network)]
    }

    fn check_precisions(&self) -> Checked {
        let device = &self.device;
        let keys = device.peak_tflops.keys().chain(device.utilisation.keys());
        let measured = device.measured.iter().map(|m| &m.precision);
        let known = |key: &String| PRECISIONS.contains(&key.as_str());
        match keys.chain(measured).find(|key| !known(key)) {
            Some(key) => Err(format!(
                "`device`: expected one of {}, found `{key}`",
                PRECISIONS.join(", ")
            )),
            None => Ok(()),
        }
    }

    fn check_positive(&self) -> Checked {
        for (key, value) in self.positive_numbers() {
            if !value.is_finite() || value <= 0.0 {
                return Err(format!("`{key}`: expected above 0, found {value}"));
            }
        }
        Ok(())
    }

    /// Keys and values of the given numbers that must be positive.
    fn positive_numbers(&self) -> Vec<(String, f64)> {
        let (node, device) = (&self.node, &self.device);
        let file_system = self.file_system.as_ref();
        let maybe = [
            ("node.memory_gb", node.memory_gb),
            ("device.memory_gb", device.memory_gb),
            ("scheduler.max_hours", self.scheduler.max_hours),
            ("file_system.gb_s", file_system.map(|f| f.gb_s)),
        ];
        let mut numbers: Vec<(String, f64)> = Vec::new();
        for (key, value) in maybe {
            numbers.extend(value.map(|value| (key.to_string(), value)));
        }
        if let Some(disk) = &node.local_disk {
            let of_disk = [
                ("capacity_gb", disk.capacity_gb),
                ("read_gb_s", disk.read_gb_s),
                ("write_gb_s", disk.write_gb_s),
            ];
            numbers.extend(of_disk.map(|(key, value)| (format!("node.local_disk.{key}"), value)));
        }
        let by_precision = [
            ("peak_tflops", &device.peak_tflops),
            ("utilisation", &device.utilisation),
        ];
        for (name, values) in by_precision {
            for (precision, value) in values {
                numbers.push((format!("device.{name}.{precision}"), *value));
            }
        }
        for measured in &device.measured {
            numbers.push(("device.measured.samples_s".into(), measured.samples_s));
        }
        for measured in &device.measured {
            numbers.push(("device.measured.sample_tflop".into(), measured.sample_tflop));
        }
        numbers
    }

    fn check_utilisation(&self) -> Checked {
        let mut shares = self.device.utilisation.iter();
        match shares.find(|(_, share)| **share > 1.0) {
            Some((key, share)) => Err(format!(
                "`device.utilisation.{key}`: expected a share of the peak, at most 1, found {share}"
            )),
            None => Ok(()),
        }
    }

    fn check_not_negative(&self) -> Checked {
        let price = self.price.as_ref();
        let numbers = [
            ("device.spread", self.device.spread),
            ("inside.latency_us", self.inside.latency_us),
            ("inside.jitter", self.inside.jitter),
            ("network.latency_us", self.network.latency_us),
            ("network.jitter", self.network.jitter),
            ("price.node_hour", price.map_or(0.0, |p| p.node_hour)),
        ];
        for (key, value) in numbers {
            if !value.is_finite() || value < 0.0 {
                return Err(format!("`{key}`: expected 0 or more, found {value}"));
            }
        }
        Ok(())
    }

    /// Rejects invalid link rates; an infinite rate stands for an absent link.
    fn check_rates_of_links(&self) -> Checked {
        for (key, link) in self.links() {
            if link.gb_s.is_nan() || link.gb_s <= 0.0 {
                return Err(format!(
                    "`{key}.gb_s`: expected above 0, found {}",
                    link.gb_s
                ));
            }
        }
        Ok(())
    }

    fn check_spreads(&self) -> Checked {
        let shares = [
            ("device.spread", self.device.spread),
            ("inside.jitter", self.inside.jitter),
            ("network.jitter", self.network.jitter),
        ];
        match shares.iter().find(|(_, share)| *share >= 0.2) {
            Some((key, share)) => Err(format!(
                "`{key}`: expected a share below 0.2, found {share}"
            )),
            None => Ok(()),
        }
    }

    /// Rejects lines that the batch system would not read as options, or the shell as a line of their own.
    fn check_directives(&self) -> Checked {
        let (long, expected) = match self.scheduler.kind {
            Batch::Slurm => (true, "options of sbatch such as `--partition=x` or `-p x`"),
            Batch::Lsf => (false, "options of bsub such as `-q x`"),
            Batch::Pbs => (false, "options of qsub such as `-q x`"),
            Batch::None => (false, "none, without a batch system"),
        };
        let is_option = |directive: &str| {
            let name = match (directive.strip_prefix("--"), long) {
                (Some(name), true) => Some(name),
                _ => directive.strip_prefix('-'),
            };
            self.scheduler.kind != Batch::None
                && !directive.contains(['\n', '\r'])
                && name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
        };
        let mut directives = self.scheduler.directives.iter();
        match directives.find(|directive| !is_option(directive)) {
            Some(found) => Err(format!(
                "`scheduler.directives`: expected {expected}, found {found:?}"
            )),
            None => Ok(()),
        }
    }
}
