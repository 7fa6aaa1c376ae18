//! Every session that the documentation shows happens as it is shown.

use std::path::Path;
use std::process::Command;

use whatif_e2e::outside::{Outside, PUBLIC};
use whatif_e2e::{World, outside_as_root, transcripts};

// Each plays an ordinary user as well: only root can give that user a home.
outside_as_root!(readme, tutorial, apply, commands, how_it_works, limits, network, race, snapshots);

const PLAYED: [&str; 9] = [
    "README.md",
    "docs/apply.md",
    "docs/commands.md",
    "docs/how-it-works.md",
    "docs/limits.md",
    "docs/network.md",
    "docs/race.md",
    "docs/snapshots.md",
    "docs/tutorial.md",
];

#[test]
fn every_page_with_a_session_is_played() {
    assert_eq!(transcripts::pages(), PLAYED);
}

fn readme(w: &World, _: &Outside) {
    transcripts::play(w, "README.md");
}

fn tutorial(w: &World, _: &Outside) {
    transcripts::play(w, "docs/tutorial.md");
}

fn apply(w: &World, _: &Outside) {
    transcripts::play(w, "docs/apply.md");
}

fn commands(w: &World, _: &Outside) {
    transcripts::play(w, "docs/commands.md");
}

fn how_it_works(w: &World, _: &Outside) {
    transcripts::play(w, "docs/how-it-works.md");
}

fn limits(w: &World, _: &Outside) {
    transcripts::play(w, "docs/limits.md");
}

fn network(w: &World, o: &Outside) {
    for name in ["example.org", "api.example.com", "pypi.example.org", "npm.example.org", "git.example.org"] {
        o.name(name, &[PUBLIC]);
    }
    let authority = o.authority(w, &["api.example.com"]);
    transcripts::trust(w, &authority.ca);
    let scene = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenes/network.py");
    o.daemon(Command::new("/usr/bin/python3").arg("-u").arg(scene).arg(PUBLIC).args([&authority.cert, &authority.key]));
    transcripts::play(w, "docs/network.md");
}

fn race(w: &World, _: &Outside) {
    transcripts::play(w, "docs/race.md");
}

fn snapshots(w: &World, _: &Outside) {
    transcripts::play(w, "docs/snapshots.md");
}
