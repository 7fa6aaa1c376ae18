//! `apply --commit`: what was applied, as a git commit.
//!
//! The commit is made by `git fast-import` from the bytes that were just written: no filter, hook or watcher that a
//! repository's configuration names has a part in it, and whatever else is modified or staged stays as it is.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use whatif_diff::scan::reality;
use whatif_diff::{Kind, content};

use crate::apply::Applied;
use crate::git::Git;
use crate::{Engine, EngineError, now};

/// How to commit.
#[derive(Clone, Debug, Default)]
pub struct CommitOptions {
    /// `{sandbox}`, `{command}`, `{files}` and `{summary}` are replaced.
    pub message: Option<String>,
    /// Run the repository's own hooks.
    pub hooks: bool,
}

/// A repository and who commits to it.
#[derive(Debug)]
pub struct Committer {
    git: Git,
    /// `Name <address>`.
    author: String,
}

/// Larger files are not read into a commit.
const LONGEST: u64 = 1 << 30;
const DEFAULT_MESSAGE: &str = "{summary}";

impl Engine {
    /// Finds out who commits and where, before anything is applied.
    pub fn prepare_commit(&self, project: &Path) -> Result<Committer, EngineError> {
        let git = Git::find(project, &self.context.home, self.context.is_root())?;
        let author = self.author(&git)?;
        Ok(Committer { git, author })
    }

    /// Commits what was applied and returns the commit's id.
    pub fn commit(&self, committer: &Committer, applied: &Applied, options: &CommitOptions) -> Result<String, EngineError> {
        let git = &committer.git;
        let mut paths: Vec<&PathBuf> = Vec::new();
        for path in applied.steps.iter().map(|s| &s.path) {
            if git.tracks(path)? {
                paths.push(path);
            }
        }
        let message = self.message(applied, options, paths.len());
        if options.hooks {
            git.run_hook("pre-commit")?;
        }
        let parent = git.read(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]).ok();
        let reference = format!("refs/whatif/{}", applied.id);
        let stream = git.stream(&reference, parent.as_deref(), &committer.author, &message, &paths)?;
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
            hint: "nothing was applied. Set them: git config --global user.name …, user.email …, or [commit] name and email in whatif's configuration".to_owned(),
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
            trailers.push_str(&format!("Whatif-Command: {}\n", one_line(&command)));
        }
        trailers.push_str(&format!("Whatif-Apply: {}\n", applied.id));
        if let Some(agent) = &self.context.config.commit.co_author {
            trailers.push_str(&format!("Co-authored-by: {}\n", plain(agent)));
        }
        format!("{}\n\n{trailers}", text.trim_end())
    }
}

impl Git {
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
            let Some(state) = reality(path)? else {
                stream.extend([b"D ".as_slice(), &name, b"\n"].concat());
                continue;
            };
            let (mode, bytes) = match state.node.kind {
                Kind::Link => ("120000", Ok(state.target()?.into_os_string().into_vec())),
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

/// Without what would end a name or an address.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '<' | '>') { ' ' } else { c }).collect::<String>().trim().to_owned()
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
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
