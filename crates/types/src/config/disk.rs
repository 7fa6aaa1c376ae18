//! How much room sandboxes may take.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskRules {
    /// Say so when everything together takes more than this.
    pub warn: Option<Size>,
    /// Make nothing new beyond this.
    pub limit: Option<Size>,
    /// Make nothing new when less than this is free in the file system.
    pub keep_free: Option<Size>,
}

impl DiskRules {
    /// What is to be said about a state directory of this size.
    #[must_use]
    pub fn alert(&self, total: u64, free: u64) -> Option<String> {
        if let Some(limit) = self.limit.filter(|l| total >= l.0) {
            return Some(format!("sandboxes take {}, and may take {limit}", Size(total)));
        }
        if let Some(least) = self.keep_free.filter(|l| free < l.0) {
            return Some(format!("only {} are free, and {least} must stay free", Size(free)));
        }
        self.warn.filter(|w| total >= w.0).map(|warn| format!("sandboxes take {}, more than {warn}", Size(total)))
    }

    /// Whether nothing new may be made.
    #[must_use]
    pub fn forbids(&self, total: u64, free: u64) -> bool {
        self.limit.is_some_and(|l| total >= l.0) || self.keep_free.is_some_and(|l| free < l.0)
    }
}

/// A number of bytes, written as `512M` or `20GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Size(pub u64);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a size is written as 512M, 20G or a number of bytes")]
enum Written {
    Bytes(u64),
    Text(String),
}

const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let wrong = || format!("'{text}' is not a size; use 512M, 20G or a number of bytes");
        let number: u64 = text[..split].parse().map_err(|_| wrong())?;
        let unit = text[split..].trim().trim_end_matches(['B', 'b']).trim_end_matches('i').to_ascii_uppercase();
        let power = UNITS.iter().position(|u| *u == unit).ok_or_else(wrong)?;
        number.checked_mul(1 << (10 * power)).map(Self).ok_or_else(|| format!("'{text}' is too much"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        match unit {
            0 => write!(f, "{} B", self.0),
            _ if value.fract() == 0.0 => write!(f, "{value:.0} {}iB", UNITS[unit]),
            _ => write!(f, "{value:.1} {}iB", UNITS[unit]),
        }
    }
}

impl TryFrom<Written> for Size {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Bytes(bytes) => Ok(Self(bytes)),
            Written::Text(text) => text.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [("0", 0), ("512", 512), ("1K", 1024), ("20MiB", 20 << 20), ("3 GB", 3 << 30), ("2t", 2 << 40)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "G", "-1", "1.5G", "1X", "99999999999T"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!((Size(1536).to_string().as_str(), Size(128 << 20).to_string().as_str()), ("1.5 KiB", "128 MiB"));
    }
}
