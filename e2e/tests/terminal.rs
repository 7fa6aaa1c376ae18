//! Interactive programs, driven through a real terminal.

use whatif_e2e::{Terminal, World, as_root_and_user, needs};

as_root_and_user!(
    the_prompt_of_a_shell_names_the_sandbox,
    a_shell_ends_with_what_was_changed,
    a_line_without_an_end_does_not_run_into_the_report,
    a_run_on_a_terminal_offers_a_review,
    a_shell_has_a_terminal_of_its_own,
    a_shell_that_another_command_stops_says_so,
    a_new_size_reaches_the_program,
    interrupts_reach_the_program_and_not_us,
    the_end_of_input_ends_the_shell,
    vim_opens_edits_and_quits,
    a_run_on_a_terminal_is_interactive,
    the_terminal_is_usable_afterwards,
    programs_work_in_tmux,
    one_sandbox_does_not_take_the_terminals_of_all,
);

/// As a user's settings make it: bash reads its own file as usual, which may set the prompt at each line.
fn the_prompt_of_a_shell_names_the_sandbox(w: &World) {
    needs!(w, "zsh", "fish");
    w.write(w.home.join(".bashrc"), "PS1='mine> '; SEEN=bashrc\n");
    w.write(w.home.join(".zshrc"), "PROMPT='mine> '; SEEN=zshrc\n");
    w.write(w.home.join(".config/fish/config.fish"), "function fish_prompt; echo -n 'mine> '; end; set SEEN config.fish\n");
    // Or else its first start reads all manual pages.
    w.outside("mkdir -p ~/.local/share/fish/generated_completions").ok();
    let before = w.outside("cat ~/.bashrc ~/.zshrc; ls -A ~").ok().stdout;
    // Not before: where there was no ~/.config, it stays hidden until the sandbox starts again.
    w.new_sandbox("fox");
    for (shell, seen) in [("bash", "bashrc"), ("zsh", "zshrc"), ("fish", "config.fish"), ("dash", "")] {
        let found = w.outside(&format!("command -v {shell}")).ok().text().to_owned();
        let mut terminal =
            Terminal::with(w, &["/usr/bin/env", &format!("SHELL={found}"), w.bin.to_str().expect("text"), "shell", "fox"]);
        terminal.expect("a shell in ");
        terminal.expect("(fox) ");
        if !seen.is_empty() {
            terminal.expect("mine> ");
        }
        terminal.type_in("echo seen-$SEEN-end\n");
        terminal.expect(&format!("seen-{seen}-end"));
        terminal.expect("(fox) ");
        terminal.type_in("exit\n");
        assert_eq!(terminal.ends(), 0, "{shell}");
    }
    let changing = "PS1='mine> '; PROMPT_COMMAND='PS1=\"at-$((1+1))> \"'\n";
    w.write(w.home.join(".bashrc"), changing);
    let mut terminal = Terminal::with(w, &["/usr/bin/env", "SHELL=/bin/bash", w.bin.to_str().expect("text"), "shell", "fox"]);
    terminal.expect("(fox) at-2> ");
    terminal.type_in("exit\n");
    terminal.ends();
    w.write(w.home.join(".bashrc"), "PS1='mine> '; SEEN=bashrc\n");
    assert_eq!(w.outside("cat ~/.bashrc ~/.zshrc; ls -A ~").ok().stdout, before);
}

fn a_shell_ends_with_what_was_changed(w: &World) {
    w.outside("echo old > old").ok();
    let (mut terminal, _) = shell(w, "fox");
    terminal.type_in("echo x > new; rm old; exit\n");
    terminal.expect("2 paths changed, 1 of them deleted");
    terminal.expect("; reality is untouched");
    terminal.expect("+ ");
    terminal.expect("whatif diff fox");
    assert_eq!(terminal.ends(), 0);
    w.new_sandbox("hen");
    let mut terminal = Terminal::with_whatif(w, &["shell", "hen"]);
    terminal.type_in("exit\n");
    terminal.expect("nothing changed in ");
    terminal.ends();
}

