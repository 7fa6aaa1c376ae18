//! What cannot be made attempts of.

use std::fmt;

use whatif_types::name::InvalidName;
use whatif_types::remedy::{Call, Choice, Sentence, Value};
use whatif_types::{Explain, Kind, Remedy, remedy};

use super::MOST_ATTEMPTS;

#[derive(Debug, thiserror::Error)]
pub enum AttemptsError {
    #[error("there is nothing to race")]
    Nothing,
    #[error("{count} attempts are too many; at most {MOST_ATTEMPTS} can be raced")]
    TooMany { count: usize },

    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error("no attempt can be called '{name}': that is how whatif calls the one that won")]
    Reserved { name: String },
    #[error("two attempts are called '{name}'")]
    Duplicate { name: String },

    #[error("{way} needs a command")]
    NoCommand { way: Way },
    #[error("attempt '{attempt}' has nothing to run")]
    Empty { attempt: String },
    #[error("attempt '{attempt}' has an argument with a zero byte in it, which no program can be given")]
    ZeroByte { attempt: String },
    #[error("attempt '{attempt}' has an argument of {bytes} bytes, more than a program can be given")]
    TooLong { attempt: String, bytes: usize },
    #[error("a count of 0 would leave nothing to race")]
    CountOfNothing,

    #[error("'{name}' cannot be a variable: use letters, digits and '_', not beginning with a digit")]
    Variable { name: String },
    #[error("'{name}' is given twice as a variable")]
    DuplicateVariable { name: String },
    #[error("variable '{name}' has no values")]
    NoValues { name: String },
    #[error("variable '{name}' has the value '{value}' twice")]
    DuplicateValue { name: String, value: String },
    #[error("the command has {{{placeholder}}}, but no variable is called so; known: {known}")]
    UnknownPlaceholder { placeholder: String, known: String },
    #[error("the command has {{prompt}}, but there is no prompt")]
    NoPrompt,
    #[error("a prompt has no text")]
    EmptyPrompt,
    #[error("the agent's script has {{prompt}}, which a shell would split")]
    PromptInScript,

    #[error("'{commit}' cannot be a commit")]
    Commit { commit: String },
    #[error("the patch '{path}' is empty")]
    EmptyPatch { path: String },
}

/// How one command becomes several attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Count,
    Matrix,
    Prompt,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count => "a count",
            Self::Matrix => "a matrix",
            Self::Prompt => "a prompt",
        })
    }
}

impl Way {
    fn choice(self, value: Value) -> Choice {
        match self {
            Self::Count => Choice::Count(value),
            Self::Matrix => Choice::Matrix(value),
            Self::Prompt => Choice::Prompt(value),
        }
    }

    /// A race that goes this way.
    fn example(self) -> Remedy {
        let (whose, value, command) = match self {
            Self::Prompt => ("the agent's command", "make the tests pass", "my-agent -p {prompt}"),
            Self::Matrix => ("the command", "V=1.3.0,2.0.0", "npm i left-pad@{V}"),
            Self::Count => ("the command", "3", "my-agent"),
        };
        let race = Call::RaceOne { choices: vec![self.choice(value.into())], command: command.to_owned() };
        remedy![format!("put {whose} "), Choice::Command, ", as in: ", race]
    }
}

impl Explain for AttemptsError {
    fn code(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing_to_race",
            Self::TooMany { .. } => "too_many_attempts",
            Self::Name(_) | Self::Reserved { .. } => "invalid_name",
            Self::Duplicate { .. } => "duplicate_name",
            Self::NoCommand { .. } | Self::Empty { .. } | Self::CountOfNothing => "no_command",
            Self::ZeroByte { .. } | Self::TooLong { .. } => "invalid_command",
            Self::Variable { .. } | Self::DuplicateVariable { .. } | Self::NoValues { .. } | Self::DuplicateValue { .. } => {
                "invalid_matrix"
            }
            Self::UnknownPlaceholder { .. } => "unknown_placeholder",
            Self::NoPrompt | Self::EmptyPrompt | Self::PromptInScript => "invalid_prompt",
            Self::Commit { .. } => "invalid_commit",
            Self::EmptyPatch { .. } => "invalid_patch",
        }
    }

    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn wording(&self) -> Option<Sentence> {
        match self {
            Self::NoCommand { way } => Some(remedy![way.choice(Value::Unsaid), " needs a command"]),
            _ => None,
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        let remedy = match self {
            Self::Nothing => {
                let commands = ["npm i left-pad@1.3.0", "npm i left-pad@2.0.0"].map(str::to_owned).to_vec();
                Call::Race { choices: vec![Choice::Check("npm test".into())], commands }.into()
            }
            Self::TooMany { .. } => "give fewer values, or race them in several rounds".into(),
            Self::Name(_) => remedy!["for example ", Choice::Attempt("small-fix=git apply fix.patch".into())],
            Self::Reserved { .. } => "give it another name".into(),
            Self::Duplicate { .. } => "give one of them another name".into(),
            Self::NoCommand { way } => way.example(),
            Self::Empty { .. } => {
                remedy!["an attempt is a command, as in ", Choice::Attempt("bump=npm i left-pad@2.0.0".into())]
            }
            Self::ZeroByte { .. } => "write it into a file and name the file in the command".into(),
            Self::TooLong { .. } => "write it into a file and name the file in the command, or give it as a patch".into(),
            Self::CountOfNothing => remedy!["use ", Choice::Count("2".into()), " or more"],
            Self::Variable { .. } => remedy!["for example ", Choice::Matrix("VERSION=1.3.0,2.0.0".into())],
            Self::DuplicateVariable { .. } => {
                remedy!["give all values at once, as in ", Choice::Matrix("VERSION=1.3.0,2.0.0".into())]
            }
            Self::NoValues { name } => remedy!["for example ", Choice::Matrix(format!("{name}=1.3.0,2.0.0").into())],
            Self::DuplicateValue { .. } => remedy!["to try the same several times use ", Choice::Count(Value::Unsaid)],
            Self::UnknownPlaceholder { placeholder, .. } => remedy![
                "add ",
                Choice::Matrix(format!("{placeholder}=VALUE,VALUE").into()),
                format!(", or use one that is there; ${{{placeholder}}} is left to the shell")
            ],
            Self::NoPrompt => remedy!["add ", Choice::Prompt(Value::Blank)],
            Self::EmptyPrompt => "say what the agent should do".into(),
            Self::PromptInScript => {
                "use \"$PROMPT\" in it, or give the agent as a list: [\"my-agent\", \"-p\", \"{prompt}\"]".into()
            }
            Self::Commit { .. } => remedy!["give a commit, branch or tag, as in ", Choice::Revert("HEAD".into())],
            Self::EmptyPatch { .. } => "make one with git diff > fix.patch".into(),
        };
        vec![remedy]
    }
}
