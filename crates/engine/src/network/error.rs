//! What can be wrong with the network of a sandbox.

use whatif_types::remedy::{Call, Choice, Mention, Sentence};
use whatif_types::{Explain, Kind, Remedy, remedy};

use super::NetworkMisuse;

#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("network rules do not work here: {message}")]
    NoRules { message: String },
    #[error("the network of '{name}' has no supervisor: {message}")]
    Supervisor { name: String, message: String },
    #[error(transparent)]
    Misuse(#[from] NetworkMisuse),
}

impl NetworkError {
    /// Whether it may come of the sandbox being removed at this moment.
    pub(crate) fn is_of_what_is_there(&self) -> bool {
        matches!(self, Self::Supervisor { .. })
    }
}

impl Explain for NetworkError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoRules { .. } => "no_network_rules",
            Self::Supervisor { .. } => "no_supervisor",
            Self::Misuse(error) => error.code(),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::NoRules { .. } | Self::Supervisor { .. } => Kind::Unavailable,
            Self::Misuse(error) => error.kind(),
        }
    }

    fn wording(&self) -> Option<Sentence> {
        match self {
            Self::Misuse(error) => error.wording(),
            _ => None,
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        match self {
            Self::NoRules { .. } => vec![
                "the kernel needs nf_tables with NAT ('modprobe nf_tables nft_redir', or ask the administrator of the container)"
                    .into(),
                remedy!["or run without a network: ", Choice::Net("none".into()), "; ", Mention(Call::Doctor), " tests it"],
            ],
            Self::Supervisor { name, .. } => vec![remedy![
                "until it does, nothing gets out; try again, ",
                Mention(Call::Network { name: name.into() }),
                " shows whether it works"
            ]],
            Self::Misuse(error) => error.remedies(),
        }
    }
}
