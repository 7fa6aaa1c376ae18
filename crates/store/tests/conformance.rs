//! What every store must do, whatever keeps the rows.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;

use whatif_store::sqlite::SqliteStore;
use whatif_store::{Found, Inserted, Store, StoreError};
use whatif_types::boot::Protection;
use whatif_types::sandbox::Details;
use whatif_types::{Backend, Identity, NetMode, Sandbox, SandboxId, Status};

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
            backend: Backend::Overlay,
            backend_reason: None,
            identity: Identity::Own { uid: 1, gid: 1 },
            trees: vec![PathBuf::from("/p")],
            copied_trees: Vec::new(),
            masked: Vec::new(),
            exposed: Vec::new(),
            dropped_env: Vec::new(),
            carried_env: Vec::new(),
            set_env: Vec::new(),
            keeper_pid: None,
            protection: Protection::default(),
            stop_reason: None,
            error: None,
            command: Vec::new(),
            exit_code: None,
            changed_files: 0,
            size_bytes: 0,
            based_at: None,
            transient: false,
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

fn sandbox_of(thread: u8, i: u8) -> Sandbox {
    let mut made = sandbox(i, &format!("t{thread}-{i}"));
    made.id = SandboxId::from_random([thread, i, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    made
}
