//! The lines that show which snapshot came from which.
//!
//! A snapshot stands in the column of the one it came from, right below it. Only where several came from the same one do they
//! step to the side: a long history without branches stays flat.

/// So many levels leave room for the other columns of a terminal of 80.
const MOST_LEVELS: usize = 8;
/// Each of `├─ `, `└─ `, `│  ` and what is left blank.
const WIDTH: usize = 3;

/// What is drawn before a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub struct Branch {
    pub lines: String,
    /// There was no room for another level: the lines do not tell what it came from.
    pub is_cramped: bool,
}

/// Given how deep each lies, every one after the one it came from.
pub fn branches(depths: &[usize]) -> Vec<Branch> {
    let families = families(depths);
    // What is drawn before whatever comes from the latest one at each depth.
    let mut below: Vec<String> = vec![String::new()];
    let mut drawn = Vec::with_capacity(depths.len());
    for (depth, family) in depths.iter().zip(families) {
        below.truncate(depth + 1);
        let above = below.last().cloned().unwrap_or_default();
        let (joint, line) = match family {
            Family::OnlyChild => ("", ""),
            Family::Sibling => ("├─ ", "│  "),
            Family::LastSibling => ("└─ ", "   "),
        };
        let is_cramped = !joint.is_empty() && above.chars().count() == MOST_LEVELS * WIDTH;
        let above = if is_cramped { above.chars().take((MOST_LEVELS - 1) * WIDTH).collect() } else { above };
        drawn.push(Branch { lines: format!("{above}{joint}"), is_cramped });
        below.push(format!("{above}{line}"));
    }
    drawn
}

#[derive(Clone, Copy)]
enum Family {
    OnlyChild,
    Sibling,
    LastSibling,
}

fn families(depths: &[usize]) -> Vec<Family> {
    let mut families = vec![Family::OnlyChild; depths.len()];
    // The latest one at each depth, of those that may still get a sibling.
    let mut open: Vec<usize> = Vec::new();
    for (position, depth) in depths.iter().enumerate() {
        open.truncate(depth + 1);
        if let Some(elder) = open.get(*depth) {
            families[*elder] = Family::Sibling;
            families[position] = Family::LastSibling;
            open.pop();
        }
        open.push(position);
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(tree: &[(usize, &str)]) -> String {
        let depths: Vec<usize> = tree.iter().map(|(depth, _)| *depth).collect();
        let lines = branches(&depths).into_iter().zip(tree).map(|(branch, (_, label))| format!("{}{label}\n", branch.lines));
        lines.collect()
    }

    #[test]
    fn a_history_without_branches_is_flat() {
        assert_eq!(drawn(&[(0, "a"), (1, "b"), (2, "c")]), "a\nb\nc\n");
    }

    #[test]
    fn those_that_came_from_the_same_one_hang_on_one_line() {
        let tree = [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (3, "e"), (4, "f"), (2, "g"), (1, "h"), (2, "i")];
        let expected = "\
a
├─ b
│  ├─ c
│  │  ├─ d
│  │  └─ e
│  │     f
│  └─ g
└─ h
   i
";
        assert_eq!(drawn(&tree), expected);
    }

    #[test]
    fn several_that_came_from_elsewhere_are_told_from_one_history() {
        assert_eq!(drawn(&[(0, "a"), (1, "b"), (0, "c")]), "├─ a\n│  b\n└─ c\n");
    }

    #[test]
    fn many_branches_of_branches_keep_to_the_left() {
        let depths: Vec<usize> = (0..50).flat_map(|depth| [depth, depth]).collect();
        let branches = branches(&depths);
        assert!(branches.iter().all(|b| b.lines.chars().count() <= MOST_LEVELS * WIDTH), "{branches:#?}");
        assert_eq!(branches.iter().position(|b| b.is_cramped), Some(2 * MOST_LEVELS));
    }
}
