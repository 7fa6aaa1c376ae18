use super::super::sample;
use super::*;

#[test]
fn hunks_add_up_to_a_verdict() {
    let one = with_hunk(None, 0, 3, true);
    assert_eq!(one, Verdict::Hunks(vec![1]));
    let two = with_hunk(Some(&one), 2, 3, true);
    assert_eq!(two, Verdict::Hunks(vec![1, 3]));
    assert_eq!(with_hunk(Some(&two), 1, 3, true), Verdict::Accepted);
    assert_eq!(with_hunk(Some(&Verdict::Accepted), 1, 3, false), Verdict::Hunks(vec![1, 3]));
    assert_eq!(with_hunk(Some(&one), 0, 3, false), Verdict::Rejected);
    assert_eq!(with_hunk(None, 0, 1, true), Verdict::Accepted);
}

#[test]
fn rejecting_a_hunk_never_accepts_another() {
    assert_eq!(with_hunk(None, 1, 3, false), Verdict::Rejected);
}

#[test]
fn a_yes_to_many_takes_back_no_rejection() {
    let changes = sample::changes(&["M file", "M hunks", "M open"]);
    let mut decisions = Decisions::new(Review::default(), &changes, &mut sample::facts(&changes, &[]));
    decisions.decide(&changes, &[0], Some(&Verdict::Rejected));
    decisions.decide_hunk(&changes, 1, 1, 3, false);
    decisions.decide_hunk(&changes, 1, 0, 3, true);
    assert_eq!(decisions.accept_but_rejected(&changes, &[0, 1, 2]), 2);
    assert_eq!((decisions.mark(0), decisions.mark(2)), (Mark::Rejected, Mark::Accepted));
    assert_eq!(decisions.review().verdict(&changes[1].path), Some(&Verdict::Hunks(vec![1, 3])));
    decisions.decide(&changes, &[1], Some(&Verdict::Accepted));
    assert_eq!(decisions.hunk(&changes[1], 1), Some(true), "one to the file itself does");
}

#[test]
fn decisions_are_counted_and_taken_back() {
    let changes = sample::changes(&["M a", "M b", "A c"]);
    let mut decisions = Decisions::new(Review::default(), &changes, &mut sample::facts(&changes, &[]));
    assert_eq!(decisions.decide(&changes, &[0, 1], Some(&Verdict::Accepted)), 2);
    decisions.decide(&changes, &[1], Some(&Verdict::Rejected));
    assert_eq!(decisions.tally(), Tally { accepted: 1, rejected: 1, partly: 0, undecided: 1 });
    assert!(decisions.is_unsaved);
    decisions.decide(&changes, &[0, 1, 2], None);
    assert_eq!(decisions.tally(), Tally { undecided: 3, ..Tally::default() });
    assert!(!decisions.review().is_undecided(std::path::Path::new("/p/other")), "nothing waits");
}

#[test]
fn what_is_blocked_cannot_be_decided() {
    let mut changes = sample::changes(&["S pipe", "M file"]);
    changes[0].blocked = Some(whatif_engine::Blocked::Special);
    let mut decisions = Decisions::new(Review::default(), &changes, &mut sample::facts(&changes, &[]));
    assert_eq!(decisions.decide(&changes, &[0, 1], Some(&Verdict::Accepted)), 1);
    assert_eq!(decisions.mark(0), Mark::Blocked);
    assert_eq!(decisions.tally().all(), 1);
}

#[test]
fn safe_is_what_nobody_has_to_look_at() {
    let mut changes = sample::changes(&["A hook", "A out", "A pipe", "M plain", "M no", "A ignored"]);
    changes[0].flags.push(whatif_engine::Flag::HostExecuted);
    changes[1].outside = true;
    changes[2].blocked = Some(whatif_engine::Blocked::Special);
    changes[5].ignored = true;
    let mut facts = sample::facts(&changes, &[]);
    let mut decisions = Decisions::new(Review::default(), &changes, &mut facts);
    decisions.decide(&changes, &[4], Some(&Verdict::Rejected));
    assert_eq!(decisions.safe(&facts), [3]);
}

#[test]
fn directories_follow() {
    let changes = sample::changes(&["A d", "A d/a", "A d/b"]);
    let mut decisions = Decisions::new(Review::default(), &changes, &mut sample::facts(&changes, &["d"]));
    decisions.decide(&changes, &[1], Some(&Verdict::Rejected));
    assert_eq!(decisions.review().verdict(&changes[0].path), None);
    decisions.decide(&changes, &[2], Some(&Verdict::Rejected));
    assert_eq!(decisions.review().verdict(&changes[0].path), Some(&Verdict::Rejected));
    decisions.decide(&changes, &[2], Some(&Verdict::Accepted));
    assert_eq!(decisions.review().verdict(&changes[0].path), Some(&Verdict::Accepted));
    assert_eq!(decisions.tally().all(), 2, "the directory itself is not counted");
}

#[test]
fn a_lapsed_decision_is_marked_until_decided_again() {
    let changes = sample::changes(&["M a", "M b"]);
    let review = sample::lapsed("b");
    let mut decisions = Decisions::new(review, &changes, &mut sample::facts(&changes, &[]));
    assert_eq!((decisions.mark(0), decisions.mark(1)), (Mark::Undecided, Mark::Lapsed));
    decisions.decide(&changes, &[1], Some(&Verdict::Accepted));
    assert_eq!(decisions.mark(1), Mark::Accepted);
}

#[test]
fn one_mark_for_many() {
    let tally = |accepted, rejected, undecided| Tally { accepted, rejected, undecided, partly: 0 }.mark();
    assert_eq!(tally(2, 0, 0), Mark::Accepted);
    assert_eq!(tally(0, 2, 0), Mark::Rejected);
    assert_eq!(tally(0, 0, 2), Mark::Undecided);
    assert_eq!(tally(1, 0, 2), Mark::Partly);
}
