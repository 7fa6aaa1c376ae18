//! What a sandbox may use that none may by itself: devices, and parts of the kernel that are denied otherwise.
//!
//! Only the command line and the user's own configuration grant something. A project's configuration has no key for it, and neither
//! an archive nor an experiment file brings a grant along.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grants {
    /// Below `/dev`, as the user named them.
    #[serde(with = "text::paths", skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allowed>,
}

/// Parts of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowed {
    /// User namespaces, and what their makers may do in them.
    Userns,
}

impl Grants {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    #[must_use]
    pub fn allows(&self, what: Allowed) -> bool {
        self.allow.contains(&what)
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.devices.extend(other.devices.iter().filter(|device| !self.devices.contains(device)).cloned());
        both.allow.extend(other.allow.iter().filter(|allowed| !self.allow.contains(allowed)));
        both.gpu = match (&self.gpu, &other.gpu) {
            (Some(Gpu::Some(one)), Some(Gpu::Some(more))) => {
                let mut numbers = [one.as_slice(), more].concat();
                numbers.sort_unstable();
                numbers.dedup();
                Some(Gpu::Some(numbers))
            }
            (Some(Gpu::All), _) | (_, Some(Gpu::All)) => Some(Gpu::All),
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        both
    }
}

/// Which cards of NVIDIA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Gpu {
    All,
    /// By the number in `/dev/nvidiaN`.
    Some(Vec<u32>),
}

/// More cards are in no machine.
const MOST_CARDS: u32 = 255;

impl FromStr for Gpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let number = |part: &str| {
            let is_number = !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
            part.parse().ok().filter(|number| is_number && *number <= MOST_CARDS)
        };
        let numbers = text.split(',').map(number).collect::<Option<Vec<u32>>>();
        numbers.map(Self::Some).ok_or_else(|| "expected 'all' or the numbers of cards: 0 or 0,1".to_owned())
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Some(numbers) => f.write_str(&numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}

impl TryFrom<String> for Gpu {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Gpu> for String {
    fn from(gpu: Gpu) -> Self {
        gpu.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_all_or_numbers() {
        for (text, gpu) in [("all", Gpu::All), ("0", Gpu::Some(vec![0])), ("0,3", Gpu::Some(vec![0, 3]))] {
            assert_eq!(text.parse(), Ok(gpu.clone()));
            assert_eq!(gpu.to_string(), text);
        }
        for text in ["", "ALL", "-1", "+1", "1,", "256", "0x1", "python", "all,0"] {
            assert!(text.parse::<Gpu>().is_err(), "{text}");
        }
    }

    #[test]
    fn grants_add_up_and_an_empty_one_leaves_no_trace() {
        let one = Grants { devices: vec!["/dev/kvm".into()], gpu: Some(Gpu::Some(vec![1])), allow: vec![Allowed::Userns] };
        let other =
            Grants { devices: vec!["/dev/kvm".into(), "/dev/x".into()], gpu: Some(Gpu::Some(vec![0])), ..Grants::default() };
        let both = one.and(&other);
        assert_eq!(both.devices, [PathBuf::from("/dev/kvm"), PathBuf::from("/dev/x")]);
        assert_eq!(both.gpu, Some(Gpu::Some(vec![0, 1])));
        assert_eq!(both.and(&Grants { gpu: Some(Gpu::All), ..Grants::default() }).gpu, Some(Gpu::All));
        assert_eq!(serde_json::to_string(&Grants::default()).unwrap(), "{}");
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(text, r#"{"devices":["/dev/kvm"],"gpu":"1","allow":["userns"]}"#);
        assert_eq!(serde_json::from_str::<Grants>(&text).unwrap(), one);
    }
}
