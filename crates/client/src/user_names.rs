//! What `/etc/passwd` calls a user.

/// The name of a user; nothing if the table has none or cannot be read.
pub fn of(uid: u32) -> Option<String> {
    name_in(&std::fs::read_to_string("/etc/passwd").ok()?, uid)
}

fn name_in(table: &str, uid: u32) -> Option<String> {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    };
    table.lines().find_map(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_number_counts() {
        let table = "root:x:0:0:root:/root:/bin/sh\n# a comment\n\nbroken:x\ntoor:x:0:0::/:\nme:x:1000:1000::/home/me:\n";
        assert_eq!(name_in(table, 0).as_deref(), Some("root"));
        assert_eq!(name_in(table, 1000).as_deref(), Some("me"));
        assert_eq!(name_in(table, 7), None);
    }
}
