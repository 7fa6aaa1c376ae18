//! What is asked for twice with the same key is done once, and answered twice.

use std::time::Duration;

use whatif_diff::digest;
use whatif_store::{Claim, Key};
use whatif_sys::patience;

use crate::ground::{Ground, GroundError};
use crate::{EngineError, now};

/// For so long the answer is kept, in milliseconds.
const KEPT: u64 = 86_400_000;
/// How long a command waits for another one with the same key.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be done once.
#[derive(Clone, Debug)]
pub struct Once<'a> {
    pub key: &'a str,
    pub verb: &'a str,
    /// All that was asked for, in any form that is the same for the same.
    pub request: &'a str,
    /// Who has not answered by then is taken for killed.
    pub within: Duration,
}

/// Whether it is to be done.
#[derive(Debug)]
pub enum Begun<'a> {
    /// Yes, by whoever has this.
    Now(Claimed<'a>),
    /// It was, with this answer.
    Before(String),
}

/// The right to do it. Dropped without an answer, it may be tried again.
#[derive(Debug)]
pub struct Claimed<'a> {
    ground: &'a Ground,
    scope: String,
    once: Once<'a>,
    digest: String,
    until: u64,
    is_answered: bool,
}

impl Ground {
    /// Refuses a key that was used for something else.
    pub fn begin_once<'a>(&'a self, once: Once<'a>) -> Result<Begun<'a>, EngineError> {
        let at = now();
        let within = u64::try_from(once.within.as_millis()).unwrap_or(u64::MAX);
        let mut claimed = Claimed {
            ground: self,
            scope: format!("cli {}", self.caller.principal.key()),
            digest: digest::of_bytes(once.request.as_bytes()),
            until: at.saturating_add(within),
            is_answered: true,
            once,
        };
        let claim = || -> Result<Option<Claim>, EngineError> {
            Ok(Some(self.store.claim(&claimed.as_key(), now())?).filter(|claim| *claim != Claim::Running))
        };
        match patience::try_until(PATIENCE, claim)? {
            Some(Claim::Fresh) => {
                claimed.is_answered = false;
                Ok(Begun::Now(claimed))
            }
            Some(Claim::Done(answer)) => Ok(Begun::Before(answer)),
            Some(Claim::Running) | None => Err(GroundError::KeyInUse { key: claimed.once.key.to_owned() }.into()),
        }
    }
}

impl Claimed<'_> {
    /// Whoever asks again gets this, for a day.
    pub fn answer(mut self, answer: &str) -> Result<(), EngineError> {
        self.ground.store.settle(&self.as_key(), answer, now().saturating_add(KEPT))?;
        self.is_answered = true;
        Ok(())
    }

    fn as_key(&self) -> Key<'_> {
        Key { scope: &self.scope, key: self.once.key, verb: self.once.verb, request: &self.digest, until: self.until }
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            // Otherwise it is given up when its time is up.
            let _ = self.ground.store.give_up(&self.as_key());
        }
    }
}
