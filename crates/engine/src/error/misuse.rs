//! What was asked for in a way that cannot be done, whenever it is asked.

use std::path::PathBuf;

use whatif_types::remedy::{Call, Choice, Mention, Sentence, Value};
use whatif_types::text::Text;
use whatif_types::{Chosen, CommandId, Explain, Kind, Remedy, remedy};

#[derive(Debug, thiserror::Error)]
pub enum Misuse {
    #[error("this already is the sandbox '{outer}', and sandboxes cannot be made or managed inside one")]
    Nested { outer: String },
    #[error("template '{template}' was made for {}", project.display())]
    TemplateElsewhere { template: String, project: PathBuf },
    #[error("the whole file system or home cannot be masked")]
    MaskOfEverything,
    #[error("{why}")]
    Limit { why: String },
    #[error("there are no limits called '{}'", name.escape_debug())]
    NoSuchLimits { name: String, known: Vec<String> },
    #[error("'..' alone compares reality with itself")]
    ComparesReality,
    #[error("'{label}' is no snapshot of '{sandbox}', nor on the way it came")]
    NotItsOwn { label: String, sandbox: String },
    #[error("sandbox '{sandbox}' has no log{}", chosen.map_or_else(|| "s".to_owned(), |chosen| format!(" of a {chosen}")))]
    NoLog { sandbox: String, chosen: Option<Chosen> },
    #[error("sandbox '{sandbox}' has no {} to attach to", chosen.map_or_else(|| "command".to_owned(), |chosen| chosen.to_string()))]
    NothingToAttachTo { sandbox: String, chosen: Option<Chosen> },
    #[error("command {id} has written {end} bytes so far, so its output has no offset {from}")]
    BeyondOutput { id: CommandId, end: u64, from: u64 },
    #[error("fuse-overlayfs mistakes files for each other in merged layers, so they stay as they are")]
    SquashOverFuse,
    #[error("the sandbox changed nothing that fits '{pattern}'")]
    NothingFits {
        pattern: String,
        /// As it was named; the latest of the project otherwise.
        sandbox: Option<String>,
    },
    #[error("'{path}' has no hunks to choose from")]
    NoHunks { path: String },
    #[error("'{path}' has {count} hunk{}, there is no hunk {number}", if *.count == 1 { "" } else { "s" })]
    NoSuchHunk { path: String, count: usize, number: usize, sandbox: Option<String> },
    #[error("apply {id} changed nothing that fits '{pattern}'")]
    NothingToSkip { id: String, pattern: String },
    #[error("all that apply {id} changed is to be skipped")]
    SkipsEverything { id: String },
}

impl Explain for Misuse {
    fn code(&self) -> &'static str {
        "usage"
    }

    fn kind(&self) -> Kind {
        match self {
            Self::NoSuchLimits { .. } | Self::NoLog { .. } | Self::NothingToAttachTo { .. } => Kind::NotFound,
            Self::NothingFits { .. } | Self::NoSuchHunk { .. } => Kind::NotFound,
            Self::Nested { .. } => Kind::Forbidden,
            Self::TemplateElsewhere { .. } => Kind::Conflict,
            Self::SquashOverFuse => Kind::Unavailable,
            _ => Kind::Invalid,
        }
    }

    fn wording(&self) -> Option<Sentence> {
        match self {
            Self::MaskOfEverything => Some(remedy![Choice::Mask(Value::Unsaid), " cannot hide the whole file system or home"]),
            Self::SkipsEverything { id } => {
                Some(remedy![Choice::Skip(Value::Unsaid), format!(" names all that apply {id} changed")])
            }
            _ => None,
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        vec![match self {
            Self::Nested { .. } => "leave it first; whatever you run here is sandboxed already".into(),
            Self::TemplateElsewhere { project, .. } => remedy!["use it there: ", Choice::Cwd(project.as_path().into())],
            Self::MaskOfEverything => remedy!["name what is to be hidden: ", Choice::Mask("~/letters".into())],
            Self::Limit { .. } => "say how much it may be (512M, 2G), or leave it out".into(),
            Self::NoSuchLimits { known, .. } => {
                format!("known: {}, none; further ones are [profiles.NAME] in the configuration", known.join(", ")).into()
            }
            Self::ComparesReality => remedy!["name a sandbox on at least one side: ", Call::Compare],
            Self::NotItsOwn { label, .. } => remedy!["start another sandbox from it: ", Call::fork(label)],
            Self::NoLog { .. } => remedy!["commands started with ", Mention(Call::ExecDetached), " have logs"],
            Self::NothingToAttachTo { .. } => {
                remedy!["commands started with ", Mention(Call::ExecDetached), " can be attached to"]
            }
            Self::BeyondOutput { end, .. } => remedy!["choose one up to that: ", Choice::From(end.to_string().into())],
            Self::SquashOverFuse => "nothing needs to be done; its stacks may be as deep as they like".into(),
            Self::NothingFits { sandbox, .. } => {
                let name = Value::or_unsaid(sandbox.as_deref());
                remedy!["list what it changed: ", Call::ChangedPaths { name }]
            }
            Self::NoHunks { .. } => remedy!["take it as a whole with ", Choice::Files(Value::Unsaid)],
            Self::NoSuchHunk { path, sandbox, .. } => {
                let (name, path) = (Value::or_unsaid(sandbox.as_deref()), Text::from(path));
                remedy![
                    Mention(Call::Hunks { name: name.clone(), path: path.clone() }),
                    " numbers them on a terminal, ",
                    Mention(Call::HunksAsData { name, path }),
                    " everywhere"
                ]
            }
            Self::NothingToSkip { .. } | Self::SkipsEverything { .. } => {
                remedy![Mention(Call::HistoryAsData), " has the paths of each apply"]
            }
        }]
    }
}
