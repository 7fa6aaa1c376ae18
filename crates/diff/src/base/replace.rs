//! Bases set on purpose: after part of a change became real, or after that was undone.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::index::{self, Line};
use super::record::{Hash, Made, Record};
use super::writer::Writer;
use super::{Bases, Placed};
use crate::attributes::Attributes;
use crate::node::{Node, Time};

/// A base set on purpose.
#[derive(Debug)]
pub enum NewBase {
    /// Reality is the base, as it is now; `reconciled` if its bytes or attributes are not the sandbox's.
    Identity {
        path: PathBuf,
        node: Node,
        attributes: Option<Attributes>,
        hash: Option<Hash>,
        reconciled: bool,
        equal_to: Option<(u64, Time)>,
        made: Made,
    },
    /// These bytes are; `reconciled` if reality has others, or other attributes.
    Content { path: PathBuf, node: Node, attributes: Option<Attributes>, bytes: Vec<u8>, reconciled: bool, made: Made },
    /// Reality is, with all that a directory brought along when it was renamed from its source, relative to its tree.
    InPlace { path: PathBuf, node: Node, attributes: Option<Attributes>, source: PathBuf },
    /// There is none: nothing is in reality.
    Forget { path: PathBuf },
    /// Neither the sandbox nor what it starts from has anything here, whatever reality gets.
    Absent { path: PathBuf },
    /// What it was before. With a node: that is there again, as another inode perhaps.
    Again { record: Record, there: Option<Node> },
}

impl Bases {
    fn made_inside(&self, base: &NewBase) -> Option<PathBuf> {
        match base {
            NewBase::Identity { path, .. } if self.was_made_inside(path) => Some(path.clone()),
            _ => None,
        }
    }

    /// Sets what the sandbox starts from now: after part of its change became real, or after that was undone. What an apply or undo
    /// says counts until it is undone.
    pub fn replace(&mut self, new: Vec<NewBase>, by: Option<&str>) -> io::Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let (mut writer, own) = self.begin()?;
        let history = self.history(&new)?;
        let by = by.map(ToOwned::to_owned);
        // What is known of a directory tells it of all that is in it, so that is asked before anything is replaced.
        let made_inside: HashSet<PathBuf> = new.iter().filter_map(|base| self.made_inside(base)).collect();
        for base in new {
            let line = match base {
                NewBase::Identity { path, node, attributes, hash, reconciled, equal_to, made } => {
                    let made_inside = made_inside.contains(&path);
                    let record = Record { made_inside, ..Record::new(&path, node) };
                    Line::Known(Record { attributes, hash, reconciled, identity_only: true, equal_to, made, ..record })
                }
                NewBase::Content { path, node, attributes, bytes, reconciled, made } => {
                    let content = Some(writer.keep_bytes(&bytes)?);
                    Line::Known(Record { content, attributes, reconciled, made, ..Record::new(&path, node) })
                }
                NewBase::InPlace { path, node, attributes, source } => {
                    let content = Some(writer.keep_bytes(source.as_os_str().as_bytes())?);
                    let record = Record::new(&path, node);
                    Line::Known(Record { content, attributes, identity_only: true, made: Made::InPlace, ..record })
                }
                NewBase::Forget { path } => Line::Forgotten { path, by: by.clone() },
                NewBase::Absent { path } => Line::Known(Record { absent: true, ..Record::new(&path, Node::of_nothing()) }),
                NewBase::Again { record, there } => {
                    let Some(record) = self.bring_back(record, &history, &mut writer)? else { continue };
                    // All of it was put back, and that is nothing new to the sandbox.
                    let seen = |node: Node| if record.is_covered { Node { mtime: node.ctime, ..node } } else { node };
                    let node = there.map_or_else(|| record.node.clone(), seen);
                    Line::Known(Record { node, ..record })
                }
            };
            let line = match line {
                Line::Known(record) => Line::Known(Record { by: by.clone().or(record.by), ..record }),
                forgotten => forgotten,
            };
            self.add(&mut writer, own, line);
        }
        writer.end()
    }

    /// All that was ever said about the paths whose earlier records come back, oldest first.
    fn history(&self, new: &[NewBase]) -> io::Result<HashMap<OsString, Vec<Placed>>> {
        let returns = |base: &NewBase| match base {
            NewBase::Again { record, .. } => Some((record.path.clone().into_os_string(), Vec::new())),
            _ => None,
        };
        let mut history: HashMap<OsString, Vec<Placed>> = new.iter().filter_map(returns).collect();
        if history.is_empty() {
            return Ok(history);
        }
        for (directory, path) in self.directories.iter().enumerate() {
            index::read(&index::load(path)?, |line| {
                if let Line::Known(record) = line
                    && let Some(said) = history.get_mut(record.path.as_os_str())
                {
                    said.push(Placed { record, directory });
                }
            });
        }
        Ok(history)
    }

    /// A record of earlier as the own directory can say it. Its bytes may lie in a directory that was frozen meanwhile; they are its
    /// bytes only where the same was said before, because a number alone means something else in each directory.
    /// `None` if nothing has to be said: a sandbox that was rolled back since never started from it, and the lines of an apply that is
    /// undone do not count. Those of earlier versions do not name their apply, and have to be replaced.
    fn bring_back(
        &self,
        record: Record,
        history: &HashMap<OsString, Vec<Placed>>,
        writer: &mut Writer,
    ) -> io::Result<Option<Record>> {
        let said = history.get(record.path.as_os_str()).and_then(|said| said.iter().rev().find(|p| p.record == record));
        let is_replaced = self.get(&record.path).is_some_and(|r| r.by.is_none() && r.made >= Made::Real);
        if said.is_none() && !is_replaced {
            return Ok(None);
        }
        let content = match said {
            Some(said) if said.directory + 1 == self.directories.len() => record.content,
            Some(said) => match record.content {
                Some(number) => writer.take_over(&self.directories[said.directory].join(number.to_string()))?,
                None => None,
            },
            None => None,
        };
        Ok(Some(Record { content, ..record }))
    }
}
