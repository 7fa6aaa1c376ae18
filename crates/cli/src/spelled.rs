//! How calls and choices are spelled on a command line. Libraries name them as data; this is the one place that knows the words.

#[cfg(test)]
mod libraries;
#[cfg(test)]
mod tests;

use whatif_types::remedy::{Call, Choice, Part, Sentence, Value};
use whatif_types::text::Text;

/// As a person reads it.
#[must_use]
pub fn sentence(sentence: &Sentence) -> String {
    sentence.parts.iter().map(part).collect()
}

fn part(part: &Part) -> String {
    match part {
        Part::Words(words) => words.clone(),
        Part::Call(called) => call(called),
        Part::Mention { mention } => format!("'{}'", call(mention)),
        Part::Choice(chosen) => choice(chosen),
        Part::Argument { argument } => quoted(argument),
        Part::Path { path } => in_quotes(path),
    }
}

/// A command line that can be pasted.
#[must_use]
pub fn call(call: &Call) -> String {
    let words = match call {
        Call::List => "ls".to_owned(),
        Call::Show { name } => about("show", name, "NAME"),
        Call::New { choices } => with("new", choices),
        Call::Run { command } => about("run --", command, "COMMAND"),
        Call::RunScript => "run -- sh -c '…'".to_owned(),
        Call::Start { name, ttl } => {
            about("start", name, "NAME") + &ttl.as_ref().map(|ttl| format!(" --ttl {ttl}")).unwrap_or_default()
        }
        Call::Stop { name } => about("stop", name, "NAME"),
        Call::Remove { name } => about("rm", name, "NAME"),
        Call::Fork { from } => about("fork", from, "NAME"),

        Call::Exec { name } => about("exec", name, "NAME"),
        Call::ExecScript { name } => about("exec", name, "NAME") + " -- sh -c '…'",
        Call::ExecDetached => "exec -d".to_owned(),
        Call::Shell { name, is_stopped: false } => about("shell", name, "NAME"),
        Call::Shell { name, is_stopped: true } => {
            format!("{} && whatif {}", about("start", name, "NAME"), about("shell", name, "NAME"))
        }
        Call::Processes { name } => about("ps", name, "NAME"),
        Call::Logs { name, command } => format!("{} {command}", about("logs", name, "NAME")),

        Call::Diff { name } => about("diff", name, "NAME"),
        Call::Compare => "diff A..B".to_owned(),
        Call::Patch { name } => about("diff", name, "NAME") + " --patch",
        Call::ChangedPaths { name } => about("diff", name, "NAME") + " --name-only --all --outside",
        Call::Hunks { name, path } => format!("{} {}", about("diff", name, "NAME"), quoted(path)),
        Call::HunksAsData { name, path } => format!("{} {} --json --patch", about("diff", name, "NAME"), quoted(path)),
        Call::Status => "status".to_owned(),
        Call::Review { name } => about("review", name, "NAME"),
        Call::ReviewAgain { name, decisions } => {
            return format!("rm {}; whatif {}", in_quotes(decisions), about("review", name, "NAME"));
        }
        Call::Apply { name, exclude } => {
            let left_out = exclude.as_ref().map(|path| format!(" --exclude {}", quoted(path)));
            about("apply", name, "NAME") + &left_out.unwrap_or_default()
        }
        Call::Rebase { name } => about("rebase", name, "NAME"),
        Call::Undo { id, skip: Value::Unsaid } => about("undo", id, "ID"),
        Call::Undo { id, skip } => format!("{} {}", about("undo", id, "ID"), about("--skip", skip, "PATH")),
        Call::UndoPlan { id } => about("undo", id, "ID") + " --dry-run",
        Call::UndoApproved { id } => about("undo", id, "ID") + " --yes",
        Call::History => "history".to_owned(),
        Call::HistoryAsData => "history --json".to_owned(),

        Call::Snapshots { name } => about("snapshots", name, "NAME"),
        Call::RemoveSnapshot { label } => about("snapshot rm", label, "LABEL"),
        Call::Squash { name } => about("squash", name, "NAME"),
        Call::Templates => "template ls".to_owned(),
        Call::SaveTemplate { sandbox, template, replace } => {
            let blank = if *template == Value::Blank { "NAME" } else { "SANDBOX" };
            let saved = format!("{}{}", about("template save", sandbox, blank), about("", template, "TEMPLATE"));
            if *replace { saved + " --replace" } else { saved }
        }
        Call::RemoveTemplate { name } => about("template rm", name, "TEMPLATE"),
        Call::Export { name } => about("export", name, "NAME"),
        Call::Import { choices } => with("import", choices) + " FILE",
        Call::ImportList => "import --list FILE".to_owned(),

        Call::Network { name } => about("net", name, "NAME"),
        Call::Ports { name } => about("port", name, "NAME"),

        Call::Race { choices, commands } => {
            let commands = commands.iter().map(|command| format!(" {}", in_quotes(&Text::from(command))));
            with("race", choices) + &commands.collect::<String>()
        }
        Call::RaceOne { choices, command } => format!("{} -- {command}", with("race", choices)),
        Call::RaceAny => "race 'COMMAND' 'COMMAND' --check 'COMMAND'".to_owned(),
        Call::Races => "race ls".to_owned(),
        Call::RaceShow => "race show".to_owned(),
        Call::RaceResume => "race resume".to_owned(),
        Call::RaceRerun { attempt } => about("race rerun", attempt, "ATTEMPT"),
        Call::RaceApply { attempt } => about("race apply", attempt, "ATTEMPT"),
        Call::RaceDiff { attempt } => about("race diff", attempt, "ATTEMPT"),
        Call::RaceMerge => "race merge A B".to_owned(),
        Call::RaceRemove { name } => about("race rm", name, "NAME"),

        Call::DiskUsage => "du".to_owned(),
        Call::CollectPreview => "gc --dry-run".to_owned(),
        Call::Adopt => "gc --adopt".to_owned(),
        Call::Doctor => "doctor".to_owned(),
    };
    format!("whatif {words}")
}

