//! A number of processors, in thousandths.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Cpus(u32);

/// Less is not worth scheduling.
const LEAST: f64 = 0.01;
const MOST: f64 = 100_000.0;

impl Cpus {
    #[must_use]
    pub const fn whole(number: u32) -> Self {
        Self(number * 1000)
    }

    #[must_use]
    pub fn thousandths(self) -> u32 {
        self.0
    }

    /// How many processors that takes at least.
    #[must_use]
    pub fn rounded_up(self) -> usize {
        self.0.div_ceil(1000) as usize
    }
}

impl TryFrom<f64> for Cpus {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        if (LEAST..=MOST).contains(&number) {
            Ok(Self((number * 1000.0).round() as u32))
        } else {
            Err(format!("{number} is not a number of processors; use 0.5 or 2"))
        }
    }
}

impl From<Cpus> for f64 {
    fn from(cpus: Cpus) -> Self {
        Self::from(cpus.0) / 1000.0
    }
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of processors; use 0.5 or 2"))?;
        Self::try_from(number)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_as_people_write_them() {
        for (text, thousandths, whole) in [("1", 1000, 1), ("0.5", 500, 1), ("2.25", 2250, 3)] {
            let cpus: Cpus = text.parse().unwrap();
            assert_eq!((cpus.thousandths(), cpus.rounded_up(), cpus.to_string().as_str()), (thousandths, whole, text));
        }
        for bad in ["", "0", "-1", "NaN", "inf", "1e9", "two"] {
            assert!(bad.parse::<Cpus>().is_err(), "{bad}");
        }
    }
}
