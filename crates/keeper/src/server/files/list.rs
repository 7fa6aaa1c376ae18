//! One page of a directory, in steps: a directory may have millions of entries, and its names are read anew for each page.
//!
//! A page begins after a name, not at a place in the directory. So what is there all the time is listed once, whatever else comes
//! and goes, and nothing is held between pages.

use std::collections::BinaryHeap;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, OFlags, readlinkat, statat};
use rustix::io::Errno;

use super::jobs::{Slice, Step};
use super::place::{Trouble, kind, open_path, told};
use super::text_of;
use crate::protocol::{EntryKind, FileReply, Listed, Reply, Text};

const MOST_ENTRIES: usize = 4096;
/// How much a page says, about. A client that lets more pile up counts as gone.
const LARGEST_PAGE: usize = 512 << 10;

pub(super) struct List {
    directory: OwnedFd,
    names: Dir,
    after: Option<Vec<u8>>,
    most: usize,
    /// The first of those that come after, the last of them on top.
    found: BinaryHeap<CString>,
    /// Some were left for the next page.
    has_more: bool,
    /// The page in the making, once all names were seen: the next is the last one here.
    rest: Option<Vec<CString>>,
    entries: Vec<Listed>,
    said: usize,
    /// The last name that was looked at for the page.
    told: Option<Text>,
}

impl List {
    pub(super) fn begin(path: &Path, after: Option<&Text>, most: u32) -> Result<Self, Trouble> {
        let directory = open_path(path, OFlags::DIRECTORY)?;
        // Opened again for reading: the path itself may lead elsewhere by now.
        let names = rustix::fs::openat(
            &directory,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        Ok(Self {
            names: Dir::new(names)?,
            directory,
            after: after.map(|after| after.as_bytes().to_vec()),
            most: usize::try_from(most).unwrap_or(usize::MAX).clamp(1, MOST_ENTRIES),
            found: BinaryHeap::new(),
            has_more: false,
            rest: None,
            entries: Vec::new(),
            said: 0,
            told: None,
        })
    }

    pub(super) fn step(&mut self, slice: &Slice) -> Result<Step, Trouble> {
        while !slice.is_over() {
            match &mut self.rest {
                None => self.see_next()?,
                Some(rest) => match rest.pop() {
                    Some(_) if self.said >= LARGEST_PAGE => {
                        self.has_more = true;
                        return Ok(Step::Done(self.page()));
                    }
                    Some(name) => self.tell(&name)?,
                    None => return Ok(Step::Done(self.page())),
                },
            }
        }
        Ok(Step::More)
    }

    fn see_next(&mut self) -> io::Result<()> {
        let Some(entry) = self.names.read() else {
            let mut names = std::mem::take(&mut self.found).into_sorted_vec();
            names.reverse();
            self.rest = Some(names);
            return Ok(());
        };
        let entry = entry?;
        let name = entry.file_name();
        let is_before = self.after.as_deref().is_some_and(|after| name.to_bytes() <= after);
        if name == c"." || name == c".." || is_before {
            return Ok(());
        }
        if self.found.len() == self.most {
            self.has_more = true;
            if self.found.peek().is_some_and(|last| last.as_c_str() <= name) {
                return Ok(());
            }
            self.found.pop();
        }
        self.found.push(name.to_owned());
        Ok(())
    }

    /// What has gone meanwhile is left out.
    fn tell(&mut self, name: &CString) -> io::Result<()> {
        let told_name = text_of(name);
        self.told = Some(told_name.clone());
        let stat = match statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
        let link = match kind(&stat) {
            EntryKind::Link => match readlinkat(&self.directory, name, Vec::new()) {
                // It is something else by now.
                Err(Errno::NOENT | Errno::INVAL) => return Ok(()),
                other => Some(text_of(&other?)),
            },
            _ => None,
        };
        let listed = Listed { name: told_name, stat: told(&stat, link) };
        self.said += 200 + length(&listed.name) + listed.stat.link.as_ref().map_or(0, length);
        self.entries.push(listed);
        Ok(())
    }

    fn page(&mut self) -> Reply {
        let entries = std::mem::take(&mut self.entries);
        let next = self.told.take().filter(|_| self.has_more);
        Reply::Files(FileReply::Page { entries, next })
    }
}

/// In JSON.
fn length(text: &Text) -> usize {
    match text {
        Text::Plain(text) => {
            text.bytes().map(|byte| if byte < b' ' { 6 } else { 1 + usize::from(byte == b'"' || byte == b'\\') }).sum()
        }
        Text::Bytes(bytes) => 4 * bytes.len(),
    }
}