/// Only where a person is at both ends, and not where nothing is left to look at.
fn a_run_on_a_terminal_offers_a_review(w: &World) {
    let mut terminal = Terminal::with_whatif(w, &["run", "--name", "fox", "touch", "made"]);
    terminal.expect("drop it:");
    terminal.expect("Review now? [y/N] ");
    terminal.type_in("\n");
    assert_eq!(terminal.ends(), 0);
    assert!(!w.project.join("made").exists());
    let mut terminal = Terminal::with_whatif(w, &["run", "--name", "hen", "sh", "-c", "echo x > made; exit 3"]);
    terminal.expect("Review now? [y/N] ");
    terminal.type_in("y\n");
    terminal.expect("undecided");
    terminal.type_in("w");
    terminal.expect("nothing is accepted yet");
    terminal.type_in("aw");
    terminal.expect("1 accepted");
    terminal.expect("Apply 1 change");
    terminal.type_in("y\n");
    terminal.expect("1 change applied from hen");
    assert_eq!(terminal.ends(), 3, "the exit code is still the command's");
    assert_eq!(w.read("made"), "x\n");
    for quiet in
        [&["run", "-q", "touch", "a"][..], &["run", "--rm", "touch", "a"], &["run", "true"], &["--json", "run", "touch", "a"]]
    {
        let terminal = Terminal::with_whatif(w, quiet);
        assert_eq!(terminal.ends(), 0, "nobody answers");
    }
    let piped = w.whatif(["run", "touch", "b"]).go().ok();
    assert!(!piped.stderr.contains("Review"), "{}", piped.stderr);
}

/// The report begins on a line of its own, and without one nothing is added to what the command printed.
fn a_line_without_an_end_does_not_run_into_the_report(w: &World) {
    for (word, text) in [("printf", "no end"), ("echo", "an end")] {
        let mut terminal = Terminal::with_whatif(w, &["run", word, text]);
        terminal.expect(&format!("{text}\r\n"));
        terminal.expect("nothing changed");
        assert_eq!(terminal.ends(), 0);
    }
    let mut terminal = Terminal::with_whatif(w, &["run", "-q", "printf", "no end"]);
    terminal.expect("no end\x1b_ended 0");
}

fn shell<'a>(w: &World, name: &'a str) -> (Terminal, &'a str) {
    w.new_sandbox(name);
    let mut terminal = Terminal::with_whatif(w, &["shell", name]);
    terminal.expect(if w.is_root() { "# " } else { "$ " });
    terminal.type_in("PS1='ready> '\n");
    terminal.expect("\nready> ");
    (terminal, name)
}

fn a_shell_has_a_terminal_of_its_own(w: &World) {
    let (mut terminal, _) = shell(w, "tty");
    terminal.type_in("test -t 0 && test -t 1 && test -t 2 && echo all-$((40+2)); tty\n");
    terminal.expect("all-42");
    terminal.expect("/dev/pts/0");
    terminal.type_in("echo from-$((1+1)) > /dev/tty\n");
    terminal.expect("from-2");
    terminal.type_in("exit 5\n");
    assert_eq!(terminal.ends(), 5);
}

fn a_shell_that_another_command_stops_says_so(w: &World) {
    let (mut terminal, name) = shell(w, "stopped");
    w.whatif(["stop", name, "--grace", "0"]).go().ok();
    terminal.expect("sandbox 'stopped' was stopped while the command ran");
    terminal.expect("whatif start stopped");
    let said = terminal.screen().lines().any(|line| line.contains("ready>") && line.contains("was stopped"));
    assert!(!said, "it is a line of its own: {}", terminal.screen());
    terminal.ends();
}

