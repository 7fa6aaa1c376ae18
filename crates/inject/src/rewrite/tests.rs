use proptest::prelude::*;

use super::*;

const ONE: &str = "whatif-placeholder-00000000000000000000000000000001";
const TWO: &str = "whatif-placeholder-00000000000000000000000000000002";

fn known(name: &str, placeholder: &str, value: &str) -> Known {
    Known {
        name: name.to_owned(),
        placeholder: placeholder.as_bytes().to_vec(),
        value: Zeroizing::new(value.as_bytes().to_vec()),
        fields: vec![format!("x-for-{}", name.to_ascii_lowercase())],
    }
}

fn secrets() -> Vec<Known> {
    vec![known("ONE", ONE, "first-value"), known("TWO", TWO, "second: value")]
}

/// The fields after rewriting, and how many placeholders were replaced.
fn fields(fields: &str) -> (String, u64) {
    let before = "GET / HTTP/1.1\r\nHost: a.example\r\n";
    let rewritten = rewrite(format!("{before}{fields}\r\n\r\n").as_bytes(), &secrets()).unwrap();
    let text = String::from_utf8(rewritten.head.to_vec()).unwrap();
    (text.strip_prefix(before).unwrap().strip_suffix("\r\n\r\n").unwrap().to_owned(), rewritten.replaced)
}

fn basic_field(credentials: &str) -> String {
    format!("Authorization: Basic {}", BASE64_STANDARD.encode(credentials))
}

#[test]
fn placeholders_in_values_become_secrets() {
    for (given, expected, replaced) in [
        (format!("Authorization: Bearer {ONE}"), "Authorization: Bearer first-value".to_owned(), 1),
        (format!("x-api-key:{ONE}"), "x-api-key:first-value".to_owned(), 1),
        (format!("X-Api-Key: \t{ONE} "), "X-Api-Key: \tfirst-value ".to_owned(), 1),
        (format!("Authorization: a=b; t={ONE}; u={TWO}"), "Authorization: a=b; t=first-value; u=second: value".to_owned(), 2),
        (format!("Api-Key: {ONE}{ONE}"), "Api-Key: first-valuefirst-value".to_owned(), 2),
        (
            format!("Api-Key: {}whatif-placeholder-{ONE}", &ONE[..30]),
            format!("Api-Key: {}whatif-placeholder-first-value", &ONE[..30]),
            1,
        ),
        (format!("A: 1\r\nPrivate-Token: {TWO}\r\nC: 2"), "A: 1\r\nPrivate-Token: second: value\r\nC: 2".to_owned(), 1),
        (format!("X-For-One: {ONE}"), "X-For-One: first-value".to_owned(), 1),
    ] {
        assert_eq!(fields(&given), (expected, replaced), "{given}");
    }
}

#[test]
fn basic_credentials_are_opened_and_closed_again() {
    for (given, expected) in [
        (format!("user:{ONE}"), "user:first-value"),
        (format!("{ONE}:"), "first-value:"),
        (format!("{ONE}:{TWO}"), "first-value:second: value"),
        (format!("{ONE}:x-oauth-basic"), "first-value:x-oauth-basic"),
    ] {
        let replaced = given.matches("whatif-placeholder").count() as u64;
        assert_eq!(fields(&basic_field(&given)), (basic_field(expected), replaced));
    }
    let lower = basic_field(&format!("u:{ONE}")).replace("Authorization: Basic ", "authorization:  bAsIc  ");
    assert_eq!(fields(&lower).0, basic_field("u:first-value").replace("Authorization: Basic ", "authorization:  bAsIc  "));
}

#[test]
fn all_else_stays_as_it_is() {
    let encoded = BASE64_STANDARD.encode(format!("u:{ONE}"));
    for given in [
        format!("Authorization: Bearer {encoded}"),
        format!("X-Authorization: Basic {encoded}"),
        format!("Proxy-Authorization: Basic {encoded}"),
        format!("Authorization: Basic {encoded} more"),
        format!("Authorization: Basic {}", encoded.trim_end_matches('=').to_owned() + "*"),
        "Authorization: Basic".to_owned(),
        "Authorization:".to_owned(),
        format!("{ONE}: name"),
        format!("X: {}", &ONE[1..]),
        format!("X: {}", ONE.to_ascii_uppercase()),
        format!("X: {}", ONE.replace('-', "%2D")),
        // Fields that carry no credentials, or that belong to another secret.
        format!("X-For-Two: {ONE}"),
        format!("Cookie: t={ONE}"),
        format!("anthropic-beta: {ONE}"),
        format!("X-Forwarded-Prefix: {ONE}"),
        format!("Proxy-Authorization: Bearer {ONE}"),
        format!("Origin: https://{ONE}"),
        format!("user-agent: {ONE}"),
        format!("X-Request-ID: {ONE}"),
        format!("Access-Control-Request-Headers: {ONE}"),
        format!("Referer: https://a.example/?{ONE}"),
        format!("Content-Type: {ONE}"),
        format!("Sec-WebSocket-Protocol: {ONE}"),
        basic_field("user:password"),
    ] {
        assert_eq!(fields(&given), (given.clone(), 0));
    }
}

