use super::*;

fn brief(xml: &str) -> Result<(u64, u64, u64), JunitError> {
    count(xml.as_bytes()).map(|counts| (counts.passed, counts.failed, counts.skipped))
}

#[test]
fn each_test_case_is_counted_whatever_the_suites_claim() {
    let xml = r#"<?xml version="1.0"?><testsuites tests="900"><testsuite name="a" failures="70">
        <properties><property name="x" value="testcase"/></properties>
        <testcase name="one"/><testcase name="two"><failure>no</failure></testcase>
        <testsuite name="b"><testcase classname="K" name="three"><error/><error/></testcase><testcase name="four"><skipped/></testcase></testsuite>
        <testcase name="five" status="notrun"/><testcase name="six"><system-out>&lt;failure/></system-out><flakyFailure/></testcase>
        <testcase name="seven"><skipped/><failure/></testcase>
    </testsuite></testsuites>"#;
    assert_eq!(brief(xml), Ok((2, 2, 3)));
    assert_eq!(count(xml.as_bytes()).unwrap().failures, ["two", "K.three"]);
}

#[test]
fn what_goes_wrong_around_the_tests_is_a_failure() {
    assert_eq!(brief(r#"<testsuite name="setup"><error message="no database"/></testsuite>"#), Ok((0, 1, 0)));
}

#[test]
fn what_is_no_report_is_refused() {
    let table = [
        ("", JunitError::Empty),
        ("just text", JunitError::Empty),
        ("<html><testcase/></html>", JunitError::NotJunit { found: "html".to_owned() }),
        ("<testsuite><testcase name=\"a\"/>", JunitError::Truncated),
        ("<testsuite><testcase name=\"a", JunitError::Truncated),
        ("<testsuite><!-- ", JunitError::Truncated),
    ];
    for (xml, error) in table {
        assert_eq!(brief(xml), Err(error), "{xml}");
    }
    assert!(matches!(brief("<testsuite></testcase>"), Err(JunitError::NotXml { .. })));
}

#[test]
fn entities_are_not_expanded() {
    let bomb = r#"<?xml version="1.0"?><!DOCTYPE t [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>
        <testsuite><testcase name="x&b;&f;"><failure>&b;&b;&f;</failure></testcase><testcase name="&#65;&amp;B"><failure/></testcase></testsuite>"#;
    let counts = count(bomb.as_bytes()).unwrap();
    assert_eq!(counts.failures, ["x&b;&f;", "A&B"]);
}

#[test]
fn deep_and_wide_documents_end() {
    assert_eq!(brief(&"<testsuite>".repeat(100_000)), Err(JunitError::TooDeep));
    let attributes: String = (0..100_000).map(|number| format!(" a{number}=\"\"")).collect();
    assert_eq!(brief(&format!("<testsuite><testcase{attributes} name=\"late\"><failure/></testcase></testsuite>")), Ok((0, 1, 0)));
    assert_eq!(brief(&format!("<testsuite>{}</testsuite>", "<testcase/>".repeat(200_000))), Ok((200_000, 0, 0)));
    assert_eq!(count(&vec![b' '; LARGEST + 1]), Err(JunitError::TooLarge));
}

#[test]
fn bytes_that_are_no_text_are_in_names_only() {
    let xml = b"\xef\xbb\xbf<testsuite><testcase name=\"caf\xe9 \x1b[31m\"><failure>\xff\x00 &</failure></testcase></testsuite>";
    let counts = count(xml).unwrap();
    assert_eq!((counts.failed, counts.failures[0].as_str()), (1, "caf\u{fffd} [31m"));
}
