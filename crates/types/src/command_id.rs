//! The ids of commands in the background, and how a person names one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `c1`, `c2`, …: counted in each sandbox, and never used again there, unlike the numbers of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommandId(u32);

impl CommandId {
    pub const FIRST: Self = Self(1);

    /// The one after it; `None` after the last there can be.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotACommand(String);

impl fmt::Display for NotACommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is neither the number of a process nor the id of a command (c1)", self.0)
    }
}

impl std::error::Error for NotACommand {}

impl FromStr for CommandId {
    type Err = NotACommand;

    /// Accepts only what `Display` prints, so that an id has one name as a file.
    fn from_str(text: &str) -> Result<Self, NotACommand> {
        let parsed = text.strip_prefix('c').and_then(|number| number.parse().ok()).filter(|number| *number > 0).map(Self);
        parsed.filter(|id| id.to_string() == text).ok_or_else(|| NotACommand(text.to_owned()))
    }
}

impl TryFrom<String> for CommandId {
    type Error = NotACommand;

    fn try_from(text: String) -> Result<Self, NotACommand> {
        text.parse()
    }
}

impl From<CommandId> for String {
    fn from(id: CommandId) -> Self {
        id.to_string()
    }
}

/// A command as a person names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    Id(CommandId),
    Pid(i32),
}

impl FromStr for Chosen {
    type Err = NotACommand;

    fn from_str(text: &str) -> Result<Self, NotACommand> {
        match text.parse() {
            Ok(pid) => Ok(Self::Pid(pid)),
            Err(_) => text.parse().map(Self::Id),
        }
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "command {id}"),
            Self::Pid(pid) => write!(f, "process {pid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        assert_eq!("c12".parse(), Ok(CommandId(12)));
        assert_eq!(CommandId(12).to_string(), "c12");
        for wrong in ["", "c", "c0", "c01", "c+1", "C1", "12", "c-1", "c4294967296", "c1/..", "c 1"] {
            assert!(wrong.parse::<CommandId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_number_is_a_process_and_a_letter_makes_it_a_command() {
        assert_eq!("12".parse(), Ok(Chosen::Pid(12)));
        assert_eq!("c12".parse(), Ok(Chosen::Id(CommandId(12))));
        assert!("x".parse::<Chosen>().is_err());
    }
}
