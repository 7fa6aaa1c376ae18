//! What a reviewer must not overlook: changes that do something by being there.

mod beyond;
mod executed;
mod folded;
mod manifest;
mod named;
mod names;
mod repositories;
mod ways;

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use whatif_overlay::Format;
use whatif_types::mask::without_steps_up;

use crate::attributes::{self, Attributes};
use crate::change::{Base, Change, ChangeKind, State};
use crate::node::{Kind, Node};
use crate::set::Options;
use crate::unreadable::Unreadable;

use self::beyond::Beyond;
pub use self::named::Account;
use self::named::Places;
use self::names::Names;
use self::repositories::Repositories;
use self::ways::{Led, Ways};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// Tools on the host run it, or obey it, without being asked: hooks, build scripts, editor tasks, agent settings.
    HostExecuted,
    Setuid,
    Capability,
    /// A link of the project that leads out of it; a link elsewhere that leads to what the sandbox could not see.
    LinkOutside,
    NestedRepository,
    /// The mode, owner or attributes of a directory that everything else lies in: the project, `/`, a top-level directory.
    TopDirectory,
    /// Something that looks like a credential.
    Secret,
    Outside,
    /// Characters that a terminal or an editor does not show as they are.
    HiddenCharacters,
    /// Its other names in reality, hard links, would keep what they have.
    OtherNames,
    /// A new file that can be executed, or one that became so.
    Executable,
    Lockfile,
    Deletion,
}

impl Flag {
    /// Whether it takes an approval of its own to apply such a change.
    #[must_use]
    pub fn needs_approval(self) -> bool {
        matches!(
            self,
            Self::HostExecuted
                | Self::Setuid
                | Self::Capability
                | Self::LinkOutside
                | Self::NestedRepository
                | Self::TopDirectory
                | Self::Secret
        )
    }

    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::HostExecuted => "tools on the host execute it",
            Self::Setuid => "runs with its owner's rights",
            Self::Capability => "runs with extra capabilities",
            Self::LinkOutside => "leads out of the project",
            Self::NestedRepository => "a repository within the project",
            Self::TopDirectory => "attributes of a top directory",
            Self::Secret => "looks like a credential",
            Self::Outside => "outside the project",
            Self::HiddenCharacters => "holds characters that are not shown",
            Self::OtherNames => "hard link: its other names keep the earlier version",
            Self::Executable => "executable",
            Self::Lockfile => "pins dependencies",
            Self::Deletion => "deleted",
        }
    }
}

impl Change {
    /// What a flag says of this change. Setuid bits may be those of the other side: they stay where only hunks are taken, and where
    /// reality gave them meanwhile.
    #[must_use]
    pub fn in_words(&self, flag: Flag) -> &'static str {
        let has_bits = self.after.as_ref().is_some_and(|after| after.node.mode & 0o6000 != 0);
        match flag {
            Flag::LinkOutside if self.outside => "leads to what the sandbox could not see, or takes the place of something else",
            Flag::Setuid if !has_bits && self.has_drifted() => "runs with its owner's rights in reality",
            Flag::Setuid if !has_bits => "ran with its owner's rights, and does no more if all of it is applied",
            _ => flag.in_words(),
        }
    }
}

/// Gives every change that is `wanted` its flags, and says what could not be looked at well enough to know all of them. Where reality moved, those
/// count that the sandbox's change has, and those of what would be written over reality: they need not be the same.
pub(crate) fn flag(changes: &mut [Change], options: &Options<'_>, wanted: fn(&Change) -> bool) -> Vec<Unreadable> {
    let project = options.project;
    let mut repositories = Repositories::new(project, changes);
    let paths = || changes.iter().filter(|c| wanted(c)).map(|c| c.path.as_path());
    let (places, unread_settings) = Places::of(options.account, project, paths());
    let (names, unread_names) = Names::of(&options.account.homes, project, paths());
    let beyond = Beyond::new(options.trees, options.hidden);
    let around = Around { project, trees: options.trees, ways: Ways::after(changes, project), names, beyond };
    let mut unreadable: Vec<Unreadable> = unread_settings.into_iter().chain(unread_names).collect();
    for change in changes.iter_mut().filter(|c| wanted(c)) {
        let (mut flags, mut unread) = flags(change, &around);
        if let Some(over) = over_reality(change, options.written) {
            let (more, also_unread) = self::flags(&over, &around);
            flags.extend(more);
            flags.sort();
            flags.dedup();
            unread = unread.or(also_unread);
        }
        let is_in_git = change.path.components().any(|c| folded::is(c.as_os_str(), ".git"));
        if !(change.is_directory() || is_in_git)
            && let Some(repository) = repositories.around(&change.path)
        {
            flags.extend(of_repository(&change.path, &repository, project));
            flags.sort();
            flags.dedup();
        }
        if places.hold(change, &targets_of(change, &around.ways).0, project) && !flags.contains(&Flag::HostExecuted) {
            flags.insert(0, Flag::HostExecuted);
        }
        change.flags = flags;
        // Of what is ignored only names and sizes are shown.
        unreadable.extend(unread.filter(|_| !change.ignored));
    }
    unreadable.append(&mut repositories.unreadable);
    unreadable
}

