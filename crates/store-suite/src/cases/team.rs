//! What keeps those apart who work at the same time, and what they can look up afterwards.

use std::path::Path;

use serde_json::json;
use whatif_store::{Claim, Deed, Happening, Key, Lease, SpoolPart, Spooled, StoreError};
use whatif_types::Status;

use crate::Ground;
use crate::fixtures::sandbox;

pub fn a_lease_is_held_by_one_and_numbers_grow(ground: &Ground) {
    let (mine, yours) = (ground.store(), ground.store());
    let first = mine.acquire("sandbox-1", "a", "node-a", 100, 10).unwrap();
    assert_eq!((first.fence, first.expires_at), (1, 110));
    assert_eq!(yours.lease_of("sandbox-1", 105).unwrap(), Some(first.clone()));
    assert!(matches!(yours.acquire("sandbox-1", "b", "node-b", 109, 10), Err(StoreError::Held { holder, .. }) if holder == "a"));
    let first = mine.renew(&first, 109, 10).unwrap();
    assert!(matches!(yours.acquire("sandbox-1", "b", "node-b", 115, 10), Err(StoreError::Held { .. })));
    // Its time is up.
    let second = yours.acquire("sandbox-1", "b", "node-b", 119, 10).unwrap();
    assert_eq!(second.fence, 2);
    assert!(matches!(mine.renew(&first, 119, 10), Err(StoreError::LeaseOver { .. })));
    mine.release(&first).unwrap();
    assert_eq!(yours.lease_of("sandbox-1", 120).unwrap(), Some(second.clone()), "who lost it cannot give it back");
    yours.release(&second).unwrap();
    assert_eq!(mine.lease_of("sandbox-1", 120).unwrap(), None);
    assert!(matches!(yours.renew(&second, 120, 10), Err(StoreError::LeaseOver { .. })));
    assert_eq!(mine.acquire("sandbox-1", "a", "node-a", 120, 10).unwrap().fence, 3);
    assert_eq!(mine.acquire("sandbox-1", "a", "node-a", 121, 10).unwrap().fence, 4, "whoever begins anew is another one");
    assert_eq!(mine.acquire("sandbox-2", "b", "node-a", 120, 10).unwrap().fence, 1);
}

pub fn whoever_lost_a_lease_writes_nothing(ground: &Ground) {
    let store = ground.store();
    let mut one = sandbox(1, "one");
    store.insert(&one, None).unwrap();
    let old = store.acquire("one", "a", "n", 100, 10).unwrap();
    one.status = Status::Active;
    store.update_under(&mut one, &old, 105).unwrap();
    assert_eq!(one.version, 2);
    let new = store.acquire("one", "b", "n", 110, 10).unwrap();
    one.status = Status::Stopped;
    assert!(matches!(store.update_under(&mut one, &old, 105), Err(StoreError::LeaseOver { .. })));
    assert!(matches!(store.update_under(&mut one, &new, 120), Err(StoreError::LeaseOver { .. })), "its time is up, too");
    let made_up = Lease { fence: 7, ..new.clone() };
    assert!(matches!(store.update_under(&mut one, &made_up, 112), Err(StoreError::LeaseOver { .. })));
    assert_eq!((one.version, store.get(&one.id).unwrap().unwrap().status), (2, Status::Active));
    store.update_under(&mut one, &new, 112).unwrap();
}

pub fn reserved_paths_keep_others_out_above_and_below(ground: &Ground) {
    let store = ground.store();
    let reserve = |holder: &str, paths: &[&str], now| {
        let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
        store.reserve(holder, &paths, now, now + 10)
    };
    reserve("a", &["/p/src", "/q"], 100).unwrap();
    for path in ["/p/src", "/p/src/deep/file", "/p", "/", "/q/x"] {
        assert!(
            matches!(reserve("b", &["/elsewhere", path], 105), Err(StoreError::Reserved { holder, .. }) if holder == "a"),
            "{path}"
        );
    }
    // A part of a name is no directory above, and what was refused left nothing.
    reserve("b", &["/p/src2", "/q2"], 105).unwrap();
    let held = |now| -> Vec<String> {
        store.reservations(now).unwrap().into_iter().map(|r| format!("{} {}", r.holder, r.path.display())).collect()
    };
    assert_eq!(held(106), ["a /p/src", "b /p/src2", "a /q", "b /q2"]);
    reserve("a", &["/p/src/deep"], 108).unwrap();
    reserve("b", &["/q"], 110).unwrap();
    store.give_back("b").unwrap();
    assert_eq!(held(110), ["a /p/src/deep"], "what is over is nobody's");
    store.give_back("a").unwrap();
    reserve("b", &["/"], 111).unwrap();
}

