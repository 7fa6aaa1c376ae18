//! Columns for people.

/// Pads each column to its widest cell. Escape sequences take no room.
#[must_use]
pub fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> =
        (0..columns).map(|c| rows.iter().filter_map(|r| r.get(c)).map(|cell| width(cell)).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line.push_str(cell);
            if column + 1 < row.len() {
                line.push_str(&" ".repeat(widths[column] - width(cell) + 2));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

fn width(cell: &str) -> usize {
    let mut count = 0;
    let mut in_escape = false;
    for c in cell.chars() {
        match (in_escape, c) {
            (false, '\x1b') => in_escape = true,
            (true, 'm') => in_escape = false,
            (false, _) => count += 1,
            (true, _) => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_their_colour() {
        let rows = [vec!["NAME".into(), "AGE".into()], vec!["\x1b[1mx\x1b[0m".into(), "3s".into()]];
        assert_eq!(render(&rows), "NAME  AGE\n\x1b[1mx\x1b[0m     3s");
    }
}