/// What the flags of a change depend on besides itself.
struct Around<'a> {
    project: &'a Path,
    trees: &'a [PathBuf],
    ways: Ways<'a>,
    names: Names,
    beyond: Beyond<'a>,
}

/// A change of reality as it is now to what would be written there, where reality is not what the sandbox started from.
fn over_reality(change: &Change, written: &dyn Fn(&Change) -> Option<State>) -> Option<Change> {
    // A rename to a path that is still free writes what it was judged by.
    let is_over_something = change.reality.is_some() || change.deletion.is_none();
    if change.base != Base::Kept || !is_over_something {
        return None;
    }
    let after = written(change)?;
    let before = change.reality.clone().map(|node| State::new(node, change.path.clone(), Format::None));
    let kind = match &before {
        None => ChangeKind::Add,
        Some(before) if before.node.kind == after.node.kind => ChangeKind::Modify,
        Some(_) => ChangeKind::Type,
    };
    Some(Change { before, after: Some(after), kind, base: Base::Reality, deletion: None, ..change.clone() })
}

/// Of a path in a bare repository.
fn of_repository(path: &Path, repository: &Path, project: &Path) -> Vec<Flag> {
    let Ok(within) = path.strip_prefix(repository) else { return Vec::new() };
    let is_nested = path.starts_with(project) && repository != project;
    let nested = is_nested.then_some(Flag::NestedRepository);
    let executed = executed::is_executed_by_git(&folded::parts(within)).then_some(Flag::HostExecuted);
    executed.into_iter().chain(nested).collect()
}

/// Flags of one change. Reads the content where the name does not tell; what could not be read may have more flags than are found.
fn flags(change: &Change, around: &Around<'_>) -> (Vec<Flag>, Option<Unreadable>) {
    let project = around.project;
    let mut flags = Vec::new();
    // A link that cannot be read at first looks like one that leads outside, and must not pass for it.
    let link = change.after.as_ref().filter(|after| after.node.kind == Kind::Link);
    let mut unread = link.and_then(|link| link.target().err());
    let relative = change.path.strip_prefix(project).ok();
    let (targets, missed) = targets_of(change, &around.ways);
    unread = unread.or_else(|| missed.clone().filter(|missed| !is_how_things_are(missed)));
    match executed::is_host_executed(change, &targets, project, &around.names) {
        Ok(false) => {}
        Ok(true) => flags.push(Flag::HostExecuted),
        Err(error) => {
            flags.push(Flag::HostExecuted);
            unread = unread.or(Some(error));
        }
    }
    if let Some(after) = &change.after {
        flags.extend(of_state(change, after));
        // A link that may lead anywhere may lead out.
        let leads_out = match relative {
            Some(_) => targets.iter().any(|target| !target.starts_with(project)),
            None => around.beyond.is_reached_by(change, &targets),
        };
        if missed.is_some() || leads_out {
            flags.push(Flag::LinkOutside);
        }
        let read = of_content(change, after).map(|found| flags.extend(found));
        let is_unknown = |u: &Unreadable| u.cause != Errno::NOENT;
        unread = unread.or(read.err()).filter(is_unknown).map(|u| Unreadable { path: change.path.clone(), ..u });
    }
    if relative.is_some_and(is_nested_repository) {
        flags.push(Flag::NestedRepository);
    }
    if has_other_attributes(change) && is_top_directory(&change.path, project, around.trees) {
        flags.push(Flag::TopDirectory);
    }
    if relative.is_none() {
        flags.push(Flag::Outside);
    }
    if change.leaves_names_behind {
        flags.push(Flag::OtherNames);
    }
    if change.path.file_name().is_some_and(|n| LOCKFILES.iter().any(|l| folded::is(n, l))) {
        flags.push(Flag::Lockfile);
    }
    if change.kind == ChangeKind::Delete {
        flags.push(Flag::Deletion);
    }
    flags.sort();
    flags.dedup();
    (flags, unread)
}

