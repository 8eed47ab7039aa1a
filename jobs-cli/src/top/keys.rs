//! The keys of the view of `top`, and their effects.
//!
//! Ground rules:
//!
//! - A capital letter is dangerous: it changes jobs. It asks first, and only `y` says yes.
//! - No other key changes anything in the store.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tickwheel_jobs::JobState;
use tickwheel_jobs::view::{ListState, Number};

use super::change::{Change, Scope, Verb};
use super::lists::STATES;
use super::state::{Effect, Mode, Opened, State, Tab};
use super::tables::{KIND_COLUMNS, symbols};

/// The keys, as the help lists them.
pub(crate) const HELP: &[(&str, &str)] = &[
    ("↑ ↓  k j", "select a row; PgUp, PgDn, Home, End"),
    ("Enter", "open: the jobs of a kind, then a job"),
    ("Esc", "back; first it removes the filter"),
    ("← →  Tab", "other table; in a list, other state"),
    ("1 to 7", "Kinds, Nodes, Running, .., Groups"),
    ("< >  o", "sort the kinds by another column, turn round"),
    ("n b", "next page of a list, back to the first"),
    ("/", "show only rows with a text"),
    ("p", "freeze the figures, and go on"),
    ("R", "retry dead jobs: it asks first"),
    ("D", "delete dead jobs: it asks first"),
    ("C", "cancel pending jobs, stop a run: it asks first"),
    ("?  q", "this help; quit"),
];

