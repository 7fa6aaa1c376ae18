//! Who is responsible for what is asked.

use std::fmt;

/// Whom a record names as the one who did something. What they may do is decided elsewhere: by the kernel for a user, by a daemon for
/// a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// A user of this machine.
    User {
        uid: u32,
        /// Only for people: names change, and may be claimed.
        name: Option<String>,
    },
    /// Whoever holds a token, as the daemon that gave it out calls them.
    Token { id: String },
}

impl Principal {
    /// What records keep, to be compared: the same for as long as it is the same principal.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::User { uid, .. } => format!("user:{uid}"),
            Self::Token { id } => format!("token:{id}"),
        }
    }
}

/// As people know them.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { name: Some(name), .. } => f.write_str(name),
            Self::User { uid, name: None } => write!(f, "uid {uid}"),
            Self::Token { id } => f.write_str(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_for_people_and_says_nothing_in_a_key() {
        let user = |name: Option<&str>| Principal::User { uid: 1000, name: name.map(str::to_owned) };
        assert_eq!((user(Some("me")).to_string(), user(None).to_string()), ("me".to_owned(), "uid 1000".to_owned()));
        assert_eq!(user(Some("me")).key(), user(Some("you")).key());
    }

    #[test]
    fn a_token_cannot_pass_for_a_user() {
        let token = Principal::Token { id: "user:0".to_owned() };
        assert_ne!(token.key(), Principal::User { uid: 0, name: None }.key());
    }
}
