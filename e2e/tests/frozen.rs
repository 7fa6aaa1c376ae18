//! A living sandbox is held by the kernel's freezer where there is one: no signal that a process sends itself undoes that, and the hold
//! ends with whoever asked for it, however that ends.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use whatif_e2e::{World, as_root_and_user, eventually, wait_for};

as_root_and_user!(
    a_hold_is_not_undone_from_inside_and_ends_with_its_holder,
    a_killed_keeper_leaves_nothing_frozen,
    what_is_frozen_can_be_removed,
    a_command_begins_in_the_group,
    what_a_command_leaves_running_is_taken_in,
    a_command_that_goes_on_is_taken_in,
    a_run_that_leaves_something_has_it_taken_in,
);

/// Counts in a mapped page. Every millisecond another timer sends SIGCONT, which undoes SIGSTOP. (A single one would not do: its timer
/// ends when a SIGSTOP meets the signal on its way.) What serves a file from user space hears of a page only when it is flushed.
const COUNTING: &str = "import ctypes,mmap,os,signal,struct,sys,time
class Event(ctypes.Structure): _fields_=[('v',ctypes.c_void_p),('signal',ctypes.c_int),('notify',ctypes.c_int),('rest',ctypes.c_char*64)]
class Interval(ctypes.Structure): _fields_=[(n,ctypes.c_long) for n in ('es','ens','fs','fns')]
libc=ctypes.CDLL(None); signal.signal(signal.SIGCONT,lambda *_:None)
for k in range(1,1+int(sys.argv[1])):
  timer=ctypes.c_void_p(); assert libc.timer_create(time.CLOCK_MONOTONIC,ctypes.byref(Event(None,signal.SIGCONT,0)),ctypes.byref(timer))==0
  assert libc.timer_settime(timer,0,ctypes.byref(Interval(0,20000000,0,k*1000000)),None)==0
f=os.open('counter',os.O_RDWR|os.O_CREAT); os.ftruncate(f,8); m=mmap.mmap(f,8); n=0
while True:
  n+=1; m[0:8]=struct.pack('<Q',n)
  if sys.argv[2]=='fuse': m.flush()";

/// A sandbox in which somebody counts.
struct Counting<'a> {
    w: &'a World,
    name: String,
    counter: PathBuf,
    /// What the check of an apply runs, which tells it from that of every other test.
    check: String,
}

impl<'a> Counting<'a> {
    fn start(w: &'a World) -> Self {
        let check = format!("sleep 300.{}", fs::metadata(&w.dir).expect("it is there").ino());
        w.write(".whatif.toml", format!("[[apply.checks]]\nname = \"slow\"\nrun = \"exec {check}\"\n"));
        let name = w.new_sandbox("f");
        // An ordinary user has no freezer here: what does not want to be held is refused, if need be.
        let timers = if w.is_root() { "20" } else { "0" };
        w.whatif(["exec", &name, "-d", "--", "/usr/bin/python3", "-ISc", COUNTING, timers, w.backend()]).go().ok();
        let find = format!("find {}/head -name counter -size 8c", w.directory(&name).display());
        let found = || Some(w.outside(&find).stdout.trim().to_owned()).filter(|path| !path.is_empty());
        let counter = wait_for(Duration::from_secs(60), found).expect("it counts").into();
        let it = Self { w, name, counter, check };
        eventually("it counts", || it.count() > 0);
        it
    }

