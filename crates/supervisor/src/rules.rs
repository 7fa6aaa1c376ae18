//! What holds now: the rules from `network.json` and what a person has allowed since.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, openat};
use whatif_netpolicy::policy::DenyByPath;
use whatif_netpolicy::{Policy, Rule};
use whatif_types::network::Rules;

/// In a sandbox's directory.
const FILE: &str = "network.json";
const LARGEST_FILE: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesError {
    #[error("cannot read {FILE}: {0}")]
    Read(#[from] io::Error),
    #[error("{FILE} is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error(transparent)]
    DenyByPath(#[from] DenyByPath),
}

#[derive(Debug)]
pub(crate) struct LiveRules {
    directory: OwnedFd,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    rules: Rules,
    /// Allowed by answers to questions.
    answered: Vec<Rule>,
    policy: Arc<Policy>,
}

impl LiveRules {
    pub(crate) fn read(directory: OwnedFd) -> Result<Self, RulesError> {
        let file = openat(&directory, FILE, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty());
        let current = Current::new(parse(file.map_err(io::Error::from)?)?, Vec::new())?;
        Ok(Self { directory, current: Mutex::new(current) })
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.current().policy)
    }

    pub(crate) fn asks(&self) -> bool {
        self.current().rules.ask
    }

    pub(crate) fn reaches(&self, port: u16) -> bool {
        self.current().rules.reach.contains(&port)
    }

    /// Reads the file again, by name or as it was passed. If it cannot be understood, all stays as it was.
    pub(crate) fn reload(&self, file: Option<OwnedFd>) -> Result<(), RulesError> {
        let file = match file {
            Some(file) => file,
            None => openat(self.directory.as_fd(), FILE, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
                .map_err(io::Error::from)?,
        };
        let rules = parse(file)?;
        let mut current = self.current();
        *current = Current::new(rules, current.answered.clone())?;
        Ok(())
    }

    /// Somebody who was asked has said yes.
    pub(crate) fn allow(&self, rule: Rule) -> Result<(), RulesError> {
        let mut current = self.current();
        let answered = current.answered.iter().cloned().chain([rule]).collect();
        *current = Current::new(current.rules.clone(), answered)?;
        Ok(())
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn new(rules: Rules, answered: Vec<Rule>) -> Result<Self, RulesError> {
        let allow = rules.allow.iter().chain(&answered).cloned().collect();
        let policy = Arc::new(Policy::new(allow, rules.deny.clone())?);
        Ok(Self { rules, answered, policy })
    }
}

fn parse(file: OwnedFd) -> Result<Rules, RulesError> {
    let mut text = Vec::new();
    File::from(file).take(LARGEST_FILE).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}
