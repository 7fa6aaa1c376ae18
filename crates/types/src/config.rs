//! Configuration: the user's own, and the project's, which may only tighten.

mod apply;
mod disk;
mod gc;
mod network;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::grants::Grants;
use crate::limits::Then;
use crate::{Backend, Limits, mask};

pub use self::apply::{ApplyRules, AutoApprove, Check, CommitRules, PolicyRules, Rejected, Times};
pub use self::disk::{DiskRules, Size};
pub use self::gc::{Ending, GcRules, Unused};
pub use self::network::{NetworkRules, ProjectNetwork};

/// `$XDG_CONFIG_HOME/whatif/config.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserConfig {
    pub environment: EnvironmentRules,
    pub files: FileRules,
    pub network: NetworkRules,
    pub layers: LayerRules,
    pub diff: DiffRules,
    pub apply: ApplyRules,
    pub policy: PolicyRules,
    pub commit: CommitRules,
    pub snapshots: SnapshotRules,
    pub disk: DiskRules,
    pub memory: MemoryRules,
    pub gc: GcRules,
    pub pool: PoolRules,
    /// What every new sandbox is granted. A project has no such key.
    pub grants: Grants,
    pub limits: Limits,
    /// Limits by name, for `--limits NAME`.
    pub profiles: BTreeMap<String, Limits>,
    /// The project allows no more than this; nothing overrules that.
    #[serde(skip)]
    pub limits_of_project: Limits,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnvironmentRules {
    /// Variables carried inside although they look like secrets.
    pub keep: Vec<String>,
    /// Variables never carried.
    pub drop: Vec<String>,
    /// Variables the project asks not to carry; nothing overrules that.
    #[serde(skip)]
    pub dropped_by_project: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileRules {
    /// Further paths to mask; `~/` is the home.
    pub mask: Vec<String>,
    /// Paths to show although they are masked by default.
    pub expose: Vec<String>,
    /// Paths the project asks to mask; nothing overrules that.
    #[serde(skip)]
    pub masked_by_project: Vec<String>,
    /// Credentials of whatif itself; nothing overrules that.
    #[serde(skip)]
    pub own_credentials: Vec<String>,
    /// An ordinary user's further trees to make copy-on-write.
    pub writable: Vec<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayerRules {
    pub backend: Option<Backend>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiffRules {
    /// Patterns, as in `.gitignore`, of changes to count rather than list.
    pub ignore: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryRules {
    /// What sandboxes leave to the host, unless they have a limit on memory of their own.
    pub keep_free: Option<Size>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotRules {
    /// Take one before each command in every new sandbox.
    pub auto: bool,
    /// How many of those are kept.
    pub keep: usize,
    /// For how many days `gc` leaves what a rollback or a fork made.
    pub keep_days: u64,
}

impl Default for SnapshotRules {
    fn default() -> Self {
        Self { auto: false, keep: 50, keep_days: 7 }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolRules {
    /// How many ready-made sandboxes are kept for each project they were asked for in.
    pub size: usize,
}

impl PoolRules {
    /// Each ready one is a process with mounts of its own; more than this is a slip of the finger.
    const MOST: usize = 100;

    fn check(&self) -> Result<(), String> {
        match self.size {
            0..=Self::MOST => Ok(()),
            size => Err(format!("pool.size is {size}, but no more than {} sandboxes can be kept ready for a project", Self::MOST)),
        }
    }
}

/// `.whatif.toml` in the project: it can be written by whatever runs in the project, so every key only takes away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectConfig {
    pub environment: ProjectEnvironment,
    pub files: ProjectFiles,
    pub network: ProjectNetwork,
    pub diff: DiffRules,
    pub apply: ProjectApply,
    pub policy: ProjectPolicy,
    pub limits: Limits,
}

/// Further checks; they run in a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectApply {
    pub checks: Vec<Check>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectPolicy {
    pub deny: Vec<String>,
    pub ask: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectEnvironment {
    pub drop: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectFiles {
    pub mask: Vec<String>,
}

impl ProjectConfig {
    /// What can be written but not meant.
    pub fn check(&self) -> Result<(), String> {
        self.limits.check()?;
        self.network.check()?;
        mask::check(&self.files.mask)?;
        check_patterns(&[
            ("files.mask", &self.files.mask),
            ("diff.ignore", &self.diff.ignore),
            ("policy.deny", &self.policy.deny),
            ("policy.ask", &self.policy.ask),
        ])
    }
}

/// An empty pattern would fit everything, and what is empty by mistake must not decide that much.
fn check_patterns(lists: &[(&str, &[String])]) -> Result<(), String> {
    match lists.iter().find(|(_, patterns)| patterns.iter().any(String::is_empty)) {
        Some((key, _)) => Err(format!("{key} has an empty pattern")),
        None => Ok(()),
    }
}

impl UserConfig {
    /// What can be written but not meant.
    pub fn check(&self) -> Result<(), String> {
        self.network.check()?;
        self.pool.check()?;
        mask::check(&self.files.mask)?;
        let auto_approved = self.policy.auto_approve.as_ref().map_or(&[][..], |rule| &rule.paths);
        check_patterns(&[
            ("files.mask", &self.files.mask),
            ("files.expose", &self.files.expose),
            ("diff.ignore", &self.diff.ignore),
            ("policy.deny", &self.policy.deny),
            ("policy.ask", &self.policy.ask),
            ("policy.auto_approve.paths", auto_approved),
        ])?;
        let all = self.profiles.values().chain([&self.limits]);
        all.clone().try_for_each(Limits::check)?;
        let mut named = self.limits.preset.iter().filter(|name| *name != Limits::OFF);
        let unknown = named.find(|name| !self.profiles.contains_key(*name) && Limits::preset(name).is_none());
        let groundless = self.profiles.values().filter_map(|p| p.preset.as_ref()).find(|name| Limits::preset(name).is_none());
        match unknown.or(groundless) {
            Some(name) => Err(format!("there are no limits called '{}'; known: small, medium, large", name.escape_debug())),
            None => Ok(()),
        }
    }

    /// Adds what the project asks for. A project that would loosen anything is refused, not ignored.
    pub fn tightened_by(mut self, project: &ProjectConfig) -> Result<Self, ProjectLoosens> {
        self.network.tighten(&project.network)?;
        let looser = [
            // Changes would be lost that the user did not want to lose.
            (project.limits.then == Some(Then::Remove), "limits.then = \"remove\""),
            (project.limits.are_off(), "limits.preset = \"none\""),
        ];
        if let Some((_, key)) = looser.into_iter().find(|(is_looser, _)| *is_looser) {
            return Err(ProjectLoosens { key: key.to_owned() });
        }
        self.environment.dropped_by_project.clone_from(&project.environment.drop);
        self.files.masked_by_project.clone_from(&project.files.mask);
        self.limits_of_project.clone_from(&project.limits);
        self.diff.ignore.extend(project.diff.ignore.iter().cloned());
        self.apply.checks.extend(project.apply.checks.iter().cloned());
        self.policy.deny.extend(project.policy.deny.iter().cloned());
        self.policy.ask.extend(project.policy.ask.iter().cloned());
        Ok(self)
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the project's .whatif.toml sets {key}, but a project may only tighten")]
pub struct ProjectLoosens {
    key: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NetChoice;

    #[test]
    fn a_project_adds_masks_and_drops_but_cannot_open_the_network() {
        let project = ProjectConfig {
            environment: ProjectEnvironment { drop: vec!["FOO".into()] },
            files: ProjectFiles { mask: vec!["~/notes".into()] },
            ..ProjectConfig::default()
        };
        let merged = UserConfig::default().tightened_by(&project).unwrap();
        assert_eq!(merged.environment.dropped_by_project, ["FOO"]);
        assert_eq!(merged.files.masked_by_project, ["~/notes"]);

        let loosening = ProjectConfig {
            network: ProjectNetwork { mode: Some(NetChoice::Host), ..ProjectNetwork::default() },
            ..ProjectConfig::default()
        };
        assert!(UserConfig::default().tightened_by(&loosening).is_err());
    }

    #[test]
    fn a_project_cannot_have_changes_removed_and_not_turn_limits_off() {
        let tightened = |limits: Limits| {
            let project = ProjectConfig { limits, ..ProjectConfig::default() };
            UserConfig::default().tightened_by(&project).map_err(|told| told.to_string())
        };
        for (limits, key) in [
            (Limits { then: Some(Then::Remove), ..Limits::none() }, "limits.then = \"remove\""),
            (Limits { preset: Some(Limits::OFF.to_owned()), ..Limits::none() }, "limits.preset = \"none\""),
        ] {
            assert_eq!(tightened(limits), Err(format!("the project's .whatif.toml sets {key}, but a project may only tighten")));
        }
        assert!(tightened(Limits { then: Some(Then::Stop), ..Limits::none() }).is_ok());
    }

    #[test]
    fn an_empty_pattern_is_a_mistake() {
        let files = FileRules { expose: vec![String::new()], ..FileRules::default() };
        let told = UserConfig { files, ..UserConfig::default() }.check();
        assert_eq!(told, Err("files.expose has an empty pattern".to_owned()));
        let policy = ProjectPolicy { deny: vec!["a".to_owned(), String::new()], ..ProjectPolicy::default() };
        let told = ProjectConfig { policy, ..ProjectConfig::default() }.check();
        assert_eq!(told, Err("policy.deny has an empty pattern".to_owned()));
    }

    #[test]
    fn a_pool_has_a_sensible_size() {
        let checked = |size| UserConfig { pool: PoolRules { size }, ..UserConfig::default() }.check();
        assert_eq!((checked(0), checked(100)), (Ok(()), Ok(())));
        assert!(checked(101).is_err_and(|told| told.starts_with("pool.size is 101, but no more than 100 ")));
    }
}
