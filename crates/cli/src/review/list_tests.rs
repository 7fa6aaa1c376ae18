use std::path::Path;

use super::super::sample;
use super::*;

fn tree(words: &[&str]) -> Tree {
    let mut changes = sample::changes(words);
    for change in &mut changes {
        change.ignored = change.path.starts_with("/p/target");
    }
    Tree::new(&changes, &sample::facts(&changes, &[]), Path::new(sample::PROJECT))
}

fn labels(tree: &Tree, list: &List) -> Vec<String> {
    list.rows.iter().map(|n| tree.nodes[*n].label.clone()).collect()
}

#[test]
fn the_first_file_is_chosen_and_ignored_ones_are_folded() {
    let tree = tree(&["M d/a", "M d/b", "A target/x", "A target/y"]);
    let list = List::new(&tree);
    assert_eq!(labels(&tree, &list), ["changes", "d/", "a", "b", "ignored"]);
    assert_eq!(tree.nodes[list.selected().unwrap()].label, "a");
}

#[test]
fn the_cursor_stays_in_the_list() {
    let tree = tree(&["M a", "M b", "M c"]);
    let mut list = List::new(&tree);
    list.move_by(100);
    assert_eq!(list.cursor, 3);
    list.move_by(-100);
    assert_eq!(list.cursor, 0);
}

#[test]
fn the_view_follows_the_cursor() {
    let names: Vec<String> = (0..100).map(|n| format!("M {n:03}")).collect();
    let tree = tree(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut list = List::new(&tree);
    list.resize(10);
    list.go_to(50);
    assert!(list.top + MARGIN <= 50 && 50 + MARGIN < list.top + 10, "{}", list.top);
    list.go_to(usize::MAX);
    assert_eq!((list.cursor, list.top), (100, 91));
    list.scroll(-1000);
    assert_eq!((list.cursor, list.top), (9, 0));
}

#[test]
fn folding_keeps_what_is_chosen() {
    let tree = tree(&["M d/a", "M d/b", "M e"]);
    let mut list = List::new(&tree);
    list.go_to_parent(&tree);
    assert!(list.fold(&tree, None));
    assert_eq!(labels(&tree, &list), ["changes", "d/", "e"]);
    assert_eq!(tree.nodes[list.selected().unwrap()].label, "d/");
    assert!(!list.fold(&tree, Some(true)), "it is folded already");
    list.move_by(1);
    assert!(!list.fold(&tree, None), "a file cannot be folded");
}

#[test]
fn what_is_sought_is_unfolded() {
    let tree = tree(&["M a", "A target/x", "A target/y"]);
    let mut list = List::new(&tree);
    assert!(list.seek(&tree, true, |n| tree.nodes[n].label == "y"));
    assert_eq!(labels(&tree, &list), ["changes", "a", "ignored", "target/", "x", "y"]);
    assert!(list.seek(&tree, true, |n| tree.nodes[n].label == "a"), "it goes on at the start");
    assert!(!list.seek(&tree, true, |n| tree.nodes[n].label == "z"));
}

#[test]
fn folds_survive_a_new_tree() {
    let before = tree(&["M d/a", "M d/b", "M e"]);
    let mut list = List::new(&before);
    list.go_to_parent(&before);
    list.fold(&before, Some(true));
    let after = tree(&["M c", "M d/a", "M d/b", "M e"]);
    let mut new = List::new(&after);
    new.restore(&after, &list.place(&before));
    assert_eq!(labels(&after, &new), ["changes", "c", "d/", "e"]);
}
