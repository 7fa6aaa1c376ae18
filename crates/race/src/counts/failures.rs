//! The names of the first tests that failed.

const MOST: usize = 10;
/// In characters.
const LONGEST: usize = 200;

#[derive(Debug, Default)]
pub struct Failures(Vec<String>);

impl Failures {
    /// Once, cut, and without what a terminal would act on.
    pub fn add(&mut self, name: &str) {
        let name: String = name.trim().chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        if self.0.len() < MOST && !name.is_empty() && !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    pub fn add_all(&mut self, others: Self) {
        others.0.iter().for_each(|name| self.add(name));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<String>> for Failures {
    fn from(names: Vec<String>) -> Self {
        Self(names)
    }
}

impl From<Failures> for Vec<String> {
    fn from(failures: Failures) -> Self {
        failures.0
    }
}
