use std::path::PathBuf;

use serde_json::json;
use whatif_types::config::{Ending, Unused};
use whatif_types::sandbox::StopReason;
use whatif_types::{LayerId, SandboxId, Status};

use super::*;
use crate::ground::retention::goes_at;

const DAY: u64 = 86_400_000;
const NOW: u64 = 1000 * DAY;

fn candidate(name: &str, status: Status, days: u64, bytes: u64) -> Candidate {
    let number = name.bytes().fold(0_u8, u8::wrapping_add);
    let details = json!({
        "cwd": "/p", "labels": {}, "net": "none", "backend": "overlay", "backend_reason": null,
        "identity": { "kind": "own", "uid": 1, "gid": 1 }, "trees": [], "masked": [], "exposed": [], "dropped_env": [],
        "carried_env": [], "keeper_pid": null, "protection": { "landlock_abi": 0, "read_only": [] }, "stop_reason": null, "error": null, "command": [],
        "exit_code": null, "changed_files": 1, "size_bytes": 1, "auto_snapshot": false, "transient": false,
    });
    let sandbox = Sandbox {
        id: SandboxId::from_random([number; 12]),
        name: name.to_owned(),
        status,
        version: 1,
        created_at: 0,
        updated_at: NOW - days * DAY,
        project: PathBuf::from("/p"),
        provider: whatif_provider::usual().name().to_owned(),
        owner: None,
        node: None,
        details: serde_json::from_value(details).unwrap(),
    };
    Candidate { sandbox, has_snapshots: false, is_empty: false, is_over: false, bytes }
}

fn layer(number: u8, bytes: u64, needed_by: &[Owner]) -> LayerUse {
    LayerUse { layer: LayerId::from_random([number; 12]), files: 1, bytes, needed_by: needed_by.to_vec() }
}

fn stock<'a>(candidates: &'a [Candidate], layers: &'a [LayerUse]) -> Stock<'a> {
    let total = candidates.iter().map(|c| c.bytes).sum::<u64>() + layers.iter().map(|l| l.bytes).sum::<u64>();
    Stock { candidates, layers, total, now: NOW }
}

fn chosen(rules: &GcRules, candidates: &[Candidate], layers: &[LayerUse]) -> Vec<(String, u64)> {
    choose(rules, &stock(candidates, layers)).into_iter().map(|(_, r)| (r.name, r.bytes)).collect()
}

fn names(rules: &GcRules, candidates: &[Candidate]) -> Vec<String> {
    chosen(rules, candidates, &[]).into_iter().map(|(name, _)| name).collect()
}

fn only(rules: GcRules) -> GcRules {
    GcRules { remove: Vec::new(), ..rules }
}

#[test]
fn by_default_only_what_was_decided_about_goes_and_that_after_a_week() {
    let mut expired = candidate("expired", Status::Stopped, 900, 1);
    expired.sandbox.details.stop_reason = Some(StopReason::Expired);
    let mut snapshots = candidate("snapshots", Status::Approved, 900, 1);
    snapshots.has_snapshots = true;
    let all = [
        candidate("stopped", Status::Stopped, 900, 1),
        candidate("broken", Status::Error, 900, 1),
        candidate("fresh", Status::Approved, 6, 1),
        candidate("approved", Status::Approved, 7, 1),
        candidate("rejected", Status::Rejected, 8, 1),
        candidate("active", Status::Active, 900, 1),
        expired,
        snapshots,
    ];
    assert_eq!(names(&GcRules::default(), &all), ["rejected", "approved"]);
    let written = GcRules { remove: vec![Ending::Expired], keep: Span::from_secs(0), ..GcRules::default() };
    assert_eq!(names(&written, &all), ["expired"]);
}

#[test]
fn nothing_that_runs_is_being_made_or_shall_be_kept_goes_whatever_the_rules() {
    let mut labelled = candidate("labelled", Status::Rejected, 900, 10);
    labelled.sandbox.details.labels.insert("keep".to_owned(), "no".to_owned());
    let mut deciding = candidate("deciding", Status::Stopped, 900, 10);
    deciding.sandbox.details.transient = true;
    let all = [
        candidate("active", Status::Active, 900, 10),
        candidate("creating", Status::Creating, 900, 10),
        labelled,
        deciding,
        candidate("stopped", Status::Stopped, 1, 10),
    ];
    let rules = GcRules { max_age: Some(Span::from_secs(0)), max_total: Some(Size(0)), ..GcRules::default() };
    assert_eq!(names(&rules, &all), ["stopped"]);
}

#[test]
fn age_counts_from_the_last_use_and_not_from_a_time_that_has_not_come() {
    let mut future = candidate("future", Status::Stopped, 0, 1);
    future.sandbox.updated_at = NOW + 1;
    let all = [future, candidate("younger", Status::Stopped, 2, 1), candidate("older", Status::Stopped, 3, 1)];
    let rules = only(GcRules { max_age: Some("3d".parse().unwrap()), ..GcRules::default() });
    assert_eq!(names(&rules, &all), ["older"]);
    let goes = choose(&rules, &stock(&all, &[]));
    assert_eq!(goes[0].1.reason, "it was not used for 3d; 3d is the most");
}

