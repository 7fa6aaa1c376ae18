//! What was asked of the network in a way that cannot be done.

use std::io;

use whatif_inject::DestinationError;
use whatif_inject::fields::FieldError;
use whatif_inject::wish::WishError;
use whatif_netpolicy::HostName;
use whatif_types::network::{Publish, Rule};
use whatif_types::remedy::{Call, Choice, Mention, Sentence, Value};
use whatif_types::{Explain, Kind, NetMode, Remedy, remedy};

#[derive(Debug, thiserror::Error)]
pub enum NetworkMisuse {
    #[error("{why}")]
    Configured { why: String },
    #[error("{why}")]
    Combined { why: String },
    #[error("the project's {} allows no network", crate::caller::PROJECT_CONFIG)]
    ClosedByProject,
    #[error("with the host's network its ports are the host's: there is nothing to reach or publish")]
    NothingToReach,
    #[error("with the host's network its ports are the host's")]
    PortsOfHost,
    #[error("at most {MOST_REACHED} ports can be reached, and {MOST_PUBLISHED} published")]
    TooManyPorts,
    #[error("port {inside} of '{sandbox}' is not published")]
    NotPublished { sandbox: String, inside: u16 },
    #[error("port {} of this machine cannot be used: {error}", publish.host)]
    PortTaken { publish: Publish, error: io::Error },
    #[error("the network of '{sandbox}' is '{mode}': it has no rules")]
    NoRules { sandbox: String, mode: NetMode },
    #[error("'{rule}' cannot be denied: the same path can be written in many ways")]
    DeniesPath { rule: Rule },
    #[error("{why}")]
    LeadsInside { why: String },

    #[error("a secret needs a network with rules; this one is '{mode}'")]
    SecretWithoutRules { mode: NetMode },
    #[error("each secret needs a host that it may be sent to")]
    SecretWithoutHost,
    #[error("{0}")]
    Secret(WishError),
    #[error("{0}")]
    SecretHost(DestinationError),
    #[error("{0}")]
    SecretValue(WishError),
    #[error("the secret {secret} cannot be used: inside, {host}:{port} is the sandbox itself, where no secret is inserted")]
    SecretForInside { secret: String, host: HostName, port: u16 },
    #[error("{0}")]
    Field(FieldError),
    #[error("a field is for the secret '{}', and no secret has that name", secret.escape_debug())]
    FieldOfNoSecret { secret: String },
    #[error("there are several secrets, and the field {field} does not say which it is for")]
    FieldOfSeveral { field: String },
}

