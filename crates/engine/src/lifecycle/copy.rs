//! `whatif cp`: files between reality and a sandbox, through its keeper.
//!
//! Copying out writes where the user said, and only `apply` and `undo` replace what is in reality: a file that is there and differs
//! is left alone unless the caller insists. Nothing is written through a link, and no link is made that leads out of the copy.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::{Access, Entry, EntryKind, Listed};
use whatif_layers::copy::fill_telling;
use whatif_sys::absence::{self, OrAbsent};
use whatif_types::Selector;
use whatif_types::text;

use crate::EngineError;
use crate::lifecycle::exec::Entered;
use crate::lifecycle::{Lifecycle, LifecycleError};

/// What was copied.
#[derive(Debug, Default)]
pub struct Copied {
    pub files: u64,
    pub links: u64,
    pub bytes: u64,
    /// Those of the files that were there already, with the same content, and were not written.
    pub equal: u64,
    pub left_out: Vec<LeftOut>,
}

/// What is copied so far, and whom to tell how many bytes that are.
struct Count<'a> {
    copied: Copied,
    tell: &'a mut dyn FnMut(u64),
}

impl Count<'_> {
    fn fill(&mut self, source: &File, target: &File) -> io::Result<u64> {
        let before = self.copied.bytes;
        fill_telling(source, target, &mut |more| (self.tell)(before + more))
    }

    fn file(&mut self, bytes: u64) {
        self.copied.files += 1;
        self.copied.bytes += bytes;
        (self.tell)(self.copied.bytes);
    }
}

/// Something that is not carried across.
#[derive(Debug, Serialize)]
pub struct LeftOut {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    pub why: &'static str,
}

/// Whether files of reality may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    Never,
    Anything,
}

