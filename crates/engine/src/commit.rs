//! `apply --commit`: what is applied, as a git commit.
//!
//! What goes into it is read from the transaction's plan before anything is applied, never from reality: there a link may lead
//! anywhere by now. The commit is made by `git fast-import`: no filter, hook or watcher that a repository's configuration names has a
//! part in it, and whatever else is modified or staged stays as it is. Git's index is locked from before the apply until the commit
//! stands; if there is none in the end, the apply is undone.

mod entries;
mod in_progress;
mod index;
mod own;
mod sign;
mod tracked;

use std::path::{Path, PathBuf};

use self::entries::Entries;
use self::index::IndexLock;
use self::sign::Signing;
use crate::apply::{Applied, Prepared, Watch};
use crate::git::Git;
use crate::undo::UndoRequest;
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
    signing: Option<Signing>,
}

/// Everything a commit needs, while nothing is applied yet.
#[derive(Debug)]
pub struct Staged {
    entries: Entries,
    /// Nothing else writes the index until this is dropped.
    lock: IndexLock,
}

/// What became of a commit.
#[derive(Debug)]
pub struct Committed {
    /// None if nothing of what was applied belongs to the repository, or the last commit has it all.
    pub id: Option<String>,
    /// Applied, but part of submodules or nested repositories.
    pub apart: Vec<PathBuf>,
    /// Where edits of the user's own were left uncommitted.
    pub own: Vec<PathBuf>,
}

const DEFAULT_MESSAGE: &str = "{summary}";

impl Engine {
    /// Finds out who commits and where, before anything is applied.
    pub fn prepare_commit(&self, project: &Path) -> Result<Committer, EngineError> {
        let git = Git::find(project, &self.context.home, self.context.is_root())?;
        let author = self.author(&git)?;
        let signing = Signing::asked_for(&git)?;
        Ok(Committer { git, author, signing })
    }

    /// Reads what will be committed, and keeps others from changing the index.
    pub fn stage_commit(&self, committer: &Committer, prepared: &Prepared) -> Result<Staged, EngineError> {
        let lock = IndexLock::take(&committer.git)?;
        in_progress::refuse(&committer.git)?;
        let entries = Entries::of(&prepared.plan, &committer.git)?;
        Ok(Staged { entries, lock })
    }

    /// Checks whether what is planned can be committed, without writing. How many files that would be.
    pub fn check_commit(&self, committer: &Committer, prepared: &Prepared) -> Result<usize, EngineError> {
        in_progress::refuse(&committer.git)?;
        Ok(Entries::of(&prepared.plan, &committer.git)?.count)
    }

    /// Commits what was applied. If that fails, the apply is undone: branch, index and files are then as they were.
    pub fn commit(
        &self,
        committer: &Committer,
        staged: Staged,
        applied: &Applied,
        options: &CommitOptions,
    ) -> Result<Committed, EngineError> {
        let (apart, own) = (staged.entries.apart.clone(), staged.entries.own.clone());
        match self.commit_staged(committer, staged, applied, options) {
            Ok(id) => Ok(Committed { id, apart, own }),
            Err(error) => Err(self.take_back(applied, error)),
        }
    }

    fn commit_staged(
        &self,
        committer: &Committer,
        staged: Staged,
        applied: &Applied,
        options: &CommitOptions,
    ) -> Result<Option<String>, EngineError> {
        let git = &committer.git;
        let Staged { entries, lock } = staged;
        let Some(id) = applied.id.as_deref().filter(|_| entries.count > 0) else { return Ok(None) };
        let message = self.message(applied, id, options, entries.count);
        if options.hooks {
            git.run_hook("pre-commit")?;
        }
        let parent = git.read(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]).ok();
        let reference = format!("refs/whatif/{id}");
        let person = Person { author: &committer.author, seconds: now() / 1000 };
        let stream = entries.stream(&reference, parent.as_deref(), &person, &message);
        let made = git.feed(&["fast-import", "--quiet", "--force", "--done"], &stream).and_then(|()| {
            let plain = git.read(&["rev-parse", "--verify", &reference])?;
            match &committer.signing {
                Some(signing) => signing.commit(git, &plain, parent.as_deref(), &person, &message),
                None => Ok(plain),
            }
        });
        let prepared = made.and_then(|commit| lock.fill(git, &commit, parent.as_deref(), &entries.index).map(|()| commit));
        let _ = git.read(&["update-ref", "-d", &reference]);
        let commit = prepared?;
        let none = "0".repeat(commit.len());
        git.read(&["update-ref", "-m", "whatif apply", "HEAD", &commit, parent.as_deref().unwrap_or(&none)])?;
        if let Err(error) = lock.commit(git) {
            let back = match &parent {
                Some(parent) => git.read(&["update-ref", "-m", "whatif apply: taken back", "HEAD", parent, &commit]),
                None => git.read(&["update-ref", "-d", "HEAD", &commit]),
            };
            return Err(back.err().unwrap_or(error));
        }
        // It is committed, whatever comes now.
        if options.hooks {
            let _ = git.run_hook("post-commit");
        }
        let _ = self.mark_committed(id, &commit);
        Ok(Some(commit))
    }

    /// Undoes an apply that could not be committed.
    fn take_back(&self, applied: &Applied, error: EngineError) -> EngineError {
        let Some(id) = &applied.id else { return error };
        // Not to be cancelled: half of both would be worse than either.
        let mut watch = Watch { progress: &mut |_| {}, is_cancelled: &|| false };
        let undone = self
            .prepare_undo(&UndoRequest { id: Some(id.clone()), ..UndoRequest::default() })
            .and_then(|undo| self.undo(&undo, &mut watch));
        let hint = match undone {
            Ok(()) => "the apply was undone: branch, index and files are as they were".to_owned(),
            Err(undo) => format!(
                "the changes are applied and stay so, because they could not be undone ({undo}); commit them by hand, or try: whatif undo {id}"
            ),
        };
        match error {
            EngineError::Git { action, message, .. } => EngineError::Git { action, message, hint },
            other => EngineError::Git { action: "commit", message: whatif_types::explain::whole_message(&other), hint },
        }
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

    fn message(&self, applied: &Applied, id: &str, options: &CommitOptions, files: usize) -> String {
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
        trailers.push_str(&format!("Whatif-Apply: {id}\n"));
        if let Some(agent) = &self.context.config.commit.co_author {
            trailers.push_str(&format!("Co-authored-by: {}\n", plain(agent)));
        }
        format!("{}\n\n{trailers}", text.trim_end())
    }
}

/// Who commits, and when.
struct Person<'a> {
    /// `Name <address>`.
    author: &'a str,
    /// Since 1970.
    seconds: u64,
}

impl Person<'_> {
    fn when(&self) -> String {
        format!("{} +0000", self.seconds)
    }
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
