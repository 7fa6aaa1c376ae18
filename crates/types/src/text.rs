//! Names of the operating system in JSON. They are bytes, not text: what is UTF-8 is a string, what is not a list of numbers.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A name, a path, an argument.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    Plain(String),
    Bytes(Vec<u8>),
}

impl Text {
    #[must_use]
    pub fn to_os(&self) -> OsString {
        match self {
            Self::Plain(text) => text.into(),
            Self::Bytes(bytes) => OsString::from_vec(bytes.clone()),
        }
    }

    #[must_use]
    pub fn to_path(&self) -> PathBuf {
        self.to_os().into()
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Plain(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl<S: AsRef<OsStr> + ?Sized> From<&S> for Text {
    fn from(text: &S) -> Self {
        let os = text.as_ref();
        os.to_str().map_or_else(|| Self::Bytes(os.as_bytes().to_vec()), |t| Self::Plain(t.to_owned()))
    }
}

impl From<Text> for PathBuf {
    fn from(text: Text) -> Self {
        text.to_path()
    }
}

/// For fields: `#[serde(with = "text::path")]`.
macro_rules! carried_as {
    ($(#[$doc:meta])* $name:ident, $type:ty, $carried:ty, $out:expr, $back:expr) => {
        $(#[$doc])*
        pub mod $name {
            #[allow(unused_imports, reason = "not every form names a path")]
            use std::path::PathBuf;

            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use super::Text;

            pub fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                let out: fn(&$type) -> $carried = $out;
                out(value).serialize(serializer)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let back: fn($carried) -> $type = $back;
                <$carried>::deserialize(deserializer).map(back)
            }
        }
    };
}

carried_as!(path, PathBuf, Text, |p| Text::from(p), |t| t.into());
carried_as!(paths, Vec<PathBuf>, Vec<Text>, |v| v.iter().map(Text::from).collect(), |v| v.into_iter().map(Into::into).collect());
carried_as!(optional_path, Option<PathBuf>, Option<Text>, |o| o.as_ref().map(Text::from), |o| o.map(Into::into));
carried_as!(
    /// Links and their targets.
    path_pairs,
    Vec<(PathBuf, PathBuf)>,
    Vec<(Text, Text)>,
    |v| v.iter().map(|(a, b)| (Text::from(a), Text::from(b))).collect(),
    |v| v.into_iter().map(|(a, b)| (a.into(), b.into())).collect()
);
carried_as!(
    /// Paths and what is to be said about them.
    explained_paths,
    Vec<(PathBuf, String)>,
    Vec<(Text, String)>,
    |v| v.iter().map(|(a, b)| (Text::from(a), b.clone())).collect(),
    |v| v.into_iter().map(|(a, b)| (a.into(), b)).collect()
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_json() {
        for bytes in [&b"plain"[..], b"\xff\xfe", b"caf\xc3\xa9", b"new\nline", b""] {
            let os = OsString::from_vec(bytes.to_vec());
            let json = serde_json::to_string(&Text::from(&os)).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap().to_os(), os, "{json}");
        }
    }
}