impl Lifecycle {
    /// From the sandbox to reality. Without leave to replace, either nothing is replaced or nothing is written at all.
    pub fn copy_out(
        &self,
        which: &Selector,
        inside: &Path,
        outside: &Path,
        replace: Replace,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Copied, EngineError> {
        let Entered { sandbox, mut client, .. } = self.enter(which)?;
        let inside = sandbox.details.cwd.join(inside);
        let entry = client.examine(&inside)?.ok_or_else(|| missing(&inside))?;
        let target = into_directory(outside, inside.file_name())?;
        let mut steps = Vec::new();
        // A keeper of an earlier version knows no pages.
        let list = if self.ground.require_our_keeper(&sandbox).is_ok() { list_in_pages } else { Client::directory };
        survey(&mut client, list, inside, entry, target, 0, &mut steps)?;
        if replace == Replace::Never {
            let mut different = Vec::new();
            for step in &steps {
                if step.would_replace(&mut client)? {
                    different.push(step.outside.clone());
                }
            }
            if !different.is_empty() {
                return Err(LifecycleError::WouldReplace { paths: different }.into());
            }
        }
        let mut count = Count { copied: Copied::default(), tell };
        for step in steps {
            step.take(&mut client, replace, &mut count)?;
        }
        Ok(count.copied)
    }

    /// From reality to the sandbox.
    pub fn copy_in(
        &self,
        outside: &Path,
        which: &Selector,
        inside: &Path,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Copied, EngineError> {
        let Entered { sandbox, mut client, .. } = self.enter(which)?;
        let mut inside = sandbox.details.cwd.join(inside);
        let is_directory = client.examine(&inside)?.is_some_and(|e| e.kind == EntryKind::Directory);
        if let (true, Some(file)) = (is_directory, outside.file_name()) {
            inside.push(file);
        }
        let mut count = Count { copied: Copied::default(), tell };
        into(&mut client, outside, &inside, &mut count)?;
        Ok(count.copied)
    }
}

const NOTHING_TO_COPY: &str = "neither a file, a directory nor a link";

/// One thing to be made outside.
struct Step {
    inside: PathBuf,
    entry: Entry,
    outside: PathBuf,
    /// How many directories of the copy it lies in.
    depth: usize,
}

/// Everything there is to copy, directories before what is in them.
fn survey(
    client: &mut Client,
    list: fn(&mut Client, &Path) -> Result<Vec<Entry>, ClientError>,
    inside: PathBuf,
    entry: Entry,
    outside: PathBuf,
    depth: usize,
    steps: &mut Vec<Step>,
) -> Result<(), EngineError> {
    let below = if entry.kind == EntryKind::Directory { list(client, &inside)? } else { Vec::new() };
    steps.push(Step { inside: inside.clone(), entry, outside: outside.clone(), depth });
    for entry in below {
        let name = entry.name.to_os();
        survey(client, list, inside.join(&name), entry, outside.join(&name), depth + 1, steps)?;
    }
    Ok(())
}

fn list_in_pages(client: &mut Client, path: &Path) -> Result<Vec<Entry>, ClientError> {
    let (mut entries, mut cursor) = (Vec::new(), None);
    loop {
        let (page, next) = client.list_page(path, cursor.as_ref(), u32::MAX)?;
        entries.extend(page.into_iter().map(|Listed { name, stat }| Entry {
            name,
            kind: stat.kind,
            mode: stat.mode,
            size: stat.size,
            link: stat.link,
        }));
        match next {
            Some(next) => cursor = Some(next),
            None => return Ok(entries),
        }
    }
}

impl Step {
    /// Whether something else is there that this would be put in the place of.
    fn would_replace(&self, client: &mut Client) -> Result<bool, EngineError> {
        let Some(there) = self.there()? else { return Ok(false) };
        Ok(match self.entry.kind {
            EntryKind::Directory => !there.is_dir(),
            EntryKind::File if there.is_file() => !self.has_same_bytes(client, &there)?,
            // A pipe or a device is written to, not replaced.
            EntryKind::File => there.is_dir() || there.is_symlink(),
            EntryKind::Link if self.leads_out() => false,
            EntryKind::Link => fs::read_link(&self.outside).ok().as_deref() != self.link().as_deref(),
            EntryKind::Other => false,
        })
    }

    fn there(&self) -> Result<Option<fs::Metadata>, EngineError> {
        fs::symlink_metadata(&self.outside).or_absent().map_err(|e| EngineError::io("look at", &self.outside, e))
    }

    fn has_same_bytes(&self, client: &mut Client, there: &fs::Metadata) -> Result<bool, EngineError> {
        let (mut source, _) = client.open(&self.inside, Access::Read)?;
        if source.metadata().map_or(self.entry.size, |m| m.len()) != there.len() {
            return Ok(false);
        }
        let mut target = File::open(&self.outside).map_err(|e| EngineError::io("read", &self.outside, e))?;
        are_equal(&mut source, &mut target).map_err(|e| EngineError::io("read", &self.outside, e))
    }

    fn take(&self, client: &mut Client, replace: Replace, count: &mut Count<'_>) -> Result<(), EngineError> {
        let why = match (self.entry.kind, self.link()) {
            (EntryKind::File, _) => return self.take_file(client, replace, count),
            (EntryKind::Directory, _) => return self.take_directory(),
            (EntryKind::Link, Some(target)) if !self.leads_out() => return self.take_link(&target, replace, count),
            (EntryKind::Link, _) => "a link that leads out of what is copied",
            (EntryKind::Other, _) => NOTHING_TO_COPY,
        };
        count.copied.left_out.push(LeftOut { path: self.inside.clone(), why });
        Ok(())
    }

    fn take_directory(&self) -> Result<(), EngineError> {
        if self.there()?.is_some_and(|there| there.is_dir()) {
            return Ok(());
        }
        let made = DirBuilder::new().mode(self.entry.mode & 0o777 | 0o700).create(&self.outside);
        made.map_err(|e| EngineError::io("create", &self.outside, e))
    }

    fn take_file(&self, client: &mut Client, replace: Replace, count: &mut Count<'_>) -> Result<(), EngineError> {
        let failed = |e| EngineError::io("write", &self.outside, e);
        let mut options = File::options();
        options.write(true).mode(self.entry.mode & 0o777).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
        let there = self.there()?;
        let is_written_to = |there: &fs::Metadata| there.file_type().is_fifo() || there.file_type().is_char_device();
        let is_same = match (&there, replace) {
            (Some(there), _) if is_written_to(there) => false,
            // It was found to be the same; if it is not any more, it is someone's work.
            (Some(_), Replace::Never) => true,
            // What cannot be read is replaced, too.
            (Some(there), Replace::Anything) => there.is_file() && self.has_same_bytes(client, there).unwrap_or(false),
            (None, _) => false,
        };
        let mut bytes = 0;
        if !is_same {
            let (mut source, _) = client.open(&self.inside, Access::Read)?;
            let written = match there {
                Some(there) if !is_written_to(&there) => self.put_in_place(&source, &there, options, count),
                Some(_) => options.open(&self.outside).and_then(|mut target| io::copy(&mut source, &mut target)),
                None => self.make(&source, options, count),
            };
            bytes = written.map_err(failed)?;
        }
        count.copied.equal += u64::from(is_same);
        count.file(bytes);
        Ok(())
    }

    /// Whole or not at all.
    fn make(&self, source: &File, mut options: fs::OpenOptions, count: &mut Count<'_>) -> io::Result<u64> {
        let target = options.create_new(true).open(&self.outside)?;
        count.fill(source, &target).inspect_err(|_| {
            // What went wrong first is what has to be said.
            let _ = fs::remove_file(&self.outside);
        })
    }

    /// What is in the way goes when the copy is complete. Where the sandbox has changed nothing it shows that very file: to write to it
    /// would be to write to the source.
    fn put_in_place(
        &self,
        source: &File,
        there: &fs::Metadata,
        mut options: fs::OpenOptions,
        count: &mut Count<'_>,
    ) -> io::Result<u64> {
        let name: String = self.outside.file_name().unwrap_or_default().to_string_lossy().chars().take(60).collect();
        let temporary = self.outside.with_file_name(format!(".{name}.whatif-{}", std::process::id()));
        let target = options.create_new(true).open(&temporary)?;
        let done = count.fill(source, &target).and_then(|bytes| {
            if there.is_file() {
                // It stays its owner's, where that is ours to say.
                let _ = std::os::unix::fs::fchown(&target, Some(there.uid()), Some(there.gid()));
            }
            fs::rename(&temporary, &self.outside).map(|()| bytes)
        });
        if done.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        done
    }

    fn take_link(&self, target: &Path, replace: Replace, count: &mut Count<'_>) -> Result<(), EngineError> {
        let failed = |e| EngineError::io("create", &self.outside, e);
        if let Some(there) = self.there()? {
            if there.is_symlink() && fs::read_link(&self.outside).is_ok_and(|known| known == target) {
                count.copied.links += 1;
                return Ok(());
            }
            if replace == Replace::Anything {
                fs::remove_file(&self.outside).map_err(failed)?;
            }
        }
        std::os::unix::fs::symlink(target, &self.outside).map_err(failed)?;
        count.copied.links += 1;
        Ok(())
    }

    fn link(&self) -> Option<PathBuf> {
        self.entry.link.as_ref().map(text::Text::to_path)
    }

    /// Whether a link may lead anywhere but into the copy. Upwards it may go only before it goes down: what it goes down through
    /// may be a link itself.
    fn leads_out(&self) -> bool {
        let Some(target) = self.link() else { return false };
        // The directory that the link lies in is this deep in the copy.
        let Some(depth) = self.depth.checked_sub(1) else { return true };
        let upwards = target.components().take_while(|c| !matches!(c, Component::Normal(_))).collect::<Vec<_>>();
        let is_plain = |c: &Component<'_>| matches!(c, Component::CurDir | Component::ParentDir);
        let has_more = target.components().skip(upwards.len()).any(|c| c == Component::ParentDir);
        !upwards.iter().all(is_plain) || has_more || upwards.iter().filter(|c| **c == Component::ParentDir).count() > depth
    }
}

fn are_equal(one: &mut impl Read, two: &mut impl Read) -> io::Result<bool> {
    const CHUNK: u64 = 64 << 10;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    loop {
        a.clear();
        b.clear();
        one.take(CHUNK).read_to_end(&mut a)?;
        two.take(CHUNK).read_to_end(&mut b)?;
        if a != b || a.is_empty() {
            return Ok(a == b);
        }
    }
}

fn into(client: &mut Client, outside: &Path, inside: &Path, count: &mut Count<'_>) -> Result<(), EngineError> {
    let metadata = fs::symlink_metadata(outside).map_err(|e| EngineError::io("read", outside, e))?;
    let mode = metadata.permissions().mode();
    if metadata.is_dir() {
        client.make_directory(inside, mode)?;
        for entry in fs::read_dir(outside).map_err(|e| EngineError::io("list", outside, e))? {
            let entry = entry.map_err(|e| EngineError::io("list", outside, e))?;
            into(client, &entry.path(), &inside.join(entry.file_name()), count)?;
        }
    } else if metadata.is_file() {
        let source = File::open(outside).map_err(|e| EngineError::io("read", outside, e))?;
        let (target, _) = client.open(inside, Access::Replace { mode })?;
        let filled = count.fill(&source, &target).inspect_err(|_| {
            // Emptied by the keeper, since fuse lets only those inside do it: what came before the error takes no room. What went wrong
            // first is what has to be said.
            let _ = client.open(inside, Access::Replace { mode });
        });
        count.file(filled.map_err(|e| EngineError::io("copy", outside, e))?);
    } else if metadata.is_symlink() {
        let target = fs::read_link(outside).map_err(|e| EngineError::io("read", outside, e))?;
        client.make_link(inside, &target)?;
        count.copied.links += 1;
    } else {
        count.copied.left_out.push(LeftOut { path: outside.to_owned(), why: NOTHING_TO_COPY });
    }
    Ok(())
}

/// As with `cp`: a target that is a directory receives the source under its own name.
fn into_directory(target: &Path, name: Option<&std::ffi::OsStr>) -> Result<PathBuf, EngineError> {
    let is_dir = || absence::is_dir(target).map_err(|e| EngineError::io("examine", target, e));
    Ok(match name {
        Some(name) if is_dir()? => target.join(name),
        _ => target.to_owned(),
    })
}

fn missing(path: &Path) -> EngineError {
    EngineError::io("find", path, io::Error::new(io::ErrorKind::NotFound, "it is not in the sandbox"))
}

#[cfg(test)]
mod tests {
    use whatif_types::text::Text;

    use super::*;

    #[test]
    fn only_links_that_stay_in_the_copy_are_made() {
        let leads_out = |depth: usize, link: &str| {
            let entry = Entry { name: Text::from("l"), kind: EntryKind::Link, mode: 0o777, size: 0, link: Some(Text::from(link)) };
            Step { inside: "/a".into(), entry, outside: "/b".into(), depth }.leads_out()
        };
        for (depth, link) in [(1, "f"), (1, "d/f"), (2, "../f"), (3, "../../d/f"), (1, "./x")] {
            assert!(!leads_out(depth, link), "{depth} {link}");
        }
        for (depth, link) in [(0, "f"), (1, "../f"), (2, "../../f"), (3, "d/../f"), (3, "/etc/passwd")] {
            assert!(leads_out(depth, link), "{depth} {link}");
        }
    }
}
