//! What a command can fail with: what the engine says, or a command line that makes no sense.

use std::error::Error;
use std::fmt;

use whatif_engine::EngineError;
use whatif_engine::races::RaceError;
use whatif_types::remedy::{Remedy, Sentence};
use whatif_types::{Explain, Kind};

/// What a command line is refused for before the engine is asked.
pub const CODES: [&str; 13] = [
    "unknown_command",
    "unknown_option",
    "missing_argument",
    "conflicting_options",
    "invalid_value",
    "invalid_command_line",
    "needs_confirmation",
    "needs_terminal",
    "ambiguous_command_line",
    "no_such_path",
    "not_allowed",
    "switched_off",
    "daemon_missing",
];

#[derive(Debug)]
pub enum Failure {
    Engine(EngineError),
    /// With what the command line alone suggests.
    Hinted(EngineError, Remedy),
    Usage(Usage),
}

/// The engine was not asked, or would have nothing to say about how it was.
#[derive(Debug)]
pub struct Usage {
    code: &'static str,
    message: String,
    remedy: Remedy,
}

impl Failure {
    /// `code` is one of [`CODES`].
    #[must_use]
    pub fn usage(code: &'static str, message: impl Into<String>, remedy: impl Into<Remedy>) -> Self {
        Self::Usage(Usage { code, message: message.into(), remedy: remedy.into() })
    }

    fn explained(&self) -> &dyn Explain {
        match self {
            Self::Engine(error) | Self::Hinted(error, _) => error,
            Self::Usage(error) => error,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.explained(), f)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.explained().source()
    }
}

impl Error for Usage {}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<RaceError> for Failure {
    fn from(error: RaceError) -> Self {
        Self::Engine(error.into())
    }
}

impl Explain for Failure {
    fn code(&self) -> &'static str {
        self.explained().code()
    }

    fn kind(&self) -> Kind {
        self.explained().kind()
    }

    fn remedies(&self) -> Vec<Remedy> {
        let mut remedies = self.explained().remedies();
        if let Self::Hinted(_, hint) = self {
            remedies.push(hint.clone());
        }
        remedies
    }

    fn wording(&self) -> Option<Sentence> {
        self.explained().wording()
    }

    fn details(&self) -> Option<serde_json::Value> {
        self.explained().details()
    }

    fn retryable(&self) -> bool {
        self.explained().retryable()
    }
}

impl Explain for Usage {
    fn code(&self) -> &'static str {
        self.code
    }

    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn remedies(&self) -> Vec<Remedy> {
        vec![self.remedy.clone()]
    }
}