impl State {
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Effect> {
        // Windows reports the release of a key too.
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Some(Effect::Quit);
        }
        if is_control || key.modifiers.contains(KeyModifiers::ALT) {
            return None;
        }
        match std::mem::take(&mut self.mode) {
            Mode::Help => None,
            Mode::Confirm(change) => {
                if key.code == KeyCode::Char('y') {
                    self.under_way = Some(0);
                    return Some(Effect::Change(change));
                }
                self.message = Some("nothing was changed".to_owned());
                None
            }
            Mode::Filter => {
                self.type_filter(key.code);
                None
            }
            Mode::Normal => {
                self.message = None;
                self.normal(key.code)
            }
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        let Some(place) = self.place_mut() else { return };
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => {
                place.filter.clear();
                return self.settle();
            }
            KeyCode::Backspace => drop(place.filter.pop()),
            KeyCode::Char(c) => place.filter.push(c),
            _ => {}
        }
        self.settle();
        self.mode = Mode::Filter;
    }

    fn normal(&mut self, code: KeyCode) -> Option<Effect> {
        let rows_of_screen = usize::from(self.size.1.saturating_sub(12)).max(1);
        match code {
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('p') => self.is_frozen = !self.is_frozen,
            KeyCode::Char('/') if self.place().is_some() => self.mode = Mode::Filter,
            KeyCode::Up | KeyCode::Char('k') => self.step(|at| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.step(|at| at + 1),
            KeyCode::PageUp => self.step(|at| at.saturating_sub(rows_of_screen)),
            KeyCode::PageDown => self.step(|at| at + rows_of_screen),
            KeyCode::Home => self.step(|_| 0),
            // More than there are.
            KeyCode::End => self.step(|_| 1_000_000),
            KeyCode::Right | KeyCode::Tab => return self.turn(1),
            KeyCode::Left | KeyCode::BackTab => return self.turn(-1),
            KeyCode::Char(c @ '1'..='7') => {
                self.tab = Tab::ALL[c as usize - '1' as usize];
                self.opened.clear();
                self.settle();
                return Some(Effect::Ask(self.view()));
            }
            KeyCode::Char(c @ ('<' | '>')) if self.opened.is_empty() && self.tab == Tab::Kinds => {
                let columns = KIND_COLUMNS.len();
                let step = if c == '>' { 1 } else { columns - 1 };
                let column = (self.sort.0 + step) % columns;
                // Names from A on, numbers from the greatest on.
                self.sort = (column, column != 0);
                self.settle();
            }
            KeyCode::Char('o') if self.opened.is_empty() && self.tab == Tab::Kinds => {
                self.sort.1 = !self.sort.1;
                self.settle();
            }
            KeyCode::Char(c @ ('n' | 'b')) => return self.other_page(c == 'n'),
            KeyCode::Enter => return self.open(),
            KeyCode::Esc | KeyCode::Backspace => return self.back(),
            KeyCode::Char('R') => self.ask(Verb::Retry),
            KeyCode::Char('D') => self.ask(Verb::Delete),
            KeyCode::Char('C') => self.ask(Verb::Cancel),
            _ => {}
        }
        None
    }

    fn step(&mut self, to: impl Fn(usize) -> usize) {
        if let Some(Opened::Job { scroll, page, .. }) = self.opened.last_mut() {
            let lines =
                page.as_ref().and_then(|page| page.job.as_ref()).map_or(0, |job| job.lines.len());
            *scroll = to(*scroll).min(lines.saturating_sub(1));
            return;
        }
        if let Some(at) = self.place().map(|place| place.at) {
            self.select(to(at));
        }
    }

    /// Turns to the next or the last table. In a list, turns to another state.
    fn turn(&mut self, by: isize) -> Option<Effect> {
        fn next<T: Copy + PartialEq>(all: &[T], now: T, by: isize) -> T {
            let at = all.iter().position(|one| *one == now).unwrap_or(0);
            all[at.saturating_add(all.len()).saturating_add_signed(by) % all.len()]
        }
        match self.opened.last_mut() {
            // A group has only dead jobs.
            Some(Opened::List { of, page, list, place }) if of.group.is_none() => {
                of.state = next(&STATES, of.state, by);
                (*page, *list) = (0, None);
                *place = Default::default();
            }
            Some(_) => return None,
            None => {
                self.tab = next(&Tab::ALL, self.tab, by);
                self.settle();
            }
        }
        Some(Effect::Ask(self.view()))
    }

    fn other_page(&mut self, forth: bool) -> Option<Effect> {
        let Some(Opened::List { page, list, .. }) = self.opened.last_mut() else { return None };
        match forth {
            true if list.as_ref().is_some_and(|list| list.has_more && list.page == *page) => {
                *page += 1
            }
            false if *page > 0 => *page = 0,
            _ => {
                self.message = Some("there is no further page".to_owned());
                return None;
            }
        }
        Some(Effect::Ask(self.view()))
    }

    fn open(&mut self) -> Option<Effect> {
        if let Some(Opened::Job { .. }) = self.opened.last() {
            return None;
        }
        let key = self.selected()?;
        if let Some(Opened::List { .. }) = self.opened.last() {
            return key.parse().ok().map(|id| self.open_job(id));
        }
        let figures = self.figures.as_ref()?;
        match self.tab {
            Tab::Kinds => Some(self.open_list(key, ListState::Pending, None)),
            Tab::Running => key.parse().ok().map(|id| self.open_job(id)),
            Tab::Dead => {
                let group = figures.dead_group(&key)?.clone();
                Some(self.open_list(group.kind.clone(), ListState::Dead, Some(group)))
            }
            Tab::Schedules => {
                let schedule = figures.next_schedules.iter().find(|next| next.name == key)?;
                let kind = schedule.kind.clone();
                Some(self.open_list(kind, ListState::Pending, None))
            }
            Tab::Nodes | Tab::Limits | Tab::Groups => {
                self.message = Some("a row of this table has nothing to open".to_owned());
                None
            }
        }
    }

    /// Ends the change under way, or removes the filter, or closes the list or job that was opened last.
    fn back(&mut self) -> Option<Effect> {
        if self.under_way.is_some() {
            return Some(Effect::Stop);
        }
        if let Some(place) = self.place_mut()
            && !place.filter.is_empty()
        {
            place.filter.clear();
            self.settle();
            return None;
        }
        self.opened.pop()?;
        self.settle();
        Some(Effect::Ask(self.view()))
    }

    /// Asks before the selected jobs are changed, or says why the verb is not for them.
    fn ask(&mut self, verb: Verb) {
        if self.under_way.is_some() {
            self.message = Some("a change is under way: Esc stops it".to_owned());
            return;
        }
        match self.scope(verb) {
            Ok(scope) => {
                let asked = self.figures.as_ref().map_or(self.now, |figures| figures.overview.now);
                self.mode = Mode::Confirm(Change { verb, scope, asked });
            }
            Err(why) => self.message = Some(why),
        }
    }

    /// Returns which jobs are selected, if the verb is for them.
    fn scope(&self, verb: Verb) -> Result<Scope, String> {
        let none = || "nothing is selected".to_owned();
        let wrong = || match verb {
            Verb::Retry => "R retries dead jobs, and this is none".to_owned(),
            Verb::Delete => "D deletes dead jobs, and this is none".to_owned(),
            Verb::Cancel => "C cancels jobs that have not ended, and this one has".to_owned(),
        };
        if let Some(opened) = self.opened.last() {
            let job = match opened {
                Opened::Job { id, page, .. } => {
                    let job = page.as_ref().and_then(|page| page.job.as_ref());
                    job.map(|job| (*id, job.kind.clone(), job.state))
                }
                Opened::List { list, .. } => {
                    let key = self.selected().ok_or_else(none)?;
                    let mut jobs = list.iter().flat_map(|list| &list.jobs);
                    let job = jobs.find(|job| job.id.to_string() == key);
                    job.map(|job| (job.id, job.kind.clone(), job.state))
                }
            };
            let (id, kind, state) = job.ok_or_else(none)?;
            let is_for = match verb {
                Verb::Cancel => {
                    matches!(state, JobState::Pending | JobState::Claimed | JobState::Running)
                }
                Verb::Retry | Verb::Delete => state == JobState::Dead,
            };
            return if is_for { Ok(Scope::Job { id, kind }) } else { Err(wrong()) };
        }
        let figures = self.figures.as_ref().ok_or_else(none)?;
        if matches!(self.tab, Tab::Nodes | Tab::Schedules | Tab::Limits | Tab::Groups) {
            return Err("there are no jobs to change here".to_owned());
        }
        let key = self.selected().ok_or_else(none)?;
        match self.tab {
            Tab::Running if verb == Verb::Cancel => {
                let runs = figures.runs.iter().flatten();
                let run = runs.into_iter().find(|run| run.id.to_string() == key);
                let run = run.ok_or_else(none)?;
                Ok(Scope::Job { id: run.id, kind: run.kind.clone() })
            }
            Tab::Dead if verb != Verb::Cancel => {
                Ok(Scope::Group(figures.dead_group(&key).ok_or_else(none)?.clone()))
            }
            Tab::Kinds => {
                let row = figures.kinds.iter().find(|row| row.kind == key).ok_or_else(none)?;
                let kind = row.kind.clone();
                let name = symbols(&kind);
                match verb {
                    Verb::Cancel if row.pending == 0 => Err(format!("{name} has no pending jobs")),
                    Verb::Cancel => Ok(Scope::Pending { kind, jobs: row.pending }),
                    _ if row.dead == Number::exactly(0) => Err(format!("{name} has no dead jobs")),
                    _ => Ok(Scope::Dead { kind, jobs: row.dead }),
                }
            }
            _ => Err(wrong()),
        }
    }
}
