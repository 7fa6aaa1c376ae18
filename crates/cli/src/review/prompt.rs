//! The line a search is typed into.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::App;
use super::search::{Ground, Hunt, Query, Spot, Step};
use super::theme::Tone;

#[derive(Clone, Debug, Default)]
pub struct Prompt {
    pub text: String,
}

impl App {
    /// A key while a search is typed.
    pub fn type_in(&mut self, key: KeyEvent) {
        let Some(prompt) = &mut self.prompt else { return };
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if is_control => prompt.text.clear(),
            KeyCode::Char('c') if is_control => self.prompt = None,
            KeyCode::Char(c) if !is_control => prompt.text.push(c),
            // Taking back what is not there leaves, as in other programs.
            KeyCode::Backspace if prompt.text.pop().is_none() => self.prompt = None,
            KeyCode::Esc => self.prompt = None,
            KeyCode::Enter => {
                let typed = self.prompt.take().and_then(|p| Query::new(&p.text));
                self.query = typed.or(self.query.take());
                self.found = None;
                self.search_on(true);
            }
            _ => {}
        }
    }

    /// Starts to look for the next or previous place.
    pub(super) fn search_on(&mut self, forward: bool) {
        let (Some(query), Some(node)) = (self.query.clone(), self.list.selected()) else { return };
        let after = match self.found {
            Some((at, spot)) if at == node => spot,
            _ if forward => Spot::Start,
            _ => Spot::End,
        };
        self.hunt = Some(Hunt::new(query, forward, node, after, self.tree.nodes.len()));
    }

    /// Goes on looking, one file.
    pub fn hunt_on(&mut self) {
        let Some(mut hunt) = self.hunt.take() else { return };
        let ground = Ground { tree: &self.tree, changes: &self.subject.changes, project: &self.subject.project, read: self.read };
        match hunt.step(&ground) {
            Step::NotYet => self.hunt = Some(hunt),
            Step::Nowhere => self.say(Tone::Warning, "not found"),
            Step::Found(node, spot) => {
                self.found = Some((node, spot));
                self.list.reveal(&self.tree, node);
                self.show_selected();
                if let Spot::Line(line) = spot {
                    self.viewer.go_to_line(line);
                }
            }
        }
    }
}
