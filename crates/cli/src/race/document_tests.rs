//! `race show --json`, of races as they are made up for tests.

use serde_json::{Value, json};

use super::{Shown, Standing, sample};

#[test]
fn attempts_in_their_places_and_files_by_attempt() {
    let experiment = sample::experiment("fix-add", &["?", "good", "large"]);
    let ranking = sample::ranking(&experiment);
    let shown = Shown { standing: Standing::Interrupted, ..sample::shown(&experiment, &ranking) }.document();
    assert_eq!(shown["state"], "interrupted");
    assert_eq!((&shown["created_at"], &shown["ended_at"]), (&json!("1970-01-01T00:00:00Z"), &json!("1970-01-01T00:00:04Z")));
    assert_eq!((&shown["project"], &shown["winner"]), (&json!("/home/you/project"), &json!("good")));
    let names: Vec<&Value> = shown["attempts"].as_array().unwrap().iter().map(|a| &a["name"]).collect();
    assert_eq!(names, ["good", "large", "?"]);
    let first = &shown["attempts"][0];
    assert_eq!(
        (&first["place"], &first["state"], &first["outcome"]["verdict"]["is"]),
        (&json!(1), &json!("ended"), &json!("passed"))
    );
    assert_eq!((&shown["attempts"][2]["place"], &shown["attempts"][2]["state"]), (&Value::Null, &json!("waiting")));
    assert_eq!(shown["matrix"][1]["path"], "src/add.rs");
    assert_eq!(shown["matrix"][1]["attempts"]["large"], json!({"mark": "~", "added_lines": 10, "deleted_lines": 2, "digest": "l"}));
    assert_eq!((&shown["matrix"][0]["attempts"]["good"], &shown["shared"]), (&Value::Null, &json!([])));
}
