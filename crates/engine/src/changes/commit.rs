//! `apply --commit`: what is applied, as a git commit.
//!
//! What goes into it is read from the transaction's plan before anything is applied, never from reality: there a link may lead
//! anywhere by now. The commit is made by `git fast-import`: no filter, hook or watcher that a repository's configuration names has a
//! part in it, and whatever else is modified or staged stays as it is.
//!
//! Commit and apply are one transaction:
//!
//! 1. A note next to the journal-to-be, then git's index is locked.
//! 2. The commit is written, apart from the repository's objects, and the index as it will be, next to it. Neither means anything yet.
//!    The note gets the commit's id.
//! 3. The files are staged and swapped; then [`Coming::decide`] is asked.
//! 4. The commit comes to the repository's objects, and the branch moves to it from the parent. This decides: until then everything
//!    is put back, from then on it is finished.
//! 5. The new index takes the place of the old one, and its lock goes.
//!
//! After a crash `unfinished` finds out from the note and the branch which of the two it is.

mod coming;
mod entries;
mod in_progress;
mod index;
mod moved_inside;
mod note;
mod objects;
mod own;
mod reference;
mod room;
mod sign;
mod stale_locks;
mod tracked;
mod unfinished;

use std::path::{Path, PathBuf};

pub(crate) use self::coming::Coming;
use self::entries::Entries;
use self::index::Index;
pub(crate) use self::note::Note;
use self::sign::Signing;
use crate::changes::Changes;
use crate::changes::apply::{Applied, Prepared, Watch};
use crate::git::{Git, GitError};
use crate::{EngineError, now};

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
pub(crate) struct Committer {
    git: Git,
    /// `Name <address>`.
    author: String,
    signing: Option<Signing>,
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
    /// Where the sandbox's change is among these, so that there was nothing to apply.
    pub already: Vec<PathBuf>,
}

const DEFAULT_MESSAGE: &str = "{summary}";

impl Changes {
    /// Finds out who commits and where, before anything is applied.
    pub(crate) fn prepare_commit(&self, project: &Path) -> Result<Committer, EngineError> {
        let git = Git::find(project, &self.ground.caller.home, self.ground.caller.is_root())?;
        let author = self.author(&git)?;
        let signing = Signing::asked_for(&git)?;
        Ok(Committer { git, author, signing })
    }

    /// Checks whether what is planned can be committed, without writing. How many files that would be.
    pub(crate) fn check_commit(&self, committer: &Committer, prepared: &Prepared) -> Result<usize, EngineError> {
        in_progress::refuse(&committer.git)?;
        moved_inside::refuse(&prepared.plan, &committer.git)?;
        Ok(Entries::of(&prepared.plan, &committer.git)?.count)
    }

    /// Applies and commits, both or neither: whatever fails, branch, index and files are then as they were.
    pub(crate) fn apply_and_commit(
        &self,
        committer: &Committer,
        prepared: Prepared,
        options: &CommitOptions,
        watch: &mut Watch<'_>,
    ) -> Result<(Applied, Committed), EngineError> {
        let mut coming = self.begin_commit(committer, &prepared, options)?;
        let applied = self.apply_with(prepared, Some(&mut coming), watch).map_err(|error| coming.explain(error))?;
        Ok((applied, coming.committed()))
    }

    /// Everything that can be done while nothing is applied.
    fn begin_commit(&self, committer: &Committer, prepared: &Prepared, options: &CommitOptions) -> Result<Coming, EngineError> {
        // What already stands against the apply would only be found when git has written a lot.
        self.check_apply(prepared)?;
        let id = prepared.id();
        let (apply, lock) = self.ground.state.begin_apply(&id)?;
        let git = committer.git.fenced(&lock)?;
        let reference = reference::current(&git)?;
        let note = Note {
            at: now(),
            root: git.root.clone(),
            directory: PathBuf::from(git.read(&["rev-parse", "--absolute-git-dir"])?),
            branch: git.root.join(git.read(&["rev-parse", "--git-path", &reference])?),
            objects: Some(git.root.join(git.read(&["rev-parse", "--git-path", "objects"])?)),
            reference,
            parent: None,
            commit: None,
            id,
        };
        note.write(&apply)?;
        let mut coming = Coming::new(git, note, apply, lock);
        // Said while what was written takes its room.
        let written = self.write_ahead(&mut coming, committer, prepared, options);
        written.map_err(|error| room::explain(error, &coming.note.directory))?;
        Ok(coming)
    }

    /// What means nothing yet: the lock, the commit and the new index.
    fn write_ahead(
        &self,
        coming: &mut Coming,
        committer: &Committer,
        prepared: &Prepared,
        options: &CommitOptions,
    ) -> Result<(), EngineError> {
        let index = Index::of(&coming.note);
        index.lock(&coming.git)?;
        in_progress::refuse(&coming.git)?;
        moved_inside::refuse(&prepared.plan, &coming.git)?;
        let parent = reference::tip(&coming.git, &coming.note.reference)?;
        let mut entries = Entries::of(&prepared.plan, &coming.git)?;
        entries.already = entries::uncommitted(&prepared.already, &coming.git)?;
        if entries.count > 0 {
            let git = coming.set_objects_apart()?;
            let commit = self.write_commit(committer, &git, parent.as_deref(), &entries, prepared, options)?;
            index.stage(&git, &commit, parent.as_deref(), &entries.index)?;
            coming.expect(parent, commit, options)?;
        }
        coming.set_apart(entries);
        Ok(())
    }

    /// The commit itself, which no branch has yet.
    fn write_commit(
        &self,
        committer: &Committer,
        git: &Git,
        parent: Option<&str>,
        entries: &Entries,
        prepared: &Prepared,
        options: &CommitOptions,
    ) -> Result<String, EngineError> {
        let message = self.message(prepared, options, entries.count);
        let person = Person { author: &committer.author, seconds: now() / 1000 };
        let stream = entries.stream(parent, &person, &message);
        let plain = git.import(&stream)?;
        match &committer.signing {
            Some(signing) => signing.commit(git, &plain, parent, &person, &message),
            None => Ok(plain),
        }
    }

    /// `Name <address>`: the configured one, or the user's own as git knows it.
    fn author(&self, git: &Git) -> Result<String, EngineError> {
        let rules = &self.ground.caller.config.commit;
        if let (Some(name), Some(email)) = (&rules.name, &rules.email) {
            return Ok(format!("{} <{}>", plain(name), plain(email)));
        }
        let identity = git.read(&["var", "GIT_COMMITTER_IDENT"]).map_err(|error| match error {
            EngineError::Git(GitError::Failed { .. }) => GitError::Failed {
                action: "find your name and address",
                message: "git does not know them".to_owned(),
                remedy: "nothing was applied. Set them: git config --global user.name …, user.email …, or [commit] name and email in whatif's configuration".into(),
            }.into(),
            // It was not asked.
            other => other,
        })?;
        Ok(identity.rsplit_once('>').map_or(identity.clone(), |(person, _)| format!("{person}>")))
    }

    fn message(&self, prepared: &Prepared, options: &CommitOptions, files: usize) -> String {
        let template = options.message.as_ref().or(self.ground.caller.config.commit.message.as_ref());
        let (sandbox, id) = (&prepared.sandbox, prepared.id());
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
        if let Some(agent) = &self.ground.caller.config.commit.co_author {
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
