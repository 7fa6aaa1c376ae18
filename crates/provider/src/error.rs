//! What can go wrong with a provider.

use whatif_types::explain::kind_of;
use whatif_types::remedy::{Call, Mention};
use whatif_types::{Explain, Kind, Remedy, remedy};

#[derive(Debug, thiserror::Error)]
#[error("failed to start a keeper: cannot {step}")]
pub struct LaunchError {
    pub step: &'static str,
    #[source]
    pub source: std::io::Error,
}

impl Explain for LaunchError {
    fn code(&self) -> &'static str {
        "keeper_start_failed"
    }

    fn kind(&self) -> Kind {
        kind_of(&self.source)
    }

    fn remedies(&self) -> Vec<Remedy> {
        vec![remedy![Mention(Call::Doctor), " tests each thing a sandbox needs and says how to fix what is missing"]]
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no provider called '{name}'")]
pub struct UnknownProvider {
    pub(crate) name: String,
}

impl Explain for UnknownProvider {
    fn code(&self) -> &'static str {
        "unknown_provider"
    }

    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn remedies(&self) -> Vec<Remedy> {
        let available: Vec<&str> = crate::ALL.iter().map(|provider| provider.name()).collect();
        vec![format!("available: {}", available.join(", ")).into()]
    }
}
