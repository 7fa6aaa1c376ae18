//! What our own program is when we start it ourselves: a part of a sandbox. Every program that uses the engine plays these roles
//! before it does anything else, because the engine starts whatever program it is in.

use std::ffi::OsString;
use std::process::ExitCode;

use whatif_provider::KEEPER_COMMAND;
use whatif_sys::inherited::Inherited;
use whatif_sys::keeper::FIRST_PASSED;
use whatif_sys::signals;
use whatif_types::NetMode;

use crate::inside::{self, init, restack};
use crate::network::supervisor;

/// How long the id of a sandbox is, by which a keeper is told from a command of that name.
const ID_LENGTH: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Keeper(NetMode),
    /// The keeper of a root that has nothing else.
    Init,
    Restack,
    Supervisor,
}

impl Role {
    /// The one that the arguments of this process, with its name, ask for. Keepers are started thousands of times a day; they do not
    /// wait for an argument parser.
    #[must_use]
    pub fn of(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.into_iter().skip(1);
        match arguments.next()?.to_str()? {
            init::COMMAND => Some(Self::Init),
            KEEPER_COMMAND if arguments.next().is_some_and(|id| id.len() == ID_LENGTH) => {
                Some(Self::Keeper(match arguments.next().as_ref().and_then(|net| net.to_str()) {
                    Some("host") => NetMode::Host,
                    Some("filtered") => NetMode::Filtered,
                    _ => NetMode::None,
                }))
            }
            restack::COMMAND => Some(Self::Restack),
            supervisor::COMMAND => Some(Self::Supervisor),
            _ => None,
        }
    }

    /// Plays it to its end, with what whoever started us passed on.
    #[must_use]
    pub fn play(self, inherited: Inherited) -> ExitCode {
        let played = match self {
            Self::Keeper(net) => inherited.adopt(FIRST_PASSED).is_some_and(|[birth, listener, alive, ids]| {
                // Errors were told to whoever waits for it.
                inside::live(birth, listener, [alive, ids], net).is_ok()
            }),
            Self::Init => inherited.only_standard().adopt(0).is_some_and(|[input, output]| init::live(input, output)),
            Self::Restack => {
                let _ = rustix::thread::set_name(c"whatif-restack");
                inherited.adopt(0).is_some_and(|[orders]| restack::serve(orders).is_ok())
            }
            Self::Supervisor => {
                // A race that starts it attends to its own signals.
                signals::unblock_all();
                inherited.only_standard().adopt(0).is_some_and(|[instructions]| supervisor::serve(instructions).is_ok())
            }
        };
        if played { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_we_start_ourselves_has_a_role() {
        let of = |line: &str| Role::of(line.split(' ').map(OsString::from));
        assert_eq!(of("whatif keeper 0123456789ab filtered"), Some(Role::Keeper(NetMode::Filtered)));
        assert_eq!(of("whatif keeper 0123456789ab none"), Some(Role::Keeper(NetMode::None)));
        assert_eq!(of("/whatif keeper-init"), Some(Role::Init));
        assert_eq!(of("whatif restack"), Some(Role::Restack));
        assert_eq!(of("whatif supervisor 0123456789ab"), Some(Role::Supervisor));
        assert_eq!(of("whatif keeper"), None);
        assert_eq!(of("whatif run -- keeper 0123456789ab"), None);
        assert_eq!(of("whatif"), None);
    }
}