/// A directory that was there and stays.
fn has_other_attributes(change: &Change) -> bool {
    let is_directory = |state: &Option<State>| state.as_ref().is_some_and(|s| s.node.kind == Kind::Directory);
    is_directory(&change.before) && is_directory(&change.after)
}

/// The project and everything above it, the root of a tree, `/`, and what lies directly in it, such as `/etc`.
fn is_top_directory(path: &Path, project: &Path, trees: &[PathBuf]) -> bool {
    project.starts_with(path) || trees.iter().any(|tree| tree == path) || path.components().count() <= 2
}

fn of_state(change: &Change, after: &State) -> Vec<Flag> {
    let mut flags = Vec::new();
    let before = change.before.as_ref();
    let became =
        |bits: u32| after.node.mode & bits != 0 && before.is_none_or(|b| b.node.kind != Kind::File || b.node.mode & bits == 0);
    if after.node.kind == Kind::File {
        // What reality gave it meanwhile stays, with the sandbox's content.
        let has = |node: &Node| node.kind == Kind::File && node.mode & 0o6000 != 0;
        let rewritten = change.kind == ChangeKind::Modify && (has(&after.node) || change.reality.as_ref().is_some_and(has));
        if became(0o6000) || rewritten {
            flags.push(Flag::Setuid);
        }
        if became(0o111) {
            flags.push(Flag::Executable);
        }
    }
    flags
}

fn of_content(change: &Change, after: &State) -> Result<Vec<Flag>, Unreadable> {
    let mut flags = Vec::new();
    if after.node.kind != Kind::File {
        return Ok(flags);
    }
    let has = |attributes: &Attributes| attributes.contains_key(OsStr::new("security.capability"));
    if has(after.attributes()?) || is_merged_with_reality(change) && has(&attributes::of(&change.path, Format::None)?) {
        flags.push(Flag::Capability);
    }
    if matches!(change.kind, ChangeKind::Add | ChangeKind::Modify | ChangeKind::Rename | ChangeKind::Type)
        && is_worth_reading(change)
    {
        flags.extend(of_text(change.before.as_ref(), after)?);
    }
    Ok(flags)
}

/// Reality has a version of its own, whose attributes the sandbox's content may get.
fn is_merged_with_reality(change: &Change) -> bool {
    change.kind == ChangeKind::Modify && change.base == Base::Kept && change.reality.is_some()
}

/// What a link leads to and through, by its words and as it will stand after an apply, or the other name of a hard link; and why that
/// may not be all.
fn targets_of(change: &Change, ways: &Ways<'_>) -> (Vec<PathBuf>, Option<Unreadable>) {
    let Some(link) = change.after.as_ref().filter(|after| after.node.kind == Kind::Link) else {
        return (change.linked.iter().map(|linked| linked.path().to_owned()).collect(), None);
    };
    let target = match link.target() {
        Ok(target) => target,
        Err(unread) => return (Vec::new(), Some(unread)),
    };
    let above = change.path.parent().unwrap_or(Path::new("/"));
    let mut targets = vec![without_steps_up(&above.join(&target))];
    let led = ways.lead(above, &target);
    let (led, missed) = match led {
        Ok(led) => (led, None),
        Err(unread) => (Led::default(), Some(unread)),
    };
    targets.extend(led.through.into_iter().chain(led.to));
    targets.dedup();
    (targets, missed)
}

/// Whether this is how things are, and no sign that looking failed: nobody may go there, nothing answers there, or the way has no end.
fn is_how_things_are(missed: &Unreadable) -> bool {
    missed.is_closed() || matches!(missed.cause, Errno::LOOP | Errno::NAMETOOLONG | Errno::NOTCONN | Errno::STALE)
}

/// Of build output only what is likely to hold a credential is read: there may be a lot of it.
fn is_worth_reading(change: &Change) -> bool {
    let name = change.path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    let ending = Path::new(&name).extension().and_then(|e| e.to_str()).unwrap_or_default();
    !change.ignored
        || matches!(ending, "pem" | "key" | "p8" | "ppk" | "env" | "pfx" | "p12")
        || name.starts_with(".env")
        || ["secret", "credential", "token", "id_rsa", "id_ed25519", "password"].iter().any(|w| name.contains(w))
}

/// Longer files are not searched for credentials.
const LONGEST_SEARCHED: u64 = 1 << 20;

