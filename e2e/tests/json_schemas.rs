//! What `--json` prints is as `docs/schemas` says, whichever verb it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use whatif_e2e::{World, as_root_and_user, needs, schema};

as_root_and_user!(every_document_is_as_its_schema_says,);

fn schemas() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas")
}

/// The verbs, each with what it prints in one sandbox's life.
struct Story<'w> {
    w: &'w World,
    told: BTreeSet<&'static str>,
}

impl Story<'_> {
    /// Each line that is printed, on standard error if there is none on standard output.
    #[track_caller]
    fn tells(&mut self, schema: &'static str, words: &[&str]) -> Value {
        let outcome = self.w.whatif(["--json"].into_iter().chain(words.iter().copied())).go();
        let text = if outcome.stdout.is_empty() { &outcome.stderr } else { &outcome.stdout };
        let path = schemas().join(schema).with_extension("json");
        let read = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let described: Value = serde_json::from_str(&read).expect("a schema is JSON");
        let mut last = Value::Null;
        for line in text.lines() {
            last = serde_json::from_str(line).unwrap_or_else(|error| panic!("{words:?} printed no JSON ({error}): {line}"));
            let faults = schema::faults(&described, &last);
            assert!(faults.is_empty(), "{words:?} is not as {schema}.json says: {faults:#?}\n{last}");
        }
        assert!(!last.is_null(), "{words:?} printed nothing");
        self.told.insert(schema);
        last
    }
}

const CHANGES: &str = r#"sed -i 's/^2$/two/; s/^28$/x/' f; echo n > new; rm a; mkdir build; echo b > build/o; echo x > $HOME/out
printf 'all:\n\tid\n' > Makefile; mv link link2; mkdir d; printf z > "d/$(printf '\377')"; echo left > /tmp/left"#;

fn every_document_is_as_its_schema_says(w: &World) {
    needs!(w, "git");
    w.outside(
        "seq 30 > f; echo a > a; echo build/ > .gitignore; ln -s f link; git init -q -b main . && git add -A \
         && git -c user.name=A -c user.email=a@example.org commit -qm first",
    )
    .ok();
    let mut story = Story { w, told: BTreeSet::new() };
    running(&mut story);
    reviewing(&mut story);
    with_snapshots(&mut story);
    in_archives_and_pools(&mut story);
    with_a_network(&mut story);
    racing(&mut story);
    looking_back(&mut story);
    cleaning_up(&mut story);
    let all = fs::read_dir(schemas()).expect("they are there").map(|entry| entry.expect("it can be listed").path());
    let all: BTreeSet<String> = all
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned()))
        .collect();
    let told: BTreeSet<String> = story.told.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(told, all, "each schema is of something that was printed");
}

fn running(story: &mut Story<'_>) {
    story.tells("run", &["run", "--keep", "--name", "one", "sh", "-c", CHANGES]);
    story.tells("run", &["run", "true"]);
    story.tells("run", &["run", "--rm", "sh", "-c", "exit 3"]);
    story.tells("run", &["run", "--timeout", "300ms", "sleep", "60"]);
    story.tells("sandbox", &["new", "two", "--label", "a=b"]);
    story.tells("exec", &["exec", "two", "sh", "-c", "echo out; echo err >&2"]);
    story.tells("exec", &["run", "--in", "two", "true"]);
    story.tells("exec", &["exec", "two", "--auto-snapshot", "true"]);
    let started = story.tells("exec-detached", &["exec", "two", "-d", "-i", "cat"]);
    story.tells("exec-detached", &["exec", "two", "-d", "sleep", "1000"]);
    story.tells("ls", &["ls"]);
    story.tells("show", &["show", "one"]);
    story.tells("show", &["show", "two"]);
    story.tells("ps", &["ps", "two"]);
    story.tells("ps", &["ps", "two", "--all"]);
    story.tells("stats", &["stats"]);
    story.tells("du", &["du"]);
    story.tells("kill", &["kill", "two", &started["pid"].to_string()]);
    story.tells("attach", &["attach", "two", "c1"]);
    story.tells("logs", &["logs", "two", "c1"]);
    story.tells("cp", &["cp", "one:new", "copied"]);
    story.tells("cp", &["cp", "f", "two:"]);
    story.tells("sandbox", &["stop", "two"]);
    story.tells("sandbox", &["start", "two"]);
    story.tells("doctor", &["doctor"]);
    story.tells("doctor-fix", &["doctor", "--fix"]);
}

