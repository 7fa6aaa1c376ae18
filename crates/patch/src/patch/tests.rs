use super::*;

const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_000;

fn side<'a>(path: &'a str, mode: u32, content: &'a [u8]) -> Option<Side<'a>> {
    Some(Side { path: path.as_bytes(), mode, content })
}

fn patch(before: Option<Side>, after: Option<Side>, rename: Option<u8>) -> String {
    let mut out = Vec::new();
    write_patch(&mut out, before, after, rename).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn nothing_changed_is_nothing() {
    assert_eq!(patch(side("a", FILE, b"x"), side("a", FILE, b"x"), None), "");
    assert_eq!(patch(None, None, None), "");
}

#[test]
fn a_changed_file() {
    let wanted = "\
diff --git a/f b/f
index 5626abf0f72e58d7a153368ba57db4c673c0e171..64c5e5885a4b06010b3a0c20edb7900dd0311025 100644
--- a/f
+++ b/f
@@ -1 +1 @@
-one
+two
\\ No newline at end of file
";
    assert_eq!(patch(side("f", FILE, b"one\n"), side("f", FILE, b"two"), None), wanted);
}

#[test]
fn a_new_file_with_a_blank_in_its_name() {
    let wanted = "\
diff --git a/a b b/a b
new file mode 100755
index 0000000000000000000000000000000000000000..5626abf0f72e58d7a153368ba57db4c673c0e171
--- /dev/null
+++ b/a b\t
@@ -0,0 +1 @@
+one
";
    assert_eq!(patch(None, side("a b", PROGRAM, b"one\n"), None), wanted);
}

#[test]
fn an_empty_file_has_a_header_only() {
    let wanted = "\
diff --git a/f b/f
deleted file mode 100644
index e69de29bb2d1d6434b8b29ae775ad8c2e48c5391..0000000000000000000000000000000000000000
";
    assert_eq!(patch(side("f", FILE, b""), None, None), wanted);
}

#[test]
fn a_changed_mode() {
    let wanted = "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n";
    assert_eq!(patch(side("f", FILE, b"x"), side("f", PROGRAM, b"x"), None), wanted);
}

#[test]
fn a_pure_rename() {
    let wanted = "\
diff --git a/f \"b/\\303\\251\"
similarity index 100%
rename from f
rename to \"\\303\\251\"
";
    assert_eq!(patch(side("f", FILE, b"x"), side("é", FILE, b"x"), Some(100)), wanted);
}

#[test]
fn a_file_that_became_a_link_goes_and_comes() {
    let out = patch(side("f", FILE, b"one\n"), side("f", LINK, b"to"), None);
    assert!(out.starts_with("diff --git a/f b/f\ndeleted file mode 100644\n"));
    assert!(out.contains("\n-one\ndiff --git a/f b/f\nnew file mode 120000\n"));
    assert!(out.ends_with("+to\n\\ No newline at end of file\n"));
}

#[test]
fn two_paths_without_a_rename_are_two_changes() {
    let out = patch(side("f", FILE, b"x"), side("g", FILE, b"x"), None);
    assert!(out.contains("diff --git a/f b/f\ndeleted"));
    assert!(out.contains("diff --git a/g b/g\nnew"));
}

#[test]
fn binary_content_has_both_directions() {
    let out = patch(side("f", FILE, b"\0"), side("f", FILE, b"text\n"), None);
    assert!(out.contains(" 100644\nGIT binary patch\nliteral 5\n"));
    assert!(out.contains("\n\nliteral 1\n"));
    assert!(!out.contains("---"));
}
