//! What cannot be made attempts of.

use whatif_types::Explain;
use whatif_types::explain::EXIT_USAGE;
use whatif_types::name::InvalidName;

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

    #[error("{what} needs a command")]
    NoCommand { what: &'static str },
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
    #[error("the agent's script has {{prompt}}, which a shell would take apart")]
    PromptInScript,

    #[error("'{commit}' cannot be a commit")]
    Commit { commit: String },
    #[error("the patch '{path}' is empty")]
    EmptyPatch { path: String },
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

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Nothing => "whatif race --check 'npm test' 'npm i left-pad@1.3.0' 'npm i left-pad@2.0.0'".to_owned(),
            Self::TooMany { .. } => "give fewer values, or race them in several rounds".to_owned(),
            Self::Name(_) => "for example --attempt small-fix='git apply fix.patch'".to_owned(),
            Self::Reserved { .. } => "give it another name".to_owned(),
            Self::Duplicate { .. } => "give one of them another name".to_owned(),
            Self::NoCommand { what: "--prompt" } => {
                "put the agent's command after --, as in: whatif race --prompt 'make the tests pass' -- my-agent -p {prompt}"
                    .to_owned()
            }
            Self::NoCommand { what: "--matrix" } => {
                "put the command after --, as in: whatif race --matrix V=1.3.0,2.0.0 -- npm i left-pad@{V}".to_owned()
            }
            Self::NoCommand { .. } => "put the command after --, as in: whatif race --count 3 -- my-agent".to_owned(),
            Self::Empty { .. } => "an attempt is a command, as in --attempt bump='npm i left-pad@2.0.0'".to_owned(),
            Self::ZeroByte { .. } => "write it into a file and name the file in the command".to_owned(),
            Self::TooLong { .. } => "write it into a file and name the file in the command, or give it as a patch".to_owned(),
            Self::CountOfNothing => "use --count 2 or more".to_owned(),
            Self::Variable { .. } => "for example --matrix VERSION=1.3.0,2.0.0".to_owned(),
            Self::DuplicateVariable { .. } => "give all values at once, as in --matrix VERSION=1.3.0,2.0.0".to_owned(),
            Self::NoValues { name } => format!("for example --matrix {name}=1.3.0,2.0.0"),
            Self::DuplicateValue { .. } => "to try the same several times use --count".to_owned(),
            Self::UnknownPlaceholder { placeholder, .. } => {
                format!("add --matrix {placeholder}=VALUE,VALUE, or use one that is there; ${{{placeholder}}} is left to the shell")
            }
            Self::NoPrompt => "add --prompt TEXT".to_owned(),
            Self::EmptyPrompt => "say what the agent shall do".to_owned(),
            Self::PromptInScript => {
                "use \"$PROMPT\" in it, or give the agent as a list: [\"my-agent\", \"-p\", \"{prompt}\"]".to_owned()
            }
            Self::Commit { .. } => "give a commit, branch or tag, as in --revert HEAD".to_owned(),
            Self::EmptyPatch { .. } => "make one with git diff > fix.patch".to_owned(),
        };
        vec![hint]
    }

    fn exit_code(&self) -> u8 {
        EXIT_USAGE
    }
}