#[test]
fn a_placeholder_that_stays_is_told_about() {
    let left = |field: &str| {
        let head = format!("GET / HTTP/1.1\r\n{field}: {ONE}\r\n\r\n");
        rewrite(head.as_bytes(), &secrets()).unwrap().left.map(|left| left.to_string())
    };
    assert_eq!(left("X-Acme").unwrap(), "ONE was not put into the field x-acme; to send it there: --field ONE=x-acme");
    assert_eq!(left("User-Agent").unwrap(), "ONE was not put into the field user-agent");
    assert_eq!(left("X-Api-Key"), None);
}

#[test]
fn a_request_with_a_secret_asks_for_an_answer_that_can_be_read() {
    let offers = "accept-encoding: gzip, br\r\nTE: gzip\r\nSec-WebSocket-Extensions: permessage-deflate\r\n";
    let (with, replaced) = fields(&format!("{offers}X-Key: {ONE}"));
    assert_eq!((with.as_str(), replaced), ("Accept-Encoding: identity\r\nX-Key: first-value", 1));
    let without = format!("{offers}X-Other: {ONE}");
    assert_eq!(fields(&without), (without.clone(), 0));
}

#[test]
fn the_request_line_stays_as_it_is() {
    let head = format!("GET /{ONE}?q={ONE}:{TWO} HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let rewritten = rewrite(head.as_bytes(), &secrets()).unwrap();
    assert_eq!((rewritten.head.as_slice(), rewritten.replaced), (head.as_bytes(), 0));
}

#[test]
fn a_value_that_holds_a_placeholder_is_not_looked_at_again() {
    let secrets = [known("ONE", ONE, TWO), known("TWO", TWO, ONE)];
    let head = |value: &str| format!("GET / HTTP/1.1\r\nX-Key: {value}\r\n\r\n");
    assert_eq!(
        rewrite(head(&format!("{ONE} {TWO}")).as_bytes(), &secrets).unwrap().head.as_slice(),
        head(&format!("{TWO} {ONE}")).as_bytes()
    );
    let longer = format!("{ONE}-longer");
    let nested = [known("ONE", ONE, "short"), known("LONG", &longer, "long")];
    assert_eq!(rewrite(head(&longer).as_bytes(), &nested).unwrap().head.as_slice(), head("long").as_bytes());
}

#[test]
fn a_head_that_grows_too_long_is_refused_and_memory_is_never_moved() {
    let secrets = [known("ONE", ONE, &"v".repeat(8 * 1024))];
    let head = |times: usize| format!("GET / HTTP/1.1\r\nX-Key: {}\r\n\r\n", ONE.repeat(times));
    let rewritten = rewrite(head(3).as_bytes(), &secrets).unwrap();
    assert_eq!(rewritten.head.capacity(), LONGEST);
    assert!(matches!(rewrite(head(4).as_bytes(), &secrets), Err(TooLong)));
    let basic = format!("GET / HTTP/1.1\r\n{}\r\n\r\n", basic_field(&ONE.repeat(3)));
    assert!(matches!(rewrite(basic.as_bytes(), &secrets), Err(TooLong)));
}

proptest! {
    /// Where there is no placeholder, not a byte changes; and secrets never make another line.
    #[test]
    fn lines_stay_lines(lines in proptest::collection::vec("[A-Za-z-]{1,12}: ?[ -~]{0,40}", 0..8), place in 0usize..8) {
        let head = |lines: &[String]| format!("GET /x HTTP/1.1\r\n{}\r\n\r\n", lines.join("\r\n"));
        let plain = head(&lines);
        let untouched = rewrite(plain.as_bytes(), &secrets()).unwrap();
        prop_assert_eq!(untouched.head.as_slice(), plain.as_bytes());
        let mut lines = lines;
        if let Some(line) = lines.get_mut(place) {
            line.push_str(ONE);
            let rewritten = rewrite(head(&lines).as_bytes(), &secrets()).unwrap();
            let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(count(&rewritten.head), count(plain.as_bytes()));
        }
    }
}
