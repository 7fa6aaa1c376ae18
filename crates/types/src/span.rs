//! A length of time as people write it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Written as `30`, `30s`, `5m`, `2h`, `1d`, `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct Span(Duration);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Seconds(u64),
    Text(String),
}

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl Span {
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    #[must_use]
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    #[must_use]
    pub fn duration(self) -> Duration {
        self.0
    }

    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..split].parse().map_err(|_| format!("'{text}' is not a duration; use 30s, 5m, 2h"))?;
        let unit = if text[split..].is_empty() { "s" } else { &text[split..] };
        let (_, milliseconds) = UNITS
            .into_iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| format!("'{unit}' is not a unit of time; use ms, s, m, h or d"))?;
        let total = number.checked_mul(milliseconds).ok_or_else(|| format!("'{text}' is too long"))?;
        Ok(Self::from_millis(total))
    }
}

impl fmt::Display for Span {
    /// In the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.as_millis();
        let fits = UNITS.into_iter().rev().find(|(_, unit)| milliseconds.is_multiple_of(*unit) && milliseconds > 0);
        let (name, unit) = fits.unwrap_or(("s", 1000));
        write!(f, "{}{name}", milliseconds / unit)
    }
}

impl TryFrom<Written> for Span {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Seconds(seconds) => Ok(Self::from_secs(seconds)),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_as_people_write_them() {
        let spans = [("90", "90s"), ("5m", "5m"), ("250ms", "250ms"), ("120s", "2m"), ("48h", "2d"), ("0", "0s"), ("61m", "61m")];
        for (text, shown) in spans {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), shown, "{text}");
        }
        for bad in ["", "m", "5x", "-1s", "99999999999999999999s", "99999999999999999d"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }
}
