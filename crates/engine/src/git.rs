//! Git, asked in a way that runs nothing a repository's own configuration names.

mod error;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use whatif_sys::absence;
use whatif_sys::programs::{Programs, USUAL};
use whatif_sys::run_to_end::{run_to_end, wait_to_end};
use whatif_types::remedy;
use whatif_types::remedy::Choice;

pub use self::error::GitError;
use crate::EngineError;
use crate::ids::random_word;

/// A repository, and how to ask git about it safely.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    pub root: PathBuf,
    home: PathBuf,
    /// Root works in somebody else's repository as that somebody.
    owner: Option<(u32, u32)>,
    /// Where git and what it starts are looked for: never in the project.
    programs: Programs,
    /// Held by every command that writes to the repository, so that a lock on it outlives us until the last of them has ended.
    fence: Option<Arc<OwnedFd>>,
    /// Where new objects go, if not to the others.
    objects: Option<PathBuf>,
}

/// In the place of a mode.
pub(crate) const UNMERGED: &str = "unmerged";

/// What is to be staged at a path.
#[derive(Debug)]
pub(crate) enum InIndex {
    /// As it was, present or not.
    AsItIs,
    Blob {
        mode: &'static str,
        id: String,
    },
    Content {
        mode: &'static str,
        bytes: Vec<u8>,
    },
}

/// Keeps git from running what a repository's configuration names, and from leaving what it writes to a power cut. Told about a file in a directory that a sparse index has as one
/// entry, git would list that file twice, so the index is expanded; the next command of the user's makes it sparse again.
const SAFE: [&str; 6] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.fsync=all",
    "gc.auto=0",
    "index.sparse=false",
];

impl Git {
    pub(crate) fn find(project: &Path, home: &Path, as_root: bool) -> Result<Self, EngineError> {
        Self::around(project, home, as_root)?.ok_or_else(|| {
            GitError::Failed {
                action: "commit",
                message: format!("{} is not in a git repository", project.display()),
                remedy: remedy!["nothing was applied; leave out ", Choice::Commit, ", or 'git init' first"],
            }
            .into()
        })
    }

    /// The repository that a project is in, if it is in one.
    pub(crate) fn around(project: &Path, home: &Path, as_root: bool) -> Result<Option<Self>, EngineError> {
        let Some(root) = first_with(project, &[".git"])? else { return Ok(None) };
        let metadata = std::fs::metadata(root).map_err(|e| EngineError::io("examine", root, e))?;
        let owner = (as_root && metadata.uid() != 0).then(|| (metadata.uid(), metadata.gid()));
        let home = owner.and_then(|(uid, _)| home_of(uid)).unwrap_or_else(|| home.to_owned());
        let path = std::env::var_os("PATH").unwrap_or_else(|| USUAL.into());
        let programs = Programs::new(&path, &home, root);
        Ok(Some(Self { root: root.to_owned(), home, owner, programs, fence: None, objects: None }))
    }

    /// The same, for work that whoever takes this lock next must not find under way: a killed command's children go on.
    pub(crate) fn fenced(&self, lock: &impl AsFd) -> Result<Self, EngineError> {
        let fence = lock.as_fd().try_clone_to_owned().map_err(|e| EngineError::io("hold", &self.root, e))?;
        Ok(Self { fence: Some(Arc::new(fence)), ..self.clone() })
    }

    /// The same with objects written to this directory, which says where the others are.
    pub(crate) fn writing_to(&self, objects: &Path) -> Self {
        Self { objects: Some(objects.to_owned()), ..self.clone() }
    }

    /// Mode, id and path of every file in the last commit, relative to the root.
    pub(crate) fn committed(&self) -> Result<Vec<(String, String, PathBuf)>, EngineError> {
        if !self.has_commit() {
            return Ok(Vec::new());
        }
        let listed = self.bytes(&["ls-tree", "-r", "-z", "--full-tree", "HEAD"])?;
        Ok(listed.split(|b| *b == 0).filter_map(|line| entry(line, 2)).collect())
    }

