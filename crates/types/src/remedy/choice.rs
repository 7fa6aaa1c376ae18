use serde::Serialize;

use super::Value;

/// What can be chosen in a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "choice", content = "value", rename_all = "snake_case")]
pub enum Choice {
    // Of an apply.
    /// What reality has at a path.
    Ours(Value),
    /// What the sandbox has at a path.
    Theirs(Value),
    /// A path is left for later.
    Skip(Value),
    /// Only these paths.
    Files(Value),
    /// All but these paths.
    Exclude(Value),
    NoChecks,
    /// Only tells what would be done.
    DryRun,
    /// Approved without being asked.
    Yes,
    /// Together with a commit.
    Commit,

    // Of a new sandbox.
    Cwd(Value),
    Backend(Value),
    Mask(Value),
    RequireLimits,
    Memory(Value),
    /// The limit on what its changes take.
    Disk(Value),
    /// The limit on how many they are.
    Inodes(Value),
    Env(Value),
    Net(Value),
    Reach(Value),
    Publish(Value),
    Secret(Value),
    /// The host that a secret may be sent to.
    SecretHost(Value),
    /// The header field that a secret is sent in.
    SecretField(Value),

    // Of what is done to a sandbox, or of what comes of it.
    /// What becomes of the commands that run in it.
    Live(Value),
    /// The offset that output is shown from.
    From(Value),
    /// Replaces a file that is there.
    Force,
    /// Replaces a template that is there.
    Replace,
    /// The file that is written.
    Output(Value),
    /// The name of the template that an archive becomes.
    TemplateName(Value),
    /// The project that an archive is imported for.
    Project(Value),

    // Of a race.
    Check(Value),
    /// The command that is tried in several ways.
    Command,
    Repeats(Value),
    Jobs(Value),
    Attempt(Value),
    Count(Value),
    Matrix(Value),
    Prompt(Value),
    Revert(Value),
    Metric(Value),
    Weight(Value),
    /// The files to take from this attempt.
    FilesOf(Value),
    /// The name of what a merge makes.
    As(Value),
}