/// An option, with its value if that is said.
#[must_use]
pub fn choice(choice: &Choice) -> String {
    let (option, value, blank) = match choice {
        Choice::Ours(path) => ("--ours", path, "PATH"),
        Choice::Theirs(path) => ("--theirs", path, "PATH"),
        Choice::Skip(path) => ("--skip", path, "PATH"),
        Choice::Files(pattern) => ("--files", pattern, "GLOB"),
        // Patterns are not meant for the shell, and a path may look like one.
        Choice::Exclude(Value::Given(path)) if path.as_bytes().contains(&b'/') => {
            return format!("--exclude {}", in_quotes(path));
        }
        Choice::Exclude(pattern) => ("--exclude", pattern, "GLOB"),
        Choice::NoChecks => return "--no-checks".to_owned(),
        Choice::DryRun => return "--dry-run".to_owned(),
        Choice::Yes => return "--yes".to_owned(),
        Choice::Commit => return "--commit".to_owned(),

        Choice::Cwd(path) => ("--cwd", path, "DIRECTORY"),
        Choice::Backend(name) => ("--backend", name, "BACKEND"),
        Choice::Mask(path) => ("--mask", path, "PATH"),
        Choice::Memory(size) => ("--memory", size, "SIZE"),
        Choice::Disk(size) => ("--disk", size, "SIZE"),
        Choice::Inodes(number) => ("--inodes", number, "NUMBER"),
        Choice::RequireLimits => return "--require-limits".to_owned(),
        // The value is not known here, or not to be shown.
        Choice::Env(Value::Given(name)) => return format!("--env {}=…", quoted(name)),
        Choice::Env(name) => ("--env", name, "NAME=VALUE"),
        Choice::Net(mode) => ("--net", mode, "MODE"),
        Choice::Reach(place) => ("--reach", place, "localhost:PORT"),
        Choice::Publish(ports) => ("--publish", ports, "PORT"),
        Choice::Secret(secret) => ("--secret", secret, "NAME=SOURCE"),
        Choice::SecretHost(host) => ("--for", host, "HOST"),
        Choice::SecretField(field) => ("--field", field, "FIELD"),

        Choice::Live(how) => ("--live", how, "HOW"),
        Choice::From(offset) => ("--from", offset, "OFFSET"),
        Choice::Force => return "--force".to_owned(),
        Choice::Replace => return "--replace".to_owned(),
        Choice::Output(file) => ("--output", file, "FILE"),
        Choice::TemplateName(name) => ("--template", name, "NAME"),
        Choice::Project(path) => ("--project", path, "DIRECTORY"),

        Choice::Check(Value::Given(command)) => return format!("--check {}", in_quotes(command)),
        Choice::Check(command) => ("--check", command, "'COMMAND'"),
        Choice::Command => return "after --".to_owned(),
        Choice::Repeats(number) => ("--repeats", number, "NUMBER"),
        Choice::Jobs(number) => ("--jobs", number, "NUMBER"),
        Choice::Attempt(Value::Given(attempt)) => return format!("--attempt {}", named(attempt)),
        Choice::Attempt(attempt) => ("--attempt", attempt, "NAME=COMMAND"),
        Choice::Count(number) => ("--count", number, "NUMBER"),
        Choice::Matrix(row) => ("--matrix", row, "NAME=VALUE,VALUE"),
        Choice::Prompt(text) => ("--prompt", text, "TEXT"),
        Choice::Revert(commit) => ("--revert", commit, "COMMIT"),
        Choice::Metric(metric) => ("--metric", metric, "NAME=REGEX"),
        Choice::Weight(weight) => ("--weight", weight, "METRIC=NUMBER"),
        Choice::FilesOf(Value::Given(attempt)) => {
            return format!("--files {}", in_quotes(&Text::from(&format!("{}=PATTERN", attempt.to_path().display()))));
        }
        Choice::FilesOf(attempt) => ("--files", attempt, "'ATTEMPT=PATTERN'"),
        Choice::As(name) => ("--as", name, "NAME"),
    };
    about(option, value, blank)
}

/// A word and what it is about. What is to be filled in is in capitals.
fn about(word: &str, value: &Value, blank: &str) -> String {
    match value {
        Value::Given(value) => format!("{word} {}", quoted(value)),
        Value::Blank => format!("{word} {blank}"),
        Value::Unsaid => word.to_owned(),
    }
}

fn with(verb: &str, choices: &[Choice]) -> String {
    choices.iter().fold(verb.to_owned(), |words, chosen| words + " " + &choice(chosen))
}

/// `NAME=rest`, of which only the rest may need quotes.
fn named(text: &Text) -> String {
    let whole = text.to_path().display().to_string();
    match whole.split_once('=') {
        Some((name, rest)) => format!("{}={}", quoted(&Text::from(name)), quoted(&Text::from(rest))),
        None => quoted(text),
    }
}

/// As a shell takes it for one word.
pub fn quoted(text: &Text) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+@=:,~".contains(byte);
    let bytes = text.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(is_plain) { String::from_utf8_lossy(bytes).into_owned() } else { in_quotes(text) }
}

fn in_quotes(text: &Text) -> String {
    format!("'{}'", String::from_utf8_lossy(text.as_bytes()).replace('\'', r"'\''"))
}
