//! A small assembler for classic BPF programs that decide by system call number.
//!
//! The number is found by binary search over ranges. The crates for this emit one comparison a rule: loading such a filter
//! makes the kernel interpret it for every system call number, so its length counts some 450 times on the hot path.

use libc::sock_filter;

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const JUMP_ALWAYS: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;
const OFFSET_ARGUMENTS: u32 = 16;

/// What the kernel does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    Errno(i32),
    Kill,
}

impl Verdict {
    fn code(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Errno(errno) => libc::SECCOMP_RET_ERRNO | (errno.unsigned_abs() & libc::SECCOMP_RET_DATA),
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        }
    }
}

/// A question about the low 32 bits of one argument. (The high bits are ignored on purpose: the kernel reads these
/// arguments as 32-bit values, so a filter that looks at all 64 can be walked around.)
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// The first match decides.
    Equals {
        argument: u32,
        table: Vec<(u32, Verdict)>,
        otherwise: Verdict,
    },
    AnyBit {
        argument: u32,
        mask: u32,
        then: Verdict,
        otherwise: Verdict,
    },
    /// `argument` equals `value`: this verdict; else go on with `rest`.
    When {
        argument: u32,
        value: u32,
        then: Verdict,
        rest: Box<Test>,
    },
    /// `argument` is none of `values`: this verdict; else go on with `rest`.
    Unless {
        argument: u32,
        values: Vec<u32>,
        then: Verdict,
        rest: Box<Test>,
    },
    /// `argument` equals `value` and `second` equals `second_value`: allow; else go on with `rest`.
    BothEqual {
        argument: u32,
        value: u32,
        second: u32,
        second_value: u32,
        rest: Box<Test>,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Decision {
    Plain(Verdict),
    Ask(Test),
}

pub(crate) fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// The whole program: architecture, the x32 bit, then the number. `ranges` begin at their number and reach to the next one;
/// the first must begin at 0.
pub(crate) fn program(architecture: u32, x32_bit: Option<u32>, ranges: &[(u32, Decision)]) -> Vec<sock_filter> {
    let mut program = vec![
        statement(LOAD_WORD, OFFSET_ARCHITECTURE),
        jump(JUMP_EQUAL, architecture, 1, 0),
        statement(RETURN, Verdict::Kill.code()),
        statement(LOAD_WORD, OFFSET_NUMBER),
    ];
    if let Some(bit) = x32_bit {
        program.push(jump(JUMP_AT_LEAST, bit, 0, 1));
        program.push(statement(RETURN, Verdict::Errno(libc::ENOSYS).code()));
    }
    program.extend(search(ranges));
    program
}

fn search(ranges: &[(u32, Decision)]) -> Vec<sock_filter> {
    match ranges {
        [] => vec![statement(RETURN, Verdict::Errno(libc::ENOSYS).code())],
        [(_, decision)] => decide(decision),
        _ => {
            let (below, above) = ranges.split_at(ranges.len() / 2);
            let below_code = search(below);
            // A conditional jump reaches 255 instructions; for more it needs another one.
            let mut code = match u8::try_from(below_code.len()) {
                Ok(length) => vec![jump(JUMP_AT_LEAST, above[0].0, length, 0)],
                Err(_) => vec![jump(JUMP_AT_LEAST, above[0].0, 0, 1), statement(JUMP_ALWAYS, below_code.len() as u32)],
            };
            code.extend(below_code);
            code.extend(search(above));
            code
        }
    }
}

fn decide(decision: &Decision) -> Vec<sock_filter> {
    match decision {
        Decision::Plain(verdict) => vec![statement(RETURN, verdict.code())],
        Decision::Ask(test) => ask(test),
    }
}

fn ask(test: &Test) -> Vec<sock_filter> {
    let load =
        |argument: u32| statement(LOAD_WORD, OFFSET_ARGUMENTS + 8 * argument + if cfg!(target_endian = "big") { 4 } else { 0 });
    match test {
        Test::Equals { argument, table, otherwise } => {
            let mut code = vec![load(*argument)];
            for (value, verdict) in table {
                code.push(jump(JUMP_EQUAL, *value, 0, 1));
                code.push(statement(RETURN, verdict.code()));
            }
            code.push(statement(RETURN, otherwise.code()));
            code
        }
        Test::AnyBit { argument, mask, then, otherwise } => vec![
            load(*argument),
            jump(JUMP_ANY_BIT, *mask, 0, 1),
            statement(RETURN, then.code()),
            statement(RETURN, otherwise.code()),
        ],
        Test::When { argument, value, then, rest } => {
            let mut code = vec![load(*argument), jump(JUMP_EQUAL, *value, 0, 1), statement(RETURN, then.code())];
            code.extend(ask(rest));
            code
        }
        Test::Unless { argument, values, then, rest } => {
            let mut code = vec![load(*argument)];
            // Each match jumps over the comparisons that are left and over the verdict.
            for (value, to_rest) in values.iter().zip((1..=values.len() as u8).rev()) {
                code.push(jump(JUMP_EQUAL, *value, to_rest, 0));
            }
            code.push(statement(RETURN, then.code()));
            code.extend(ask(rest));
            code
        }
        Test::BothEqual { argument, value, second, second_value, rest } => {
            let mut code = vec![
                load(*argument),
                jump(JUMP_EQUAL, *value, 0, 3),
                load(*second),
                jump(JUMP_EQUAL, *second_value, 0, 1),
                statement(RETURN, Verdict::Allow.code()),
            ];
            code.extend(ask(rest));
            code
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets what the assembler emits, as the kernel would.
    fn run(program: &[sock_filter], architecture: u32, number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut accumulator) = (0_usize, 0_u32);
        loop {
            let instruction = &program[at];
            at += 1;
            let branch = |taken: bool| usize::from(if taken { instruction.jt } else { instruction.jf });
            match instruction.code {
                LOAD_WORD => {
                    accumulator = match instruction.k {
                        OFFSET_NUMBER => number,
                        OFFSET_ARCHITECTURE => architecture,
                        offset => arguments[((offset - OFFSET_ARGUMENTS) / 8) as usize],
                    }
                }
                JUMP_EQUAL => at += branch(accumulator == instruction.k),
                JUMP_AT_LEAST => at += branch(accumulator >= instruction.k),
                JUMP_ANY_BIT => at += branch(accumulator & instruction.k != 0),
                JUMP_ALWAYS => at += instruction.k as usize,
                RETURN => return instruction.k,
                other => panic!("instruction {other:#x} is not one we emit"),
            }
        }
    }

    #[test]
    fn every_number_gets_the_decision_of_its_range() {
        let ranges: Vec<(u32, Decision)> = (0..200)
            .map(|i| (i * 3, Decision::Plain(if i % 2 == 0 { Verdict::Allow } else { Verdict::Errno(i as i32) })))
            .collect();
        let program = program(7, Some(0x4000_0000), &ranges);
        for number in 0..650 {
            let i = (number / 3).min(199);
            let expected = if i % 2 == 0 { Verdict::Allow } else { Verdict::Errno(i as i32) };
            assert_eq!(run(&program, 7, number, [0; 6]), expected.code(), "number {number}");
        }
        assert_eq!(run(&program, 8, 0, [0; 6]), Verdict::Kill.code());
        assert_eq!(run(&program, 7, 0x4000_0000, [0; 6]), Verdict::Errno(libc::ENOSYS).code());
    }

    #[test]
    fn arguments_are_tested() {
        let otherwise = Verdict::Errno(97);
        let family = Test::Equals { argument: 0, table: vec![(1, Verdict::Allow), (2, Verdict::Allow)], otherwise };
        let socket = Test::BothEqual { argument: 0, value: 16, second: 2, second_value: 0, rest: Box::new(family) };
        let program = program(7, None, &[(0, Decision::Ask(socket))]);
        let allow = Verdict::Allow.code();
        assert_eq!(run(&program, 7, 0, [16, 3, 0, 0, 0, 0]), allow);
        assert_eq!(run(&program, 7, 0, [16, 3, 9, 0, 0, 0]), otherwise.code());
        assert_eq!(run(&program, 7, 0, [2, 0, 9, 0, 0, 0]), allow);
        assert_eq!(run(&program, 7, 0, [40, 0, 0, 0, 0, 0]), otherwise.code());
    }

    #[test]
    fn every_argument_can_have_a_list() {
        let [own, leave] = [1000, u32::MAX];
        let then = Verdict::Errno(1);
        let last = Test::Equals { argument: 2, table: vec![(own, Verdict::Allow), (leave, Verdict::Allow)], otherwise: then };
        let chown = Test::Unless { argument: 1, values: vec![own, leave], then, rest: Box::new(last) };
        let program = program(7, None, &[(0, Decision::Ask(chown))]);
        for (user, group, is_allowed) in [
            (own, own, true),
            (own, leave, true),
            (leave, own, true),
            (leave, leave, true),
            (0, own, false),
            (own, 0, false),
            (leave, 0, false),
            (0, leave, false),
        ] {
            let verdict = if is_allowed { Verdict::Allow } else { then };
            assert_eq!(run(&program, 7, 0, [0, user, group, 0, 0, 0]), verdict.code(), "{user}:{group}");
        }
    }
}
