//! `apply --commit`: what was applied, as a git commit.
//!
//! The commit is made by `git fast-import` from the bytes that were just written: no filter, hook or watcher that a
//! repository's configuration names has a part in it, and whatever else is modified or staged stays as it is.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use whatif_diff::scan::reality;
use whatif_diff::{Kind, content};

use crate::apply::Applied;
use crate::{Engine, EngineError, now};

/// How to commit.
#[derive(Clone, Debug, Default)]
pub struct CommitOptions {
    /// `{sandbox}`, `{command}`, `{files}` and `{summary}` are replaced.
    pub message: Option<String>,
    /// Run the repository's own hooks.
    pub hooks: bool,
}

/// Larger files are not read into a commit.
const LONGEST: u64 = 1 << 30;
const DEFAULT_MESSAGE: &str = "{summary}";

impl Engine {
    /// Commits what was applied and returns the commit's id.
    pub fn commit(&self, applied: &Applied, options: &CommitOptions) -> Result<String, EngineError> {
        let git = Git::find(&applied.sandbox.project, &self.context.home, self.context.is_root())?;
        let paths: Vec<&PathBuf> = applied.steps.iter().map(|s| &s.path).filter(|p| git.tracks(p)).collect();
        let message = self.message(applied, options, paths.len());
        if options.hooks {
            git.run_hook("pre-commit")?;
        }
        let parent = git.read(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]).ok();
        let reference = format!("refs/whatif/{}", applied.id);
        let stream = git.stream(&reference, parent.as_deref(), &self.author(&git)?, &message, &paths)?;
        git.feed(&["fast-import", "--quiet", "--force", "--done"], &stream)?;
        let commit = git.read(&["rev-parse", "--verify", &reference])?;
        let moved = match &parent {
            Some(parent) => git.read(&["update-ref", "-m", "whatif apply", "HEAD", &commit, parent]),
            None => git.read(&["update-ref", "-m", "whatif apply", "HEAD", &commit]),
        };
        let _ = git.read(&["update-ref", "-d", &reference]);
        moved?;
        git.update_index(&commit, parent.as_deref())?;
        if options.hooks {
            git.run_hook("post-commit")?;
        }
        self.mark_committed(&applied.id, &commit)?;
        Ok(commit)
    }

    /// `Name <address>`: the configured one, or the user's own as git knows it.
    fn author(&self, git: &Git) -> Result<String, EngineError> {
        let rules = &self.context.config.commit;
        if let (Some(name), Some(email)) = (&rules.name, &rules.email) {
            return Ok(format!("{} <{}>", plain(name), plain(email)));
        }
        let identity = git.read(&["var", "GIT_COMMITTER_IDENT"]).map_err(|_| EngineError::Git {
            action: "find your name and address",
            message: "git does not know them".to_owned(),
            hint: "git config --global user.name …, user.email …, or [commit] name and email in whatif's configuration".to_owned(),
        })?;
        Ok(identity.rsplit_once('>').map_or(identity.clone(), |(person, _)| format!("{person}>")))
    }

    fn message(&self, applied: &Applied, options: &CommitOptions, files: usize) -> String {
        let template = options.message.as_ref().or(self.context.config.commit.message.as_ref());
        let sandbox = &applied.sandbox;
        let command = sandbox.details.command.join(" ");
        let summary = if command.is_empty() { format!("Apply sandbox {}", sandbox.name) } else { first_line(&command) };
        let subject = template.map_or(DEFAULT_MESSAGE, String::as_str);
        let text = subject
            .replace("{sandbox}", &sandbox.name)
            .replace("{files}", &files.to_string())
            .replace("{summary}", &summary)
            .replace("{command}", &command);
        let mut trailers = format!("Whatif-Sandbox: {} ({})\n", sandbox.name, sandbox.id);
        if !command.is_empty() {
            trailers.push_str(&format!("Whatif-Command: {}\n", plain(&command)));
        }
        trailers.push_str(&format!("Whatif-Apply: {}\n", applied.id));
        if let Some(agent) = &self.context.config.commit.co_author {
            trailers.push_str(&format!("Co-authored-by: {}\n", plain(agent)));
        }
        format!("{}\n\n{trailers}", text.trim_end())
    }
}

/// A repository, and how to ask git about it safely.
struct Git {
    root: PathBuf,
    home: PathBuf,
    /// Root works in somebody else's repository as that somebody.
    owner: Option<(u32, u32)>,
}

impl Git {
    fn find(project: &Path, home: &Path, as_root: bool) -> Result<Self, EngineError> {
        let root = project.ancestors().find(|d| d.join(".git").exists()).ok_or_else(|| EngineError::Git {
            action: "commit",
            message: format!("{} is not in a git repository", project.display()),
            hint: "the changes are applied; leave out --commit, or 'git init' first".to_owned(),
        })?;
        let metadata = std::fs::metadata(root).map_err(|e| EngineError::io("examine", root, e))?;
        let owner = (as_root && metadata.uid() != 0).then(|| (metadata.uid(), metadata.gid()));
        let home = owner.and_then(|(uid, _)| home_of(uid)).unwrap_or_else(|| home.to_owned());
        Ok(Self { root: root.to_owned(), home, owner })
    }

    /// Git's own data is not part of a commit.
    fn tracks(&self, path: &Path) -> bool {
        let is_file = reality(path).is_none_or(|s| matches!(s.node.kind, Kind::File | Kind::Link));
        is_file && path.strip_prefix(&self.root).is_ok_and(|r| !r.components().any(|c| c.as_os_str() == ".git"))
    }

