//! A real terminal: that of tmux, whose screen can be looked at.

use std::time::Duration;

use crate::{World, wait_for};

/// A tmux of this test's own, with a shell that waits.
#[derive(Debug)]
pub struct Tmux<'a> {
    w: &'a World,
    socket: String,
}

impl<'a> Tmux<'a> {
    pub fn start(w: &'a World, columns: u32, rows: u32) -> Self {
        let tmux = Self { w, socket: w.dir.join("tmux.sock").display().to_string() };
        let whatif = w.bin.display();
        // A shell of which nothing is seen but what is typed.
        w.write(
            w.home.join("shrc"),
            format!("PS1='> '\nrace() {{ {whatif} race \"$@\"; echo code-$?; }}\nwhatif() {{ {whatif} \"$@\"; }}\n"),
        );
        tmux.run(&format!("new-session -d -x {columns} -y {rows} 'ENV={}/shrc sh -i'", w.home.display()));
        tmux.run("set-option -g history-limit 5000");
        tmux.shows(">");
        tmux
    }

    #[track_caller]
    pub fn run(&self, command: &str) -> String {
        self.w.outside(&format!("TERM=xterm-256color tmux -u -f /dev/null -S {} {command}", self.socket)).ok().stdout
    }

    pub fn type_in(&self, line: &str) {
        let quoted = line.replace('\'', "'\\''");
        self.run(&format!("send-keys -l '{quoted}'"));
        self.run("send-keys Enter");
    }

    pub fn screen(&self) -> Vec<String> {
        self.run("capture-pane -p").lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// What has gone out of the window at the top, too.
    pub fn everything(&self) -> String {
        self.run("capture-pane -p -S -")
    }

    /// With the escape sequences of colours.
    pub fn painted(&self) -> String {
        self.run("capture-pane -p -e -S -")
    }

    /// Waits until the screen is as wanted, and returns it.
    #[track_caller]
    pub fn until(&self, what: &str, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        let seen = wait_for(Duration::from_secs(300), || Some(self.screen()).filter(|screen| wanted(screen)));
        seen.unwrap_or_else(|| panic!("never on the screen: {what}\n{}", self.everything()))
    }

    #[track_caller]
    pub fn shows(&self, text: &str) -> Vec<String> {
        self.until(text, |screen| screen.iter().any(|line| line.contains(text)))
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let _ = self.w.outside(&format!("tmux -S {} kill-server", self.socket));
    }
}
