//! What our own program is when we start it ourselves: a part of a sandbox. Every program that uses the engine plays these roles
//! before it does anything else, because the engine starts whatever program it is in.

use std::ffi::OsString;

use whatif_sys::inherited::Inherited;
use whatif_sys::signals;

use crate::network::supervisor;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Supervisor,
}

impl Role {
    /// The one that the arguments of this process, with its name, ask for.
    #[must_use]
    pub fn of(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        (arguments.into_iter().nth(1)? == supervisor::COMMAND).then_some(Self::Supervisor)
    }

    /// Plays it to its end, with what whoever started us passed on. False: it could not be played.
    #[must_use]
    pub fn play(self, inherited: Inherited) -> bool {
        match self {
            Self::Supervisor => {
                // A race that starts it attends to its own signals.
                signals::unblock_all();
                inherited.only_standard().adopt(0).is_some_and(|[instructions]| supervisor::serve(instructions).is_ok())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_we_start_ourselves_has_a_role() {
        let of = |line: &str| Role::of(line.split(' ').map(OsString::from));
        assert_eq!(of("whatif supervisor 0123456789ab"), Some(Role::Supervisor));
        assert_eq!(of("whatif run -- supervisor 0123456789ab"), None);
        assert_eq!(of("whatif keeper 0123456789ab filtered"), None);
        assert_eq!(of("whatif"), None);
    }
}
