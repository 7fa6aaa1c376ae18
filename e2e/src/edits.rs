//! Random trees and random work on them, as shell scripts: the same for the same seed.

use crate::Random;

/// Words of a shell. Few, so that edits meet each other; odd, because real ones are.
const NAMES: [&str; 9] = ["f0", "f1", "f2", "'a b'", "\"it's\"", "-x", "\"$(printf 'n\\nl')\"", "\"$(printf 'caf\\351')\"", "'ü'"];
/// Where links lead: nowhere, to a file, to directories. Never in a circle, which `git apply` cannot step over.
const TARGETS: [&str; 4] = ["nowhere", "changed", "d0", "../d1"];
const DIRECTORIES: [&str; 6] = [".", "d0", "d1", "d0/e0", "d0/e1", "d1/e0/g"];

/// A script that makes some files.
#[must_use]
pub fn tree(random: &mut Random) -> String {
    let mut script = format!("umask 022; mkdir -p {}\n", DIRECTORIES.join(" "));
    for _ in 0..20 + random.below(20) {
        let path = path(random);
        script.push_str(&match random.below(8) {
            0 => format!("ln -sfn {} {path} || :\n", random.pick(&TARGETS)),
            1 => format!("head -c {} /dev/zero | tr '\\0' '\\1' > {path} || :\n", random.below(5000)),
            2 => format!("truncate -s 0 {path} || :\n"),
            _ => format!("seq {} {} > {path} || :\n", random.below(9), 10 + random.below(90)),
        });
        if random.once_in(4) {
            script.push_str(&format!("[ -L {path} ] || chmod {} {path} || :\n", random.pick(&["755", "600", "640", "664"])));
        }
    }
    script.push_str("find . -type f -exec touch -d @1500000000.5 {} +\n");
    script
}

/// A script that changes such a tree. What does not fit what it finds is left undone.
#[must_use]
pub fn work(random: &mut Random) -> String {
    let mut script = format!("umask 022; echo {} > changed\n", random.number());
    for _ in 0..5 + random.below(25) {
        let line = edit(random);
        script.push_str(&format!("{{ {line}; }} 2>/dev/null || :\n"));
    }
    script
}

/// Each changes more than a time, which alone is no change.
fn edit(random: &mut Random) -> String {
    let (a, b) = (path(random), path(random));
    let directory = *random.pick(&DIRECTORIES[1..]);
    let n = random.below(90);
    match random.below(19) {
        0 => format!("[ -f {a} ] && echo {n} >> {a}"),
        1 => format!("[ -f {a} ] && sed -n '{m}q1' {a} || sed -i '{m}d' {a}", m = n / 4 + 1),
        2 => format!("[ -f {a} ] && grep -q '^{n}$' {a} && sed -i 's/^{n}$/changed/' {a}"),
        3 => format!("[ -f {a} ] && {{ seq {n} > t; echo {b} >> t; mv t {a}; }}"),
        4 => format!("[ -f {a} ] && printf 'a\\0%s' {n}{a} > {a}"),
        5 => format!("rm -f {a}"),
        6 => format!("rm -rf {a}"),
        7 => format!("[ -e {b} ] || mv {a} {b}"),
        8 => format!("mv {a} {b}"),
        9 => format!("[ -d {directory} ] && mv {directory} moved{n}"),
        10 => format!("[ -f {a} ] && [ ! -L {a} ] && chmod {} {a}", random.pick(&["755", "644", "600", "444"])),
        11 => format!("chmod {} {directory}", random.pick(&["755", "700", "750"])),
        12 => format!("[ -d {a} ] || ln -sfn {} {a}", random.pick(&TARGETS)),
        13 => format!("rm -rf {directory} && mkdir {directory} && echo {n} > {directory}/new"),
        14 => format!("rm -rf {directory} && echo {n} > {directory}"),
        15 => format!("rm -rf {a} && mkdir {a} && echo {n} > {a}/in"),
        16 => format!("mkdir -p new{n}/deep && seq {n} > new{n}/deep/f && mkdir new{n}/empty"),
        17 => format!("[ -f {a} ] && setfattr -n user.n{} -v {n} {a}", n % 3),
        _ => format!("[ -s {a} ] && truncate -s 0 {a}"),
    }
}

fn path(random: &mut Random) -> String {
    let (directory, name) = (random.pick(&DIRECTORIES), random.pick(&NAMES));
    format!("{directory}/{name}")
}
