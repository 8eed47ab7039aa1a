//! The state of the view of `top`: the figures, the selected row, and the opened lists and jobs.
//!
//! Ground rules:
//!
//! - The state does nothing by itself. It takes events and returns effects, so a test needs neither a terminal nor a
//!   store.
//! - A selected row is known by its key, so it stays selected when the rows change their order.

use tickwheel_jobs::JobId;
use tickwheel_jobs::view::{DeadGroup, ListState, Time};

use super::ask::Figures;
use super::change::Change;
use super::curve::Curve;
use super::lists::{JobPage, List, ListOf, has_ended};
use super::tables::{self, Row, Table};

/// A key, an answer of the store, or another event that the view takes.
#[derive(Debug)]
pub(crate) enum Event {
    Key(ratatui::crossterm::event::KeyEvent),
    Resize(u16, u16),
    Tick(Time),
    Figures(Box<Figures>),
    List(List),
    Job(Box<JobPage>),
    /// The store did not answer a question.
    Problem(String),
    Progress(u64),
    /// A change has ended: a sentence about it, or the error.
    Changed(Result<String, String>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    Quit,
    /// Asks the store, now and once a second.
    Ask(View),
    Change(Change),
    /// Ends the change under way after its present commit.
    Stop,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum View {
    Figures,
    List(ListOf, usize),
    Job(JobId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tab {
    Kinds,
    Nodes,
    Running,
    Dead,
    Schedules,
    Limits,
    Groups,
}

impl Tab {
    pub(crate) const ALL: [Tab; 7] =
        [Tab::Kinds, Tab::Nodes, Tab::Running, Tab::Dead, Tab::Schedules, Tab::Limits, Tab::Groups];
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Place {
    /// The key of the selected row.
    pub(crate) key: String,
    /// Its number among the rows. If no row has the key any more, the row with this number is selected.
    pub(crate) at: usize,
    /// Rows without this text are left out.
    pub(crate) filter: String,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "few are open")]
pub(crate) enum Opened {
    List {
        of: ListOf,
        page: usize,
        list: Option<List>,
        place: Place,
    },
    Job {
        id: JobId,
        page: Option<JobPage>,
        /// How many lines are above the screen.
        scroll: usize,
    },
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) enum Mode {
    #[default]
    Normal,
    Filter,
    Help,
    Confirm(Change),
}

pub(crate) struct State {
    pub(crate) figures: Option<Box<Figures>>,
    pub(crate) curve: Curve,
    pub(crate) tab: Tab,
    pub(crate) places: [Place; Tab::ALL.len()],
    pub(crate) opened: Vec<Opened>,
    /// The column by which the kinds are sorted, and whether the greatest come first.
    pub(crate) sort: (usize, bool),
    pub(crate) mode: Mode,
    pub(crate) is_frozen: bool,
    pub(crate) message: Option<String>,
    pub(crate) problem: Option<String>,
    /// The number of jobs that the change under way has come to.
    pub(crate) under_way: Option<u64>,
    pub(crate) now: Time,
    pub(crate) size: (u16, u16),
    pub(crate) has_color: bool,
}

impl State {
    pub(crate) fn new(now: Time, size: (u16, u16), has_color: bool) -> State {
        State {
            figures: None,
            curve: Curve::default(),
            tab: Tab::Kinds,
            places: Default::default(),
            opened: Vec::new(),
            // The most pending jobs first.
            sort: (1, true),
            mode: Mode::Normal,
            is_frozen: false,
            message: None,
            problem: None,
            under_way: None,
            now,
            size,
            has_color,
        }
    }

    pub(crate) fn take(&mut self, event: Event) -> Option<Effect> {
        match event {
            Event::Key(key) => return self.key(key),
            Event::Resize(width, height) => self.size = (width, height),
            Event::Tick(now) => self.now = now,
            Event::Figures(figures) => {
                self.now = self.now.max(figures.overview.now);
                self.problem = None;
                if !self.is_frozen {
                    self.curve.add(figures.overview.now, &figures.overview.minutes);
                    self.figures = Some(figures);
                    self.settle();
                }
            }
            Event::List(list) => self.take_list(list),
            Event::Job(found) => {
                let frozen = self.is_frozen;
                if let Some(Opened::Job { id, page, .. }) = self.opened.last_mut()
                    && *id == found.id
                    && !(frozen && page.is_some())
                {
                    *page = Some(*found);
                }
            }
            Event::Problem(problem) => self.problem = Some(problem),
            Event::Progress(jobs) => self.under_way = Some(jobs),
            Event::Changed(said) => {
                self.under_way = None;
                self.message = Some(said.unwrap_or_else(|error| format!("it failed: {error}")));
                return Some(Effect::Ask(self.view()));
            }
        }
        None
    }

    fn take_list(&mut self, found: List) {
        let frozen = self.is_frozen;
        if let Some(Opened::List { of, page, list, .. }) = self.opened.last_mut()
            && *of == found.of
            && !(frozen && list.as_ref().is_some_and(|list| list.page == found.page))
        {
            *page = found.page;
            *list = Some(found);
            self.settle();
        }
    }

    pub(crate) fn view(&self) -> View {
        match self.opened.last() {
            None => View::Figures,
            Some(Opened::List { of, page, .. }) => View::List(of.clone(), *page),
            Some(Opened::Job { id, .. }) => View::Job(*id),
        }
    }

    /// Returns the table that is shown, without the rows that the filter leaves out. A job has none.
    pub(crate) fn table(&self) -> Option<Table> {
        let mut table = match self.opened.last() {
            Some(Opened::Job { .. }) => return None,
            Some(Opened::List { of, list, .. }) => {
                let jobs = list.as_ref().map_or(&[][..], |list| &list.jobs);
                tables::jobs(jobs, has_ended(of.state), self.now)
            }
            None => {
                let figures = self.figures.as_ref()?;
                match self.tab {
                    Tab::Kinds => tables::kinds(figures, self.sort.0, self.sort.1),
                    Tab::Nodes => tables::nodes(figures),
                    Tab::Running => tables::runs(figures),
                    Tab::Dead => tables::groups(figures),
                    Tab::Schedules => tables::schedules(figures),
                    Tab::Limits => tables::limits(figures),
                    Tab::Groups => tables::job_groups(figures),
                }
            }
        };
        let filter = self.place().map_or("", |place| &place.filter).to_lowercase();
        let has = |row: &Row| row.cells.iter().any(|cell| cell.to_lowercase().contains(&filter));
        table.rows.retain(has);
        Some(table)
    }

    pub(crate) fn place(&self) -> Option<&Place> {
        match self.opened.last() {
            None => Some(&self.places[self.tab as usize]),
            Some(Opened::List { place, .. }) => Some(place),
            Some(Opened::Job { .. }) => None,
        }
    }

    pub(crate) fn place_mut(&mut self) -> Option<&mut Place> {
        match self.opened.last_mut() {
            None => Some(&mut self.places[self.tab as usize]),
            Some(Opened::List { place, .. }) => Some(place),
            Some(Opened::Job { .. }) => None,
        }
    }

    /// Finds the selected row again, after the rows have changed. A row that is gone leaves its number.
    pub(crate) fn settle(&mut self) {
        self.choose(|rows, place| {
            rows.iter().position(|row| row.key == place.key).unwrap_or(place.at)
        });
    }

    /// Selects a row by its number. The last row stands for all numbers behind it.
    pub(crate) fn select(&mut self, at: usize) {
        self.choose(|_, _| at);
    }

    fn choose(&mut self, at: impl FnOnce(&[Row], &Place) -> usize) {
        let Some(rows) = self.table().map(|table| table.rows) else { return };
        let Some(place) = self.place_mut() else { return };
        place.at = at(&rows, place).min(rows.len().saturating_sub(1));
        place.key = rows.get(place.at).map_or_else(String::new, |row| row.key.clone());
    }

    pub(crate) fn selected(&self) -> Option<String> {
        let (table, place) = (self.table()?, self.place()?);
        table.rows.iter().find(|row| row.key == place.key).map(|row| row.key.clone())
    }

    pub(crate) fn open_list(
        &mut self,
        kind: String,
        state: ListState,
        group: Option<DeadGroup>,
    ) -> Effect {
        let of = ListOf { kind, state, group };
        let place = Place::default();
        self.opened.push(Opened::List { of, page: 0, list: None, place });
        Effect::Ask(self.view())
    }

    pub(crate) fn open_job(&mut self, id: JobId) -> Effect {
        self.opened.push(Opened::Job { id, page: None, scroll: 0 });
        Effect::Ask(self.view())
    }
}
