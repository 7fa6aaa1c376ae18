//! Sandboxes.

use whatif_store::{Cursor, Found, Inserted, SandboxFilter, StoreError};
use whatif_types::{Sandbox, SandboxId, Status};

use crate::Ground;
use crate::fixtures::sandbox;

pub fn a_row_comes_back_as_it_was_written_also_to_another_connection(ground: &Ground) {
    let written = sandbox(1, "swift-otter");
    assert!(matches!(ground.store().insert(&written, None).unwrap(), Inserted::New));
    assert_eq!(ground.store().get(&written.id).unwrap().unwrap(), written);
}

pub fn names_are_unique_and_free_again_after_deletion(ground: &Ground) {
    let store = ground.store();
    let first = sandbox(1, "otter");
    store.insert(&first, None).unwrap();
    assert!(matches!(store.insert(&sandbox(2, "otter"), None), Err(StoreError::NameTaken { .. })));
    store.delete(&first.id).unwrap();
    store.delete(&first.id).unwrap();
    store.insert(&sandbox(2, "otter"), None).unwrap();
}

pub fn an_idempotency_key_gives_the_same_sandbox_twice(ground: &Ground) {
    let store = ground.store();
    let first = sandbox(1, "otter");
    store.insert(&first, Some("k")).unwrap();
    match store.insert(&sandbox(2, "heron"), Some("k")).unwrap() {
        Inserted::Existing(existing) => assert_eq!(existing.id, first.id),
        Inserted::New => panic!("a second sandbox was made for the same key"),
    }
    assert_eq!(store.list().unwrap().len(), 1);
}

pub fn a_writer_that_saw_an_older_version_is_refused(ground: &Ground) {
    let store = ground.store();
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

pub fn sandboxes_are_found_by_name_or_by_a_prefix_that_fits_one(ground: &Ground) {
    let store = ground.store();
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

pub fn the_newest_is_listed_first(ground: &Ground) {
    let store = ground.store();
    for (number, name) in [(2, "b"), (3, "c"), (1, "a")] {
        store.insert(&sandbox(number, name), None).unwrap();
    }
    let names: Vec<String> = store.list().unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["c", "b", "a"]);
}

pub fn pages_neither_repeat_nor_miss(ground: &Ground) {
    let store = ground.store();
    for number in 1..=23 {
        // Several are made in the same moment.
        let made = Sandbox { created_at: 1000 + u64::from(number) / 4, ..sandbox(number, &format!("s{number}")) };
        store.insert(&made, None).unwrap();
    }
    let all: Vec<String> = store.list().unwrap().into_iter().map(|s| s.name).collect();
    let mut seen = Vec::new();
    let mut after: Option<Cursor> = None;
    loop {
        let page = store.page(&SandboxFilter::default(), after.as_ref(), 5).unwrap();
        assert!(page.rows.len() == 5 || page.next.is_none());
        seen.extend(page.rows.into_iter().map(|s| s.name));
        // It survives being written down.
        after = page.next.map(|cursor| cursor.to_string().parse().unwrap());
        if after.is_none() {
            break;
        }
        // What comes first and what goes meanwhile is in nobody's way.
        let number = u8::try_from(seen.len()).unwrap();
        let id = SandboxId::from_random([number, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        store.insert(&Sandbox { id, created_at: 2000, ..sandbox(1, &format!("new{number}")) }, None).unwrap();
        if let Found::One(gone) = store.find(&seen[0]).unwrap() {
            store.delete(&gone.id).unwrap();
        }
    }
    assert_eq!(seen, all);
    assert!(matches!("nonsense".parse::<Cursor>(), Err(StoreError::NoSuchCursor { .. })));
}

pub fn a_filter_lets_through_what_fits(ground: &Ground) {
    let store = ground.store();
    for number in 1..=12_u8 {
        let mut made = sandbox(number, &format!("s{number}"));
        made.project = if number % 2 == 0 { "/even" } else { "/odd" }.into();
        made.owner = (number > 6).then(|| "ada".to_owned());
        made.node = Some(format!("n{}", number % 3));
        made.status = if number == 12 { Status::Error } else { Status::Active };
        made.details.labels.insert("third".to_owned(), (number % 3 == 0).to_string());
        store.insert(&made, None).unwrap();
    }
    let names = |filter: SandboxFilter| -> Vec<String> {
        let mut names = Vec::new();
        let mut after = None;
        loop {
            let page = store.page(&filter, after.as_ref(), 2).unwrap();
            names.extend(page.rows.into_iter().map(|s| s.name));
            after = page.next;
            if after.is_none() {
                return names;
            }
        }
    };
    let any = SandboxFilter::default();
    assert_eq!(names(SandboxFilter { project: Some("/even".into()), ..any.clone() }), ["s12", "s10", "s8", "s6", "s4", "s2"]);
    assert_eq!(names(SandboxFilter { owner: Some("ada".to_owned()), node: Some("n1".to_owned()), ..any.clone() }), ["s10", "s7"]);
    assert_eq!(names(SandboxFilter { statuses: vec![Status::Error, Status::Rejected], ..any.clone() }), ["s12"]);
    assert_eq!(
        names(SandboxFilter { label: Some(("third".to_owned(), "true".to_owned())), ..any.clone() }),
        ["s12", "s9", "s6", "s3"]
    );
    assert_eq!(names(SandboxFilter { provider: Some("other".to_owned()), ..any }), Vec::<String>::new());
}

pub fn states_change_only_as_the_table_says(ground: &Ground) {
    let store = ground.store();
    let mut one = sandbox(1, "one");
    store.insert(&one, None).unwrap();
    let active = store.transition(&one.id, Status::Creating, Status::Active, 2000).unwrap();
    assert_eq!((active.status, active.version, active.updated_at), (Status::Active, 2, 2000));
    let again = store.transition(&one.id, Status::Creating, Status::Active, 3000).unwrap();
    assert_eq!((again.version, again.updated_at), (2, 2000), "a repeated request is harmless");
    assert!(matches!(store.transition(&one.id, Status::Stopped, Status::Approved, 3000), Err(StoreError::Conflict { .. })));
    assert!(matches!(store.transition(&one.id, Status::Active, Status::Creating, 3000), Err(StoreError::Transition(_))));
    let nobody = SandboxId::from_random([9; 12]);
    assert!(matches!(store.transition(&nobody, Status::Active, Status::Stopped, 1), Err(StoreError::NoSuchSandbox { .. })));
    // Whoever writes the whole row cannot go around the table either.
    one = active;
    one.status = Status::Creating;
    assert!(matches!(store.update(&mut one), Err(StoreError::Transition(_))));
    assert_eq!(store.get(&one.id).unwrap().unwrap().status, Status::Active);
}
