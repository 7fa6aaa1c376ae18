//! The remotes of the project's repository.
//!
//! git is never run in the repository. It is given the file to read, without what that includes, and what the user has it
//! rewrite comes from the user's own configuration.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::answers::Answers;
use crate::ask::{AskError, Question, shown};
use crate::files;
use crate::place::Place;
use crate::rewrite::Rewrites;
use crate::surroundings::Surroundings;

const TOOL: &str = "git";
const REMOTES: &str = r"^(remote\..*\.(url|pushurl)|submodule\..*\.url|url\..*\.(insteadof|pushinsteadof))$";
const REWRITES: &str = r"^url\..*\.(insteadof|pushinsteadof)$";

pub(crate) fn ask(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    let (Some(program), Some(file)) = (surroundings.program("git"), configuration(surroundings.project)) else { return answers };
    if !is_of_owner(&file, surroundings.project) {
        answers.trouble(format!("{} belongs to another user than the project, so its remotes are not used", shown(file.display())));
        return answers;
    }
    let question = || {
        let question = Question::new(&program, surroundings).cwd("/").env("GIT_CEILING_DIRECTORIES", "/").env("GIT_PAGER", "cat");
        question.args(["config", "-z"])
    };
    // Without a match, git fails. So it does when there is nothing to read.
    let own = question().args(["--get-regexp", REWRITES]).ask();
    let remotes = question().args(["--no-includes", "--file"]).args([&file]).args(["--get-regexp", REMOTES]).ask();
    let settings = match (own, remotes) {
        (_, Err(AskError::Failed)) => return answers,
        (Ok(own), Ok(remotes)) => own + &remotes,
        (Err(AskError::Failed), Ok(remotes)) => remotes,
        (Err(error), _) | (_, Err(error)) => {
            answers.unanswered(format!("git {error}"));
            return answers;
        }
    };
    read(&settings, &mut answers);
    answers
}

/// Entries are `key`, a line break, `value`, and end with a zero byte.
fn read(settings: &str, answers: &mut Answers) {
    let mut rewrites = Rewrites::default();
    let entries: Vec<_> = settings.split('\0').filter_map(|entry| entry.split_once('\n')).collect();
    entries.iter().for_each(|(key, value)| rewrites.learn(key, value));
    for (key, url) in entries.iter().filter(|(key, _)| !key.starts_with("url.")) {
        // A remote is usually called by a word, but nothing keeps anybody from calling it by its URL, with the password.
        let said = if key.contains([':', '@']) { "a git remote".to_owned() } else { shown(key) };
        let mut add = |url: &str| answers.place(TOOL, Place::of_git_url(url), &said);
        if !key.ends_with(".pushurl") {
            rewrites.for_pushing(url).into_iter().for_each(|url| add(&url));
        }
        add(&rewrites.for_fetching(url));
    }
}

/// The file with the remotes of the repository that the project is in.
pub(crate) fn configuration(project: &Path) -> Option<PathBuf> {
    // Where one cannot be looked at, nothing is allowed because of it.
    let (dot_git, found) = project.ancestors().find_map(|directory| {
        let path = directory.join(".git");
        let found = path.metadata().ok()?;
        Some((path, found))
    })?;
    let directory = if found.is_dir() {
        dot_git
    } else {
        // A work tree or a submodule: a file that says where its repository is.
        let text = short_text(&dot_git)?;
        dot_git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
    };
    let common = match short_text(&directory.join("commondir")) {
        Some(text) => directory.join(text.trim()),
        None => directory,
    };
    let file = common.join("config");
    // git would wait for a pipe.
    files::open(&file).map(|_| file)
}

fn short_text(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    files::open(path)?.take(4096).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A repository above the project can be anybody's, as in `/tmp`.
fn is_of_owner(file: &Path, project: &Path) -> bool {
    let (Ok(file), Ok(project)) = (file.metadata(), project.metadata()) else { return false };
    [0, rustix::process::geteuid().as_raw(), project.uid()].contains(&file.uid())
}