    /// The same of the index. Where a merge is not finished, the mode is `UNMERGED`.
    pub(crate) fn staged(&self) -> Result<Vec<(String, String, PathBuf)>, EngineError> {
        let listed = self.bytes(&["ls-files", "-s", "-z"])?;
        let is_unmerged = |line: &[u8]| !line.split(|b| *b == b'\t').next().unwrap_or_default().ends_with(b" 0");
        let one = |line: &[u8]| {
            let (mode, id, path) = entry(line, 1)?;
            Some((if is_unmerged(line) { UNMERGED.to_owned() } else { mode }, id, path))
        };
        Ok(listed.split(|b| *b == 0).filter_map(one).collect())
    }

    /// Files of the index that are not to be in the work tree, as in a sparse checkout.
    pub(crate) fn skipped(&self) -> Result<Vec<PathBuf>, EngineError> {
        let listed = self.bytes(&["ls-files", "-v", "-z"])?;
        let path = |line: &[u8]| match line {
            [b'S' | b's', b' ', path @ ..] => Some(PathBuf::from(OsString::from_vec(path.to_vec()))),
            _ => None,
        };
        Ok(listed.split(|b| *b == 0).filter_map(path).collect())
    }

    fn has_commit(&self) -> bool {
        self.read(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]).is_ok()
    }

    /// What the user's own or the system's configuration says; the repository's own is not asked.
    pub(crate) fn own_setting(&self, name: &str, options: &[&str]) -> Result<Option<String>, EngineError> {
        for level in ["--global", "--system"] {
            let arguments = [&["config", level, "--includes"], options, &["--get", name]].concat();
            let asked = run_to_end(self.command(&arguments).stdin(Stdio::null()));
            let asked = asked.map_err(|e| EngineError::io("run", Path::new("git"), e))?;
            match asked.status.code() {
                Some(0) => return Ok(String::from_utf8_lossy(&asked.stdout).lines().next().map(str::to_owned)),
                // There is no such setting, or no such file.
                Some(1) => {}
                _ if asked.stderr.starts_with(b"fatal: unable to read config file") => {}
                _ => return Err(failed(&arguments, &asked.stderr)),
            }
        }
        Ok(None)
    }

    /// A few commands of a shell, with the ids that git is run with.
    pub(crate) fn script(&self, script: &str, arguments: &[&Path]) -> Result<(), EngineError> {
        let mut command = Command::new("/bin/sh");
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").args(["-euc", script, "sh"]).args(arguments);
        self.lower(&mut command);
        self.shield(&mut command);
        let _held = self.held()?;
        output(&mut command, &["index"]).map(|_| ())
    }

    /// Whether a condition of a shell holds.
    pub(crate) fn test(&self, condition: &str, arguments: &[&Path]) -> Result<bool, EngineError> {
        // A shell that fails by itself says 2, or dies.
        let script = format!("if {condition}; then exit 0; else exit 9; fi");
        let mut command = Command::new("/bin/sh");
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").args(["-uc", &script, "sh"]).args(arguments);
        self.lower(&mut command);
        let asked = run_to_end(command.stdin(Stdio::null())).map_err(|e| EngineError::io("run", Path::new("/bin/sh"), e))?;
        match asked.status.code() {
            Some(0) => Ok(true),
            Some(9) => Ok(false),
            _ => Err(failed(&["directory"], &asked.stderr)),
        }
    }

    /// A descriptor that the next command inherits.
    fn held(&self) -> Result<Option<OwnedFd>, EngineError> {
        let held = self.fence.as_ref().map(rustix::io::dup).transpose();
        held.map_err(|e| EngineError::io("hold", &self.root, e.into()))
    }

    /// What is typed at the terminal is for us: we know what has to be finished.
    fn shield(&self, command: &mut Command) {
        if self.fence.is_some() {
            command.process_group(0);
        }
    }

    /// Feeds a command that signs. Its programs need to find the user's agent.
    pub(crate) fn feed_signed(
        &self,
        settings: &[&str],
        arguments: &[&str],
        variables: &[(String, String)],
        input: &[u8],
    ) -> Result<String, EngineError> {
        let mut command = self.command_with(&[&SAFE, settings].concat(), arguments);
        for name in ["GNUPGHOME", "GPG_TTY", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "TERM"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let told = feed(command, input)?;
        Ok(String::from_utf8_lossy(&told).lines().next().unwrap_or_default().to_owned())
    }

    /// A git that runs nothing the repository names.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command_with(&SAFE, arguments);
        self.shield(&mut command);
        command
    }

    fn command_with(&self, settings: &[&str], arguments: &[&str]) -> Command {
        // Where there is none, the error says so of the usual place.
        let mut command = Command::new(self.programs.find("git").unwrap_or_else(|| PathBuf::from("/usr/bin/git")));
        command.env_clear().env("PATH", self.programs.search_path());
        for name in ["LANG", "LC_ALL", "TZ"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("HOME", &self.home).env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").current_dir(&self.root);
        // An object that is not there is not fetched: the repository would say how, and that can be a command.
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
        if let Some(objects) = &self.objects {
            command.env("GIT_OBJECT_DIRECTORY", objects);
        }
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.args(arguments);
        self.lower(&mut command);
        command
    }

    fn lower(&self, command: &mut Command) {
        if let Some((uid, gid)) = self.owner {
            command.uid(uid).gid(gid);
        }
    }

    /// The first line of its output.
    pub(crate) fn read(&self, arguments: &[&str]) -> Result<String, EngineError> {
        let output = self.bytes(arguments)?;
        Ok(String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_owned())
    }

    /// `None` if it ends with 1, by which git says that there is no such thing.
    pub(crate) fn read_if_there(&self, arguments: &[&str]) -> Result<Option<String>, EngineError> {
        let asked = run_to_end(self.command(arguments).stdin(Stdio::null()));
        let asked = asked.map_err(|e| EngineError::io("run", Path::new("git"), e))?;
        match asked.status.code() {
            Some(0) => Ok(Some(String::from_utf8_lossy(&asked.stdout).lines().next().unwrap_or_default().to_owned())),
            Some(1) => Ok(None),
            _ => Err(failed(arguments, &asked.stderr)),
        }
    }

    pub(crate) fn bytes(&self, arguments: &[&str]) -> Result<Vec<u8>, EngineError> {
        let _held = self.held()?;
        output(&mut self.command(arguments), arguments)
    }

    /// Files it follows, as absolute paths. None if there is no git here, or if it cannot make sense of the repository: a project
    /// must be of use without them. That git could not even be started says nothing about the repository.
    pub(crate) fn list(&self, options: &[&str]) -> Result<HashSet<PathBuf>, EngineError> {
        let arguments = [&["ls-files", "-z", "--full-name"], options].concat();
        let listed = match self.bytes(&arguments) {
            Ok(listed) => listed,
            Err(error) if error.of_path().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound) => Vec::new(),
            Err(EngineError::Git(GitError::Failed { .. })) => Vec::new(),
            Err(error) => return Err(error),
        };
        let paths = listed.split(|b| *b == 0).filter(|p| !p.is_empty());
        Ok(paths.map(|p| self.root.join(OsString::from_vec(p.to_vec()))).collect())
    }

    /// Makes objects of a stream, and returns the first line of what is said to it.
    pub(crate) fn import(&self, stream: &[u8]) -> Result<String, EngineError> {
        let _held = self.held()?;
        let import = start(self.command(&["fast-import", "--quiet", "--force", "--done"]), stream)?;
        let report = format!("fast_import_crash_{}", import.id());
        let told = end(import).inspect_err(|_| {
            // The error says what there is to know of it.
            let directory = self.read(&["rev-parse", "--absolute-git-dir"]);
            let _ = directory.and_then(|within| self.script("rm -f -- \"$1\"", &[&Path::new(&within).join(&report)]));
        })?;
        Ok(String::from_utf8_lossy(&told).lines().next().unwrap_or_default().to_owned())
    }

    /// Tells an index about what was committed, and about nothing else. `otherwise` says where more than that is staged.
    pub(crate) fn update_index(
        &self,
        index: &Path,
        commit: &str,
        parent: Option<&str>,
        otherwise: &HashMap<PathBuf, InIndex>,
    ) -> Result<(), EngineError> {
        let changes = match parent {
            Some(parent) => self.bytes(&["diff-tree", "-r", "-z", "--no-renames", parent, commit])?,
            None => self.bytes(&["diff-tree", "-r", "-z", "--no-renames", "--root", "--no-commit-id", commit])?,
        };
        let (mut lines, mut told) = (Vec::new(), HashSet::new());
        let mut fields = changes.split(|b| *b == 0);
        while let (Some(raw), Some(path)) = (fields.next().filter(|r| !r.is_empty()), fields.next()) {
            let words: Vec<&[u8]> = raw.split(|b| *b == b' ').collect();
            let [_, mode, _, id, ..] = words.as_slice() else { continue };
            let (mode, id) = match otherwise.get(Path::new(OsStr::from_bytes(path))) {
                None => (mode.to_vec(), id.to_vec()),
                Some(InIndex::AsItIs) => continue,
                Some(InIndex::Blob { mode, id }) => (mode.as_bytes().to_vec(), id.as_bytes().to_vec()),
                Some(InIndex::Content { mode, bytes }) => {
                    let stored = feed(self.command(&["hash-object", "-w", "--no-filters", "--stdin"]), bytes)?;
                    (mode.as_bytes().to_vec(), stored.trim_ascii_end().to_vec())
                }
            };
            told.insert(path);
            lines.extend([&mode, b" ".as_slice(), &id, b"\t", path, b"\0"].concat());
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.change_index(index, &["--index-info"], &lines)?;
        // Git forgets these marks of a path when it is told about it.
        let listed = self.bytes(&["ls-files", "-v", "-z"])?;
        let marked = |tags: &[u8]| {
            let fits = |line: &&[u8]| line.len() > 2 && tags.contains(&line[0]) && told.contains(&line[2..]);
            listed.split(|b| *b == 0).filter(fits).flat_map(|line| [&line[2..], b"\0"].concat()).collect::<Vec<u8>>()
        };
        for (mark, paths) in [("--skip-worktree", marked(b"Ss")), ("--assume-unchanged", marked(b"hsmrck"))] {
            if !paths.is_empty() {
                self.change_index(index, &[mark, "--stdin"], &paths)?;
            }
        }
        Ok(())
    }

    /// Git looks again at files that are as young as its index, through whatever filters they have. In a work tree where they
    /// are not, there is nothing to look at.
    fn change_index(&self, index: &Path, how: &[&str], lines: &[u8]) -> Result<(), EngineError> {
        let directory = self.read(&["rev-parse", "--absolute-git-dir"])?;
        let nowhere = std::env::temp_dir().join(format!("whatif-{}", random_word()?));
        // Made new or not at all, so it is empty and ours.
        let made = std::fs::DirBuilder::new().mode(0o711).create(&nowhere);
        made.map_err(|e| EngineError::io("create", &nowhere, e))?;
        let mut command = self.command(&[&["update-index", "-z"], how].concat());
        command.env("GIT_DIR", directory).env("GIT_WORK_TREE", &nowhere).env("GIT_INDEX_FILE", index).current_dir(&nowhere);
        let held = self.held()?;
        let outcome = feed(command, lines).map(|_| ());
        drop(held);
        let _ = std::fs::remove_dir(&nowhere);
        outcome
    }

    pub(crate) fn run_hook(&self, name: &str) -> Result<(), EngineError> {
        let mut command = self.command_with(&["core.fsmonitor=false"], &["hook", "run", "--ignore-missing", name]);
        let output = run_to_end(command.stdin(Stdio::null())).map_err(|e| EngineError::io("run", Path::new("git"), e))?;
        if output.status.success() { Ok(()) } else { Err(failed(&["hook", name], &output.stderr)) }
    }
}

