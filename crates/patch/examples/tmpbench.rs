use std::time::Instant;
use whatif_patch::*;
fn t<R>(what: &str, f: impl Fn() -> R) {
    let s = Instant::now();
    std::hint::black_box(f());
    eprintln!("{what}: {:?}", s.elapsed());
}
fn main() {
    let mut x = 12345u64;
    let mut rnd = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let big: String = (0..100_000).map(|n| format!("line number {n} with some text {}\n", n % 97)).collect();
    let mut l: Vec<&str> = big.split_inclusive('\n').collect();
    l[50_000] = "changed\n";
    let one = l.concat();
    for i in (0..100_000).step_by(100) {
        l[i] = "many changed\n";
    }
    let many = l.concat();
    let (b, o, m) = (big.as_bytes(), one.as_bytes(), many.as_bytes());
    eprintln!("size {}", b.len());
    t("edits one", || edits(b, o));
    t("edits many", || edits(b, m));
    t("counts", || counts(b, m));
    t("hunks one", || hunks(b, o, 3));
    t("hunks many", || hunks(b, m, 3));
    t("merge", || merge(b, o, m));
    t("similarity", || similarity(b, m));
    t("blob_id", || blob_id(b));
    t("hidden", || hidden_characters(b));
    t("escape", || escape(b));
    t("lines", || lines(b));
    let ab: String = (0..200_000).map(|_| if rnd() % 2 == 0 { "a\n" } else { "b\n" }).collect();
    let ba: String = (0..200_000).map(|_| if rnd() % 2 == 0 { "a\n" } else { "b\n" }).collect();
    t("random ab edits", || edits(ab.as_bytes(), ba.as_bytes()));
    t("random ab merge", || merge(b"a\n", ab.as_bytes(), ba.as_bytes()));
    let e1 = vec![b'\n'; 400_000];
    let e2 = vec![b'\n'; 200_000];
    t("blank edits", || edits(&e1, &e2));
    t("blank edits rev", || edits(&e2, &e1));
    let r1: String = (0..200_000).map(|_| format!("{}\n", rnd() % 100_000)).collect();
    let r2: String = (0..200_000).map(|_| format!("{}\n", rnd() % 100_000)).collect();
    t("random numbers edits", || edits(r1.as_bytes(), r2.as_bytes()));
    let r3: String = (0..200_000).map(|_| format!("{}\n", rnd() % 1000)).collect();
    let r4: String = (0..200_000).map(|_| format!("{}\n", rnd() % 1000)).collect();
    t("random 1000 numbers edits", || edits(r3.as_bytes(), r4.as_bytes()));
    let mut rev: Vec<&str> = big.split_inclusive('\n').collect();
    rev.reverse();
    let rev = rev.concat();
    t("reversed edits", || edits(b, rev.as_bytes()));
    let noise: Vec<u8> = (0..8_000_000).map(|_| (rnd() >> 11) as u8).collect();
    t("binary patch 8M", || {
        let mut v = Vec::new();
        write_patch(&mut v, None, Some(Side { path: b"x", mode: 0o100644, content: &noise }), None).unwrap();
        v
    });
    t("similarity binary", || similarity(&noise, &noise[1..]));
    let w1: String = (0..1300).map(|_| if rnd() % 2 == 0 { "a," } else { "b " }).collect();
    let w2: String = (0..1300).map(|_| if rnd() % 2 == 0 { "a," } else { "b " }).collect();
    t("words worst", || words(w1.as_bytes(), w2.as_bytes()));
    t("words usual", || words(b"let total = sum(a, b);\n", b"let count = sum(a, b);\n"));
}
