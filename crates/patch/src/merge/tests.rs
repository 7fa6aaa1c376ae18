use proptest::prelude::*;

use super::*;

fn clean(base: &str, ours: &str, theirs: &str) -> String {
    match merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()) {
        Merge::Clean(text) => String::from_utf8(text).unwrap(),
        Merge::Conflicted(found) => panic!("{found:?}"),
    }
}

fn conflicted(base: &str, ours: &str, theirs: &str) -> Conflicted {
    match merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()) {
        Merge::Clean(text) => panic!("clean: {:?}", String::from_utf8(text)),
        Merge::Conflicted(found) => found,
    }
}

fn marked(base: &str, ours: &str, theirs: &str) -> String {
    String::from_utf8(conflicted(base, ours, theirs).marked("ours", "theirs")).unwrap()
}

#[test]
fn changes_apart_are_joined() {
    assert_eq!(clean("1\n2\n3\n", "one\n2\n3\n", "1\n2\nthree\n"), "one\n2\nthree\n");
    assert_eq!(clean("1\n2\n3\n", "0\n1\n2\n3\n", "1\n2\n"), "0\n1\n2\n");
    assert_eq!(clean("1\n2\n3", "one\n2\n3", "1\n2\n3\n"), "one\n2\n3\n");
    assert_eq!(clean("1\r\n2\r\n3\r\n", "x\r\n2\r\n3\r\n", "1\r\n2\r\ny"), "x\r\n2\r\ny");
}

#[test]
fn the_same_change_is_taken_once() {
    assert_eq!(clean("1\n2\n3\n", "1\nx\n3\n0\n", "1\nx\n3\n"), "1\nx\n3\n0\n");
    assert_eq!(clean("", "new\n", "new\n"), "new\n");
    assert_eq!(clean("1\n2\n3\n4\n", "1\n4\n", "0\n1\n4\n"), "0\n1\n4\n");
}

#[test]
fn touching_changes_conflict() {
    assert_eq!(marked("1\n2\n3\n4\n", "1\nx\n3\n4\n", "1\n2\ny\n4\n"), "1\n<<<<<<< ours\nx\n3\n=======\n2\ny\n>>>>>>> theirs\n4\n");
    conflicted("1\n2\n", "1\nx\n2\n", "1\ny\n2\n");
    conflicted("1\n2\n3\n", "1\nx\n2\n3\n", "1\n3\n");
}

#[test]
fn a_region_has_all_three_versions() {
    let found = conflicted("1\n2\n3\n4\n", "0\n1\n2\nx\n4\n", "1\n2\ny\nz\n4\n");
    let region = Region { base: b"3\n".into(), ours: b"x\n".into(), theirs: b"y\nz\n".into(), ours_start: 4 };
    assert_eq!(found.regions, [region]);
    assert_eq!(String::from_utf8(found.marked("a", "")).unwrap(), "0\n1\n2\n<<<<<<< a\nx\n=======\ny\nz\n>>>>>>>\n4\n");
}

#[test]
fn markers_stand_on_lines_of_their_own() {
    assert_eq!(marked("1", "2", "3"), "<<<<<<< ours\n2\n=======\n3\n>>>>>>> theirs\n");
    assert_eq!(marked("1", "1\n", ""), "<<<<<<< ours\n1\n=======\n>>>>>>> theirs\n");
    assert_eq!(marked("0\r\n1", "0\r\n2", "0\r\n3"), "0\r\n<<<<<<< ours\r\n2\r\n=======\r\n3\r\n>>>>>>> theirs\r\n");
}

#[test]
fn what_both_sides_start_and_end_with_is_outside_the_markers() {
    assert_eq!(marked("0\n", "a\nb\nc", "a\nx\nc"), "a\n<<<<<<< ours\nb\n=======\nx\n>>>>>>> theirs\nc");
}

#[test]
fn nothing_in_common_at_all() {
    assert_eq!(marked("", "a\n", "b\n"), "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n");
    conflicted("a\n", "", "b\n");
}

fn text() -> impl Strategy<Value = String> {
    "(a\n|b\n|c\n|d\r\n|\n){0,12}(end)?"
}

proptest! {
    #[test]
    fn one_changed_side_wins(base in text(), changed in text()) {
        let (base, changed) = (base.as_bytes(), changed.as_bytes());
        let wanted = Merge::Clean(changed.to_vec());
        prop_assert_eq!(&merge(base, base, changed), &wanted);
        prop_assert_eq!(&merge(base, changed, base), &wanted);
        prop_assert_eq!(&merge(base, changed, changed), &wanted);
    }

    #[test]
    fn swapping_the_sides_swaps_the_answer(base in text(), ours in text(), theirs in text()) {
        let (base, ours, theirs) = (base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        match (merge(base, ours, theirs), merge(base, theirs, ours)) {
            (Merge::Clean(one), Merge::Clean(other)) => prop_assert_eq!(one, other),
            (Merge::Conflicted(one), Merge::Conflicted(other)) => {
                prop_assert_eq!(&one.settled, &other.settled);
                for (one, other) in one.regions.iter().zip(&other.regions) {
                    prop_assert_eq!(&one.base, &other.base);
                    prop_assert_eq!(&one.ours, &other.theirs);
                    prop_assert_eq!(&one.theirs, &other.ours);
                }
            }
            (one, other) => prop_assert!(false, "{:?} and {:?}", one, other),
        }
    }

    #[test]
    fn regions_are_at_the_line_they_name(base in text(), ours in text(), theirs in text()) {
        if let Merge::Conflicted(found) = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()) {
            let lines = Text::new(ours.as_bytes());
            for region in &found.regions {
                let start = region.ours_start - 1;
                let end = start + crate::lines(&region.ours).len();
                prop_assert_eq!(lines.cut(start..end), &region.ours);
                prop_assert_ne!(&region.ours, &region.theirs);
            }
        }
    }
}
