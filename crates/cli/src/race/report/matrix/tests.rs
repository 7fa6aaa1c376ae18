use super::*;
use crate::race::sample::{self, PLAIN};

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.render(PLAIN)).collect::<Vec<_>>().join("\n")
}

/// Each attempt's files, and what the matrix makes of them.
fn files(attempts: &[(&str, &[sample::File<'_>])], room: usize) -> String {
    let names: Vec<&str> = attempts.iter().map(|(name, _)| *name).collect();
    let mut experiment = sample::experiment("fix-add", &names);
    for (recorded, (_, list)) in experiment.records.iter_mut().zip(attempts) {
        recorded.outcome.as_mut().unwrap().changes = sample::changes(list);
    }
    let ranking = sample::ranking(&experiment);
    text(&table(sample::shown(&experiment, &ranking), Extent::Full, room))
}

#[test]
fn files_by_attempt() {
    let same = ("Cargo.lock", '~', 3, 1, "lock");
    let (one, other) = (("src/add.rs", '~', 1, 1, "x"), ("src/add.rs", '~', 40, 2, "y"));
    let (new, gone) = (("tests/new.rs", '+', 12, 0, "n"), ("src/a/very/deep/directory/with/a/long/name/old.rs", '-', 0, 9, ""));
    let (image, moved) = (("logo.png", '~', 0, 0, "p"), ("docs/b.md", '>', 0, 0, "m"));
    let attempts: [(&str, &[_]); 3] =
        [("b", &[same, one, new]), ("c", &[same, other, gone, image]), ("d", &[same, one, new, moved])];
    assert_eq!(
        files(&attempts, 80),
        "\
FILE                                          b        c        d
docs/b.md                                     ·        ·        moved
logo.png                                      ·        changed  ·
…very/deep/directory/with/a/long/name/old.rs  ·        gone −9  ·
src/add.rs                                    +1 −1    +40 −2   = b
tests/new.rs                                  new +12  ·        = b
the same in all: Cargo.lock (+3 −1)"
    );
    assert_eq!(
        files(&attempts, 44),
        "\
FILE                      b   c   d
docs/b.md                 ·   ·   >A
logo.png                  ·   ~A  ·
…with/a/long/name/old.rs  ·   -A  ·
src/add.rs                ~A  ~B  ~A
tests/new.rs              +A  ·   +A
  the same letter: the same content
the same in all: Cargo.lock (+3 −1)"
    );
    assert_eq!(
        files(&attempts[..1], 80),
        "\
FILE          b
Cargo.lock    +3 −1
src/add.rs    +1 −1
tests/new.rs  new +12"
    );
    assert_eq!(files(&[("a", &[]), ("b", &[])], 80), "");
}

#[test]
fn more_files_and_attempts_than_there_is_room_for() {
    let names: Vec<String> = (1..=30).map(|n| format!("way-{n}")).collect();
    let paths: Vec<String> = (10..40).map(|n| format!("src/file-{n}.rs")).collect();
    let list: Vec<_> = paths.iter().map(|path| (path.as_str(), '~', 1, 1, "same")).collect();
    let attempts: Vec<(&str, &[_])> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), &list[..if at == 0 { 29 } else { 1 }])).collect();
    let shown = files(&attempts, 80);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[..2].join("\n"),
        "\
FILE            way-1  way-2  way-3  way-4  way-5  way-6  way-7  way-8  way-9
src/file-11.rs  ~A     ·      ·      ·      ·      ·      ·      ·      ·"
    );
    assert_eq!(
        lines[21..].join("\n"),
        "  … and 8 more; of the best 9 of 30; the same letter: the same content
the same in the best 20 of 30: src/file-10.rs (+1 −1)"
    );
    assert_eq!(lines.len(), 23);
}

#[test]
fn of_a_thousand_attempts_the_best_are_compared() {
    let names: Vec<String> = (1..=1000).map(|n| n.to_string()).collect();
    let digests: Vec<String> = (1..=1000).map(|n| format!("digest {n}")).collect();
    let lists: Vec<_> = digests.iter().map(|digest| [("a", '~', 1, 1, "same"), ("b", '~', 1, 1, digest.as_str())]).collect();
    let attempts: Vec<(&str, &[_])> = names.iter().zip(&lists).map(|(name, list)| (name.as_str(), &list[..])).collect();
    assert_eq!(
        files(&attempts, 80),
        "\
FILE  1   2   3   4   5   6   7   8   9   10  11  12  13  14  15  16  17  18  19
b     ~A  ~B  ~C  ~D  ~E  ~F  ~G  ~H  ~I  ~J  ~K  ~L  ~M  ~N  ~O  ~P  ~Q  ~R  ~S
  of the best 19 of 1000; the same letter: the same content
the same in the best 20 of 1000: a (+1 −1)"
    );
    assert!(files(&attempts, 300).contains("  of the best 20 of 1000\n"));
    let alike: Vec<(&str, &[_])> = attempts.iter().map(|(name, list)| (*name, &list[..1])).collect();
    assert_eq!(files(&alike, 80), "the same in the best 20 of 1000: a (+1 −1)");
}

#[test]
fn what_is_not_listed_is_not_known() {
    let mut experiment = sample::experiment("fix-add", &["good", "large"]);
    experiment.records[0].outcome.as_mut().unwrap().changes.files = 900;
    let ranking = sample::ranking(&experiment);
    assert_eq!(
        text(&table(sample::shown(&experiment, &ranking), Extent::Full, 80)),
        "\
FILE         good   large
docs/add.md  ?      new +30
src/add.rs   +1 −1  +10 −2
src/old.rs   ?      gone −9"
    );
}
