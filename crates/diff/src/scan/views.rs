//! The views of one directory: what the layers, reality and a directory that was renamed show of it.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_overlay::{Format, Way};

use super::directory::{beneath, gone_meanwhile, list};
use super::stack::{LookUp, Part};
use super::walk::{Finding, Visit, Walk};
use super::{Reach, Renamed};
use crate::attributes;
use crate::base::{Covered, Made};
use crate::change::{Base, State, difference};
use crate::node::{LONG_AGO, Node};
use crate::watch::Directory;

/// The views of one directory, opened.
pub(super) struct Views {
    pub uppers: Vec<Part>,
    pub before: Option<OwnedFd>,
    pub lower: Lower,
    /// Nothing of reality shows through, even where nothing is hidden by that.
    pub is_covered: bool,
    pub listing: Listing,
    pub is_put_by_head: bool,
}

/// Which names of a directory to look at.
pub(super) enum Listing {
    All,
    /// Those that the head has.
    Head,
    /// Nothing came or went since the last look: the directories in it, where something may have.
    Unchanged(Vec<OsString>),
}

/// What shows through the layers.
pub(super) enum Lower {
    /// Reality's directory at the same path.
    Plain,
    /// Reality's directory at another path: it was renamed.
    Elsewhere(PathBuf, OwnedFd),
    Nothing,
}

/// What reality has at the place that a renamed directory came from.
pub(super) enum Source {
    There(OwnedFd),
    Hidden,
    Missing,
}

