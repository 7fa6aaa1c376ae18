//! What is known about one path.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use whatif_types::text;

use crate::attributes::Attributes;
use crate::node::{Kind, Node, Time};

/// SHA-256 of a file's bytes.
pub type Hash = [u8; 32];

#[must_use]
pub fn hash_of(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    /// Reality at that moment.
    pub node: Node,
    /// The file with the bytes, in the directory that this record is in.
    pub content: Option<u64>,
    /// The bytes are not reality's: part of the sandbox's change is in reality already, merged with what others did.
    #[serde(default)]
    pub reconciled: bool,
    /// Only the identity was needed so far; the bytes may be kept when the sandbox touches the file again.
    #[serde(default)]
    pub identity_only: bool,
    /// Nothing was in reality; `node` is then the sandbox's.
    #[serde(default)]
    pub absent: bool,
    /// The inode of the head's file and its time of change when both had the same content.
    #[serde(default)]
    pub equal_to: Option<(u64, Time)>,
    #[serde(default)]
    pub made: Made,
    /// What the sandbox saw here cannot be told: reality was replaced under its view. `node` is what reality had when that was
    /// noticed.
    #[serde(default)]
    pub unknown: bool,
    /// Unknown because reality changed after the sandbox did, before anybody looked.
    #[serde(default)]
    pub lost: bool,
    /// The sandbox made it, and reality has it from there.
    #[serde(default)]
    pub made_inside: bool,
    /// The sandbox has something else in the place of this directory, or nothing: what came into it after `node.mtime` it has not seen.
    #[serde(default)]
    pub is_covered: bool,
    /// Of the bytes that the sandbox started from, also where they are not kept.
    #[serde(default)]
    pub hash: Option<Hash>,
    /// The extended attributes that the sandbox started from, of files and of directories. `None`: not known.
    #[serde(default, with = "carried_attributes")]
    pub attributes: Option<Attributes>,
    /// The apply or undo that made the sandbox start from this; it does not, once that is undone.
    #[serde(default)]
    pub by: Option<String>,
}

impl Record {
    /// Whether reality can be compared with it by content, so that no time has to tell.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.content.is_some() || self.hash.is_some()
    }

    pub(super) fn new(path: &Path, node: Node) -> Self {
        Self {
            path: path.to_owned(),
            node,
            content: None,
            reconciled: false,
            identity_only: false,
            absent: false,
            equal_to: None,
            made: Made::default(),
            made_inside: false,
            is_covered: false,
            unknown: false,
            lost: false,
            hash: None,
            attributes: None,
            by: None,
        }
    }

    /// Whether it is of what the sandbox has where reality's version was chosen. Reality may have nothing of it.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.reconciled && self.made == Made::Nothing && !self.absent
    }

    /// Of what a rebase takes out of a copy because reality has it no more.
    pub(super) fn is_taken_away(&self) -> bool {
        self.absent && self.by.is_none() && self.node.ino == 0
    }

    /// Of a directory that the sandbox has a part of, kept for what it looked like. What came of it is another record's business.
    pub(crate) fn is_on_the_way(&self) -> bool {
        self.node.kind == Kind::Directory
            && self.identity_only
            && self.content.is_none()
            && !self.is_covered
            && !self.absent
            && self.made == Made::Nothing
    }
}

/// What applies of the sandbox made of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    #[default]
    Nothing,
    /// It is in reality because the sandbox had it. That the sandbox does not see it there does not mean that it deleted it.
    Real,
    /// And so is everything in it, so that it does not matter any more which directory it was before it was renamed.
    InPlace,
}

/// JSON has no maps whose keys are bytes.
mod carried_attributes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use whatif_types::text::Text;

    use crate::attributes::Attributes;

    pub(super) fn serialize<S: Serializer>(attributes: &Option<Attributes>, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = |a: &Attributes| a.iter().map(|(name, value)| (Text::from(name), value.clone())).collect::<Vec<_>>();
        attributes.as_ref().map(pairs).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Attributes>, D::Error> {
        let pairs = Option::<Vec<(Text, Vec<u8>)>>::deserialize(deserializer)?;
        Ok(pairs.map(|pairs| pairs.into_iter().map(|(name, value)| (name.to_os(), value)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_json_and_an_old_one_is_read() {
        let node = Node::of(Path::new("/proc/self")).unwrap().unwrap();
        let attributes = Attributes::from([("user.a".into(), vec![1, 0, 255])]);
        let record =
            Record { unknown: true, hash: Some([7; 32]), attributes: Some(attributes), ..Record::new(Path::new("/a"), node) };
        let json = serde_json::to_value(&record).unwrap();
        assert_eq!(serde_json::from_value::<Record>(json.clone()).unwrap(), record);

        let serde_json::Value::Object(mut old) = json else { panic!("not an object") };
        for field in ["unknown", "hash", "attributes"] {
            old.remove(field);
        }
        let read: Record = serde_json::from_value(old.into()).unwrap();
        assert_eq!(read, Record::new(Path::new("/a"), record.node));
    }
}
