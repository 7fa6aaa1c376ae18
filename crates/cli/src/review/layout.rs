//! Where things are on the screen.

use ratatui::layout::{Constraint, Layout, Rect};

use super::app::{App, Pane};

/// Below this there is room for one pane only.
const NARROW: u16 = 60;
/// From here on there is room for both at once.
const ROOMY: u16 = 120;
/// The list while hunks are read.
const LEAST: u16 = 24;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Areas {
    /// With their borders; one of them is empty where there is no room for both.
    pub files: Rect,
    pub hunks: Rect,
    pub hints: Rect,
    pub status: Rect,
}

#[must_use]
pub fn areas(whole: Rect, pane: Pane) -> Areas {
    let [panes, hints, status] = Layout::vertical([Constraint::Min(3), Constraint::Length(1), Constraint::Length(1)]).areas(whole);
    let (files, hunks) = match pane {
        Pane::Files if whole.width < NARROW => (panes, Rect::default()),
        Pane::Hunks if whole.width < NARROW => (Rect::default(), panes),
        _ => {
            // Where room is short, text that is read takes more of it.
            let is_reading = pane == Pane::Hunks && whole.width < ROOMY;
            let left = if is_reading { LEAST } else { (whole.width * 2 / 5).clamp(34, 64) };
            let [files, hunks] = Layout::horizontal([Constraint::Length(left), Constraint::Min(1)]).areas(panes);
            (files, hunks)
        }
    };
    Areas { files, hunks, hints, status }
}

/// Within the border.
#[must_use]
pub fn inner(area: Rect) -> Rect {
    Rect {
        x: area.x.saturating_add(1),
        y: area.y.saturating_add(1),
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(2),
    }
}

/// Tells the panes how much room they have.
pub fn fit(app: &mut App, whole: Rect) -> Areas {
    let areas = areas(whole, app.pane);
    let (files, hunks) = (inner(areas.files), inner(areas.hunks));
    if app.list.height != files.height as usize && files.height > 0 {
        app.list.resize(files.height as usize);
    }
    let (width, height) = (hunks.width as usize, hunks.height as usize);
    if (app.viewer.width, app.viewer.height) != (width, height) && width > 0 && height > 0 {
        app.viewer.resize(width, height);
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_share_the_width() {
        let areas = areas(Rect::new(0, 0, 80, 24), Pane::Files);
        assert_eq!((areas.files.width, areas.hunks.width, areas.files.height), (34, 46, 22));
        for pane in [Pane::Files, Pane::Hunks] {
            assert_eq!(super::areas(Rect::new(0, 0, 200, 50), pane).files.width, 64);
        }
        assert_eq!(super::areas(Rect::new(0, 0, 80, 24), Pane::Hunks).hunks.width, 56);
    }

    #[test]
    fn a_narrow_terminal_has_one_pane() {
        let narrow = Rect::new(0, 0, 40, 24);
        assert_eq!(areas(narrow, Pane::Files).hunks, Rect::default());
        assert_eq!(areas(narrow, Pane::Hunks).files, Rect::default());
    }
}