    /// A git that runs nothing the repository names.
    fn command(&self, arguments: &[&str]) -> Command {
        self.command_with(
            &["core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "gc.auto=0"],
            arguments,
        )
    }

    fn command_with(&self, settings: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.env_clear();
        for name in ["PATH", "LANG", "LC_ALL", "TZ"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("HOME", &self.home).env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").current_dir(&self.root);
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.args(arguments);
        if let Some((uid, gid)) = self.owner {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// The first line of its output.
    fn read(&self, arguments: &[&str]) -> Result<String, EngineError> {
        let output = self.bytes(arguments)?;
        Ok(String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_owned())
    }

    fn bytes(&self, arguments: &[&str]) -> Result<Vec<u8>, EngineError> {
        let output =
            self.command(arguments).stdin(Stdio::null()).output().map_err(|e| EngineError::io("run", Path::new("git"), e))?;
        if output.status.success() { Ok(output.stdout) } else { Err(failed(arguments, &output.stderr)) }
    }

    fn feed(&self, arguments: &[&str], input: &[u8]) -> Result<(), EngineError> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| EngineError::io("run", Path::new("git"), e))?;
        if let Some(mut stdin) = child.stdin.take() {
            // If it ends early, its own words say more than the broken pipe.
            let _ = stdin.write_all(input);
        }
        let output = child.wait_with_output().map_err(|e| EngineError::io("run", Path::new("git"), e))?;
        if output.status.success() { Ok(()) } else { Err(failed(arguments, &output.stderr)) }
    }

    /// The input of `git fast-import`.
    fn stream(
        &self,
        reference: &str,
        parent: Option<&str>,
        author: &str,
        message: &str,
        paths: &[&PathBuf],
    ) -> Result<Vec<u8>, EngineError> {
        let mut stream = Vec::new();
        let when = format!("{} +0000", now() / 1000);
        stream.extend(
            format!("commit {reference}\nauthor {author} {when}\ncommitter {author} {when}\ndata {}\n", message.len()).bytes(),
        );
        stream.extend(message.bytes());
        stream.push(b'\n');
        if let Some(parent) = parent {
            stream.extend(format!("from {parent}\n").bytes());
        }
        for path in paths {
            let name = quoted(path.strip_prefix(&self.root).unwrap_or(path));
            let Some(state) = reality(path) else {
                stream.extend([b"D ".as_slice(), &name, b"\n"].concat());
                continue;
            };
            let (mode, bytes) = match state.node.kind {
                Kind::Link => ("120000", state.target().map(|t| t.into_os_string().into_vec())),
                _ if state.node.mode & 0o100 != 0 => ("100755", content::read_up_to(path, LONGEST)),
                _ => ("100644", content::read_up_to(path, LONGEST)),
            };
            let bytes = bytes.map_err(|e| EngineError::io("read", path, e))?;
            stream.extend([b"M ".as_slice(), mode.as_bytes(), b" inline ", &name, b"\n"].concat());
            stream.extend(format!("data {}\n", bytes.len()).bytes());
            stream.extend(bytes);
            stream.push(b'\n');
        }
        stream.extend(b"done\n");
        Ok(stream)
    }

    /// Tells the index about what was committed, and about nothing else.
    fn update_index(&self, commit: &str, parent: Option<&str>) -> Result<(), EngineError> {
        let changes = match parent {
            Some(parent) => self.bytes(&["diff-tree", "-r", "-z", "--no-renames", parent, commit])?,
            None => self.bytes(&["diff-tree", "-r", "-z", "--no-renames", "--root", "--no-commit-id", commit])?,
        };
        let mut lines = Vec::new();
        let mut fields = changes.split(|b| *b == 0);
        while let (Some(raw), Some(path)) = (fields.next().filter(|r| !r.is_empty()), fields.next()) {
            let words: Vec<&[u8]> = raw.split(|b| *b == b' ').collect();
            let [_, mode, _, id, ..] = words.as_slice() else { continue };
            lines.extend([*mode, b" ", *id, b"\t", path, b"\0"].concat());
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.feed(&["update-index", "-z", "--index-info"], &lines)
    }

    fn run_hook(&self, name: &str) -> Result<(), EngineError> {
        let mut command = self.command_with(&["core.fsmonitor=false"], &["hook", "run", "--ignore-missing", name]);
        let output = command.stdin(Stdio::null()).output().map_err(|e| EngineError::io("run", Path::new("git"), e))?;
        if output.status.success() { Ok(()) } else { Err(failed(&["hook", name], &output.stderr)) }
    }
}

fn failed(arguments: &[&str], stderr: &[u8]) -> EngineError {
    let message = String::from_utf8_lossy(stderr).trim().to_owned();
    EngineError::Git {
        action: "commit",
        message: format!("git {}: {}", arguments.first().unwrap_or(&""), if message.is_empty() { "failed" } else { &message }),
        hint: "the changes are applied and stay so; commit them by hand".to_owned(),
    }
}

/// As fast-import takes a path: in quotes, with everything unusual escaped.
fn quoted(path: &Path) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// One line without what would end a name or a trailer.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '<' | '>') { ' ' } else { c }).collect::<String>().trim().to_owned()
}

fn first_line(command: &str) -> String {
    const LONGEST_SUBJECT: usize = 68;
    let line = command.lines().next().unwrap_or_default();
    if line.chars().count() <= LONGEST_SUBJECT {
        line.to_owned()
    } else {
        line.chars().take(LONGEST_SUBJECT - 1).chain(['…']).collect()
    }
}

fn home_of(uid: u32) -> Option<PathBuf> {
    let text = std::fs::read("/etc/passwd").ok()?;
    let fits = |line: &&[u8]| line.split(|b| *b == b':').nth(2) == Some(uid.to_string().as_bytes());
    let line = text.split(|b| *b == b'\n').find(fits)?;
    line.split(|b| *b == b':').nth(5).map(|home| PathBuf::from(OsString::from_vec(home.to_vec())))
}
