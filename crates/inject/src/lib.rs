//! Credentials stay outside: a sandbox has placeholders, and the supervisor puts the values in on the way to one host.
//!
//! Connections to that host, and no others, come here. TLS ends here, with a certificate of an [`Authority`] that only this
//! sandbox trusts and whose key is only in memory; each request is read as strictly as plain HTTP is elsewhere
//! ([`whatif_netpolicy::http`]), placeholders in fields that carry credentials ([`fields`]) become secrets (`rewrite`), and
//! it goes on over TLS to the real host, whose certificate has to be one that this machine trusts ([`Roots`]).
//!
//! Request lines and bodies of requests are passed on as they are. In what comes back, a secret that the host repeats is
//! crossed out (`mask`).
//!
//! [`wish`] reads what a person asks for, [`trust`] says how programs inside come to trust the authority. Nothing here reads
//! the environment or prints.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answer;
mod authority;
mod destination;
mod download;
pub mod fields;
mod frames;
mod injector;
mod known;
mod mask;
mod pem;
mod placeholder;
mod prefixed;
mod relay;
mod request;
mod response;
mod rewrite;
mod roots;
mod totals;
pub mod trust;
mod upload;
pub mod wish;

pub use authority::{Authority, AuthorityError};
pub use destination::{Destination, DestinationError, Transport};
pub use injector::{InjectError, Injector};
pub use known::ValueError;
pub use placeholder::placeholder;
pub use roots::{Roots, RootsError};
pub use totals::{Outcome, Totals};