impl Explain for NetworkMisuse {
    fn code(&self) -> &'static str {
        match self {
            Self::ClosedByProject => "closed_by_project",
            _ => "invalid_network",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::ClosedByProject => Kind::Forbidden,
            Self::PortTaken { .. } | Self::NoRules { .. } => Kind::Conflict,
            Self::NotPublished { .. } => Kind::NotFound,
            Self::TooManyPorts => Kind::Exhausted,
            _ => Kind::Invalid,
        }
    }

    fn wording(&self) -> Option<Sentence> {
        let of_host = || remedy!["with ", Choice::Net("host".into()), " its ports are the host's"];
        let (secret, field) = (|| Choice::Secret(Value::Unsaid), || Choice::SecretField(Value::Unsaid));
        Some(match self {
            Self::PortsOfHost => of_host(),
            Self::NothingToReach => of_host().and(": there is nothing to reach or to publish".into()),
            Self::SecretWithoutRules { mode } => remedy![secret(), format!(" needs a network with rules; this one is '{mode}'")],
            Self::SecretWithoutHost => {
                remedy!["each ", secret(), " needs a ", Choice::SecretHost(Value::Unsaid), " with the host it may be sent to"]
            }
            Self::SecretHost(DestinationError::Wildcard { text }) => remedy![
                format!("a secret is for exactly one host, not for all below '{text}'; give "),
                Choice::SecretHost(Value::Unsaid),
                " for each host"
            ],
            Self::FieldOfNoSecret { secret: name } => {
                let before = format!(" is for the secret '{}', and no ", name.escape_debug());
                remedy![field(), before, secret(), " has that name"]
            }
            Self::FieldOfSeveral { field } => {
                remedy!["there are several secrets, and '", Choice::SecretField(field.into()), "' does not say which it is for"]
            }
            _ => return None,
        })
    }

    fn remedies(&self) -> Vec<Remedy> {
        vec![match self {
            Self::Configured { .. } => "correct network.mode in the configuration".into(),
            Self::Combined { .. } => {
                remedy!["for example: ", Choice::Net("registries".into()), " ", Choice::Net("allow=example.com".into())]
            }
            Self::ClosedByProject => remedy![
                "leave out ",
                Choice::Net(Value::Unsaid),
                ", ",
                Choice::Reach(Value::Unsaid),
                " and ",
                Choice::Secret(Value::Unsaid),
                ", or change that file"
            ],
            Self::NothingToReach => remedy![
                "leave out ",
                Choice::Reach(Value::Unsaid),
                " and ",
                Choice::Publish(Value::Unsaid),
                ", or ",
                Choice::Net("host".into())
            ],
            Self::PortsOfHost => "use them as they are".into(),
            Self::TooManyPorts => "name only those you need".into(),
            Self::NotPublished { .. } => remedy![Mention(Call::Ports { name: Value::Blank }), " lists those that are"],
            Self::PortTaken { publish: Publish { host, inside }, .. } => {
                format!("use another one: {}:{inside}, or 0:{inside} for any that is free", another(*host)).into()
            }
            Self::NoRules { .. } => remedy![
                "make a sandbox with rules: ",
                Call::New { choices: vec![Choice::Net("allow=RULE".into())] },
                ", or ",
                Choice::Net("registries".into())
            ],
            Self::DeniesPath { .. } => "deny the host".into(),
            Self::LeadsInside { .. } => {
                remedy!["services of this machine: ", Call::New { choices: vec![Choice::Reach("localhost:PORT".into())] }]
            }
            Self::SecretWithoutRules { .. } => {
                remedy!["leave out ", Choice::Net(Value::Unsaid), ", or use ", Choice::Net("allow=HOST".into())]
            }
            Self::SecretWithoutHost => Remedy::from("for example: ").and(secret_and_host()),
            Self::Secret(_) => remedy!["for example: ", Choice::Secret("API_TOKEN=@token.txt".into())],
            Self::SecretHost(_) => remedy!["for example: ", Choice::SecretHost("api.example.com".into())],
            Self::SecretValue(_) => {
                remedy!["for example: ", Choice::Secret("API_TOKEN=@token.txt".into()), ", or API_TOKEN=env"]
            }
            Self::SecretForInside { port, .. } => remedy![
                "for a service of this machine: ",
                Choice::Reach(format!("localhost:{port}").into()),
                " ",
                Choice::SecretHost(format!("http://localhost:{port}").into())
            ],
            Self::Field(_) | Self::FieldOfNoSecret { .. } | Self::FieldOfSeveral { .. } => Remedy::from("for example: ")
                .and(secret_and_host())
                .and(remedy![" ", Choice::SecretField("API_TOKEN=X-Acme-Token".into())]),
        }]
    }
}

fn secret_and_host() -> Remedy {
    remedy![Choice::Secret("API_TOKEN=env".into()), " ", Choice::SecretHost("api.example.com".into())]
}

/// A number that looks like the one that is taken.
fn another(port: u16) -> u32 {
    if port < 1024 { 8000 + u32::from(port) } else { u32::from(port.wrapping_add(1)) }
}

pub(crate) const MOST_PUBLISHED: usize = 16;

/// Each takes two descriptors of its keeper's, and they are passed on together.
pub(crate) const MOST_REACHED: usize = 8;
