//! The parts that can be measured by themselves.

use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Commands,
    Pool,
    Limits,
    Network,
    Fleet,
    Diff,
    Apply,
    Snapshots,
    Race,
    Trees,
}

impl Part {
    const ALL: [(&'static str, Self); 10] = [
        ("commands", Self::Commands),
        ("pool", Self::Pool),
        ("limits", Self::Limits),
        ("network", Self::Network),
        ("fleet", Self::Fleet),
        ("diff", Self::Diff),
        ("apply", Self::Apply),
        ("snapshots", Self::Snapshots),
        ("race", Self::Race),
        ("trees", Self::Trees),
    ];

    pub fn named(name: &str) -> Result<Self, Failure> {
        let part = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, part)| *part);
        part.ok_or_else(|| {
            Failure::Usage(format!("'{name}' is not a part of bench; there are {}", Self::ALL.map(|(n, _)| n).join(", ")))
        })
    }
}