fn of_text(before: Option<&State>, after: &State) -> Result<Vec<Flag>, Unreadable> {
    let text = |state: &State| {
        if state.node.kind != Kind::File || state.node.size > LONGEST_SEARCHED {
            return Ok(None);
        }
        let bytes = state.bytes().map_err(|error| Unreadable::of(&state.at, &error))?;
        Ok(Some(bytes.into_owned()).filter(|b| !whatif_patch::is_binary(b)))
    };
    let mut flags = Vec::new();
    let Some(after) = text(after)? else { return Ok(flags) };
    // What cannot be read of it does not excuse what is there now.
    let before = before.and_then(|before| text(before).ok().flatten()).unwrap_or_default();
    if secrets(&after) > secrets(&before) {
        flags.push(Flag::Secret);
    }
    if whatif_patch::hidden_characters(&after) > whatif_patch::hidden_characters(&before) {
        flags.push(Flag::HiddenCharacters);
    }
    Ok(flags)
}

/// Beginnings that issuers give to their tokens, and how many such characters must follow.
const TOKENS: [(&str, usize); 17] = [
    ("AKIA", 16),
    ("ASIA", 16),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("github_pat_", 30),
    ("glpat-", 18),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("sk-ant-", 20),
    ("sk-proj-", 20),
    ("sk_live_", 20),
    ("rk_live_", 20),
    ("AIza", 34),
    ("npm_", 34),
    ("pypi-", 40),
    ("hf_", 30),
];

/// How many credentials a text seems to hold.
fn secrets(text: &[u8]) -> usize {
    let keys = find_all(text, b"-----BEGIN ").filter(|at| {
        let line = text[*at..].split(|b| *b == b'\n').next().unwrap_or_default();
        contains(line, b"PRIVATE KEY-----")
    });
    let tokens = TOKENS.iter().map(|(start, length)| {
        let fits = |at: &usize| {
            let starts_word = *at == 0 || !text[at - 1].is_ascii_alphanumeric();
            let rest = &text[at + start.len()..];
            starts_word && rest.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count() >= *length
        };
        find_all(text, start.as_bytes()).filter(fits).count()
    });
    keys.count() + tokens.sum::<usize>()
}

fn find_all<'a>(text: &'a [u8], needle: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = needle[0];
    let positions = text.iter().enumerate().filter(move |(_, b)| **b == first).map(|(i, _)| i);
    positions.filter(move |at| text[*at..].starts_with(needle))
}

fn contains(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|w| w == needle)
}

/// Written folded.
const LOCKFILES: [&str; 16] = [
    "cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lockb",
    "bun.lock",
    "poetry.lock",
    "uv.lock",
    "pipfile.lock",
    "pdm.lock",
    "gemfile.lock",
    "composer.lock",
    "go.sum",
    "flake.lock",
    "mix.lock",
];

/// A `.git` below the project's own, or another spelling of it.
fn is_nested_repository(relative: &Path) -> bool {
    let mut components = relative.components();
    let Some(first) = components.next().map(Component::as_os_str).filter(|first| *first != ".git") else { return false };
    let is_git = |name: &OsStr| folded::is(name, ".git");
    is_git(first) || components.any(|c| is_git(c.as_os_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_keys_are_found_and_words_are_not() {
        assert_eq!(secrets(b"key = AKIAABCDEFGHIJKLMNOP\n"), 1);
        assert_eq!(secrets(b"-----BEGIN OPENSSH PRIVATE KEY-----\nx\n"), 1);
        assert_eq!(secrets(b"-----BEGIN CERTIFICATE-----\nghp_short task_runner_hf_ AKIA"), 0);
    }

    #[test]
    fn top_directories_are_the_project_what_it_lies_in_the_trees_and_those_of_the_system() {
        let trees = [PathBuf::from("/srv/data")];
        let is_top = |path: &str| is_top_directory(Path::new(path), Path::new("/home/u/project"), &trees);
        assert!(["/", "/home", "/home/u", "/home/u/project", "/etc", "/srv/data"].into_iter().all(is_top));
        assert!(!["/etc/ssl", "/home/u/project/src", "/home/v", "/srv/data/x"].into_iter().any(is_top));
    }

    #[test]
    fn a_repository_within_the_project_is_nested() {
        for path in ["vendor/x/.git/HEAD", "vendor/.git", ".GIT/HEAD", "a/.Git/HEAD", "a/git~1/HEAD"] {
            assert!(is_nested_repository(Path::new(path)), "{path}");
        }
        assert!(!is_nested_repository(Path::new(".git/HEAD")));
        assert!(!is_nested_repository(Path::new("src/git.rs")));
    }
}
