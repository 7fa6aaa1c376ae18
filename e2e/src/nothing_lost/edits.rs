//! Random edits whose every word can be told from all others, as shell scripts.

use crate::Random;

/// Few, so that edits meet each other; odd, because real ones are.
const NAMES: [&str; 7] = ["f0", "f1", "f2", "'a b'", "-x", "\"$(printf 'n\\nl')\"", "'ü'"];
const DIRECTORIES: [&str; 5] = [".", "d0", "d1", "d0/e0", "d1/e0/g"];

/// Makes words that were never used before.
#[derive(Debug, Default)]
pub(super) struct Tokens(u64);

impl Tokens {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// The words that a script may write.
pub(super) fn tokens_in(script: &str) -> impl Iterator<Item = String> {
    let words = script.split(|c: char| !c.is_ascii_alphanumeric());
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    words.filter_map(move |word| match word.strip_prefix(['t', 'l', 'x']) {
        Some(number) => is_number(number).then(|| word.to_owned()),
        // An id in an access control list.
        None => is_number(word).then(|| format!("u{word}")),
    })
}

/// Whether a script may make a directory where there was one before.
pub(super) fn makes_again(script: &str) -> bool {
    ["rm -rf ", "mv moved0 "].iter().any(|words| script.contains(words))
}

/// A script that makes the first tree.
pub(super) fn tree(random: &mut Random, tokens: &mut Tokens) -> String {
    let mut script = format!("umask 022; mkdir -p {}\n", DIRECTORIES.join(" "));
    for _ in 0..12 + random.below(12) {
        let path = path(random);
        script.push_str(&format!("[ -e {path} ] || {{ "));
        for _ in 0..3 + random.below(6) {
            script.push_str(&format!("echo t{} >> {path}; ", tokens.next()));
        }
        script.push_str("}\n");
    }
    script
}

/// A script of some edits. What does not fit what it finds is left undone.
pub(super) fn work(random: &mut Random, tokens: &mut Tokens, most: usize) -> String {
    let mut script = "umask 022\n".to_owned();
    for _ in 0..1 + random.below(most) {
        let line = edit(random, tokens.next());
        script.push_str(&format!("{{ {line}; }} 2>/dev/null || :\n"));
    }
    script
}

fn edit(random: &mut Random, n: u64) -> String {
    let (a, b) = (path(random), path(random));
    let directory = *random.pick(&DIRECTORIES[1..]);
    let place = if random.once_in(3) { directory.to_owned() } else { a.clone() };
    let is_file = format!("[ -f {a} ] && [ ! -L {a} ]");
    let line = 1 + random.below(6);
    match random.below(27) {
        0 | 1 => format!("{is_file} && echo t{n} >> {a}"),
        2 | 3 => format!("{is_file} && sed -i '{line}i t{n}' {a}"),
        4 => format!("{is_file} && {{ echo t{n}; cat {a}; }} > {a}.new && mv {a}.new {a}"),
        5 => format!("{is_file} && sed '{line}s/.*/t{n}/' {a} > {a}.new && cat {a}.new > {a} && rm {a}.new"),
        6 => format!("{is_file} && sed -i '{line}d' {a}"),
        7 => format!("[ -L {a} ] || echo t{n} > {a}"),
        8 => format!("rm -f {a}"),
        9 => format!("[ -e {b} ] || mv {a} {b}"),
        10 => format!("[ -d {b} ] || mv {a} {b}"),
        11 => format!("[ -d {directory} ] && mv {directory} {}", random.pick(&["moved0", "moved1", "d0/moved"])),
        12 => format!("[ -d moved0 ] && [ ! -e {directory} ] && mv moved0 {directory}"),
        13 | 14 => format!("{is_file} && chmod {} {a}", random.pick(&["755", "644", "600", "664"])),
        15 | 16 => format!("[ -d {directory} ] && chmod {} {directory}", random.pick(&["755", "700", "750", "775"])),
        17 | 18 => format!("[ ! -L {place} ] && setfattr -n user.k{} -v x{n} {place}", random.below(3)),
        // An ordinary user's sandbox has no names for other users: what it copies loses them.
        19 => format!("[ \"$(id -u)\" = 0 ] && [ ! -L {place} ] && setfacl -m u:{}:r {place}", 100_000 + n),
        20 => format!("[ -d {a} ] || ln -sfn nowhere-l{n} {a}"),
        21 => format!("rm -rf {directory} && mkdir {directory} && echo t{n} > {directory}/new"),
        22 => format!("mkdir -p new{m}/deep && echo t{n} > new{m}/deep/f", m = n % 5),
        23 => format!("{is_file} && printf 'x\\0y\\n%s\\n' t{n} >> {a}"),
        24 => format!("{is_file} && cp -a {a} {a}.new && mv {a}.new {a}"),
        25 => format!("{is_file} && [ ! -e {b} ] && ln {a} {b}"),
        _ => format!("[ -d {directory} ] && mv {directory} swapped && cp -a swapped {directory} && rm -rf swapped"),
    }
}

fn path(random: &mut Random) -> String {
    let (directory, name) = (random.pick(&DIRECTORIES), random.pick(&NAMES));
    format!("{directory}/{name}")
}
