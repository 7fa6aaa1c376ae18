//! Snapshots, templates and their layers.

use std::path::PathBuf;

use whatif_store::{Found, Origin, StoreError};
use whatif_types::sandbox::{Details, Position};
use whatif_types::{LayerFacts, Sandbox, Template};

use crate::Ground;
use crate::fixtures::{layer, needed_and_known, sandbox, snapshot};

pub fn a_snapshot_and_the_step_of_its_sandbox_are_one(ground: &Ground) {
    let store = ground.store();
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

pub fn labels_belong_to_sandboxes_and_go_with_them(ground: &Ground) {
    let store = ground.store();
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

pub fn a_line_of_descent_closes_where_a_snapshot_is_removed(ground: &Ground) {
    let store = ground.store();
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

pub fn nothing_starts_from_what_is_gone(ground: &Ground) {
    let store = ground.store();
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

pub fn needed_layers_are_those_that_any_record_names(ground: &Ground) {
    let store = ground.store();
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
    assert_eq!(needed_and_known(&*store, &[]), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]));
    store.delete_template("deps").unwrap();
    assert_eq!(store.list_templates().unwrap(), []);
    one.details.position.mounted = vec![];
    one.details.position.stack = vec![layer(5)];
    store.update(&mut one).unwrap();
    store.expect_layers(&[layer(6), layer(5)]).unwrap();
    // What a record named is known when the record is gone, until it is deleted itself.
    assert_eq!(needed_and_known(&*store, &[4]), (vec![3, 5], vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(needed_and_known(&*store, &[]), (vec![3, 5], vec![1, 2, 3, 5, 6]));
    let tiers: Vec<u8> = store.layer_facts(&[layer(4), layer(9)]).unwrap().iter().map(|f| f.tier).collect();
    assert_eq!(tiers, [0, 9]);
}
