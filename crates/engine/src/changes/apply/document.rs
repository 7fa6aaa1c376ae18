//! How an apply is told to programs: the plan, the outcome.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use whatif_diff::shown_path;
use whatif_types::text::Text;

use super::{Applied, ByReason, LeftOut, Prepared, Step, TakenPackages, What};

/// What would be done.
#[must_use]
pub fn plan_document(prepared: &Prepared) -> Value {
    json!({
        "sandbox": prepared.sandbox.name,
        "digest": prepared.digest,
        "steps": steps_document(&prepared.steps, prepared.project()),
        "left_out": left_out_document(&prepared.left_out_by_reason(), prepared.project()),
        "packages": packages_document(&prepared.packages),
        "unchanged": prepared.unchanged.iter().map(|p| shown(p, prepared.project())).collect::<Vec<_>>(),
        "lapsed": all_shown(&prepared.lapsed, prepared.project()),
    })
}

fn shown(path: &Path, project: &Path) -> Text {
    Text::from(shown_path(path, project))
}

fn all_shown(paths: &[PathBuf], project: &Path) -> Vec<Text> {
    paths.iter().map(|p| shown(p, project)).collect()
}

fn left_out_document(left_out: &ByReason, project: &Path) -> Vec<Value> {
    let document = |l: &LeftOut| {
        let mut document = json!({ "path": shown(&l.path, project), "reason": l.reason });
        if let Some(to) = &l.moved_to {
            document["moved_to"] = json!(shown(to, project));
        }
        document
    };
    left_out.values().flatten().map(document).collect()
}

fn steps_document(steps: &[Step], project: &Path) -> Vec<Value> {
    let document = |s: &Step| {
        let mut document = json!({ "path": shown(&s.path, project), "what": s.what });
        if let Some(to) = &s.link_to {
            document["hard_link"] = json!(shown(to, project));
        }
        if s.leaves_names_behind {
            document["other_names"] = json!(true);
        }
        if s.was_rejected {
            document["rejected"] = json!(true);
        }
        document
    };
    steps.iter().map(document).collect()
}

/// What was done.
#[must_use]
pub fn applied_document(applied: &Applied, left_out: &ByReason, commit: Option<&str>) -> Value {
    let project = &applied.sandbox.project;
    let is_merge = |s: &&Step| s.what == What::Merge;
    json!({
        "apply": { "id": applied.id, "sandbox": applied.sandbox.name, "project": Text::from(project) },
        "applied": steps_document(&applied.steps, project),
        "merged": applied.steps.iter().filter(is_merge).map(|s| shown(&s.path, project)).collect::<Vec<_>>(),
        "skipped": applied.unchanged.iter().map(|p| shown(p, project)).collect::<Vec<_>>(),
        "left_out": left_out_document(left_out, project),
        "packages": packages_document(&applied.packages),
        "lapsed": all_shown(&applied.lapsed, project),
        "nothing_left": applied.nothing_left,
        "notes": applied.notes,
        "commit": commit,
    })
}

/// There was nothing to do.
#[must_use]
pub fn nothing_document(prepared: &Prepared) -> Value {
    json!({
        "apply": null,
        "applied": [],
        "merged": [],
        "skipped": prepared.unchanged.iter().map(|p| shown(p, prepared.project())).collect::<Vec<_>>(),
        "left_out": left_out_document(&prepared.left_out_by_reason(), prepared.project()),
        "packages": [],
        "lapsed": all_shown(&prepared.lapsed, prepared.project()),
        "commit": null,
    })
}

fn packages_document(packages: &[TakenPackages]) -> Vec<Value> {
    let document = |one: &TakenPackages| {
        json!({
            "manager": one.group.manager,
            "root": Text::from(&one.group.root),
            "packages": one.group.packages,
            "files": one.group.files,
            "taken": one.taken,
            "left_out": one.left_out,
        })
    };
    packages.iter().map(document).collect()
}
