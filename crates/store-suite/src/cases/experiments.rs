//! Races.

use whatif_store::StoreError;
use whatif_types::experiment::{Attempt, AttemptState};

use crate::Ground;
use crate::fixtures::experiment;

pub fn an_experiment_comes_back_with_all_of_its_attempts(ground: &Ground) {
    let store = ground.store();
    let (old, mut new) = (experiment(1, "otter", 2), experiment(2, "heron", 3));
    store.insert_experiment(&old).unwrap();
    store.insert_experiment(&new).unwrap();
    assert!(matches!(store.insert_experiment(&experiment(3, "otter", 1)), Err(StoreError::ExperimentTaken { .. })));
    let ended = Attempt { state: AttemptState::Ended, ..Attempt::waiting() };
    store.put_attempt(&new.id, 1, &ended).unwrap();
    new.details.spent_ms = 7;
    store.update_experiment(&mut new).unwrap();
    let names: Vec<String> = store.list_experiments().unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["heron", "otter"], "the newest first");
    let found = ground.store().find_experiment("heron").unwrap().unwrap();
    assert_eq!((found.version, found.details.spent_ms, &found.details.plan), (2, 7, &new.details.plan));
    let states: Vec<AttemptState> = found.records.iter().map(|r| r.state).collect();
    assert_eq!(states, [AttemptState::Waiting, AttemptState::Ended, AttemptState::Waiting]);
    assert_eq!(store.find_experiment(old.id.as_str()).unwrap().unwrap().name, "otter", "an id is as good as a name");
    assert!(store.find_experiment("lark").unwrap().is_none());
    assert_eq!(store.latest_experiment(std::path::Path::new("/p")).unwrap().unwrap().name, "heron");
    assert!(store.latest_experiment(std::path::Path::new("/q")).unwrap().is_none());
}

pub fn an_experiment_that_another_one_changed_is_not_overwritten(ground: &Ground) {
    let store = ground.store();
    let mut mine = experiment(1, "otter", 1);
    store.insert_experiment(&mine).unwrap();
    let mut yours = mine.clone();
    store.update_experiment(&mut mine).unwrap();
    assert!(matches!(store.update_experiment(&mut yours), Err(StoreError::ExperimentConflict { .. })));
    store.delete_experiment(&mine.id).unwrap();
    store.delete_experiment(&mine.id).unwrap();
    store.insert_experiment(&experiment(2, "otter", 1)).unwrap();
    assert_eq!(store.find_experiment("otter").unwrap().unwrap().records.len(), 1, "nothing of the other one is left");
}

/// An attempt that was added, of which the row is not there yet.
pub fn there_are_as_many_records_as_planned_attempts(ground: &Ground) {
    let store = ground.store();
    let mut made = experiment(1, "otter", 1);
    store.insert_experiment(&made).unwrap();
    made.details.plan.attempts.push(experiment(1, "otter", 2).details.plan.attempts[1].clone());
    store.update_experiment(&mut made).unwrap();
    assert_eq!(store.find_experiment("otter").unwrap().unwrap().records.len(), 2);
}
