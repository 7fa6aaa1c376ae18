//! What becomes of those that changed nothing, or nothing in the project.

use super::*;

#[test]
fn who_changes_nothing_has_nothing_to_keep() {
    let unchanged = Outcome { changes: Changes::default(), ..passed() };
    assert_ranked(
        &plan(),
        &[unchanged.clone(), passed()],
        &[],
        &["1. b: passes 2 of 2 checks, 12 tests, +1 −1 in 1 file", "2. a: behind 'b': passes, but changed nothing"],
        "'b' passes and changes something; 'a' passes without a change",
    );
    let alone = ranked(&plan(), &[unchanged], &[]);
    assert_eq!(alone.winner, None);
    assert_eq!(alone.because, "'a' passes, but it changed nothing, so there is nothing to apply");
    assert_eq!(lines(&alone), ["1. a: passes 2 of 2 checks, 12 tests, but changed nothing"]);
}

#[test]
fn doing_nothing_is_not_close() {
    let nothing = Outcome { changes: Changes::default(), ..failing(Some((11, 1))) };
    assert_ranked(
        &plan(),
        &[nothing, failing(None)],
        &[],
        &["1. b: fails 'test' (exit code 1)", "2. a: fails 'test' (exit code 1, 1 of 12 tests fail); behind 'b': changed nothing"],
        "none of 2 attempts passes; 'b' comes closest: fails 'test' (exit code 1)",
    );
}

fn elsewhere(outside: u64, ignored: u64) -> Changes {
    Changes { outside, ignored, ..Changes::default() }
}

#[test]
fn a_change_of_the_project_comes_before_one_elsewhere_before_none() {
    let outside = Outcome { changes: elsewhere(1, 0), ..passed() };
    let nothing = Outcome { changes: Changes::default(), ..passed() };
    let large = Outcome { changes: changes(3, 400, 0), ..passed() };
    assert_ranked(
        &plan(),
        &[nothing.clone(), outside.clone(), large.clone()],
        &[],
        &[
            "1. c: passes 2 of 2 checks, 12 tests, +400 −0 in 3 files",
            "2. b: behind 'c': changed nothing in the project",
            "3. a: behind 'b': passes, but changed nothing",
        ],
        "3 attempts pass; only 'c' changes the project",
    );
    assert_eq!(ranked(&plan(), &[outside.clone(), large], &[]).because, "'b' and 'a' pass; only 'b' changes the project");
    let not_checked = |changes| Outcome { changes, ..not_checked(Verdict::Failed, Some(ended(1))) };
    let failed = |changes| Outcome { changes, ..failing(None) };
    for of in [&failed as &dyn Fn(Changes) -> Outcome, &not_checked] {
        let ranking = ranked(&plan(), &[of(Changes::default()), of(elsewhere(0, 1)), of(changes(9, 9, 9))], &[]);
        assert_eq!(ranking.places.iter().map(|one| one.attempt.as_str()).collect::<Vec<_>>(), ["c", "b", "a"]);
        assert!(ranking.places[1].why.ends_with("; behind 'c': changed nothing in the project"), "{}", ranking.places[1].why);
        assert!(ranking.places[2].why.ends_with("; behind 'b': changed nothing"), "{}", ranking.places[2].why);
    }
}

#[test]
fn a_change_elsewhere_wins_only_where_nobody_changed_the_project() {
    let outside = Outcome { changes: elsewhere(2, 5), ..passed() };
    let alone = ranked(&plan(), std::slice::from_ref(&outside), &[]);
    assert_eq!(alone.winner.as_deref(), Some("a"));
    assert_eq!(alone.because, "'a' passes 2 of 2 checks, 12 tests, but changed nothing in the project, 2 outside, 5 ignored");
    let nothing = Outcome { changes: Changes::default(), ..passed() };
    assert_eq!(
        ranked(&plan(), &[nothing, outside.clone()], &[]).because,
        "'b' passes and changes something; 'a' passes without a change; what 'b' changed is not in the project"
    );
    let more = Outcome { changes: elsewhere(90, 0), ..passed() };
    assert_eq!(ranked(&plan(), &[more, outside.clone()], &[]).places[1].place, 1, "they are not compared by size");
    let fix = ranked(&plan(), &[outside.clone(), passed()], &[]);
    assert_eq!(fix.winner.as_deref(), Some("b"));
    assert_eq!(ranked(&plan(), &[outside, failing(None)], &[]).winner.as_deref(), Some("a"));
}

#[test]
fn what_changed_nothing_in_the_project_is_not_the_smallest_change() {
    let plan = ExperimentPlan { weights: BTreeMap::from([("lines".to_owned(), 1.0)]), ..plan() };
    let of = |changes: Changes, lines| Outcome { changes, ..measuring("lines", (lines, lines, lines)) };
    let outcomes = [of(elsewhere(1, 0), 0.0), of(changes(1, 2, 0), 2.0), of(changes(1, 40, 0), 40.0), of(Changes::default(), 0.0)];
    let ranking = ranked(&plan, &outcomes, &[]);
    let scores: Vec<_> = ranking.places.iter().map(|one| (one.attempt.as_str(), one.score.unwrap())).collect();
    assert_eq!(scores, [("b", 100.0), ("c", 5.0), ("a", 0.0), ("d", 0.0)]);
}

#[test]
fn what_else_was_changed_stands_beside_the_files() {
    let changes = Changes { outside: 2, ignored: 1, ..changes(1, 0, 9) };
    let why = ranked(&plan(), &[Outcome { changes, ..passed() }], &[]).places[0].why.clone();
    assert_eq!(why, "passes 2 of 2 checks, 12 tests, +0 −9 in 1 file, 2 outside, 1 ignored");
}
