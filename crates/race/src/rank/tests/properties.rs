//! What holds for whatever comes out of attempts.

use proptest::prelude::*;

use super::*;

fn any_ended() -> impl Strategy<Value = Ended> {
    (0..3_i32, any::<bool>()).prop_map(|(exit_code, timed_out)| Ended { exit_code, timed_out, ..Ended::default() })
}

fn any_check() -> impl Strategy<Value = CheckOutcome> {
    (
        prop::sample::select(vec!["test", "lint"]),
        any::<bool>(),
        prop::collection::vec(any_ended(), 0..3),
        prop::option::of((0..3_u64, 0..3_u64)),
    )
        .prop_map(|(name, required, runs, tests)| CheckOutcome { runs, ..check(name, required, &[], tests) })
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), (-3..4_i32).prop_map(f64::from), 99.0..101.0_f64]
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let verdict = prop_oneof![
        4 => Just(Verdict::Passed),
        2 => Just(Verdict::FailedChecks),
        1 => Just(Verdict::Failed),
        1 => "[a\n]{0,2}".prop_map(Verdict::Forbidden),
        1 => "[a\n]{0,2}".prop_map(Verdict::Cancelled),
        1 => "[a\n]{0,2}".prop_map(Verdict::Broken),
    ];
    let checks = prop_oneof![2 => Just(passed().checks), 1 => prop::collection::vec(any_check(), 0..4)];
    let measured = (any_number(), any_number(), any_number()).prop_map(|(low, value, high)| Measured { value, low, high, runs: 2 });
    let metrics = prop::collection::btree_map(prop::sample::select(vec!["speed".to_owned(), "cpu".to_owned()]), measured, 0..3);
    (verdict, prop::option::of(any_ended()), checks, (0..3_u64, 0..3_u64, 0..2_u64, 0..2_u64), metrics).prop_map(
        |(verdict, ended, checks, (files, lines, outside, ignored), metrics)| Outcome {
            verdict,
            ended,
            checks,
            changes: Changes { outside, ignored, ..changes(files, lines, 0) },
            metrics,
            ..passed()
        },
    )
}

proptest! {
    #[test]
    fn a_ranking_is_the_same_in_whatever_order_attempts_ended(
        outcomes in prop::collection::vec(any_outcome(), 0..5),
        order in Just((0..5_usize).collect::<Vec<_>>()).prop_shuffle(),
        weights in prop::collection::btree_map(prop::sample::select(vec!["speed".to_owned(), "cpu".to_owned()]), any_number(), 0..3),
        words in prop::collection::vec((prop::sample::subsequence(NAMES.to_vec(), 2..4), prop::option::of(0..5_usize)), 0..3),
    ) {
        let plan = ExperimentPlan { weights, ..with_metric("speed", Better::Higher) };
        let judged: Vec<_> = words.iter().map(|(among, better)| word(among, better.map(|better| NAMES[better]), "so")).collect();
        let in_order: Vec<_> = outcomes.iter().enumerate().collect();
        let shuffled: Vec<_> = order.iter().filter_map(|index| Some((*index, outcomes.get(*index)?))).collect();
        let ranking = rank(&plan, &in_order, &judged);
        prop_assert_eq!(&rank(&plan, &shuffled, &judged), &ranking);
        prop_assert_eq!(level_at_the_top(&plan, &shuffled, &judged), level_at_the_top(&plan, &in_order, &judged));

        let mut names: Vec<_> = ranking.places.iter().map(|one| one.attempt.as_str()).collect();
        names.sort_unstable();
        prop_assert_eq!(names, NAMES[..outcomes.len()].to_vec(), "everybody has one place");
        prop_assert!(ranking.places.is_sorted_by_key(|one| one.place));
        prop_assert!(ranking.places.iter().enumerate().all(|(at, one)| one.place >= 1 && one.place as usize <= at + 1));
        prop_assert!(ranking.places.iter().all(|one| !one.why.is_empty() && !one.why.contains('\n')));
        prop_assert!(!ranking.because.is_empty() && !ranking.because.contains('\n'));
        prop_assert!(ranking.places.iter().filter_map(|one| one.score).all(|score| (0.0..=100.0).contains(&score)));

        if let Some(winner) = &ranking.winner {
            prop_assert_eq!(winner, &ranking.places[0].attempt);
            let outcome = &outcomes[NAMES.iter().position(|name| name == winner).unwrap()];
            prop_assert!(outcome.checks.iter().filter(|check| check.required).all(CheckOutcome::has_passed));
            prop_assert!(!outcome.changes.is_empty());
            let would_do = |other: &Outcome| Class::of(&plan, other) == Class::Passed && other.changes.files > 0;
            prop_assert!(outcome.changes.files > 0 || !outcomes.iter().any(would_do), "who changed the project comes first");
        }
        if let Some(names) = level_at_the_top(&plan, &in_order, &judged) {
            prop_assert!(names.len() > 1 && names.is_sorted());
            // Whatever a judge says about them decides, and settles it.
            for better in &names {
                let mut judged = judged.clone();
                judged.push(Judged { among: names.clone(), better: Some(better.clone()), because: String::new() });
                prop_assert_eq!(rank(&plan, &in_order, &judged).winner, Some(better.clone()));
                prop_assert_eq!(level_at_the_top(&plan, &in_order, &judged), None);
            }
        }
    }
}
