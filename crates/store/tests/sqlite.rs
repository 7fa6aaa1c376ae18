//! The suite over SQLite, and what is told of a file alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;

use whatif_store::sqlite::SqliteStore;
use whatif_store::{Found, Happening, Store, StoreError, Upkeep};
use whatif_store_suite::fixtures::{experiment, sandbox};
use whatif_types::experiment::Attempt;
use whatif_types::{Sandbox, SandboxId, Status};

whatif_store_suite::conformance!(Scratch::new, open, tamper);

fn open(address: &str) -> Box<dyn Store> {
    Box::new(SqliteStore::at(address.into()))
}

fn tamper(address: &str, sql: &str) {
    rusqlite::Connection::open(address).unwrap().execute(sql, []).unwrap();
}

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

    fn path(&self) -> PathBuf {
        self.directory.join("state.db")
    }

    fn address(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    fn store(&self) -> Box<dyn Store> {
        open(&self.address())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn records_of_a_newer_format_are_refused_and_left_alone() {
    let scratch = Scratch::new("newer");
    scratch.store().insert(&sandbox(1, "otter"), None).unwrap();
    let path = scratch.path();
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(scratch.store().list(), Err(StoreError::TooNew { found: 99, .. })));
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

#[test]
fn an_experiment_that_cannot_be_read_is_in_nobodys_way() {
    let scratch = Scratch::new("experiment-unreadable");
    let store = scratch.store();
    store.insert_experiment(&experiment(1, "otter", 1)).unwrap();
    store.insert_experiment(&experiment(2, "heron", 1)).unwrap();
    let direct = rusqlite::Connection::open(scratch.path()).unwrap();
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

/// What each earlier whatif wrote is read, and can be worked with.
#[test]
fn records_of_every_earlier_format_are_upgraded() {
    for (format, dump) in (1..).zip([
        include_str!("formats/1.sql"),
        include_str!("formats/2.sql"),
        include_str!("formats/3.sql"),
        include_str!("formats/4.sql"),
    ]) {
        let scratch = Scratch::new(&format!("format-{format}"));
        rusqlite::Connection::open(scratch.path()).unwrap().execute_batch(dump).unwrap();
        let store = scratch.store();
        let Found::One(mut otter) = store.find("otter").unwrap() else { panic!("format {format}: it is gone") };
        assert_eq!(
            (otter.status, otter.owner.as_ref(), otter.details.position.stack.len()),
            (Status::Stopped, None, 2),
            "format {format}"
        );
        let known = store.known_layers().unwrap();
        assert!(otter.details.position.stack.iter().all(|layer| known.contains(layer)), "format {format}");
        let snapshots: Vec<String> = store.list_snapshots(&otter.id).unwrap().into_iter().map(|s| s.label).collect();
        assert_eq!(snapshots, if format > 1 { vec!["first", "second"] } else { vec![] }, "format {format}");
        assert_eq!(store.get_template("deps").unwrap().is_some(), format > 1);
        let heron = store.find_experiment("heron").unwrap();
        assert_eq!(heron.map(|heron| heron.records.len()), (format > 2).then_some(2), "format {format}");

        store.update(&mut otter).unwrap();
        store.insert(&sandbox(1, "new"), Some("key")).unwrap();
        let body = serde_json::json!(format);
        store.append_event(&Happening { kind: "k", subject: "s", owner: None, body: &body }, 1).unwrap();
        let now: i64 =
            rusqlite::Connection::open(scratch.path()).unwrap().pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
        assert_eq!(now, 5);
    }
}

/// Each look is made by a process of its own, because a process never looks at what it has open.
#[test]
fn a_glance_tells_records_in_order_from_others() {
    let scratch = Scratch::new("glance");
    let look = |expected: bool, when: &str| {
        let told = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tells_whether_records_are_at_ease", "--ignored", "--nocapture"])
            .env("RECORDS", scratch.path())
            .output()
            .unwrap();
        assert!(told.status.success(), "{when}: {told:?}");
        assert_eq!(String::from_utf8_lossy(&told.stdout).contains("at ease: true"), expected, "{when}: {told:?}");
    };
    look(false, "there are none");
    let store = scratch.store();
    store.insert(&sandbox(1, "one"), None).unwrap();
    assert!(store.is_at_ease(), "they are open, and answered");
    look(true, "fresh");
    let writer = rusqlite::Connection::open(scratch.path()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    look(false, "somebody writes");
    writer.execute_batch("COMMIT").unwrap();
    look(true, "nobody writes any more");
    store.tidy().unwrap();
    look(true, "tidied");
    let whole = std::fs::read(scratch.path()).unwrap();
    std::fs::write(scratch.path(), &whole[..whole.len() - 100]).unwrap();
    look(false, "cut short");
    std::fs::write(scratch.path(), vec![7; whole.len()]).unwrap();
    look(false, "garbage");
    std::fs::remove_file(scratch.path()).unwrap();
    std::fs::create_dir(scratch.path()).unwrap();
    look(false, "a directory");
}

#[test]
#[ignore = "a part of the test before it"]
fn tells_whether_records_are_at_ease() {
    let path = std::env::var_os("RECORDS").expect("the test before it sets it");
    println!("at ease: {}", SqliteStore::at(path.into()).is_at_ease());
}

#[test]
fn whoever_writes_after_a_tidying_does_not_begin_a_log() {
    let scratch = Scratch::new("tidied");
    let store = scratch.store();
    for i in 0..32 {
        store.insert(&sandbox_of(1, i), None).unwrap();
    }
    assert!(store.wants_tidying());
    store.tidy().unwrap();
    assert!(!store.wants_tidying());
    // The one who writes the first page of a log waits until it is on the disk.
    let log = std::fs::metadata(scratch.directory.join("state.db-wal")).unwrap().len();
    assert!((1024..4096).contains(&log), "{log} bytes");
    assert_eq!(store.list().unwrap().len(), 32);
}

fn sandbox_of(thread: u8, i: u8) -> Sandbox {
    let mut made = sandbox(i, &format!("t{thread}-{i}"));
    made.id = SandboxId::from_random([thread, i, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    made
}
