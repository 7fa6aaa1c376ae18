//! What is known about a sandbox's keeper from outside.

use std::fs;
use std::time::{Duration, Instant};

use super::process;
use super::scratch::Scratch;
use crate::failure::{Failure, on};

/// A keeper whose memory did not shrink for this long is taken to be at rest.
const REST: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Keeper {
    pub pid: u64,
}

impl Keeper {
    pub fn of(scratch: &Scratch, sandbox: &str) -> Result<Self, Failure> {
        let shown = scratch.whatif_json(&["show", sandbox])?;
        let pid = shown["keeper_pid"].as_u64().ok_or_else(|| Failure::new(format!("{sandbox} has no keeper")))?;
        Ok(Self { pid })
    }

    /// Its proportional share of memory: pages it shares with other keepers count in parts.
    pub fn pss_kib(&self) -> Result<f64, Failure> {
        let path = process::entry(self.pid).join("smaps_rollup");
        let text = fs::read_to_string(&path).map_err(on("read", &path))?;
        kib_of(&text, "Pss").ok_or_else(|| Failure::new(format!("{} has no line Pss", path.display())))
    }

    /// The same once the keeper has nothing left to do: it lets go of memory a moment after its last work.
    pub fn resting_pss_kib(&self) -> Result<f64, Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut before = self.pss_kib()?;
        loop {
            std::thread::sleep(REST);
            let now = self.pss_kib()?;
            if now >= before || Instant::now() > deadline {
                return Ok(now);
            }
            before = now;
        }
    }

    pub fn is_alive(&self) -> bool {
        process::is_alive(self.pid)
    }
}

/// A line `Name:   123 kB`, as several files in `/proc` have them.
pub fn kib_of(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_its_whole_name() {
        let text = "Rss:      1952 kB\nPss_Dirty:  216 kB\nPss:      1948 kB\n";
        assert_eq!(kib_of(text, "Pss"), Some(1948.0));
        assert_eq!(kib_of(text, "Swap"), None);
    }
}
