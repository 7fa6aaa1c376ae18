//! What a race can fail with.

use serde::Serialize;
use whatif_patch::Region;
use whatif_race::plan::PlanError;
use whatif_types::Explain;
use whatif_types::text::Text;

/// A path that two attempts changed, where nobody but a person knows what is right.
#[derive(Clone, Debug, Serialize)]
pub struct Clash {
    pub path: Text,
    pub why: &'static str,
    /// Where texts collide: the line in the first one's version, and the lines of each.
    #[serde(skip)]
    pub regions: Vec<Region>,
}

#[derive(Debug, thiserror::Error)]
pub enum RaceError {
    #[error("there is no race called '{name}'")]
    NoSuchRace { name: String },
    #[error("there is no race of this project")]
    NoRaceHere,
    #[error("race '{race}' has no attempt called '{attempt}'")]
    NoSuchAttempt { race: String, attempt: String, known: Vec<String> },
    #[error("race '{name}' is being run by another command")]
    UnderWay { name: String },
    #[error("race '{name}' has nothing left to do")]
    NothingLeft { name: String },
    #[error("the set-up failed ({how}){}", if tail.is_empty() { String::new() } else { format!(": {tail}") })]
    SetupFailed { how: String, tail: String },
    #[error("no attempt of race '{name}' has won")]
    NoWinner { name: String },
    #[error("attempt '{attempt}' has not ended yet")]
    NotEnded { attempt: String },
    #[error("'{attempt}' was changed since it was judged, so it is not known to be the best any more")]
    ChangedSince { attempt: String },
    #[error("attempt '{attempt}' was applied already")]
    AppliedAlready { attempt: String },
    #[error("attempt '{attempt}' was applied, and its sandbox is gone")]
    AppliedAndGone { attempt: String },
    #[error("'{attempt}' is named twice")]
    NamedTwice { attempt: String },
    #[error("attempt '{attempt}' has no sandbox any more")]
    NoSandbox { attempt: String },
    #[error("both '{one}' and '{other}' changed the same: {}", clashes.iter().map(|c| c.path.to_os().display().to_string()).collect::<Vec<_>>().join(", "))]
    Clash { one: String, other: String, clashes: Vec<Clash> },
    #[error("attempt '{attempt}' cannot be merged: reality moved where it changed something")]
    Behind { attempt: String, sandbox: String },
    #[error("nothing of '{attempt}' {}", if patterns.is_empty() { "is left to take".to_owned() } else { format!("fits {}", patterns.join(", ")) })]
    NothingFits { attempt: String, patterns: Vec<String> },
    #[error("race '{race}' was begun with variables that are not written down: {}", names.join(", "))]
    NeedsEnv { race: String, names: Vec<String> },
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("{message}")]
    Usage { message: String, hint: String },
}

impl RaceError {
    #[must_use]
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }
}

impl Explain for RaceError {
    fn code(&self) -> &'static str {
        match self {
            Self::Plan(error) => error.code(),
            Self::NoSuchRace { .. } | Self::NoRaceHere | Self::NoSuchAttempt { .. } => "not_found",
            Self::UnderWay { .. } => "busy",
            Self::NothingLeft { .. } => "nothing_left",
            Self::SetupFailed { .. } => "setup_command_failed",
            Self::NoWinner { .. } => "no_winner",
            Self::NotEnded { .. } => "not_ended",
            Self::AppliedAlready { .. } => "applied_already",
            Self::ChangedSince { .. } => "changed_since_judged",
            Self::NoSandbox { .. } | Self::AppliedAndGone { .. } => "no_sandbox",
            Self::Clash { .. } | Self::Behind { .. } => "conflict",
            Self::NothingFits { .. } | Self::NamedTwice { .. } | Self::NeedsEnv { .. } | Self::Usage { .. } => "usage",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Plan(error) => error.hints(),
            Self::NoSuchRace { .. } => vec!["'whatif race ls' lists them".to_owned()],
            Self::NoRaceHere => vec!["begin one: whatif race 'COMMAND' 'COMMAND' --check 'COMMAND'".to_owned()],
            Self::NoSuchAttempt { known, .. } => vec![format!("its attempts are {}", known.join(", "))],
            Self::UnderWay { .. } => vec!["'whatif race show' tells how far it is".to_owned()],
            Self::NothingLeft { .. } => vec!["run it all once more: whatif race rerun".to_owned()],
            Self::SetupFailed { .. } => vec!["no attempt was begun; when what it needs is there: whatif race resume".to_owned()],
            Self::NoWinner { .. } => vec!["'whatif race show' says why; name an attempt to apply it all the same".to_owned()],
            Self::ChangedSince { attempt } => vec![
                format!("judge it anew: whatif race rerun {attempt}"),
                format!("or apply it as it is, by its name: whatif race apply {attempt}"),
            ],
            Self::AppliedAlready { .. } => {
                vec!["'whatif history' lists applies; 'whatif undo' takes one back, and undoing that applies it again".to_owned()]
            }
            Self::AppliedAndGone { .. } => {
                vec!["what it changed is real now; 'whatif race show' lists the files, 'whatif history' the apply".to_owned()]
            }
            Self::NamedTwice { .. } => vec!["name each attempt once".to_owned()],
            Self::NotEnded { .. } => vec!["go on with the race first: whatif race resume".to_owned()],
            Self::NoSandbox { attempt } => vec![format!("run it again: whatif race rerun {attempt}")],
            Self::Clash { one, other, .. } => {
                vec!["nothing was made".to_owned(), format!("say whose to take: --files '{one}=PATTERN' --files '{other}=PATTERN'")]
            }
            Self::Behind { sandbox, .. } => vec![format!("bring it up to date first: whatif rebase {sandbox}")],
            Self::NothingFits { attempt, .. } => vec![format!("'whatif race diff {attempt}' lists what it changed")],
            Self::NeedsEnv { names, .. } => {
                vec![format!("give them again: {}", names.iter().map(|n| format!("--env {n}=…")).collect::<Vec<_>>().join(" "))]
            }
            Self::Usage { hint, .. } => vec![hint.clone()],
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::Clash { one, other, clashes } => Some(serde_json::json!({ "attempts": [one, other], "clashes": clashes })),
            _ => None,
        }
    }

    fn retryable(&self) -> bool {
        matches!(self, Self::UnderWay { .. })
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Plan(error) => error.exit_code(),
            Self::Usage { .. } | Self::NothingFits { .. } | Self::NamedTwice { .. } | Self::NeedsEnv { .. } => {
                whatif_types::explain::EXIT_USAGE
            }
            Self::Clash { .. } | Self::Behind { .. } => whatif_types::explain::EXIT_CONFLICT,
            _ => whatif_types::explain::EXIT_FAILED,
        }
    }
}
