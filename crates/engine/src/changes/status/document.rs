//! How it is told to programs how far reality has moved.

use std::path::Path;

use serde_json::{Value, json};
use whatif_diff::shown_path;
use whatif_types::text::Text;

use super::Standing;

impl Standing {
    /// For programs.
    #[must_use]
    pub fn document(&self) -> Value {
        let drift: Vec<_> = self
            .drift
            .iter()
            .map(|d| {
                let path = Text::from(shown_path(&d.path, &self.sandbox.project));
                json!({
                    "path": path, "kind": d.kind.kind(), "perhaps_added": d.kind.is_perhaps_added(), "collides": d.collides, "why": d.why, "base": d.base,
                    "perhaps_before": d.perhaps_before, "left_out": d.left_out,
                })
            })
            .collect();
        json!({
            "sandbox": { "id": self.sandbox.id, "name": self.sandbox.name, "project": Text::from(&self.sandbox.project), "status": self.sandbox.status },
            "age_seconds": self.age_ms / 1000,
            "changes": self.changes,
            "ignored": self.ignored,
            "outside": self.outside,
            "packages": self.packages,
            "drift": drift,
            "lost_names": self.lost_names.iter().map(|d| Text::from(self.shown_directory(d))).collect::<Vec<_>>(),
            "project_missing": self.project_is_missing,
            "collisions": self.collisions(),
            "conflicts": self.conflicts(),
            "unsettled": self.unsettled.iter().map(|p| Text::from(shown_path(p, &self.sandbox.project))).collect::<Vec<_>>(),
            "unreadable": self.unreadable.iter().map(|u| Text::from(&u.path)).collect::<Vec<_>>(),
        })
    }

    /// The project itself is `.`.
    #[must_use]
    pub fn shown_directory<'a>(&self, directory: &'a Path) -> &'a Path {
        let project = &self.sandbox.project;
        if directory == project { Path::new(".") } else { shown_path(directory, project) }
    }
}
