//! Signed commits, where the user's own configuration asks for them.
//!
//! What the repository says about signing is not obeyed: a program could be named there by whatever ran in a sandbox.

use super::Person;
use crate::EngineError;
use crate::git::{Git, GitError};

/// What git is told, so that nothing of it is taken from the repository.
const SETTINGS: [(&str, &str); 6] = [
    ("gpg.format", "openpgp"),
    ("gpg.program", "gpg"),
    ("gpg.openpgp.program", "gpg"),
    ("gpg.x509.program", "gpgsm"),
    ("gpg.ssh.program", "ssh-keygen"),
    ("gpg.ssh.defaultKeyCommand", "false"),
];

#[derive(Debug)]
pub(super) struct Signing {
    settings: Vec<String>,
}

impl Signing {
    /// None if commits are not signed by default.
    pub(super) fn asked_for(git: &Git) -> Result<Option<Self>, EngineError> {
        if git.own_setting("commit.gpgsign", &["--type=bool"])?.as_deref() != Some("true") {
            return Ok(None);
        }
        let mut settings = Vec::new();
        let program = git.own_setting("gpg.program", &[])?;
        for (name, usual) in SETTINGS {
            let value = match git.own_setting(name, &[])? {
                None if name == "gpg.openpgp.program" => program.clone(),
                other => other,
            };
            settings.push(format!("{name}={}", value.as_deref().unwrap_or(usual)));
        }
        // Without a key of one's own, git takes the one of the committer.
        settings.push(format!("user.signingkey={}", git.own_setting("user.signingkey", &[])?.unwrap_or_default()));
        Ok(Some(Self { settings }))
    }

    /// The same commit, signed.
    pub(super) fn commit(
        &self,
        git: &Git,
        plain: &str,
        parent: Option<&str>,
        person: &Person<'_>,
        message: &str,
    ) -> Result<String, EngineError> {
        let tree = git.read(&["rev-parse", "--verify", &format!("{plain}^{{tree}}")])?;
        let mut arguments = vec!["commit-tree", "-S", &tree];
        if let Some(parent) = parent {
            arguments.extend(["-p", parent]);
        }
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).filter(|s| *s != "user.signingkey=").collect();
        let mut variables = Vec::new();
        let (name, address) = person.author.trim_end_matches('>').rsplit_once('<').unwrap_or((person.author, ""));
        for role in ["AUTHOR", "COMMITTER"] {
            variables.push((format!("GIT_{role}_NAME"), name.trim().to_owned()));
            variables.push((format!("GIT_{role}_EMAIL"), address.to_owned()));
            variables.push((format!("GIT_{role}_DATE"), person.when()));
        }
        let signed = git.feed_signed(&settings, &arguments, &variables, message.as_bytes());
        signed.map_err(|error| match error {
            EngineError::Git(GitError::Failed { message, remedy, .. }) => {
                GitError::Failed { action: "sign the commit", message, remedy }.into()
            }
            other => other,
        })
    }
}
