use std::path::Path;

use whatif_engine::ground::GroundError;
use whatif_engine::lifecycle::LifecycleError;
use whatif_engine::races::RaceError;
use whatif_engine::{EngineError, GitError};
use whatif_types::remedy::{Apart, Argument, Mention};
use whatif_types::{Explain, remedy};

use super::*;

#[test]
fn calls_are_command_lines() {
    let name = || Value::from("fox");
    let start = |ttl: Option<&str>| Call::Start { name: name(), ttl: ttl.map(str::to_owned) };
    let save = |template: Value, replace| Call::SaveTemplate { sandbox: Value::Blank, template, replace };
    let table = [
        (Call::List, "whatif ls"),
        (Call::remove("fox"), "whatif rm fox"),
        (Call::remove(Value::Blank), "whatif rm NAME"),
        (Call::remove(Value::Unsaid), "whatif rm"),
        (Call::fork("a b@c"), "whatif fork 'a b@c'"),
        (start(None), "whatif start fox"),
        (start(Some("1h")), "whatif start fox --ttl 1h"),
        (Call::Shell { name: name(), is_stopped: false }, "whatif shell fox"),
        (Call::Shell { name: name(), is_stopped: true }, "whatif start fox && whatif shell fox"),
        (Call::Run { command: Value::Blank }, "whatif run -- COMMAND"),
        (Call::patch("fox"), "whatif diff fox --patch"),
        (Call::ChangedPaths { name: Value::Unsaid }, "whatif diff --name-only --all --outside"),
        (Call::Hunks { name: name(), path: Text::from("a.c") }, "whatif diff fox a.c"),
        (Call::HunksAsData { name: Value::Unsaid, path: Text::from("a.c") }, "whatif diff a.c --json --patch"),
        (Call::Apply { name: name(), exclude: Some(Text::from("/mnt/it's")) }, r"whatif apply fox --exclude '/mnt/it'\''s'"),
        (Call::ReviewAgain { name: name(), decisions: Text::from("/s/review.json") }, "rm '/s/review.json'; whatif review fox"),
        (Call::undo("1a2b"), "whatif undo 1a2b"),
        (Call::Undo { id: "1a2b".into(), skip: Value::Blank }, "whatif undo 1a2b --skip PATH"),
        (Call::UndoPlan { id: "1a2b".into() }, "whatif undo 1a2b --dry-run"),
        (Call::UndoApproved { id: "1a2b".into() }, "whatif undo 1a2b --yes"),
        (save(Value::Blank, false), "whatif template save NAME TEMPLATE"),
        (save("node".into(), true), "whatif template save SANDBOX node --replace"),
        (Call::Import { choices: vec![Choice::Backend("copy".into())] }, "whatif import --backend copy FILE"),
        (Call::New { choices: vec![Choice::Net("allow=RULE".into())] }, "whatif new --net allow=RULE"),
        (Call::RaceRerun { attempt: Value::Unsaid }, "whatif race rerun"),
        (
            Call::Race { choices: vec![Choice::Check("npm test".into())], commands: vec!["npm i".to_owned(), "make".to_owned()] },
            "whatif race --check 'npm test' 'npm i' 'make'",
        ),
        (
            Call::RaceOne { choices: vec![Choice::Matrix("V=1.3.0,2.0.0".into())], command: "npm i left-pad@{V}".to_owned() },
            "whatif race --matrix V=1.3.0,2.0.0 -- npm i left-pad@{V}",
        ),
    ];
    for (called, expected) in table {
        assert_eq!(call(&called), expected);
    }
}

#[test]
fn choices_are_options() {
    let table = [
        (Choice::Ours(Value::Blank), "--ours PATH"),
        (Choice::Cwd(Value::Unsaid), "--cwd"),
        (Choice::Cwd(Path::new("/a b").into()), "--cwd '/a b'"),
        (Choice::Exclude(Path::new("/closed").into()), "--exclude '/closed'"),
        (Choice::Exclude(".git".into()), "--exclude .git"),
        (Choice::Mask("~/letters".into()), "--mask ~/letters"),
        (Choice::Env("TOKEN".into()), "--env TOKEN=…"),
        (Choice::Secret("API_TOKEN=@token.txt".into()), "--secret API_TOKEN=@token.txt"),
        (Choice::SecretHost("http://localhost:80".into()), "--for http://localhost:80"),
        (Choice::Check(Value::Blank), "--check 'COMMAND'"),
        (Choice::Attempt("small-fix=git apply fix.patch".into()), "--attempt small-fix='git apply fix.patch'"),
        (Choice::Metric("latency=p99: ([0-9.]+) ms".into()), "--metric 'latency=p99: ([0-9.]+) ms'"),
        (Choice::FilesOf("left".into()), "--files 'left=PATTERN'"),
        (Choice::Force, "--force"),
    ];
    for (chosen, expected) in table {
        assert_eq!(choice(&chosen), expected);
    }
}

#[test]
fn what_a_shell_would_take_apart_is_quoted() {
    let spelled = |path: &str| sentence(&remedy!["rm ", Argument(Path::new(path)), " or ", Apart(Path::new(path))]);
    assert_eq!(spelled("/a/b"), "rm /a/b or '/a/b'");
    assert_eq!(spelled("/a b"), "rm '/a b' or '/a b'");
    assert_eq!(spelled("/it's $(x)"), r"rm '/it'\''s $(x)' or '/it'\''s $(x)'");
    assert_eq!(spelled(""), "rm '' or ''");
    assert_eq!(sentence(&remedy![Mention(Call::List), " lists them"]), "'whatif ls' lists them");
}

/// One for each way of putting a sentence together.
#[test]
fn hints_read_as_sentences() {
    let hints = |error: EngineError| error.remedies().iter().map(sentence).collect::<Vec<_>>();
    let name = || "fox".to_owned();
    let table: [(EngineError, &[&str]); 5] = [
        (
            LifecycleError::Expired { name: name() }.into(),
            &[
                "its changes are kept: look at them (whatif diff fox), keep them (whatif apply fox)",
                "or give it more time: whatif start fox --ttl 1h",
            ],
        ),
        (
            GroundError::NoSandboxHere { project: "/p".into() }.into(),
            &["name one ('whatif ls' lists them), or make one: whatif run -- COMMAND"],
        ),
        (
            GitError::AtWork { lock: "/p/.git/index.lock".into() }.into(),
            &[
                "nothing was written. Try again when that git command has ended",
                "if none is running there, one was killed and left it behind: rm /p/.git/index.lock",
            ],
        ),
        (
            RaceError::NeedsEnv { race: name(), names: vec!["A".to_owned(), "B".to_owned()] }.into(),
            &["pass them again: --env A=… --env B=…"],
        ),
        (
            RaceError::Clash { one: "a".to_owned(), other: "b".to_owned(), clashes: Vec::new() }.into(),
            &["nothing was merged", "choose which version to take: --files 'a=PATTERN' --files 'b=PATTERN'"],
        ),
    ];
    for (error, expected) in table {
        assert_eq!(hints(error), expected);
    }
}
