//! Names of the operating system in JSON. They are bytes, not text: what is UTF-8 is a string, what is not a list of numbers.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name, a path, an argument.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Text {
    Plain(String),
    Bytes(Vec<u8>),
}

/// The same without a copy of it.
struct Named<'a>(&'a OsStr);

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_seq(self.0.as_bytes()),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => serializer.collect_seq(bytes),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of bytes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text::Plain(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Text, E> {
                Ok(Text::Plain(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = list.next_element()? {
                    bytes.push(byte);
                }
                Ok(Text::Bytes(bytes))
            }
        }

        deserializer.deserialize_any(Either)
    }
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
            use std::path::{Path, PathBuf};

            #[allow(unused_imports, reason = "not every form needs all")]
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            #[allow(unused_imports, reason = "not every form needs both")]
            use super::{Named, Text};

            #[allow(clippy::ptr_arg, reason = "serde gives what the field is")]
            pub fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                $out(value, serializer)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let back: fn($carried) -> $type = $back;
                <$carried>::deserialize(deserializer).map(back)
            }
        }
    };
}

carried_as!(path, PathBuf, Text, |p: &Path, to| Named(p.as_os_str()).serialize(to), |t| t.into());
carried_as!(paths, Vec<PathBuf>, Vec<Text>, |v: &[PathBuf], to: S| to.collect_seq(v.iter().map(|p| Named(p.as_os_str()))), |v| v
    .into_iter()
    .map(Into::into)
    .collect());
carried_as!(
    optional_path,
    Option<PathBuf>,
    Option<Text>,
    |o: &Option<PathBuf>, to| o.as_deref().map(|p| Named(p.as_os_str())).serialize(to),
    |o| o.map(Into::into)
);
carried_as!(
    /// Links and their targets.
    path_pairs,
    Vec<(PathBuf, PathBuf)>,
    Vec<(Text, Text)>,
    |v: &[(PathBuf, PathBuf)], to: S| to.collect_seq(v.iter().map(|(a, b)| (Named(a.as_os_str()), Named(b.as_os_str())))),
    |v| v.into_iter().map(|(a, b)| (a.into(), b.into())).collect()
);
carried_as!(
    /// Paths and what is to be said about them.
    explained_paths,
    Vec<(PathBuf, String)>,
    Vec<(Text, String)>,
    |v: &[(PathBuf, String)], to: S| to.collect_seq(v.iter().map(|(a, b)| (Named(a.as_os_str()), b))),
    |v| v.into_iter().map(|(a, b)| (a.into(), b)).collect()
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_else_is_no_text() {
        for json in ["7", "null", "{}", "[256]", "[\"a\"]"] {
            assert!(serde_json::from_str::<Text>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn any_bytes_survive_json() {
        for bytes in [&b"plain"[..], b"\xff\xfe", b"caf\xc3\xa9", b"new\nline", b""] {
            let os = OsString::from_vec(bytes.to_vec());
            let json = serde_json::to_string(&Text::from(&os)).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap().to_os(), os, "{json}");
            assert_eq!(serde_json::from_value::<Text>(serde_json::from_str(&json).unwrap()).unwrap().to_os(), os, "{json}");
            let mut same = Vec::new();
            path::serialize(&os.clone().into(), &mut serde_json::Serializer::new(&mut same)).unwrap();
            assert_eq!(same, json.as_bytes());
            assert_eq!(path::deserialize(&mut serde_json::Deserializer::from_slice(&same)).unwrap(), PathBuf::from(os));
        }
    }
}