#[test]
fn the_least_recently_used_go_until_the_rest_fits() {
    let all = [
        candidate("new", Status::Stopped, 1, 40),
        candidate("old", Status::Stopped, 3, 20),
        candidate("middle", Status::Stopped, 2, 30),
        candidate("running", Status::Active, 9, 10),
    ];
    let within = |most| names(&only(GcRules { max_total: Some(Size(most)), ..GcRules::default() }), &all);
    assert_eq!(within(100), Vec::<String>::new());
    assert_eq!(within(99), ["old"]);
    assert_eq!(within(80), ["old"]);
    assert_eq!(within(79), ["old", "middle"]);
    assert_eq!(within(0), ["old", "middle", "new"]);
}

#[test]
fn what_goes_for_another_reason_counts_first() {
    let all = [candidate("rejected", Status::Rejected, 8, 50), candidate("older", Status::Stopped, 9, 50)];
    assert_eq!(names(&GcRules { max_total: Some(Size(50)), ..GcRules::default() }, &all), ["rejected"]);
}

#[test]
fn a_layer_goes_with_the_last_one_who_needs_it() {
    let (a, b) = (Owner::Sandbox("a".to_owned()), Owner::Sandbox("b".to_owned()));
    let snapshot = Owner::Snapshot("a@one".to_owned());
    let layers = [
        layer(1, 100, &[a.clone(), b.clone()]),
        layer(2, 10, &[a.clone(), snapshot]),
        layer(3, 1000, &[b, Owner::Template("t".to_owned())]),
        layer(4, 5000, &[]),
    ];
    let all = [candidate("a", Status::Stopped, 2, 1), candidate("b", Status::Stopped, 1, 2)];
    let rules = only(GcRules { max_total: Some(Size(0)), ..GcRules::default() });
    assert_eq!(chosen(&rules, &all, &layers), [("a".to_owned(), 11), ("b".to_owned(), 102)]);
}

#[test]
fn what_holds_nothing_goes_after_a_fortnight_and_what_holds_changes_stays() {
    let empty = |name: &str, days: u64| {
        let mut empty = candidate(name, Status::Stopped, days, 1);
        empty.sandbox.details.changed_files = 0;
        empty.is_empty = true;
        empty
    };
    let mut snapshots = empty("snapshots", 90);
    snapshots.has_snapshots = true;
    // What its record says was not found so.
    let looked_at = Candidate { is_empty: false, ..empty("looked-at", 90) };
    let all = [empty("old", 14), empty("new", 13), candidate("work", Status::Stopped, 900, 1), snapshots, looked_at];
    assert_eq!(names(&only(GcRules::default()), &all), ["old"]);
    let never = GcRules { unused: Unused(None), ..only(GcRules::default()) };
    assert_eq!(names(&never, &all), Vec::<String>::new());
    assert_eq!(goes_at(&GcRules::default(), &all[1].sandbox, None), Some(NOW + DAY));
    assert_eq!(goes_at(&GcRules::default(), &all[2].sandbox, None), None);
    assert_eq!(goes_at(&GcRules { auto: false, ..GcRules::default() }, &all[1].sandbox, None), None);
}

#[test]
fn what_was_to_go_with_its_time_goes_with_its_changes() {
    for status in [Status::Stopped, Status::Approved, Status::Rejected] {
        let mut over = candidate("over", status, 0, 1);
        assert_eq!(names(&only(GcRules::default()), std::slice::from_ref(&over)), Vec::<String>::new());
        over.is_over = true;
        assert_eq!(names(&only(GcRules::default()), std::slice::from_ref(&over)), ["over"]);
    }
    let running = Candidate { is_over: true, ..candidate("running", Status::Active, 0, 1) };
    assert_eq!(names(&only(GcRules::default()), std::slice::from_ref(&running)), Vec::<String>::new());
    // It is known beforehand, and nothing else takes longer because of it.
    assert_eq!(goes_at(&GcRules::default(), &running.sandbox, Some(NOW + 7)), Some(NOW + 7));
    let rejected = candidate("rejected", Status::Rejected, 0, 1);
    assert_eq!(goes_at(&GcRules::default(), &rejected.sandbox, Some(NOW + 7)), Some(NOW + 7));
    assert_eq!(goes_at(&GcRules::default(), &rejected.sandbox, Some(NOW + 30 * DAY)), Some(NOW + 7 * DAY));
    assert_eq!(goes_at(&GcRules { auto: false, ..GcRules::default() }, &rejected.sandbox, Some(NOW + 7)), Some(NOW + 7));
}
