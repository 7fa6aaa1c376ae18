//! What a copied tree was made from, as its inventory tells.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use whatif_overlay::Format;
use whatif_types::copied::{self, Original};

use crate::attributes::{Attributes, is_carried};
use crate::change::State;
use crate::node::{Kind, Node};
use crate::unreadable::Unreadable;

/// The directories of reality that do not look any more as they did when this copy of their tree was made.
pub fn changed_directories(copy: &Path, tree: &Path) -> io::Result<Vec<PathBuf>> {
    let looks = |n: &Node| (n.mode, n.uid, n.gid);
    let mut changed = Vec::new();
    for (path, known) in Copied::load(copy)?.originals {
        let path = tree.join(path);
        if known.node.kind == Kind::Directory
            && Node::of(&path)?.is_some_and(|now| now.kind == Kind::Directory && looks(&now) != looks(&known.node))
        {
            changed.push(path);
        }
    }
    Ok(changed)
}

/// The originals of one tree, by paths relative to it.
pub(crate) struct Copied {
    originals: HashMap<OsString, Known>,
    /// Names by their directory.
    children: HashMap<OsString, Vec<OsString>>,
    /// Older versions copied trees without writing down what they copied.
    pub is_known: bool,
}

struct Known {
    node: Node,
    attributes: Option<Attributes>,
    copy: Option<copied::Copy>,
}

impl Copied {
    /// The inventory of the copy at this place.
    pub(crate) fn load(copy: &Path) -> io::Result<Self> {
        let bytes = match std::fs::read(copied::beside(copy)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { originals: HashMap::new(), children: HashMap::new(), is_known: false });
            }
            Err(error) => return Err(error),
        };
        let originals = copied::decode(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        let mut this = Self { originals: HashMap::with_capacity(originals.len()), children: HashMap::new(), is_known: true };
        for original in originals {
            this.add_name(&original.path);
            let node = Node::from(&original);
            let attributes = original.attributes.map(carried);
            this.originals.insert(original.path.into_os_string(), Known { node, attributes, copy: original.copy });
        }
        Ok(this)
    }

    /// A path that reality has because of the sandbox: the sandbox can delete it again.
    pub(crate) fn add_real(&mut self, path: &Path) {
        if !self.originals.contains_key(path.as_os_str()) {
            self.add_name(path);
        }
    }

    fn add_name(&mut self, path: &Path) {
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            self.children.entry(parent.as_os_str().to_owned()).or_default().push(name.to_owned());
        }
    }

    /// The names that a directory had.
    pub(crate) fn within(&self, directory: &Path) -> impl Iterator<Item = &OsStr> {
        self.children.get(directory.as_os_str()).into_iter().flatten().map(OsString::as_os_str)
    }

    /// What reality had at a path when it was copied.
    pub(crate) fn original(&self, path: &Path) -> Option<&Node> {
        self.originals.get(path.as_os_str()).map(|known| &known.node)
    }

    /// Its extended attributes then, if they are known.
    pub(crate) fn attributes(&self, path: &Path) -> Option<&Attributes> {
        self.originals.get(path.as_os_str())?.attributes.as_ref()
    }

    /// Whether an entry is a copy of what reality had at its path.
    pub(crate) fn is_copy(&self, path: &Path, now: &Node) -> bool {
        self.copy(path).is_some_and(|copy| copy.is(now.ino, now.btime))
    }

    fn copy(&self, path: &Path) -> Option<&copied::Copy> {
        self.originals.get(path.as_os_str())?.copy.as_ref()
    }

    /// Whether a directory was copied, and is gone or another one now: nothing in it is what reality has at its path.
    pub(crate) fn is_replaced(&self, path: &Path, now: Option<&Node>) -> bool {
        self.original(path).is_some() && !now.is_some_and(|now| self.is_copy(path, now))
    }

    /// Whether the sandbox has given an entry no other owner.
    pub(crate) fn has_same_owner(&self, path: &Path, now: &Node) -> bool {
        self.copy(path).is_some_and(|copy| copy.is(now.ino, now.btime) && (copy.uid, copy.gid) == (now.uid, now.gid))
    }

    /// Whether the sandbox has the very copy that was made, untouched. Of a directory that says nothing about what is in it.
    pub(crate) fn is_untouched(&self, path: &Path, after: &State) -> Result<bool, Unreadable> {
        let Some(copy) = self.copy(path).filter(|copy| copy.is(after.node.ino, after.node.btime)) else { return Ok(false) };
        if after.node.kind != Kind::Directory {
            return Ok(copy.ctime == after.node.ctime);
        }
        let looks = (copy.mode & 0o7777, copy.uid, copy.gid);
        Ok(looks == (after.node.mode, after.node.uid, after.node.gid) && self.attributes(path) == Some(after.attributes()?))
    }
}

fn carried(attributes: copied::Attributes) -> Attributes {
    attributes.into_iter().filter(|(name, _)| is_carried(name.as_encoded_bytes(), Format::None)).collect()
}

impl From<&Original> for Node {
    fn from(original: &Original) -> Self {
        Self {
            kind: Kind::of_mode(original.mode),
            mode: original.mode & 0o7777,
            uid: original.uid,
            gid: original.gid,
            size: original.size,
            blocks: original.blocks,
            mtime: original.mtime,
            ctime: original.ctime,
            btime: None,
            dev: original.dev,
            ino: original.ino,
            nlink: original.nlink,
            rdev: 0,
        }
    }
}
