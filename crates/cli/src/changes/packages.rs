//! Packages in words: `apt: +2 packages, 14 files (hello 2.1, libhello 1.0)`.

use std::path::{Path, PathBuf};

use whatif_engine::changes::apply::TakenPackages;
use whatif_engine::{Counts, Package, PackageGroup, shown_path};

use crate::output::{Output, Style, counted, printable, visible_path};

/// More are counted.
const MOST_NAMED: usize = 4;

/// One line for each manager and place. Names and versions are what processes inside wrote.
#[must_use]
pub fn in_words<'a>(groups: impl IntoIterator<Item = &'a PackageGroup>, project: &Path) -> Vec<String> {
    let mut places: Vec<(&PackageGroup, PathBuf, Vec<&PackageGroup>)> = Vec::new();
    for group in groups {
        let place = place_of(group);
        match places.iter_mut().find(|(first, known, _)| first.manager == group.manager && *known == place) {
            Some((.., all)) => all.push(group),
            None => places.push((group, place, vec![group])),
        }
    }
    places.iter().map(|(first, place, all)| line(first, place, all, project)).collect()
}

/// Of one group: its packages alone.
#[must_use]
pub fn title(group: &PackageGroup) -> String {
    format!("{}: {}", group.manager.name(), named(&group.packages.iter().collect::<Vec<_>>()))
}

fn line(first: &PackageGroup, place: &Path, all: &[&PackageGroup], project: &Path) -> String {
    let packages: Vec<_> = all.iter().flat_map(|group| &group.packages).collect();
    let files = all.iter().map(|group| group.files).sum::<usize>();
    let names = named(&packages);
    let place = if place == Path::new("/") { String::new() } else { format!(" in {}", visible_path(shown_path(place, project))) };
    let counts = Counts::of(packages).in_words();
    // Some of the files may be elsewhere, such as programs in ~/.local/bin.
    format!("{}: {counts}{place}, {} ({names})", first.manager.name(), counted(files as u64, "file"))
}

/// The first few names, with what became of each.
fn named(packages: &[&Package]) -> String {
    let named = packages.iter().take(MOST_NAMED).map(|package| {
        let versions = match (&package.before, &package.after) {
            (Some(before), Some(after)) => format!("{before} → {after}"),
            (None, Some(after)) => after.clone(),
            (_, None) => "removed".to_owned(),
        };
        printable(&format!("{} {versions}", package.name))
    });
    let mut names = named.collect::<Vec<_>>().join(", ");
    if packages.len() > MOST_NAMED {
        names.push_str(&format!(" and {} more", packages.len() - MOST_NAMED));
    }
    names
}

/// Each global package of npm has a directory of its own.
fn place_of(group: &PackageGroup) -> PathBuf {
    let modules = group.root.ancestors().find(|above| above.file_name().is_some_and(|name| name == "node_modules"));
    modules.unwrap_or(&group.root).to_owned()
}

/// Says of which packages only a part is taken.
pub fn say_split(packages: &[TakenPackages], output: &Output) {
    for one in packages.iter().filter(|one| one.is_split()) {
        let names = one.group.packages.iter().take(MOST_NAMED).map(|p| printable(&p.name)).collect::<Vec<_>>().join(", ");
        let more = one.group.packages.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let what = output.paint_note(Style::Yellow, format!("only part of {} ({names}{more}):", one.group.manager.name()));
        let all = counted((one.taken + one.left_out) as u64, "file");
        output.note(format!("{what} {} of {all}; what is installed then does not work as a whole", one.taken));
    }
}
