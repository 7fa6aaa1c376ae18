//! The documentation as a book: every page is in it, and no link leads nowhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// All pages below a directory, sorted.
fn pages(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("it is a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Where the links of a page lead, as they are written, without those to other sites.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        if is_code {
            continue;
        }
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(targets.filter(|target| !target.contains("://") && !target.contains(' ')).map(str::to_owned));
    }
    found
}

/// The names by which a page's headings can be linked to, as on the forges and in a book.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let headings = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    headings.map(anchor).collect()
}

fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is in the repository")
}

#[test]
fn no_link_leads_nowhere() {
    let top = fs::read_dir(root()).expect("it is a directory").flatten().map(|entry| entry.path());
    let top = top.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut broken = Vec::new();
    for page in pages(&root().join("docs")).into_iter().chain(top) {
        let text = fs::read_to_string(&page).expect("it is a page");
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().expect("it is in a directory").join(file) };
            let leads = match fs::read_to_string(&target) {
                Ok(text) => heading.is_empty() || anchors(&text).contains(heading),
                Err(_) => target.is_dir() && heading.is_empty(),
            };
            if !leads {
                broken.push(format!("{}: {link}", page.strip_prefix(root()).unwrap_or(&page).display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// In the order in which one reads them.
const CHAPTERS: [(&str, &[&str]); 4] = [
    ("Learn", &["tutorial.md", "how-it-works.md", "honest-limits.md"]),
    ("Use", &["apply.md", "snapshots.md", "race.md", "network.md", "limits.md", "containers.md", "daemon.md"]),
    ("Look up", &["commands.md", "reference.md", "configuration.md", "exit-codes.md", "benchmarks.md"]),
    ("Contribute", &[]),
];

/// The table of contents, with all pages for contributors in the last chapter.
fn summary(docs: &Path) -> String {
    let mut summary = "# Summary\n\n[The whatif book](README.md)\n".to_owned();
    let title = |name: &str| {
        let text = fs::read_to_string(docs.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        text.lines().next().unwrap_or_default().trim_start_matches("# ").to_owned()
    };
    for (chapter, names) in CHAPTERS {
        summary.push_str(&format!("\n# {chapter}\n\n"));
        for name in names.iter().filter(|name| docs.join(name).exists()) {
            summary.push_str(&format!("- [{}]({name})\n", title(name)));
        }
    }
    for directory in ["schemas", "internals", "decisions"] {
        summary.push_str(&format!("- [{}]({directory}/README.md)\n", title(&format!("{directory}/README.md"))));
        for page in pages(&docs.join(directory)).iter().filter(|page| !page.ends_with("README.md")) {
            let name = format!("{directory}/{}", page.file_name().unwrap_or_default().to_string_lossy());
            summary.push_str(&format!("  - [{}]({name})\n", title(&name)));
        }
    }
    summary
}

/// `WHATIF_BOOK=write` brings the table of contents up to date.
#[test]
fn every_page_is_in_the_book() {
    let docs = root().join("docs");
    let (file, summary) = (docs.join("SUMMARY.md"), summary(&docs));
    if std::env::var("WHATIF_BOOK").is_ok_and(|what| what == "write") {
        fs::write(&file, &summary).expect("the documentation can be written");
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    let listed: BTreeSet<PathBuf> = links(&summary).iter().map(|link| docs.join(link)).collect();
    let missing: Vec<_> = pages(&docs).into_iter().filter(|page| !listed.contains(page) && *page != file).collect();
    assert!(missing.is_empty(), "in no chapter: {missing:#?}");
    assert!(summary == written, "docs/SUMMARY.md is not up to date: WHATIF_BOOK=write");
}
