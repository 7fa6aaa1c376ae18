//! What a race can fail with.

use serde::Serialize;
use whatif_patch::Region;
use whatif_race::plan::PlanError;
use whatif_types::remedy::{Call, Choice, Mention, Part, Sentence, Value};
use whatif_types::text::Text;
use whatif_types::{Explain, Kind, Remedy, remedy};

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
    #[error("this project has no races")]
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
    #[error("'{attempt}' changed after it was judged, so it may no longer be the best")]
    ChangedSince { attempt: String },
    #[error("attempt '{attempt}' has already been applied")]
    AppliedAlready { attempt: String },
    #[error("attempt '{attempt}' has been applied, and its sandbox is gone")]
    AppliedAndGone { attempt: String },
    #[error("'{attempt}' is named twice")]
    NamedTwice { attempt: String },
    #[error("the sandbox of attempt '{attempt}' no longer exists{}", applied.as_ref().map(|one| format!(": it went when '{one}' was applied")).unwrap_or_default())]
    NoSandbox { attempt: String, applied: Option<String> },
    #[error("'{one}' and '{other}' both changed: {}", clashes.iter().map(|c| c.path.to_os().display().to_string()).collect::<Vec<_>>().join(", "))]
    Clash { one: String, other: String, clashes: Vec<Clash> },
    #[error("attempt '{attempt}' cannot be merged: reality changed in the same places")]
    Behind { attempt: String, sandbox: String },
    #[error("nothing of '{attempt}' {}", if patterns.is_empty() { "is left to take".to_owned() } else { format!("fits {}", patterns.join(", ")) })]
    NothingFits { attempt: String, patterns: Vec<String> },
    #[error("race '{race}' was started with variables that whatif does not record: {}", names.join(", "))]
    NeedsEnv { race: String, names: Vec<String> },
    #[error("a merge needs at least two attempts")]
    NothingToMerge,
    #[error("race '{race}' already has an attempt '{attempt}'")]
    AttemptTaken { race: String, attempt: String },
    #[error("'{attempt}' is a merge of other attempts")]
    IsMerge { attempt: String },
    #[error("only one sandbox can publish a port")]
    Publishes,
    #[error("there is no commit '{}' to revert", commit.escape_debug())]
    NoSuchCommit { commit: String },
    #[error(transparent)]
    Plan(#[from] PlanError),
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
            Self::NothingFits { .. } => "no_match",
            Self::NamedTwice { .. } | Self::IsMerge { .. } | Self::Publishes => "invalid_race",
            Self::NeedsEnv { .. } => "needs_variable",
            Self::NothingToMerge => "nothing_to_merge",
            Self::AttemptTaken { .. } => "attempt_taken",
            Self::NoSuchCommit { .. } => "no_such_commit",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Plan(error) => error.kind(),
            Self::NoSuchRace { .. } | Self::NoRaceHere | Self::NoSuchAttempt { .. } | Self::NoSuchCommit { .. } => Kind::NotFound,
            Self::NoWinner { .. } | Self::NoSandbox { .. } | Self::AppliedAndGone { .. } => Kind::NotFound,
            Self::NothingFits { .. } => Kind::NotFound,
            Self::UnderWay { .. } => Kind::Unavailable,
            Self::NothingLeft { .. } | Self::SetupFailed { .. } | Self::NotEnded { .. } => Kind::Conflict,
            Self::ChangedSince { .. } | Self::AppliedAlready { .. } | Self::AttemptTaken { .. } => Kind::Conflict,
            Self::Clash { .. } | Self::Behind { .. } => Kind::Conflict,
            Self::NamedTwice { .. } | Self::NeedsEnv { .. } | Self::NothingToMerge => Kind::Invalid,
            Self::IsMerge { .. } | Self::Publishes => Kind::Invalid,
        }
    }

    fn wording(&self) -> Option<Sentence> {
        match self {
            Self::Plan(error) => error.wording(),
            _ => None,
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        let rerun = |attempt: &String| Call::RaceRerun { attempt: attempt.into() };
        vec![match self {
            Self::Plan(error) => return error.remedies(),
            Self::NoSuchRace { .. } => remedy![Mention(Call::Races), " lists them"],
            Self::NoRaceHere => remedy!["start one: ", Call::RaceAny],
            Self::NoSuchAttempt { known, .. } => match known.as_slice() {
                [only] => format!("it has one attempt: {only}").into(),
                _ => format!("its attempts are {}", known.join(", ")).into(),
            },
            Self::UnderWay { .. } => remedy![Mention(Call::RaceShow), " shows its progress"],
            Self::NothingLeft { .. } => remedy!["run everything again: ", Call::RaceRerun { attempt: Value::Unsaid }],
            Self::SetupFailed { .. } => {
                remedy!["no attempt was started; once the set-up can succeed: ", Call::RaceResume]
            }
            Self::NoWinner { .. } => {
                remedy![Mention(Call::RaceShow), " says why; name an attempt to apply it anyway"]
            }
            Self::ChangedSince { attempt } => {
                let as_it_is = Call::RaceApply { attempt: attempt.into() };
                return vec![remedy!["judge it again: ", rerun(attempt)], remedy!["or apply it as it is, by its name: ", as_it_is]];
            }
            Self::AppliedAlready { .. } => remedy![
                Mention(Call::History),
                " lists applies; ",
                Mention(Call::undo(Value::Unsaid)),
                " takes it back, and undoing that applies it again"
            ],
            Self::AppliedAndGone { .. } => remedy![
                "what it changed is real now; ",
                Mention(Call::RaceShow),
                " lists the files, ",
                Mention(Call::History),
                " the apply"
            ],
            Self::NamedTwice { .. } => "name each attempt once".into(),
            Self::NotEnded { .. } => remedy!["finish the race first: ", Call::RaceResume],
            Self::NoSandbox { attempt, .. } => remedy!["run it again: ", rerun(attempt)],
            Self::Clash { one, other, .. } => {
                let files_of = |attempt: &String| Choice::FilesOf(attempt.into());
                return vec![
                    "nothing was merged".into(),
                    remedy!["choose which version to take: ", files_of(one), " ", files_of(other)],
                ];
            }
            Self::Behind { sandbox, .. } => remedy!["bring it up to date first: ", Call::Rebase { name: sandbox.into() }],
            Self::NothingFits { attempt, .. } => {
                remedy![Mention(Call::RaceDiff { attempt: attempt.into() }), " lists what it changed"]
            }
            Self::NeedsEnv { names, .. } => {
                let spaced = |name: &String| [Part::from(" "), Choice::Env(name.into()).into()];
                Remedy::from("pass them again:").and(Sentence { parts: names.iter().flat_map(spaced).collect() })
            }
            Self::NothingToMerge => remedy!["name two: ", Call::RaceMerge],
            Self::AttemptTaken { .. } => remedy!["choose another name: ", Choice::As(Value::Blank)],
            Self::IsMerge { .. } => remedy!["run those attempts again and merge them: ", Call::RaceMerge],
            Self::Publishes => remedy!["leave out ", Choice::Publish(Value::Unsaid)],
            Self::NoSuchCommit { .. } => "'git log' lists them".into(),
        }]
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
}
