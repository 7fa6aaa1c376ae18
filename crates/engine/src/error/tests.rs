//! What programs are told of each error, and people: none of it changes without being noticed.

use std::path::PathBuf;

use whatif_keeper::protocol::{Failed, Reason};
use whatif_types::limits::{Means, Resource};
use whatif_types::{Backend, Chosen, CommandId, Explained};

use super::*;
use crate::changes::ChangedPath;
use crate::lifecycle::Recut;
use crate::merge::{Conflict, Side};
use crate::missing::{Missing, Part};
use crate::owner::Owner;

/// A line of JSON for each; `WHATIF_TOLD=write` brings it up to date. The exit code of a command follows from them, see `exit.rs` of the CLI.
const TOLD: &str = include_str!("tests/told.jsonl");

#[test]
fn every_error_is_told_as_it_was() {
    let mut told = String::new();
    for error in all() {
        told += &serde_json::to_string(&(Explained::of(&error), error.wording())).unwrap();
        told.push('\n');
    }
    if std::env::var("WHATIF_TOLD").is_ok_and(|what| what == "write") {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/error/tests/told.jsonl"), &told).unwrap();
    }
    for (now, then) in told.lines().zip(TOLD.lines()) {
        assert_eq!(now, then);
    }
    assert_eq!(told, TOLD);
}

fn told(error: impl Into<EngineError>) -> EngineError {
    error.into()
}

/// Not among them: `ScopeNeeded`, which no person ever reads, and of which only the machine can make one.
fn all() -> Vec<EngineError> {
    [of_what_is_there(), of_running(), of_setting_up(), of_archives(), of_changes(), of_the_system(), of_misuse()]
        .into_iter()
        .flatten()
        .collect()
}

fn fox() -> String {
    "fox".to_owned()
}

fn p() -> PathBuf {
    "/p".into()
}

fn denied() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

fn full() -> io::Error {
    io::Error::from_raw_os_error(28)
}

fn busy() -> Box<EngineError> {
    Box::new(told(GroundError::Busy { name: fox() }))
}

fn path_error(action: &'static str, source: io::Error) -> PathError {
    PathError { action, path: p(), source }
}

fn of_what_is_there() -> Vec<EngineError> {
    let missing = || vec![Missing { what: Part::Head, path: p() }];
    let owners = [Owner::Sandbox(fox()), Owner::Snapshot("fox@1".to_owned()), Owner::Template("node".to_owned())];
    let recuts = [Recut::Gone { tree: p() }, Recut::Split { tree: p() }, Recut::Covered { place: p() }, Recut::Going { tree: p() }];
    let mut all = vec![
        told(GroundError::NoSuchSandbox { name: fox() }),
        told(GroundError::NoSuchSandbox { name: "fox@1".to_owned() }),
        told(GroundError::Removed { name: fox(), has_run: false }),
        told(GroundError::Removed { name: fox(), has_run: true }),
        told(GroundError::NoSandboxHere { project: p() }),
        told(GroundError::StrayHead { name: fox(), path: p() }),
        told(GroundError::Unmounted { name: fox(), tree: p() }),
        told(GroundError::MountedOver { name: fox(), place: p() }),
        told(GroundError::Behind { name: fox() }),
        told(GroundError::Ambiguous { prefix: fox(), names: vec!["a".to_owned(), "b".to_owned()] }),
        told(GroundError::NoSuchSnapshot { label: "one".to_owned(), sandbox: None }),
        told(GroundError::NoSuchSnapshot { label: "one".to_owned(), sandbox: Some(fox()) }),
        told(GroundError::AmbiguousSnapshot { label: "one".to_owned(), names: vec!["a@one".to_owned(), "b@one".to_owned()] }),
        told(GroundError::NoSuchPosition { name: fox() }),
        told(GroundError::NoSuchTemplate { name: fox() }),
        told(GroundError::ProjectMissing { name: fox(), project: p() }),
        told(GroundError::NoRoom { why: "no room".to_owned() }),
    ];
    for owner in owners {
        all.push(told(GroundError::Incomplete { owner: owner.clone(), missing: missing(), intact: vec!["fox@1".to_owned()] }));
        all.push(told(LifecycleError::MountsChanged { owner, how: recuts[0].clone() }));
    }
    all.extend(recuts.map(|how| told(LifecycleError::MountsChanged { owner: Owner::Sandbox(fox()), how })));
    all
}

