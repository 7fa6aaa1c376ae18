//! Ids: short, sortable by nothing, unique by chance.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Crockford's base 32 in lower case: no `i`, `l`, `o`, `u`, so an id read aloud is typed back right.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = 12;

macro_rules! id {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        /// Twelve base-32 characters: sixty random bits, safe as a file name and as a socket path.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Makes an id from random bytes the caller supplies.
            #[must_use]
            pub fn from_random(bytes: [u8; LENGTH]) -> Self {
                Self(bytes.iter().map(|b| char::from(ALPHABET[usize::from(b % 32)])).collect())
            }

            /// Accepts only what `from_random` can produce, so that an id is always safe to use as a path component.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                (text.len() == LENGTH && text.bytes().all(|b| ALPHABET.contains(&b))).then(|| Self(text.to_owned()))
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// One sandbox.
    SandboxId
);
id!(
    /// One frozen layer.
    LayerId
);
id!(
    /// One snapshot.
    SnapshotId
);
id!(
    /// One experiment.
    ExperimentId
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_generated_id_parses_back(bytes: [u8; LENGTH]) {
            let id = SandboxId::from_random(bytes);
            prop_assert_eq!(SandboxId::parse(id.as_str()), Some(id));
        }

        #[test]
        fn nothing_that_could_escape_a_directory_is_an_id(text in ".{0,20}") {
            if SandboxId::parse(&text).is_some() {
                prop_assert!(!text.contains(['/', '.', '\0']));
            }
        }
    }
}