impl Walk<'_> {
    /// Opens the views of a directory. What the layers say about it (opaque, renamed) is read from the directories themselves.
    pub(super) fn open(&self, visit: &mut Visit, finding: &mut Finding) -> Result<Views, Errno> {
        let full = if visit.path.as_os_str().is_empty() { self.tree.path.clone() } else { self.tree.path.join(&visit.path) };
        let first = visit.uppers.first().map(|(layer, _)| *layer);
        let mut look_up = LookUp::new(&self.layers, self.tree.marks, std::mem::take(&mut visit.uppers), visit.lower.take());
        let mut uppers: Vec<Part> = Vec::new();
        let mut itself = visit.itself.take();
        let mut was_there = false;
        let mut hides_nothing = false;
        let mut is_copied_up = false;
        let mut redirected: Option<(PathBuf, usize)> = None;
        let mut listing = Listing::All;
        let mut is_put_by_head = visit.is_put_by_head;
        while let Some((part, seen)) = look_up.next()? {
            // Only the oldest part was made over what is in reality; newer ones may have been made over older ones.
            is_copied_up = seen.is_copied_up;
            if look_up.is_redirected && redirected.is_none() {
                redirected = Some((self.layers[part.layer].path.join(&part.path), uppers.len() + 1));
            }
            was_there = visit.is_in_place && !look_up.is_redirected && seen.is_copied_up && seen.way != Way::Opaque;
            let mut btime = None;
            if uppers.is_empty()
                && let Some((_, after)) = &mut itself
            {
                if self.layers[part.layer].is_head {
                    is_put_by_head |= seen.is_put();
                    listing = self.listing(after, is_put_by_head);
                    finding.found.directories.push(Directory { path: after.at.clone(), ctime: after.node.ctime });
                }
                after.set_attributes(seen.attributes);
                btime = after.node.btime;
            }
            // A new directory hides nothing of reality. One that reality made later is not what it was to hide, unless reality made
            // again what the sandbox is known to have replaced.
            if seen.way == Way::Opaque
                && !look_up.is_redirected
                && let Some((Some(before), _)) = &itself
            {
                let btime = match btime {
                    None => Node::at(&part.directory, ".")?.btime,
                    known => known,
                };
                let hidden = self.scope.bases.directory_known(&full).and_then(|known| known.btime).or(before.btime);
                hides_nothing = hidden.zip(btime).is_some_and(|(b, made)| b > made);
            }
            uppers.push(part);
        }
        if uppers.first().map(|part| part.layer) != first {
            return Err(Errno::NOENT);
        }
        // Reality had a directory here a moment ago. Whatever has become of it, what the sandbox did here must not go unmentioned.
        let before = self.reality.as_ref().filter(|_| visit.has_before).map(|fd| beneath(fd, &visit.path));
        let before = before.transpose().map_err(gone_meanwhile)?;
        let in_place = if before.is_some() { Lower::Plain } else { Lower::Nothing };
        let mut lost = None;
        let is_covered = look_up.lower.is_none();
        let lower = match look_up.lower.or_else(|| hides_nothing.then(|| visit.path.clone())) {
            // Whether it is there is known.
            Some(path) if path.as_os_str() == visit.path.as_os_str() => in_place,
            Some(path) if before.is_some() && self.scope.bases.is_in_place(&full, &path).map_err(|u| u.cause)? => in_place,
            Some(path) => match self.source(&path)? {
                Source::There(directory) => {
                    let renamed = redirected.map(|(at, parts)| {
                        let is_lowest = parts == uppers.len();
                        Renamed { path: full.clone(), source: path.clone(), at, is_lowest }
                    });
                    finding.found.renamed.extend(renamed);
                    Lower::Elsewhere(path, directory)
                }
                Source::Hidden => Lower::Nothing,
                // What cannot be seen was not deleted: whatever reality has here is none of the sandbox's doing.
                Source::Missing => {
                    let source = self.tree.path.join(path);
                    let was_real = is_copied_up && !self.scope.bases.was_absent(&source);
                    lost = Some(source).filter(|_| was_real && self.scope.bases.made(&full) == Made::Nothing);
                    in_place
                }
            },
            None => Lower::Nothing,
        };
        if let Some(source) = lost
            && let Some((node, after)) = itself.take()
        {
            self.note_lost(full.clone(), source, node, after, finding);
        }
        let may_cover = visit.is_in_place && !self.tree.copied && !uppers.is_empty();
        if let (true, Lower::Nothing, Some(fd), Some(since)) = (may_cover, &lower, &before, visit.touched) {
            let (path, node, since) = (full.clone(), Node::at(fd, ".")?, self.just_before(since));
            finding.found.covered.push(Covered { path, node, attributes: attributes::of_held(fd, Format::None)?, since });
        }
        if let Some((node, after)) = itself {
            match (node, &before) {
                (Some(node), Some(fd)) => {
                    self.note_directory(full, node, after, attributes::of_held(fd, Format::None)?, visit.touched, finding)
                }
                (node, _) => {
                    // An old mark may say so of a directory that the sandbox made, when layers were merged.
                    was_there &= !self.scope.bases.was_absent(&full);
                    if was_there && self.is_only_on_the_way(&full, &after, &uppers)? {
                        finding.miss(full, node, after);
                    } else {
                        self.note(full.clone(), node, Some(after), visit.touched, false, finding);
                        // It was in reality when the sandbox touched something in it, and went since.
                        if was_there && let Some(change) = finding.found.changes.last_mut().filter(|c| c.path == full) {
                            change.base = Base::Lost;
                        }
                    }
                }
            }
        }
        Ok(Views { uppers, before, lower, is_covered, listing, is_put_by_head })
    }

    /// Whether the sandbox has a directory of reality's only because of what it did in it: it looks as it did, or, where nobody
    /// looked in time, something is in it.
    fn is_only_on_the_way(&self, full: &Path, after: &State, parts: &[Part]) -> Result<bool, Errno> {
        match self.scope.bases.get(full) {
            Some(record) if record.is_on_the_way() => {
                let (before, _) = self.scope.bases.start_of(full, None, Some(after), LONG_AGO).map_err(|u| u.cause)?;
                Ok(difference(before.as_ref(), Some(after), self.scope.as_root).map_err(|u| u.cause)?.is_none())
            }
            Some(_) => Ok(false),
            None => {
                for part in parts {
                    // By a descriptor of its own: the other one is still to be listed from its beginning.
                    if !list(&beneath(&part.directory, Path::new(""))?)?.is_empty() {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Which names of a head's directory are to be looked at.
    fn listing(&self, head: &State, is_put_by_head: bool) -> Listing {
        let since = match self.scope.reach {
            Reach::Whole => return Listing::All,
            Reach::Heads => None,
            // A copy's files are written in place, which their directory does not show.
            Reach::News(since) => Some(since).filter(|_| self.copied.is_none()),
        };
        if let Some(directories) = since.and_then(|look| look.unchanged(&head.at, head.node.ctime)) {
            return Listing::Unchanged(directories.map(OsStr::to_owned).collect());
        }
        if is_put_by_head { Listing::All } else { Listing::Head }
    }

    /// What of reality shows through at another path than its own.
    fn source(&self, path: &Path) -> Result<Source, Errno> {
        let Some(reality) = &self.reality else { return Ok(Source::Missing) };
        if self.hidden.covers(&self.tree.path, path) {
            return Ok(Source::Hidden);
        }
        match beneath(reality, path) {
            Ok(directory) => Ok(Source::There(directory)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(Source::Missing),
            Err(errno) => Err(errno),
        }
    }
}