fn of_running() -> Vec<EngineError> {
    let failed = |reason, errno| ClientError::Failed(Failed { reason, errno, message: "it failed".to_owned() });
    vec![
        told(LifecycleError::InUse { name: fox(), because: "make runs".to_owned() }),
        told(GroundError::Stopped { name: fox() }),
        told(GroundError::EndedMeanwhile { name: fox(), has_run: false }),
        told(GroundError::EndedMeanwhile { name: fox(), has_run: true }),
        told(LifecycleError::Expired { name: fox() }),
        told(GroundError::Busy { name: fox() }),
        told(LifecycleError::StillRunning { name: fox() }),
        told(GroundError::OtherKeeper { name: fox() }),
        told(LifecycleError::Unreachable { directory: p() }),
        told(NetworkError::Supervisor { name: fox(), message: "it is gone".to_owned() }),
        told(LifecycleError::NoSuchProcess { name: fox(), chosen: Chosen::Pid(7) }),
        told(LifecycleError::EndUnknown { name: fox(), id: CommandId::FIRST }),
        told(LifecycleError::RanBut { name: fox(), code: 3, source: busy() }),
        told(LifecycleError::WorkGone { name: fox(), code: 3, source: busy() }),
        told(LifecycleError::WouldReplace { paths: vec![p()] }),
        told(LifecycleError::WouldReplace { paths: vec![p(); 7] }),
        told(failed(Reason::Boot, 1)),
        told(failed(Reason::Boot, 22)),
        told(failed(Reason::Boot, 28)),
        told(failed(Reason::NotFound, 2)),
        told(failed(Reason::CannotExecute, 8)),
        told(failed(Reason::CannotExecute, 11)),
        told(failed(Reason::CannotExecute, 28)),
        told(failed(Reason::NoSuchProcess, 3)),
        told(failed(Reason::File, 13)),
        told(failed(Reason::Directory, 2)),
        told(failed(Reason::Ending, 0)),
        told(failed(Reason::Supervised, 0)),
        told(ClientError::NotRunning),
        told(ClientError::NoAnswer),
        told(ClientError::OutOfTurn),
        told(ClientError::Socket(full())),
    ]
}

fn of_setting_up() -> Vec<EngineError> {
    let unavailable = |why: &str, fix: Option<&str>| {
        EngineError::from(GroundError::LimitsUnavailable {
            resource: Resource::Memory,
            by: Means::Watcher,
            why: why.to_owned(),
            fix: fix.map(str::to_owned),
        })
    };
    vec![
        told(LifecycleError::Restack { message: "it failed".to_owned(), errno: None }),
        told(LifecycleError::Restack { message: "it failed".to_owned(), errno: Some(28) }),
        told(LifecycleError::Helper { source: denied() }),
        told(LifecycleError::Helper { source: io::Error::from_raw_os_error(11) }),
        told(unavailable("", None)),
        told(unavailable("no groups", Some("delegate some"))),
        told(LimitError::Exists { path: p() }),
        told(LifecycleError::BadDirectory { path: p() }),
        told(LifecycleError::PrivateProject { path: p() }),
        told(LifecycleError::CoarseTimes { path: p() }),
        told(GroundError::NoCurrentDirectory { source: io::ErrorKind::NotFound.into() }),
        told(ConfigError { path: p(), message: "it is wrong".to_owned() }),
        told(NetworkError::NoRules { message: "no nf_tables".to_owned() }),
        told(LifecycleError::NoBackend { reasons: vec!["a".to_owned(), "b".to_owned()] }),
        told(LifecycleError::Backend { backend: Backend::Fuse, message: "it failed".to_owned() }),
        told(LifecycleError::Backend { backend: Backend::Overlay, message: "it failed".to_owned() }),
        told(LifecycleError::Uncopied(path_error("read", denied()))),
        told(LaunchError { step: "fork", source: io::Error::from_raw_os_error(11), obstacle: None }),
        told(LaunchError { step: "fork", source: denied(), obstacle: None }),
        told(whatif_provider::by_name("x").map(drop).unwrap_err()),
        told(whatif_types::name::validate("a b").unwrap_err()),
    ]
}

fn of_archives() -> Vec<EngineError> {
    vec![
        told(HistoryError::BadArchive { why: "it is odd".to_owned() }),
        told(HistoryError::OtherProject { theirs: p(), yours: "/q".into(), is_here: true }),
        told(HistoryError::OtherProject { theirs: p(), yours: "/q".into(), is_here: false }),
        told(HistoryError::OtherBackend { theirs: Backend::Copy, yours: Backend::Overlay }),
        told(ArchiveError::Truncated),
    ]
}

