//! Takes samples from contenders in turn.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::scratch::Scratch;
use crate::failure::Failure;

/// Rounds before the first that counts: caches fill, the state directory comes to be.
pub const WARM_UP: usize = 3;

pub struct Contender<'a> {
    pub label: String,
    /// Makes the command of a round.
    pub command: Box<dyn Fn(usize) -> Command + 'a>,
}

#[derive(Debug, Default)]
pub struct Samples {
    /// Until the command returned.
    pub returned: Times,
    /// Until all that it left to the background was done, too.
    pub settled: Times,
}

#[derive(Debug, Default)]
pub struct Times(Vec<f64>);

/// Everybody has a turn in every round, so that what disturbs the machine for a while disturbs all alike. Who begins
/// changes from round to round, so that nobody always comes after the same neighbour.
pub fn interleaved(scratch: &Scratch, contenders: &[Contender], rounds: usize) -> Result<Vec<Samples>, Failure> {
    let mut samples: Vec<Samples> = contenders.iter().map(|_| Samples::default()).collect();
    for round in 0..WARM_UP + rounds {
        for turn in 0..contenders.len() {
            let who = (round + turn) % contenders.len();
            let contender = &contenders[who];
            let (returned, settled) = timed(scratch, &contender.label, (contender.command)(round))?;
            if round >= WARM_UP {
                samples[who].returned.add(returned);
                samples[who].settled.add(settled);
            }
        }
    }
    Ok(samples)
}

/// How long a command took until it returned, and until nothing of it was left to do in the background.
pub fn timed(scratch: &Scratch, label: &str, mut command: Command) -> Result<(Duration, Duration), Failure> {
    let started = Instant::now();
    let status = command.status();
    let returned = started.elapsed();
    if !status.is_ok_and(|status| status.success()) {
        // It runs without a place for messages, which would cost time; now they are wanted.
        let reason = attempt(command).err().unwrap_or_else(|| "it succeeded when tried again".to_owned());
        return Err(Failure::new(format!("{label} failed: {reason}")));
    }
    scratch.settle()?;
    Ok((returned, started.elapsed()))
}

/// Runs a command once, to see whether it works here.
pub fn attempt(mut command: Command) -> Result<(), String> {
    let output = command.stderr(Stdio::piped()).output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), told.trim()) {
        (true, _) => Ok(()),
        (false, "") => Err(output.status.to_string()),
        (false, told) => Err(told.to_owned()),
    }
}

/// Runs a command that nothing can be measured without.
pub fn demand(what: &str, command: Command) -> Result<(), Failure> {
    attempt(command).map_err(|reason| Failure::new(format!("{what} failed: {reason}")))
}

/// A figure about the wrong amount of work would be worthless: makes sure that a command prints as many lines as it
/// should. Only those that begin with `prefix` count.
pub fn expect_lines(what: &str, mut command: Command, prefix: &str, expected: usize) -> Result<(), Failure> {
    let output = command.stdout(Stdio::piped()).output().map_err(|error| Failure::new(format!("{what} failed: {error}")))?;
    match output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty() && line.starts_with(prefix.as_bytes())).count()
    {
        _ if !output.status.success() => Err(Failure::new(format!("{what} failed: {}", output.status))),
        count if count != expected => Err(Failure::new(format!("{what} printed {count} paths where there are {expected}"))),
        _ => Ok(()),
    }
}

impl Times {
    pub fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1000.0);
    }

    pub fn median_ms(&self) -> f64 {
        percentile(&self.0, 50)
    }

    pub fn p90_ms(&self) -> f64 {
        percentile(&self.0, 90)
    }
}

/// The value below which that many percent of the others lie.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_do_not_depend_on_the_order() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(percentile(&values, 50), 3.0);
        assert_eq!(percentile(&values, 100), 5.0);
        assert_eq!(percentile(&[7.0], 90), 7.0);
        assert!(percentile(&[], 50).is_nan());
    }

    #[test]
    fn a_failed_attempt_tells_why() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo no such luck >&2; exit 3"]);
        assert_eq!(attempt(shell), Err("no such luck".to_owned()));
        assert_eq!(attempt(Command::new("true")), Ok(()));
    }
}