pub fn events_are_numbered_and_can_be_resumed(ground: &Ground) {
    let store = ground.store();
    assert_eq!(store.events_after(0, 10).unwrap(), []);
    for n in 1..=7_u64 {
        let body = json!({ "n": n, "text": "a\u{0}b\u{1F600}" });
        let happening = Happening { kind: "sandbox.created", subject: "s", owner: (n % 2 == 0).then_some("ada"), body: &body };
        assert_eq!(store.append_event(&happening, 100 + n).unwrap(), n);
    }
    let some = ground.store().events_after(2, 3).unwrap();
    assert_eq!(some.iter().map(|e| e.number).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!((some[1].at, some[1].owner.as_deref(), &some[1].body["n"]), (104, Some("ada"), &json!(4)));
    assert_eq!(some[0].body["text"], json!("a\u{0}b\u{1F600}"));
    store.drop_events_before(4).unwrap();
    store.drop_events_before(2).unwrap();
    assert!(matches!(store.events_after(2, 3), Err(StoreError::EventsGone { oldest: 4 })));
    assert_eq!(store.events_after(3, 1).unwrap()[0].number, 4);
    store.drop_events_before(1000).unwrap();
    let body = json!(null);
    assert_eq!(store.append_event(&Happening { kind: "k", subject: "s", owner: None, body: &body }, 1).unwrap(), 8);
    assert_eq!(store.events_after(7, 9).unwrap().len(), 1);
}

pub fn what_waits_in_a_spool_is_recorded_once(ground: &Ground) {
    let store = ground.store();
    let event = |n: u64| Spooled {
        at: n,
        kind: "k".to_owned(),
        subject: "s".to_owned(),
        owner: None,
        body: json!({ "n": n }),
        deed_of: (n != 2).then(|| "ada".to_owned()),
    };
    assert_eq!((store.spooled("a").unwrap(), store.last_event().unwrap()), (0, 0));
    assert!(store.append_spooled(&SpoolPart { spool: "a", from: 0, to: 70 }, &[event(1), event(2)]).unwrap());
    assert!(!ground.store().append_spooled(&SpoolPart { spool: "a", from: 0, to: 70 }, &[event(1), event(2)]).unwrap());
    assert!(!store.append_spooled(&SpoolPart { spool: "a", from: 35, to: 105 }, &[event(2), event(3)]).unwrap());
    assert!(store.append_spooled(&SpoolPart { spool: "b", from: 0, to: 5 }, &[]).unwrap(), "a part without events");
    assert!(store.append_spooled(&SpoolPart { spool: "a", from: 70, to: 105 }, &[event(3)]).unwrap());
    let told: Vec<_> = store.events_after(0, 10).unwrap().into_iter().map(|e| (e.number, e.at, e.body["n"].clone())).collect();
    assert_eq!(told, [(1, 1, json!(1)), (2, 2, json!(2)), (3, 3, json!(3))]);
    let deeds: Vec<_> = store.deeds_after(0, 10).unwrap().into_iter().map(|d| (d.number, d.principal, d.action, d.body)).collect();
    let deed = |number, body: &str| (number, "ada".to_owned(), "k".to_owned(), body.to_owned());
    assert_eq!(deeds, [deed(1, "{\"n\":1}"), deed(2, "{\"n\":3}")]);
    assert_eq!(store.verify_deeds().unwrap().unwrap().number, 2);
    assert_eq!((store.spooled("a").unwrap(), store.spooled("b").unwrap()), (105, 5));
    store.forget_spool("a").unwrap();
    assert_eq!((store.spooled("a").unwrap(), store.spooled("b").unwrap()), (0, 5));
    store.drop_events_before(100).unwrap();
    assert_eq!((store.first_event().unwrap(), store.last_event().unwrap()), (4, 3));
}

pub fn the_audit_log_tells_what_was_changed(ground: &Ground) {
    let store = ground.store();
    assert_eq!(store.verify_deeds().unwrap(), None);
    for n in 1..=5 {
        let body = json!({ "n": n });
        store.append_deed(&Deed { principal: "ada", action: "apply", subject: "s", body: &body }, 100 + n).unwrap();
    }
    let last = store.verify_deeds().unwrap().unwrap();
    assert_eq!((last.number, last.body.as_str()), (5, "{\"n\":5}"));
    assert_eq!(store.deeds_after(3, 9).unwrap().last(), Some(&last));
    for (sql, back, broken) in [
        ("UPDATE audit SET principal = 'eve' WHERE number = 2", "UPDATE audit SET principal = 'ada' WHERE number = 2", 2),
        ("UPDATE audit SET at = 1 WHERE number = 4", "UPDATE audit SET at = 104 WHERE number = 4", 4),
        ("UPDATE audit SET number = 9 WHERE number = 3", "UPDATE audit SET number = 3 WHERE number = 9", 3),
        ("UPDATE audit SET number = 0 WHERE number = 1", "UPDATE audit SET number = 1 WHERE number = 0", 1),
        ("DELETE FROM audit WHERE number = 5", "", 5),
    ] {
        (ground.tamper)(&ground.address, sql);
        assert!(matches!(store.verify_deeds(), Err(StoreError::AuditBroken { number }) if number == broken), "{sql}");
        if !back.is_empty() {
            (ground.tamper)(&ground.address, back);
            store.verify_deeds().unwrap();
        }
    }
    let body = json!(null);
    let after = store.append_deed(&Deed { principal: "ada", action: "apply", subject: "s", body: &body }, 1);
    assert!(matches!(after, Err(StoreError::AuditBroken { number: 5 })), "nothing is added to a broken chain");
}

pub fn what_is_asked_for_twice_is_done_once(ground: &Ground) {
    let store = ground.store();
    let key = Key { scope: "ada", key: "k", verb: "fork", request: "d1", until: 110 };
    assert_eq!(store.claim(&key, 100).unwrap(), Claim::Fresh);
    assert_eq!(ground.store().claim(&Key { until: 111, ..key }, 101).unwrap(), Claim::Running);
    assert!(matches!(store.claim(&Key { request: "d2", ..key }, 101), Err(StoreError::KeyReused { .. })));
    assert!(matches!(store.claim(&Key { verb: "run", ..key }, 101), Err(StoreError::KeyReused { .. })));
    assert_eq!(store.claim(&Key { scope: "bob", ..key }, 101).unwrap(), Claim::Fresh, "another one's key is another key");
    store.settle(&key, "sandbox-7", 200).unwrap();
    assert_eq!(store.claim(&Key { until: 130, ..key }, 120).unwrap(), Claim::Done("sandbox-7".to_owned()));
    assert_eq!(store.claim(&Key { until: 210, ..key }, 200).unwrap(), Claim::Fresh, "its time is up");
    // Given up, it can be tried again.
    store.give_up(&Key { until: 210, ..key }).unwrap();
    assert_eq!(store.claim(&Key { until: 220, ..key }, 201).unwrap(), Claim::Fresh);
    // Whoever was too slow and was taken over settles nothing.
    let late = Key { until: 220, ..key };
    assert_eq!(store.claim(&Key { until: 231, ..key }, 221).unwrap(), Claim::Fresh);
    assert!(matches!(store.settle(&late, "sandbox-8", 300), Err(StoreError::LeaseOver { .. })));
    store.give_up(&late).unwrap();
    store.settle(&Key { until: 231, ..key }, "sandbox-9", 300).unwrap();
    assert_eq!(store.claim(&key, 222).unwrap(), Claim::Done("sandbox-9".to_owned()));
    assert_eq!(store.forget_expired(250).unwrap(), 1, "bob's");
    assert_eq!(store.forget_expired(300).unwrap(), 1);
}
