//! A program of the host that does what programs do: many open files, a watched directory, a connection, a file that has to reach
//! the disk.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::Value;
use whatif_e2e::World;

/// For each line it reads it says what each of its works took at most half of the time since, and what failed.
const PROGRAM: &str = r#"
import ctypes, json, os, select, socket, statistics, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
resource = __import__('resource'); soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2048), hard))
kept = [os.open('/dev/null', os.O_RDONLY) for n in range(1024)]
directory = sys.argv[1]
listening = socket.create_server(('127.0.0.1', 0))
took, failures, lock = {}, [], threading.Lock()

def watch():
    fd = libc.inotify_init1(0)
    if fd < 0: raise OSError(ctypes.get_errno(), 'inotify_init1')
    if libc.inotify_add_watch(fd, directory.encode(), 0x100) < 0: raise OSError(ctypes.get_errno(), 'inotify_add_watch')
    return fd

def see(fd):
    path = os.path.join(directory, 'seen')
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY)); os.unlink(path)
    if not os.read(fd, 4096): raise OSError('no event')

watched = watch()
def inotify(): see(watched)

# To close one, the kernel waits until nobody on any processor can be in the middle of an event: 0.6 ms or 23 ms on an idle
# machine, as it happens, so that this is done for what may fail and not for its time.
def new_inotify_untimed():
    fd = watch()
    try: see(fd)
    finally: os.close(fd)
    os.read(watched, 4096)

def tcp():
    one = socket.create_connection(listening.getsockname(), timeout=10)
    other, _ = listening.accept()
    with one, other:
        one.sendall(b'x' * 20000)
        left = 20000
        while left: left -= len(other.recv(left))
        other.sendall(b'y'); assert one.recv(1) == b'y'

def fsync():
    path = os.path.join(directory, 'synced')
    with open(path, 'wb') as f:
        f.write(b'x' * 4096); f.flush(); os.fsync(f.fileno())

def descriptors():
    more = [os.dup(kept[0]) for n in range(100)]
    for fd in more: os.close(fd)

def work():
    while True:
        for do in (inotify, tcp, fsync, descriptors, new_inotify_untimed):
            begun = time.monotonic()
            try: do()
            except Exception as e:
                with lock: failures.append(f'{do.__name__}: {e!r}')
            with lock: took.setdefault(do.__name__, []).append(time.monotonic() - begun)
        time.sleep(0.01)

threading.Thread(target=work, daemon=True).start()
for line in sys.stdin:
    with lock:
        said = {'failures': failures[:], 'took': {k: [statistics.median(v), sorted(v)[len(v) * 99 // 100]] for k, v in took.items()}}
        took.clear(); failures.clear()
    print(json.dumps(said), flush=True)
"#;

pub struct Bystander {
    child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What it took for each of its works, in seconds: half of the times at most the first, and 99 of 100 at most the second.
#[derive(Debug)]
pub struct Took {
    pub failures: Vec<String>,
    works: Vec<(String, [f64; 2])>,
}

impl Bystander {
    pub fn beside(w: &World) -> Self {
        let directory = w.home.join("bystander");
        w.mkdir(&directory);
        let program = w.program("/usr/bin/python3").args(["-c", PROGRAM]).args([&directory]);
        let mut child = program.streams(Stdio::piped(), Stdio::piped(), Stdio::inherit()).spawn();
        let asked = child.stdin.take().expect("it is a pipe");
        let answers = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Self { child, asked, answers }
    }

    pub fn works_for(&mut self, time: Duration) -> Took {
        // How long it takes is what this is about, so here it is waited for.
        std::thread::sleep(time);
        self.ask()
    }

    pub fn end(mut self) -> Took {
        let took = self.ask();
        drop(self.asked);
        self.child.wait().expect("it is our child");
        took
    }

    fn ask(&mut self) -> Took {
        self.asked.write_all(b"\n").expect("it reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        let said: Value = serde_json::from_str(&line).expect("one document");
        let failures = said["failures"].as_array().into_iter().flatten().map(ToString::to_string).collect();
        let works = said["took"].as_object().expect("it did something").iter();
        let seconds = |of: &Value| of.as_f64().expect("a number");
        Took { failures, works: works.map(|(work, took)| (work.clone(), [seconds(&took[0]), seconds(&took[1])])).collect() }
    }
}

impl Took {
    pub fn assert_at_most(&self, times: f64, alone: &Self) {
        for ((work, now), (_, before)) in self.works.iter().zip(&alone.works) {
            let is_timed = !work.ends_with("_untimed");
            assert!(!is_timed || now[0] <= before[0] * times, "{work} took {} s instead of {} s", now[0], before[0]);
        }
    }
}
