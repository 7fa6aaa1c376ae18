use std::io::Write as _;

use super::*;

#[test]
fn the_three_forms_are_read() {
    let file = |path: &str| SecretSource::File(PathBuf::from(path));
    let variable = |name: &str| SecretSource::Environment(name.to_owned());
    for (text, name, source) in [
        ("TOKEN=@/run/token", "TOKEN", file("/run/token")),
        ("TOKEN=@token=file", "TOKEN", file("token=file")),
        ("TOKEN=@env", "TOKEN", file("env")),
        ("_t0=@/dev/fd/63", "_t0", file("/dev/fd/63")),
        ("TOKEN=env:MY_TOKEN", "TOKEN", variable("MY_TOKEN")),
        ("TOKEN=env", "TOKEN", variable("TOKEN")),
    ] {
        assert_eq!(parse(text).unwrap(), (name.to_owned(), source), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_and_a_value_is_not_repeated() {
    for (text, part) in [
        ("TOKEN", "write NAME=@file"),
        ("", "write NAME=@file"),
        ("TOKEN=", "must not stand on a command line"),
        ("TOKEN=hunter2", "must not stand on a command line"),
        ("TOKEN=environment", "must not stand on a command line"),
        ("TOKEN=@", "no file name"),
        ("TOKEN=@~/hunter", "TOKEN=@$HOME/hunter"),
        ("TOKEN=env:", "not a name of a variable"),
        ("TOKEN=env:A-B", "not a name of a variable"),
        ("1TOKEN=env", "not a name of a variable"),
        ("MY TOKEN=env", "not a name of a variable"),
        ("=env", "not a name of a variable"),
        ("T\u{f6}KEN=env", "not a name of a variable"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("hunter2"), "{text}: {error}");
    }
    assert!(!parse("ghp-hunter2").unwrap_err().to_string().contains("hunter2"));
}

fn read_bytes(bytes: &[u8]) -> Result<String, WishError> {
    // A pipe, as in NAME=@<(command).
    let (reader, mut writer) = io::pipe().unwrap();
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || writer.write_all(&bytes));
    let path = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
    let value = read("TOKEN", &SecretSource::File(path), |_| None).map(|value| value.to_string());
    drop(reader);
    // The reader may have left early.
    let _ = writing.join().unwrap();
    value
}

#[test]
fn one_line_break_at_the_end_is_left_out() {
    for (bytes, value) in [(&b"hunter2"[..], "hunter2"), (b"hunter2\n", "hunter2"), (b"hunter2\r\n", "hunter2"), (b"a b", "a b")] {
        assert_eq!(read_bytes(bytes).unwrap(), value);
    }
    let longest = "x".repeat(LONGEST_VALUE);
    assert_eq!(read_bytes(format!("{longest}\r\n").as_bytes()).unwrap(), longest);
}

#[test]
fn what_cannot_be_sent_is_refused_when_it_is_read() {
    for (bytes, part) in [
        (&b""[..], "empty"),
        (b"\n", "empty"),
        (b"hunter2\n\n", "line break"),
        (b"hunter2\nX-Admin: yes\n", "line break"),
        (b"hunter2\r", "line break"),
        (b"hunter2\0", "control character"),
        (b"hunter2\x1b[0m", "control character"),
        (b" hunter2", "white space"),
        (b"hunter2\xff", "UTF-8"),
        (&vec![b'x'; LONGEST_VALUE + 1], "longer than"),
        (&vec![b'x'; 1_000_000], "longer than"),
    ] {
        let error = read_bytes(bytes).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert!(!format!("{error:?}{error}").contains("hunter2"));
    }
}

#[test]
fn variables_are_looked_up_outside() {
    let source = SecretSource::Environment("MINE".to_owned());
    let lookup = |name: &str| (name == "MINE").then(|| "hunter2".to_owned());
    assert_eq!(*read("TOKEN", &source, lookup).unwrap(), "hunter2");
    assert!(read("TOKEN", &source, |_| None).unwrap_err().to_string().contains("the variable MINE is not set"));
    let error = read("TOKEN", &source, |_| Some("hunter2\nx".to_owned())).unwrap_err();
    assert!(error.to_string().contains("MINE") && !error.to_string().contains("hunter2"), "{error}");
    let missing = SecretSource::File(PathBuf::from("/nonexistent/token"));
    assert!(read("TOKEN", &missing, |_| None).unwrap_err().to_string().contains("/nonexistent/token"));
}