fn reviewing(story: &mut Story<'_>) {
    for words in [&["diff", "one"][..], &["diff", "one", "--all", "--outside"], &["diff", "one", "--patch"], &["diff", "two"]] {
        story.tells("diff", words);
    }
    story.tells("review", &["review", "one"]);
    story.tells("status", &["status", "one"]);
    story.tells("apply", &["apply", "one", "--dry-run"]);
    story.tells("apply", &["apply", "one", "-y"]);
    story.tells("apply", &["apply", "one", "-y", "--outside", "--ignored", "--risky"]);
    story.tells("apply", &["apply", "one", "-y"]);
    story.tells("history", &["history"]);
    story.tells("undo", &["undo", "--dry-run"]);
    story.tells("undo", &["undo", "-y"]);
    story.tells("history", &["history", "--all"]);
    story.w.outside("echo more >> f").ok();
    story.tells("status", &["status", "one"]);
    story.tells("rebase", &["rebase", "one"]);
}

fn looking_back(story: &mut Story<'_>) {
    story.tells("events", &["events", "-n", "1000"]);
    story.tells("audit", &["audit"]);
    story.tells("audit-verify", &["audit", "--verify"]);
}

fn with_snapshots(story: &mut Story<'_>) {
    story.tells("snapshot", &["snapshot", "two", "first", "-m", "about"]);
    story.w.exec("two", "echo 1 > q").ok();
    story.tells("snapshot", &["snapshot", "two", "second"]);
    story.tells("snapshots", &["snapshots", "two"]);
    story.tells("rollback", &["rollback", "two", "first"]);
    story.tells("snapshot-rm", &["snapshot", "rm", "two@second"]);
    story.tells("fork", &["fork", "two", "forked", "--count", "2"]);
    story.tells("squash", &["squash", "two"]);
    story.tells("template", &["template", "save", "two", "deps"]);
    story.tells("template-ls", &["template", "ls"]);
    story.tells("sandbox", &["new", "four", "--template", "deps"]);
    story.tells("template-rm", &["template", "rm", "deps"]);
    story.tells("reject", &["reject", "forked-1"]);
    story.tells("show", &["show", "two"]);
}

fn in_archives_and_pools(story: &mut Story<'_>) {
    let archive = story.w.home.join("one.whatif").display().to_string();
    story.tells("export", &["export", "one", "--output", &archive]);
    story.tells("import-list", &["import", "--list", &archive]);
    story.tells("import", &["import", &archive, "--name", "imported"]);
    story.w.configure("[pool]\nsize = 1");
    story.tells("pool-fill", &["pool", "fill"]);
    story.tells("pool", &["pool"]);
    story.tells("pool-drain", &["pool", "drain"]);
    story.w.configure("");
}

fn with_a_network(story: &mut Story<'_>) {
    story.tells("sandbox", &["new", "three", "--net", "allow=example.org", "--publish", "0:8080"]);
    story.tells("net", &["net", "three"]);
    story.tells("net-rules", &["net", "three", "--rules"]);
    story.tells("net-change", &["net", "allow", "three", "example.com"]);
    story.tells("net-change", &["net", "deny", "three", "example.net"]);
    story.tells("net-permits", &["net", "permits"]);
    story.tells("port", &["port", "three"]);
    story.tells("show", &["show", "three"]);
}

fn racing(story: &mut Story<'_>) {
    story.tells("race-event", &["race", "echo 1 > r", "true", "--check", "true", "--metric", "n=([0-9]+)"]);
    story.tells("race-ls", &["race", "ls"]);
    story.tells("race-show", &["race", "show"]);
    story.tells("diff", &["race", "diff", "best"]);
    story.tells("apply", &["race", "apply", "best", "-y", "--keep"]);
    story.tells("race-rm", &["race", "rm", "--all", "-y"]);
}

fn cleaning_up(story: &mut Story<'_>) {
    story.tells("gc", &["gc", "--dry-run"]);
    story.tells("gc", &["gc"]);
    story.tells("rm", &["rm", "one"]);
    story.tells("rm", &["rm", "--all", "-y"]);
    story.tells("ls", &["ls"]);
    story.tells("error", &["show", "nobody"]);
    story.tells("error", &["frobnicate"]);
    story.tells("error", &["run", "--", "no-such-program"]);
    story.tells("error", &["undo", "nothing"]);
}