fn of_changes() -> Vec<EngineError> {
    let git = |remedy| EngineError::from(GitError::Failed { action: "commit", message: "it failed".to_owned(), remedy });
    let changed = |earlier| ChangedPath { path: p(), why: "was deleted".to_owned(), earlier };
    let conflicts = |whys: &[&'static str]| {
        let one = |why: &&'static str| Conflict {
            path: p(),
            why,
            reality: Side::Changed,
            sandbox: Side::Changed,
            regions: Vec::new(),
            renamed: None,
        };
        ChangesError::Conflicts { name: fox(), conflicts: whys.iter().map(one).collect(), is_stopped: false }
    };
    vec![
        told(ChangesError::NotApproved { undo: None }),
        told(ChangesError::NotApproved { undo: Some("1a2b".to_owned()) }),
        told(ChangesError::Moved { name: fox(), seen: "1".to_owned(), now: "2".to_owned() }),
        told(conflicts(&["both changed it"])),
        told(conflicts(&["both changed it", crate::merge::MARKERS, crate::merge::NOT_SEEN])),
        told(ChangesError::NoSuchApply { id: "1a2b".to_owned() }),
        told(ChangesError::AmbiguousApply { prefix: "1".to_owned(), ids: vec!["1a".to_owned(), "1b".to_owned()] }),
        told(ChangesError::NothingToUndo { beneath: Vec::new() }),
        told(ChangesError::NothingToUndo { beneath: vec![p(); 7] }),
        told(ChangesError::Undone { id: "1a".to_owned(), by: "2b".to_owned() }),
        told(ChangesError::ChangedSince { id: "1a".to_owned(), changed: vec![changed(None), changed(Some("/old".into()))] }),
        told(GitError::AtWork { lock: "/p/.git/index.lock".into() }),
        told(ChangesError::DamagedReview { name: fox(), path: p() }),
        told(ChangesError::Unfinished { message: "it is damaged".into() }),
        told(ChangesError::Renamed { name: fox(), path: p(), source: denied() }),
        told(ApplyError::Busy { root: p() }),
        told(ApplyError::Cancelled),
        told(ChangesError::AppliedBut { id: "1a".to_owned(), is_undo: false, source: busy() }),
        told(ChangesError::AppliedBut { id: "1a".to_owned(), is_undo: true, source: busy() }),
        told(ChangesError::Cancelled { signal: 2 }),
        told(git(Remedy::default())),
        told(git("do this".into())),
        told(ChangesError::CheckFailed { name: "test".to_owned(), why: "exit code 1".to_owned() }),
        told(whatif_diff::pattern::check("", whatif_diff::pattern::Use::Choose).unwrap_err()),
    ]
}

fn of_the_system() -> Vec<EngineError> {
    let unreadable = |errno| Unreadable::new(&p(), rustix::io::Errno::from_raw_os_error(errno));
    vec![
        told(unreadable(13)),
        told(unreadable(5)),
        told(EngineError::io("read", p(), denied())),
        told(EngineError::io("run", p(), io::Error::from_raw_os_error(11))),
        told(EngineError::io("read", p(), full())),
        told(EngineError::io("read", p(), io::ErrorKind::NotFound.into())),
        told(EngineError::io("read", p(), io::Error::from_raw_os_error(5))),
        told(path_error("write", denied())),
        told(path_error("use", denied())),
        told(path_error("write", full())),
        told(StoreError::Full),
        told(StoreError::Conflict { name: fox() }),
    ]
}

fn of_misuse() -> Vec<EngineError> {
    vec![
        told(GroundError::Nested { outer: fox() }),
        told(GroundError::OtherRights { name: fox(), with: true }),
        told(LifecycleError::VersionChanged { name: fox(), seen: 3, now: 4 }),
        told(LifecycleError::TemplateElsewhere { template: "node".to_owned(), project: p() }),
        told(LifecycleError::MaskOfEverything),
        told(GroundError::Limit { why: "too little".to_owned(), examples: "30s, 5m" }),
        told(GroundError::NoSuchLimits { name: "x".to_owned(), known: vec!["small".to_owned()] }),
        told(ChangesError::ComparesReality),
        told(GroundError::NotItsOwn { label: "one".to_owned(), sandbox: fox() }),
        told(LifecycleError::NoLog { sandbox: fox(), chosen: None }),
        told(LifecycleError::NothingToAttachTo { sandbox: fox(), chosen: Some(Chosen::Pid(7)) }),
        told(LifecycleError::BeyondOutput { id: CommandId::FIRST, end: 3, from: 4 }),
        told(GroundError::SquashOverFuse),
        told(ChangesError::NothingFits { pattern: "x".to_owned(), sandbox: None }),
        told(ChangesError::NoSuchPackage { name: "x".to_owned(), known: vec!["y".to_owned()] }),
        told(ChangesError::NoHunks { path: "a".to_owned() }),
        told(ChangesError::NoSuchHunk { path: "a".to_owned(), count: 1, number: 2, sandbox: Some(fox()) }),
        told(ChangesError::NothingToSkip { id: "1a".to_owned(), pattern: "x".to_owned() }),
        told(ChangesError::SkipsEverything { id: "1a".to_owned() }),
        told(NetworkMisuse::ClosedByProject),
        told(NetworkMisuse::PortsOfHost),
        told(NetworkMisuse::SecretWithoutHost),
        told(RaceError::NoRaceHere),
        told(RaceError::UnderWay { name: fox() }),
        told(RaceError::Clash { one: "a".to_owned(), other: "b".to_owned(), clashes: Vec::new() }),
    ]
}
