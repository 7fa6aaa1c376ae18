//! What every store must do, whatever keeps the rows.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;

use whatif_store::sqlite::SqliteStore;
use whatif_store::{Found, Inserted, Origin, Store, StoreError};
use whatif_types::boot::Protection;
use whatif_types::experiment::{Attempt, AttemptPlan, AttemptState, ExperimentDetails, ExperimentPlan, Kind};
use whatif_types::sandbox::{Details, Position};
use whatif_types::text::Text;
use whatif_types::{
    Backend, Experiment, ExperimentId, Identity, LayerFacts, LayerId, Limits, MadeBy, NetMode, Sandbox, SandboxId, Snapshot,
    SnapshotDetails, SnapshotId, Status, Template,
};

/// A store in a directory of its own.
struct Scratch {
    directory: PathBuf,
}

impl Scratch {
    fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("whatif-store-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        Self { directory }
    }

    fn store(&self) -> SqliteStore {
        SqliteStore::at(self.directory.join("state.db"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn sandbox(number: u8, name: &str) -> Sandbox {
    Sandbox {
        id: SandboxId::from_random([number; 12]),
        name: name.to_owned(),
        status: Status::Creating,
        version: 1,
        created_at: 1000 + u64::from(number),
        updated_at: 1000,
        project: PathBuf::from("/p"),
        provider: "native".to_owned(),
        details: Details {
            cwd: PathBuf::from("/p"),
            labels: [("team".to_owned(), "a".to_owned())].into(),
            net: NetMode::None,
            network: Default::default(),
            backend: Backend::Overlay,
            backend_reason: None,
            identity: Identity::Own { uid: 1, gid: 1 },
            reserved_ids: None,
            trees: vec![PathBuf::from("/p")],
            copied_trees: Vec::new(),
            mounted_trees: Vec::new(),
            masked: Vec::new(),
            exposed: Vec::new(),
            veiled: Vec::new(),
            dropped_env: Vec::new(),
            carried_env: Vec::new(),
            set_env: Vec::new(),
            keeper_pid: None,
            keeper_version: 0,
            protection: Protection::default(),
            stop_reason: None,
            error: None,
            command: Vec::new(),
            exit_code: None,
            changed_files: 0,
            size_bytes: 0,
            based_at: None,
            position: Position::default(),
            limits: Limits::none(),
            enforced: Vec::new(),
            expiry: None,
            usage: None,
            auto_snapshot: false,
            transient: false,
            disposable: false,
        },
    }
}

#[test]
fn a_row_comes_back_as_it_was_written_also_to_another_connection() {
    let scratch = Scratch::new("round-trip");
    let written = sandbox(1, "swift-otter");
    assert!(matches!(scratch.store().insert(&written, None).unwrap(), Inserted::New));
    assert_eq!(scratch.store().get(&written.id).unwrap().unwrap(), written);
}

#[test]
fn names_are_unique_and_free_again_after_deletion() {
    let scratch = Scratch::new("names");
    let store = scratch.store();
    let first = sandbox(1, "otter");
    store.insert(&first, None).unwrap();
    assert!(matches!(store.insert(&sandbox(2, "otter"), None), Err(StoreError::NameTaken { .. })));
    store.delete(&first.id).unwrap();
    store.delete(&first.id).unwrap();
    store.insert(&sandbox(2, "otter"), None).unwrap();
}

#[test]
fn an_idempotency_key_gives_the_same_sandbox_twice() {
    let scratch = Scratch::new("keys");
    let store = scratch.store();
    let first = sandbox(1, "otter");
    store.insert(&first, Some("k")).unwrap();
    match store.insert(&sandbox(2, "heron"), Some("k")).unwrap() {
        Inserted::Existing(existing) => assert_eq!(existing.id, first.id),
        Inserted::New => panic!("a second sandbox was made for the same key"),
    }
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn a_writer_that_saw_an_older_version_is_refused() {
    let scratch = Scratch::new("versions");
    let store = scratch.store();
    let mut mine = sandbox(1, "otter");
    store.insert(&mine, None).unwrap();
    let mut yours = mine.clone();
    mine.status = Status::Active;
    store.update(&mut mine).unwrap();
    assert_eq!(mine.version, 2);
    yours.status = Status::Stopped;
    assert!(matches!(store.update(&mut yours), Err(StoreError::Conflict { .. })));
    assert_eq!(store.get(&mine.id).unwrap().unwrap().status, Status::Active);
}

#[test]
fn sandboxes_are_found_by_name_or_by_a_prefix_that_fits_one() {
    let scratch = Scratch::new("find");
    let store = scratch.store();
    for (number, name) in [(1, "one"), (2, "two")] {
        store.insert(&sandbox(number, name), None).unwrap();
    }
    let three = Sandbox { id: SandboxId::from_random([2, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]), ..sandbox(3, "three") };
    store.insert(&three, None).unwrap();
    assert!(matches!(store.find("two").unwrap(), Found::One(s) if s.name == "two"));
    assert!(matches!(store.find("111").unwrap(), Found::One(s) if s.name == "one"));
    assert!(matches!(store.find("2").unwrap(), Found::Several(names) if names.len() == 2));
    assert!(matches!(store.find("zzz").unwrap(), Found::None));
    assert!(matches!(store.find("%").unwrap(), Found::None), "a pattern is not a prefix");
}

#[test]
fn the_newest_is_listed_first() {
    let scratch = Scratch::new("order");
    let store = scratch.store();
    for (number, name) in [(2, "b"), (3, "c"), (1, "a")] {
        store.insert(&sandbox(number, name), None).unwrap();
    }
    let names: Vec<String> = store.list().unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["c", "b", "a"]);
}

#[test]
fn records_of_a_newer_format_are_refused_and_left_alone() {
    let scratch = Scratch::new("newer");
    scratch.store().insert(&sandbox(1, "otter"), None).unwrap();
    let path = scratch.directory.join("state.db");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(scratch.store().list(), Err(StoreError::TooNew { found: 99, .. })));
}

#[test]
fn two_writers_at_once_take_turns() {
    let scratch = Scratch::new("turns");
    scratch.store().list().unwrap();
    let threads: Vec<_> = (0..4_u8)
        .map(|thread| {
            let store = scratch.store();
            std::thread::spawn(move || {
                for i in 0..8 {
                    store.insert(&sandbox_of(thread, i), None).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(scratch.store().list().unwrap().len(), 32);
}

/// Nobody has made the records yet, and everybody is the first.
#[test]
fn many_who_are_the_first_take_turns() {
    for round in 0..20 {
        let scratch = Scratch::new(&format!("first-{round}"));
        let start = std::sync::Arc::new(std::sync::Barrier::new(4));
        let threads: Vec<_> = (0..4_u8)
            .map(|thread| {
                let (store, start) = (scratch.store(), start.clone());
                std::thread::spawn(move || {
                    start.wait();
                    store.insert(&sandbox_of(thread, 0), None).unwrap();
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(scratch.store().list().unwrap().len(), 4);
    }
}

fn sandbox_of(thread: u8, i: u8) -> Sandbox {
    let mut made = sandbox(i, &format!("t{thread}-{i}"));
    made.id = SandboxId::from_random([thread, i, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    made
}

fn experiment(number: u8, name: &str, attempts: usize) -> Experiment {
    let plan = |number: usize| AttemptPlan {
        name: number.to_string(),
        kind: Kind::Command,
        about: "true".to_owned(),
        arguments: vec![Text::Bytes(vec![b'a', 0xff])],
        input: None,
        parameters: [("V".to_owned(), "1".to_owned())].into(),
    };
    let plan = ExperimentPlan { attempts: (1..=attempts).map(plan).collect(), repeats: 1, ..ExperimentPlan::default() };
    Experiment {
        id: ExperimentId::from_random([number; 12]),
        name: name.to_owned(),
        version: 1,
        created_at: 1000 + u64::from(number),
        project: PathBuf::from("/p"),
        details: ExperimentDetails {
            plan,
            began_at: 5,
            ended_at: None,
            spent_ms: 0,
            cwd: PathBuf::from("/p"),
            sandbox: serde_json::json!({ "env": ["A=1"] }),
            set_env: Vec::new(),
            start: None,
            judged: Vec::new(),
            applied: Vec::new(),
        },
        records: vec![Attempt::waiting(); attempts],
    }
}

#[test]
fn an_experiment_comes_back_with_all_of_its_attempts() {
    let scratch = Scratch::new("experiments");
    let store = scratch.store();
    let (old, mut new) = (experiment(1, "otter", 2), experiment(2, "heron", 3));
    store.insert_experiment(&old).unwrap();
    store.insert_experiment(&new).unwrap();
    assert!(matches!(store.insert_experiment(&experiment(3, "otter", 1)), Err(StoreError::ExperimentTaken { .. })));
    let ended = Attempt { state: AttemptState::Ended, ..Attempt::waiting() };
    store.put_attempt(&new.id, 1, &ended).unwrap();
    new.details.spent_ms = 7;
    store.update_experiment(&mut new).unwrap();
    let names: Vec<String> = store.list_experiments().unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["heron", "otter"], "the newest first");
    let found = scratch.store().find_experiment("heron").unwrap().unwrap();
    assert_eq!((found.version, found.details.spent_ms, &found.details.plan), (2, 7, &new.details.plan));
    let states: Vec<AttemptState> = found.records.iter().map(|r| r.state).collect();
    assert_eq!(states, [AttemptState::Waiting, AttemptState::Ended, AttemptState::Waiting]);
    assert_eq!(store.find_experiment(old.id.as_str()).unwrap().unwrap().name, "otter", "an id is as good as a name");
    assert!(store.find_experiment("lark").unwrap().is_none());
    assert_eq!(store.latest_experiment(std::path::Path::new("/p")).unwrap().unwrap().name, "heron");
    assert!(store.latest_experiment(std::path::Path::new("/q")).unwrap().is_none());
}

#[test]
fn an_experiment_that_another_one_changed_is_not_overwritten() {
    let scratch = Scratch::new("experiment-versions");
    let store = scratch.store();
    let mut mine = experiment(1, "otter", 1);
    store.insert_experiment(&mine).unwrap();
    let mut yours = mine.clone();
    store.update_experiment(&mut mine).unwrap();
    assert!(matches!(store.update_experiment(&mut yours), Err(StoreError::ExperimentConflict { .. })));
    store.delete_experiment(&mine.id).unwrap();
    store.delete_experiment(&mine.id).unwrap();
    store.insert_experiment(&experiment(2, "otter", 1)).unwrap();
    assert_eq!(store.find_experiment("otter").unwrap().unwrap().records.len(), 1, "nothing of the other one is left");
}

#[test]
fn an_experiment_that_cannot_be_read_is_in_nobodys_way() {
    let scratch = Scratch::new("experiment-unreadable");
    let store = scratch.store();
    store.insert_experiment(&experiment(1, "otter", 1)).unwrap();
    store.insert_experiment(&experiment(2, "heron", 1)).unwrap();
    let direct = rusqlite::Connection::open(scratch.directory.join("state.db")).unwrap();
    direct
        .execute("UPDATE attempts SET details = '{\"state\": \"of the future\"}' WHERE experiment = ?1", ["111111111111"])
        .unwrap();
    let names: Vec<String> = store.list_experiments().unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["heron"]);
    assert!(matches!(store.find_experiment("otter"), Err(StoreError::Malformed(_))));
    store.delete_experiment_named("otter").unwrap();
    assert!(store.find_experiment("otter").unwrap().is_none());
    // What ends after its race was removed leaves nothing behind.
    store.put_attempt(&experiment(1, "otter", 1).id, 0, &Attempt::waiting()).unwrap();
    let rows: i64 = direct.query_row("SELECT count(*) FROM attempts", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
}

/// An attempt that was added, of which the row is not there yet.
#[test]
fn there_are_as_many_records_as_planned_attempts() {
    let scratch = Scratch::new("experiment-rows");
    let store = scratch.store();
    let mut made = experiment(1, "otter", 1);
    store.insert_experiment(&made).unwrap();
    made.details.plan.attempts.push(experiment(1, "otter", 2).details.plan.attempts[1].clone());
    store.update_experiment(&mut made).unwrap();
    assert_eq!(store.find_experiment("otter").unwrap().unwrap().records.len(), 2);
}

#[test]
fn records_of_the_first_format_are_upgraded() {
    let scratch = Scratch::new("oldest");
    let path = scratch.directory.join("state.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(
        "CREATE TABLE sandboxes (id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE, status TEXT NOT NULL, version INTEGER NOT NULL, \
         created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, project BLOB NOT NULL, provider TEXT NOT NULL, \
         idempotency_key TEXT UNIQUE, details TEXT NOT NULL) WITHOUT ROWID; PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(old);
    let store = scratch.store();
    store.insert(&sandbox(1, "otter"), None).unwrap();
    store.insert_experiment(&experiment(1, "heron", 1)).unwrap();
    assert_eq!((store.list().unwrap().len(), store.list_experiments().unwrap().len()), (1, 1));
    let now: i64 = rusqlite::Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
    assert_eq!(now, 4);
}

fn layer(number: u8) -> LayerId {
    LayerId::from_random([number; 12])
}

fn snapshot(number: u8, of: &Sandbox, label: &str, stack: &[u8]) -> Snapshot {
    Snapshot {
        id: SnapshotId::from_random([number; 12]),
        sandbox: of.id.clone(),
        label: label.to_owned(),
        created_at: 2000 + u64::from(number),
        details: SnapshotDetails {
            made_by: MadeBy::Request,
            message: Some("why".to_owned()),
            parent: None,
            stack: stack.iter().map(|n| layer(*n)).collect(),
            durable: false,
        },
    }
}

#[test]
fn a_snapshot_and_the_step_of_its_sandbox_are_one() {
    let scratch = Scratch::new("snapshot");
    let store = scratch.store();
    let mut one = sandbox(1, "one");
    store.insert(&one, None).unwrap();
    let first = snapshot(1, &one, "first", &[1]);
    one.details.position.stack = first.details.stack.clone();
    store.insert_snapshot(&first, &mut one).unwrap();
    assert_eq!(store.get(&one.id).unwrap().unwrap().details.position.stack, first.details.stack);
    assert_eq!(store.find_snapshot(&one.id, "first").unwrap(), Some(first.clone()));
    assert_eq!(store.get_snapshot(&first.id).unwrap(), Some(first));

    // A taken label takes back the step, too.
    let version = one.version;
    one.details.position.taken = 99;
    let again = store.insert_snapshot(&snapshot(2, &one, "first", &[1, 2]), &mut one);
    assert!(matches!(again, Err(StoreError::LabelTaken { .. })));
    assert_eq!((one.version, store.get(&one.id).unwrap().unwrap().details.position.taken), (version, 0));

    // And an outdated row takes back the snapshot.
    let mut outdated = Sandbox { version: 1, ..one.clone() };
    let late = store.insert_snapshot(&snapshot(3, &one, "late", &[1]), &mut outdated);
    assert!(matches!(late, Err(StoreError::Conflict { .. })));
    assert_eq!(store.find_snapshot(&one.id, "late").unwrap(), None);
}

#[test]
fn labels_belong_to_sandboxes_and_go_with_them() {
    let scratch = Scratch::new("labels");
    let store = scratch.store();
    let (mut one, mut two) = (sandbox(1, "one"), sandbox(2, "two"));
    for sandbox in [&one, &two] {
        store.insert(sandbox, None).unwrap();
    }
    store.insert_snapshot(&snapshot(1, &one, "same", &[1]), &mut one).unwrap();
    store.insert_snapshot(&snapshot(2, &two, "same", &[2]), &mut two).unwrap();
    store.insert_snapshot(&snapshot(3, &one, "later", &[1, 3]), &mut one).unwrap();
    assert_eq!(store.find_label("same").unwrap().len(), 2);
    let labels: Vec<String> = store.list_snapshots(&one.id).unwrap().into_iter().map(|s| s.label).collect();
    assert_eq!(labels, ["same", "later"]);
    store.delete(&one.id).unwrap();
    assert_eq!(store.list_snapshots(&one.id).unwrap(), []);
    assert_eq!(store.find_label("same").unwrap().len(), 1);
}

#[test]
fn a_line_of_descent_closes_where_a_snapshot_is_removed() {
    let scratch = Scratch::new("line");
    let store = scratch.store();
    let mut one = sandbox(1, "one");
    store.insert(&one, None).unwrap();
    let mut parent = None;
    for (number, label) in [(1, "a"), (2, "b"), (3, "c")] {
        let mut snapshot = snapshot(number, &one, label, &[number]);
        snapshot.details.parent = parent.replace(snapshot.id.clone());
        one.details.position.at = Some(snapshot.id.clone());
        store.insert_snapshot(&snapshot, &mut one).unwrap();
    }
    let id = |label: &str| store.find_snapshot(&one.id, label).unwrap().unwrap().id;
    let (a, b, c) = (id("a"), id("b"), id("c"));
    store.delete_snapshots(&[b]).unwrap();
    assert_eq!(store.get_snapshot(&c).unwrap().unwrap().details.parent, Some(a.clone()));
    store.delete_snapshots(&[c]).unwrap();
    assert_eq!(store.get(&one.id).unwrap().unwrap().details.position.at, Some(a.clone()));
    store.delete_snapshots(&[a]).unwrap();
    assert_eq!(store.get(&one.id).unwrap().unwrap().details.position.at, None);
}

#[test]
fn nothing_starts_from_what_is_gone() {
    let scratch = Scratch::new("origin");
    let store = scratch.store();
    let mut one = sandbox(1, "one");
    store.insert(&one, None).unwrap();
    let first = snapshot(1, &one, "first", &[1]);
    store.insert_snapshot(&first, &mut one).unwrap();
    store.insert_from(&sandbox(2, "two"), &Origin::Snapshot(&first.id)).unwrap();
    store.delete_snapshots(std::slice::from_ref(&first.id)).unwrap();
    let gone = store.insert_from(&sandbox(3, "three"), &Origin::Snapshot(&first.id));
    assert!(matches!(gone, Err(StoreError::OriginGone)));
    assert!(matches!(store.find("three").unwrap(), Found::None));
    assert!(matches!(store.insert_from(&sandbox(4, "one"), &Origin::Sandbox(&one.id)), Err(StoreError::NameTaken { .. })));
}

#[test]
fn needed_layers_are_those_that_any_record_names() {
    let scratch = Scratch::new("needed");
    let store = scratch.store();
    let mut one = sandbox(1, "one");
    one.details.position.stack = vec![layer(1)];
    one.details.position.mounted = vec![layer(2)];
    store.insert(&one, None).unwrap();
    store.insert_snapshot(&snapshot(1, &one, "first", &[3]), &mut one).unwrap();
    let template = Template {
        name: "deps".to_owned(),
        created_at: 1,
        project: PathBuf::from("/p"),
        provider: "native".to_owned(),
        message: None,
        lockfiles: Vec::new(),
        details: Details { position: Position { stack: vec![layer(4)], ..Position::default() }, ..one.details.clone() },
    };
    store.insert_template(&template, Some(&Origin::Sandbox(&one.id)), false).unwrap();
    assert!(matches!(store.insert_template(&template, None, false), Err(StoreError::TemplateTaken { .. })));
    store.insert_template(&template, None, true).unwrap();
    assert_eq!(store.get_template("deps").unwrap(), Some(template));
    for number in [4, 9] {
        store.note_layer(&layer(number), &LayerFacts { tier: number, files: Some(1), bytes: None }).unwrap();
    }
    // What was measured is not known for that.
    assert_eq!(needed_and_known(&store, &[]), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]));
    store.delete_template("deps").unwrap();
    assert_eq!(store.list_templates().unwrap(), []);
    one.details.position.mounted = vec![];
    one.details.position.stack = vec![layer(5)];
    store.update(&mut one).unwrap();
    store.expect_layers(&[layer(6), layer(5)]).unwrap();
    // What a record named is known when the record is gone, until it is deleted itself.
    assert_eq!(needed_and_known(&store, &[4]), (vec![3, 5], vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(needed_and_known(&store, &[]), (vec![3, 5], vec![1, 2, 3, 5, 6]));
    let tiers: Vec<u8> = store.layer_facts(&[layer(4), layer(9)]).unwrap().iter().map(|f| f.tier).collect();
    assert_eq!(tiers, [0, 9]);
}

/// The layers that records need and know, and then some that are deleted.
fn needed_and_known(store: &dyn Store, gone: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let numbers = |set: &std::collections::HashSet<LayerId>| (1..=9).filter(|n| set.contains(&layer(*n))).collect();
    let mut seen = (Vec::new(), Vec::new());
    store
        .with_layers(&mut |layers| {
            seen = (numbers(&layers.needed), numbers(&layers.known));
            gone.iter().map(|n| layer(*n)).collect()
        })
        .unwrap();
    seen
}

#[test]
fn layers_that_older_records_name_are_known() {
    let scratch = Scratch::new("older");
    let store = scratch.store();
    let mut one = sandbox(1, "otter");
    one.details.position.stack = vec![layer(1), layer(2)];
    one.details.position.mounted = vec![layer(3)];
    store.insert(&one, None).unwrap();
    store.insert_snapshot(&snapshot(1, &one, "here", &[4]), &mut one).unwrap();
    drop(store);
    let old = rusqlite::Connection::open(scratch.directory.join("state.db")).unwrap();
    old.execute_batch(
        "DROP TRIGGER know_layers_of_new_sandbox; DROP TRIGGER know_layers_of_sandbox; DROP TRIGGER know_layers_of_snapshot;
         DROP TRIGGER know_layers_of_template; DROP TABLE known_layers; PRAGMA user_version = 3;",
    )
    .unwrap();
    drop(old);
    assert_eq!(needed_and_known(&scratch.store(), &[]).1, [1, 2, 3, 4]);
}
