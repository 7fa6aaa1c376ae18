//! Parts of reality that somebody is about to write.

use std::path::{Path, PathBuf};

use crate::StoreError;

pub trait Reservations {
    /// Reserves all of these paths, and everything beneath them, for a time; or none, if one of them lies in what another holder has,
    /// or the other way round. Who asks again has the time of the last request.
    fn reserve(&self, holder: &str, paths: &[&Path], now: u64, until: u64) -> Result<(), StoreError>;
    /// Gives back all that a holder has.
    fn give_back(&self, holder: &str) -> Result<(), StoreError>;
    /// What is reserved at this time, in the order of paths.
    fn reservations(&self, now: u64) -> Result<Vec<Reservation>, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub holder: String,
    pub path: PathBuf,
    pub until: u64,
}
