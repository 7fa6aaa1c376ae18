//! A run that finds its sandbox in the pool, beside one that has it made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::figure::{Bar, Figure, Ratio, Unit};
use super::measure::{Times, WARM_UP, attempt, demand, timed};
use super::peers::bwrap;
use super::report::Report;
use super::scratch::Scratch;
use crate::failure::{Failure, on};

const SIZE: usize = 4;
const PATIENCE: Duration = Duration::from_secs(10);

pub fn measure(scratch: &Scratch, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let pool = Pool::fill(scratch)?;
    let measured = pool.compare(rounds);
    pool.drain()?;
    let Compared { figures, skipped } = measured?;
    report.group("from the pool", figures, skipped);
    Ok(())
}

/// A state directory of its own, whose configuration wants a pool. Commands that want none would throw it away.
struct Pool<'a> {
    scratch: &'a Scratch,
    place: PathBuf,
}

struct Compared {
    figures: Vec<Figure>,
    skipped: Vec<(String, String)>,
}

impl<'a> Pool<'a> {
    fn fill(scratch: &'a Scratch) -> Result<Self, Failure> {
        let place = scratch.home().join("pooled");
        for directory in [place.clone(), place.join("whatif")] {
            scratch.make_owned(&directory)?;
        }
        let config = place.join("whatif/config.toml");
        fs::write(&config, format!("[pool]\nsize = {SIZE}\n")).map_err(on("write", &config))?;
        let pool = Self { scratch, place };
        demand("whatif pool fill", pool.whatif("pool fill"))?;
        Ok(pool)
    }

    fn whatif(&self, line: &str) -> Command {
        let mut command = self.scratch.whatif(&line.split(' ').collect::<Vec<_>>());
        command.env("XDG_CONFIG_HOME", &self.place).env("WHATIF_HOME", self.state());
        command
    }

    fn state(&self) -> PathBuf {
        self.place.join("state")
    }

    fn compare(&self, rounds: usize) -> Result<Compared, Failure> {
        let peer = bwrap(self.scratch).and_then(|command| attempt(command()).map(|()| command));
        let (mut pooled, mut made, mut peers) = (Times::default(), Times::default(), Times::default());
        for round in 0..WARM_UP + rounds {
            self.wait_until_full()?;
            let claimed = timed(self.scratch, "whatif run, from the pool", self.whatif("run -- true"))?.0;
            self.wait_until_full()?;
            let fresh = timed(self.scratch, "whatif run", self.scratch.whatif(&["run", "--", "true"]))?.0;
            let of_peer = peer.as_ref().ok().map(|command| timed(self.scratch, "bwrap", command())).transpose()?;
            if round >= WARM_UP {
                pooled.add(claimed);
                made.add(fresh);
                of_peer.into_iter().for_each(|(returned, _)| peers.add(returned));
            }
        }
        let value = pooled.median_ms();
        let ratio = peer.is_ok().then(|| Ratio { to: "bwrap … true".to_owned(), value: value / peers.median_ms() });
        let figure = |label: &str, times: &Times| Figure {
            p90: Some(times.p90_ms()),
            ..Figure::new(label, times.median_ms(), Unit::Milliseconds)
        };
        let claimed = Figure { ratio, bar: Some(Bar::RatioAtMost(0.7)), ..figure("whatif run, from the pool", &pooled) };
        let skipped = peer.err().map(|reason| ("bwrap".to_owned(), reason)).into_iter().collect();
        Ok(Compared { figures: vec![claimed, figure("whatif run, made", &made)], skipped })
    }

    /// What is filled up in the background is not filled up in the next one's time.
    fn wait_until_full(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        while self.ready() < SIZE || !is_empty(&self.state().join("transient")) {
            if Instant::now() > deadline {
                return Err(Failure::new(format!("the pool has {} of {SIZE} after {PATIENCE:?}", self.ready())));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }

    fn ready(&self) -> usize {
        let children = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        children(&self.state().join("pool"))
            .flat_map(|shelf| children(&shelf))
            .filter(|place| place.join("ready.json").exists())
            .count()
    }

    fn drain(&self) -> Result<(), Failure> {
        demand("whatif pool drain", self.whatif("pool drain"))
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}