fn a_new_size_reaches_the_program(w: &World) {
    let (mut terminal, _) = shell(w, "size");
    terminal.type_in("stty size\n");
    terminal.expect("24 80");
    // Not by the interactive shell itself, whose children are the foreground.
    terminal.type_in("sh -c 'trap \"echo resized-$((3+4)); exit\" WINCH; echo armed-$((1+1)); while :; do sleep 0.05; done'\n");
    terminal.expect("armed-2");
    terminal.resize(40, 100);
    terminal.expect("resized-7");
    terminal.expect("ready> ");
    terminal.type_in("stty size\n");
    terminal.expect("40 100");
    terminal.type_in("exit\n");
    terminal.ends();
}

fn interrupts_reach_the_program_and_not_us(w: &World) {
    let (mut terminal, _) = shell(w, "interrupt");
    // It says itself that it begins: the shell would say so before the terminal is its.
    terminal.type_in("sh -c 'echo begin-$((1+0)); exec sleep 1000'; echo code-$?\n");
    terminal.expect("begin-1");
    terminal.type_in("\u{3}");
    terminal.expect("ready> ");
    terminal.type_in("echo still-$((10+1))\n");
    terminal.expect("still-11");
    terminal.type_in("exit\n");
    terminal.ends();
}

fn the_end_of_input_ends_the_shell(w: &World) {
    let (mut terminal, _) = shell(w, "eof");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.ends(), 0);
}

fn vim_opens_edits_and_quits(w: &World) {
    needs!(w, "vim");
    let (mut terminal, name) = shell(w, "vim");
    terminal.type_in("vim -u NONE -i NONE edited; echo vim-$?\n");
    terminal.expect("~");
    terminal.type_in("ihello from vim\u{1b}:wq\n");
    terminal.expect("vim-0");
    terminal.type_in("exit\n");
    terminal.ends();
    assert_eq!(w.exec(name, "cat edited").ok().text(), "hello from vim");
    assert!(!w.project.join("edited").exists());
}

fn a_run_on_a_terminal_is_interactive(w: &World) {
    let mut terminal = Terminal::with_whatif(w, &["run", "--rm", "--", "/bin/sh", "-c", "tty; read line; echo got-$line"]);
    terminal.expect("/dev/pts/");
    terminal.type_in("words\n");
    terminal.expect("got-words");
    assert_eq!(terminal.ends(), 0);
}

/// Raw mode is ours only as long as the command runs.
fn the_terminal_is_usable_afterwards(w: &World) {
    let mut terminal = Terminal::with(w, &["/bin/sh", "-i"]);
    terminal.type_in(&format!(
        "stty -a | grep -o ' .icanon\\| icanon'; {} run --rm -- stty raw -echo; stty -a | grep -c ' icanon'\n",
        w.bin.display()
    ));
    terminal.expect("the sandbox is gone");
    terminal.expect("1");
    terminal.type_in("exit\n");
    terminal.ends();
}

fn programs_work_in_tmux(w: &World) {
    needs!(w, "tmux");
    w.new_sandbox("tmux");
    let socket = w.dir.join("tmux.sock").display().to_string();
    let tmux = |command: &str| w.outside(&format!("TERM=xterm tmux -f /dev/null -S {socket} {command}"));
    tmux(&format!("new-session -d -x 90 -y 30 '{} shell tmux'", w.bin.display())).ok();
    tmux("send-keys 'stty size; echo in-$((20+3))' Enter").ok();
    let screen = || tmux("capture-pane -p").stdout;
    let seen = whatif_e2e::wait_for(std::time::Duration::from_secs(60), || screen().contains("in-23").then(&screen));
    tmux("kill-server").ok();
    let seen = seen.unwrap_or_else(|| panic!("nothing came back: {}", screen()));
    assert!(seen.contains("90"), "the size is tmux's: {seen}");
}

fn one_sandbox_does_not_take_the_terminals_of_all(w: &World) {
    needs!(w, "python3");
    let program = r"
import json, os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
taken = []
try:
    while len(taken) < 400: taken.append(os.open('/dev/ptmx', os.O_RDWR))
except OSError: pass
print(json.dumps(len(taken)))";
    assert_eq!(w.python_inside(program), serde_json::json!(256));
}
