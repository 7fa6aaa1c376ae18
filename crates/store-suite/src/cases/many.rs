//! Many at once, in threads and processes, and one that dies.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use whatif_store::{Deed, Happening, Store, StoreError};
use whatif_types::{Sandbox, SandboxId, Snapshot, SnapshotId};

use crate::Ground;
use crate::fixtures::{layer, sandbox, snapshot};

const ADDRESS: &str = "WHATIF_SUITE_ADDRESS";
const WORK: &str = "WHATIF_SUITE_WORK";
const THREADS: u8 = 8;
const ROUNDS: u8 = 6;

/// The shared one, whose counter all of them raise.
fn counter() -> SandboxId {
    SandboxId::from_random([0; 12])
}

pub fn eight_threads_of_two_processes_lose_nothing(ground: &Ground) {
    ground.store().insert(&Sandbox { id: counter(), ..sandbox(0, "counter") }, None).unwrap();
    let mut other = start(ground, "threads");
    threads(&*ground.store(), 0);
    assert!(other.wait().unwrap().success(), "the other process failed");

    let store = ground.store();
    let writers = 2 * usize::from(THREADS) * usize::from(ROUNDS);
    assert_eq!(store.list().unwrap().len(), 1 + writers);
    assert_eq!(store.get(&counter()).unwrap().unwrap().details.changed_files, writers as u64, "each step was counted once");
    let events = store.events_after(0, 10_000).unwrap();
    assert_eq!(events.iter().map(|e| e.number).collect::<Vec<_>>(), (1..=writers as u64).collect::<Vec<_>>());
    assert_eq!(store.verify_deeds().unwrap().unwrap().number, writers as u64);
    assert_eq!(store.acquire("turn", "last", "n", 1, 1).unwrap().fence, writers as u64 + 1, "a turn for each");
}

fn threads(store: &dyn Store, process: u8) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || (0..ROUNDS).for_each(|round| step(store, process, thread, round)));
        }
    });
}

fn step(store: &dyn Store, process: u8, thread: u8, round: u8) {
    let name = format!("s-{process}-{thread}-{round}");
    let id = SandboxId::from_random([1 + process, thread, round, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    store.insert(&Sandbox { id, ..sandbox(1, &name) }, None).unwrap();
    loop {
        let mut shared = store.get(&counter()).unwrap().unwrap();
        shared.details.changed_files += 1;
        match store.update(&mut shared) {
            Err(StoreError::Conflict { .. }) => {}
            other => break other.unwrap(),
        }
    }
    let lease = loop {
        match store.acquire("turn", &name, "n", 1, 100) {
            Err(StoreError::Held { .. }) => std::thread::sleep(Duration::from_millis(1)),
            other => break other.unwrap(),
        }
    };
    store.release(&lease).unwrap();
    let body = json!(name);
    store.append_event(&Happening { kind: "k", subject: &name, owner: None, body: &body }, 1).unwrap();
    store.append_deed(&Deed { principal: "p", action: "a", subject: &name, body: &body }, 1).unwrap();
}

pub fn a_killed_writer_leaves_what_was_or_what_is_to_be(ground: &Ground) {
    for round in 0..8_u64 {
        let mut child = start(ground, "snapshots");
        std::thread::sleep(Duration::from_millis(120 + 37 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = ground.store();
        for one in store.list().unwrap() {
            let snapshots = store.list_snapshots(&one.id).unwrap();
            assert_eq!(snapshots.len() as u64, one.version - 1, "the step and its snapshot are one");
            let stack = snapshots.last().map(|s| s.details.stack.clone()).unwrap_or_default();
            assert_eq!(one.details.position.stack, stack);
        }
        store.verify_deeds().unwrap();
        let events = store.events_after(0, 100_000).unwrap();
        assert!(events.iter().zip(1..).all(|(event, number)| event.number == number));
        // Nothing that it had is locked for ever.
        store.insert(&sandbox(31, "next"), None).unwrap();
        store.delete(&sandbox(31, "next").id).unwrap();
    }
    assert!(ground.store().list().unwrap().iter().any(|one| one.version > 1), "none of them came to write anything");
}

/// Takes snapshots without an end.
fn snapshots(store: &dyn Store) {
    let number = u8::try_from(store.list().unwrap().len() + 1).unwrap();
    let mut one = sandbox(number, &format!("writer-{number}"));
    store.insert(&one, None).unwrap();
    for taken in 0..u32::MAX {
        // A letter of an id holds five bits.
        let [a, b, c] = [taken, taken >> 5, taken >> 10].map(|bits| (bits & 31) as u8);
        let id = SnapshotId::from_random([number, a, b, c, 1, 1, 1, 1, 1, 1, 1, 1]);
        let made: Snapshot = Snapshot { id, created_at: u64::from(taken), ..snapshot(1, &one, &format!("l-{taken}"), &[a, b]) };
        one.details.position.stack = vec![layer(a), layer(b)];
        store.insert_snapshot(&made, &mut one).unwrap();
        let body = json!(taken);
        store.append_event(&Happening { kind: "k", subject: "s", owner: None, body: &body }, 1).unwrap();
        store.append_deed(&Deed { principal: "p", action: "a", subject: "s", body: &body }, 1).unwrap();
    }
}

fn start(ground: &Ground, work: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["as_another_process", "--exact", "--nocapture"]).env(ADDRESS, &ground.address).env(WORK, work);
    command.stdout(Stdio::null()).spawn().unwrap()
}

pub fn as_another_process(open: fn(&str) -> Box<dyn Store>, tamper: fn(&str, &str)) {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let ground = Ground { address, open, tamper };
    match std::env::var(WORK).unwrap().as_str() {
        "threads" => threads(&*ground.store(), 1),
        _ => snapshots(&*ground.store()),
    }
}