    fn count(&self) -> u64 {
        let bytes = fs::read(&self.counter).expect("the page can be read");
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// An apply that holds the sandbox while its check runs.
    fn hold(&self) -> Child {
        let call = self.w.whatif(["apply", &self.name, "--yes"]);
        let holder = call.streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
        eventually("the check runs", || self.is_checking());
        holder
    }

    fn is_checking(&self) -> bool {
        let entries = fs::read_dir("/proc").expect("there are processes").filter_map(Result::ok);
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.map(|line| String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")).any(|line| line == self.check)
    }

    fn group(&self) -> Option<PathBuf> {
        group(self.w, &self.name)
    }
}

/// The directory of the group that can be frozen, if there is one.
fn group(w: &World, name: &str) -> Option<PathBuf> {
    fs::read_to_string(w.directory(name).join("freezer")).ok().map(PathBuf::from)
}

/// How many processes can be frozen without being moved first.
fn members(w: &World, name: &str) -> Option<usize> {
    fs::read_to_string(group(w, name)?.join("cgroup.procs")).ok().map(|text| text.lines().count())
}

/// An ordinary user has no freezer here.
fn expect_one_member(w: &World, name: &str) {
    if w.is_root() {
        eventually("it is in the group", || members(w, name) == Some(1));
    } else {
        assert_eq!(members(w, name), None);
    }
    w.whatif(["rm", name, "--yes"]).go().ok();
}

fn kill(mut holder: Child) {
    holder.kill().expect("it is ours");
    holder.wait().expect("it has ended");
}

fn a_hold_is_not_undone_from_inside_and_ends_with_its_holder(w: &World) {
    let counting = Counting::start(w);
    let holder = counting.hold();
    let before = counting.count();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(counting.count(), before, "it ran while it was held");
    kill(holder);
    eventually("it goes on", || counting.count() > before);
    w.whatif(["rm", &counting.name, "--yes"]).go().ok();
}

fn a_killed_keeper_leaves_nothing_frozen(w: &World) {
    let counting = Counting::start(w);
    let keeper = Pid::from_raw(w.keeper_pid(&counting.name)).expect("it has one");
    let holder = counting.hold();
    let group = counting.group();
    assert_eq!(group.is_some(), w.is_root());
    kill_process(keeper, Signal::KILL).expect("it is ours");
    kill(holder);
    eventually("that is noticed", || {
        // While it dies it can be reached but does not answer.
        let shown = w.whatif(["--json", "show", &counting.name]).go();
        shown.code == 0 && shown.json()["status"] == "stopped"
    });
    eventually("nobody counts", || !w.processes().iter().any(|process| process.contains("keeper") && !process.contains("attend")));
    assert!(!group.is_some_and(|group| group.exists()));
    w.whatif(["start", &counting.name]).go().ok();
    w.assert_alive(&counting.name);
    w.whatif(["rm", &counting.name, "--yes"]).go().ok();
}

/// A keeper that is killed in the middle of a hold can thaw nothing any more.
fn what_is_frozen_can_be_removed(w: &World) {
    let counting = Counting::start(w);
    w.whatif(["diff", &counting.name]).go().ok();
    let Some(group) = counting.group() else { return assert!(!w.is_root()) };
    let (state, frozen) = if group.join("cgroup.freeze").exists() { ("cgroup.freeze", "1") } else { ("freezer.state", "FROZEN") };
    fs::write(group.join(state), frozen).expect("it is ours");
    w.whatif(["rm", &counting.name, "--yes"]).go().ok();
    eventually("it is gone", || !group.exists() && w.transient().is_empty());
}

/// Moving a process makes the kernel wait for some milliseconds, which whoever holds it would notice.
fn a_command_begins_in_the_group(w: &World) {
    let name = w.new_sandbox("f");
    w.whatif(["exec", &name, "--", "true"]).go().ok();
    assert_eq!(members(w, &name), w.is_root().then_some(0));
    w.whatif(["exec", &name, "-d", "--", "sleep", "1000"]).go().ok();
    assert_eq!(members(w, &name), w.is_root().then_some(1));
    w.whatif(["exec", &name, "-d", "--", "sleep", "1000"]).go().ok();
    assert_eq!(members(w, &name), w.is_root().then_some(2));
    w.whatif(["rm", &name, "--yes"]).go().ok();
}

fn what_a_command_leaves_running_is_taken_in(w: &World) {
    let name = w.new_sandbox("f");
    w.whatif(["exec", &name, "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 &"]).go().ok();
    expect_one_member(w, &name);
}

fn a_command_that_goes_on_is_taken_in(w: &World) {
    let name = w.new_sandbox("f");
    let call = w.whatif(["exec", &name, "--", "sleep", "1000"]);
    let waiting = call.streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
    expect_one_member(w, &name);
    kill(waiting);
}

fn a_run_that_leaves_something_has_it_taken_in(w: &World) {
    w.whatif(["run", "--name", "f", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 &"]).go().ok();
    expect_one_member(w, "f");
}