/// `MODE … ID …<tab>PATH`, with the id at the given place.
fn entry(line: &[u8], at: usize) -> Option<(String, String, PathBuf)> {
    let tab = line.iter().position(|b| *b == b'\t')?;
    let words: Vec<&str> = std::str::from_utf8(&line[..tab]).ok()?.split(' ').collect();
    let path = PathBuf::from(OsString::from_vec(line[tab + 1..].to_vec()));
    Some((words.first()?.to_string(), words.get(at)?.to_string(), path))
}

fn output(command: &mut Command, arguments: &[&str]) -> Result<Vec<u8>, EngineError> {
    let output = run_to_end(command.stdin(Stdio::null())).map_err(|e| EngineError::io("run", Path::new("git"), e))?;
    if output.status.success() { Ok(output.stdout) } else { Err(failed(arguments, &output.stderr)) }
}

fn feed(command: Command, input: &[u8]) -> Result<Vec<u8>, EngineError> {
    end(start(command, input)?)
}

/// Its input is a file in memory. A pipe would end us together with a git that fails early, and a git that goes on when we are
/// killed would miss the rest.
fn start(mut command: Command, input: &[u8]) -> Result<Child, EngineError> {
    let in_memory = || {
        let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
        file.write_all(input)?;
        file.rewind()?;
        Ok(file)
    };
    let input = in_memory().map_err(|e| EngineError::io("write", Path::new("the input of git"), e))?;
    let started = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    started.map_err(|e| EngineError::io("run", Path::new("git"), e))
}

fn end(child: Child) -> Result<Vec<u8>, EngineError> {
    let output = wait_to_end(child).map_err(|e| EngineError::io("run", Path::new("git"), e))?;
    // What follows the first reason comes of it.
    let reason = output.stderr.split(|b| *b == b'\n').find(|line| line.starts_with(b"fatal:")).unwrap_or(&output.stderr);
    if output.status.success() { Ok(output.stdout) } else { Err(failed(&["was fed"], reason)) }
}

fn failed(arguments: &[&str], stderr: &[u8]) -> EngineError {
    let message = String::from_utf8_lossy(stderr).trim().to_owned();
    GitError::Failed {
        action: "commit",
        message: format!("git {}: {}", arguments.first().unwrap_or(&""), if message.is_empty() { "failed" } else { &message }),
        remedy: "nothing was committed; 'git status' says how the repository stands".into(),
    }
    .into()
}

/// The directory itself, or the nearest around it, in which one of these names leads somewhere. It decides which rules hold and
/// where a commit goes, so a place that cannot be looked at is not passed over.
pub(crate) fn first_with<'d>(directory: &'d Path, names: &[&str]) -> Result<Option<&'d Path>, EngineError> {
    for around in directory.ancestors() {
        for path in names.iter().map(|name| around.join(name)) {
            if absence::leads_somewhere(&path).map_err(|e| EngineError::io("examine", &path, e))? {
                return Ok(Some(around));
            }
        }
    }
    Ok(None)
}

pub(crate) fn home_of(uid: u32) -> Option<PathBuf> {
    let text = std::fs::read("/etc/passwd").ok()?;
    let fits = |line: &&[u8]| line.split(|b| *b == b':').nth(2) == Some(uid.to_string().as_bytes());
    let line = text.split(|b| *b == b'\n').find(fits)?;
    line.split(|b| *b == b':').nth(5).map(|home| PathBuf::from(OsString::from_vec(home.to_vec())))
}
