//! The view of `top`, tested without a terminal and without a store. This file has the queue that the tests show,
//! `pages.rs` compares pages, and `keys.rs` presses keys.

/// Makes a row, whose other fields are as by default.
macro_rules! made {
    (@value $field:ident) => { $field };
    (@value $field:ident $value:expr) => { $value };
    ($row:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {{
        let mut row = $row::default();
        $(row.$field = made!(@value $field $($value)?);)*
        row
    }};
}

mod keys;
mod pages;

use std::time::{Duration, SystemTime};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use tickwheel_jobs::view::{
    Bound, DeadGroup, GroupRow, GroupState, HistoryRow, JobRow, KindRow, LimitRow, ListState,
    NodeRow, Number, Overview, Rates, ScheduleRow, Slowdowns, Time, Warning,
};
use tickwheel_jobs::{JobId, JobState};

use super::ask::Figures;
use super::change::{Change, Scope, Verb};
use super::draw::{cells, draw};
use super::lists::{JobPage, List, ListOf, OpenJob};
use super::state::{Effect, Event, Mode, Opened, State, Tab, View};

/// 2026-11-22T10:00:30Z.
fn at(seconds: f64) -> Time {
    Time::from(
        SystemTime::UNIX_EPOCH
            + Duration::from_secs(1_795_341_630)
            + Duration::from_secs_f64(seconds),
    )
}

fn before(seconds: u64) -> Time {
    Time::from(at(0.0).to_system() - Duration::from_secs(seconds))
}

fn rates(completed: f64, failed: f64) -> Rates {
    made!(Rates {
        seconds: 90.0,
        completed_per_second: completed,
        failed_per_second: failed,
        late_p99_ms: Some(Bound::from_ms(25)),
        took_p99_ms: Some(Bound::from_ms(3)),
    })
}

fn kind(kind: &str, pending: u64, dead: u64) -> KindRow {
    made!(KindRow {
        kind: kind.to_owned(),
        has_node: true,
        pending,
        running: pending % 7,
        dead: Number::exactly(dead),
        recent: rates(pending as f64 / 100.0, dead as f64 / 1000.0),
    })
}

fn group(kind: &str, error: &str, jobs: u64) -> DeadGroup {
    let group = JobId::named(&format!("{kind} {error}"));
    let (kind, error, last_died) = (kind.to_owned(), error.to_owned(), Some(before(jobs)));
    made!(DeadGroup { group, kind, error, jobs, last_died })
}

/// A shop with five kinds.
fn shop() -> Figures {
    let mut kinds = vec![
        kind("close-order", 4711, 0),
        kind("push", 1_199_000, 340),
        kind("charge", 420, 4),
        kind("report", 0, 0),
        kind("forgotten", 180, 0),
    ];
    kinds[3].is_paused = true;
    (kinds[4].has_node, kinds[4].oldest_overdue_ms) = (false, Some(184_000));
    kinds[4].recent = Rates::default();
    let minute =
        |begin, completed, failed| made!(HistoryRow { begin: before(begin), completed, failed });
    Figures {
        store: "/var/lib/shop/shop.db".to_owned(),
        overview: made!(Overview {
            now: at(0.0),
            pending: 1_204_311,
            overdue: Number::exactly(12),
            oldest_overdue_ms: Some(184_000),
            running: 16,
            capacity: 64,
            dead: 344,
            schedules: 1,
            recent: rates(12.5, 0.25),
            minutes: vec![minute(90, 300, 0), minute(30, 600, 30)],
            slowdowns: made!(Slowdowns {
                rows: vec![made!(Warning { text: "Paused: the kind \"report\".".to_owned() })],
                total: 1,
            }),
        }),
        all_kinds: 5,
        kinds,
        nodes: vec![made!(NodeRow {
            host: "shop-3".to_owned(),
            pid: 4711,
            version: "0.1.0".to_owned(),
            threads: Some(4),
            in_flight: 16,
            most_runs: 64,
            started: before(90_000),
            seen: before(4),
            kinds: vec!["charge".to_owned(), "close-order".to_owned()],
        })],
        runs: Some(vec![made!(JobRow {
            id: id(),
            kind: "report".to_owned(),
            key: Some("customer-7".to_owned()),
            attempt: 2,
            due: before(65),
            claimed: Some(before(12)),
            lease_ends: Some(at(18.0)),
            progress: Some("{\"done\":3}".to_owned()),
        })]),
        dead_by_error: vec![
            group("push", "no route to host", 340),
            group("charge", "card declined", 4),
        ],
        next_schedules: vec![made!(ScheduleRow {
            name: "nightly".to_owned(),
            kind: "report".to_owned(),
            rule: "cron Europe/Berlin 0 7 * * mon-fri".to_owned(),
            next: vec![at(3600.0)],
        })],
        limits: Some(vec![
            made!(LimitRow {
                scope: "flow",
                flow: Some("push".to_owned()),
                running: 3,
                most_running: Some(3),
                rate: Some(10),
                per_ms: Some(1000),
                burst: Some(20),
                next_start: Some(at(0.4)),
                is_reached: true,
            }),
            made!(LimitRow {
                scope: "partition",
                kind: Some("charge".to_owned()),
                partition: Some("customer-7".to_owned()),
                weight: Some(5),
                held_until: Some(at(30.0)),
                is_reached: true,
            }),
            made!(LimitRow { scope: "queue", running: 16, most_running: Some(100) }),
        ]),
        groups: vec![made!(GroupRow {
            id: "1a201ea65320004000000000000000aa".parse().unwrap(),
            made: before(300),
            state: GroupState::Sealed,
            total: 100_000,
            open: 98_000,
            completed: 1990,
            dead: 7,
            cancelled: 3,
        })],
        ..Figures::default()
    }
}

const ID: &str = "1a201ea65320004000000000000000ff";

fn id() -> JobId {
    ID.parse().unwrap()
}

fn listed(dead: bool) -> JobRow {
    made!(JobRow {
        id: id(),
        kind: "push".to_owned(),
        state: if dead { JobState::Dead } else { JobState::Pending },
        key: Some("order-1001".to_owned()),
        error: Some("no route to host".to_owned()),
        failures: 3,
        due: before(10),
        ended: dead.then(|| before(5)),
    })
}

fn open_job(dead: bool, lines: Vec<String>) -> JobPage {
    let JobRow { kind, state, .. } = listed(dead);
    JobPage { id: id(), job: Some(OpenJob { kind, state, lines }) }
}

fn state_of(figures: Figures, size: (u16, u16)) -> State {
    let mut state = State::new(at(0.0), size, true);
    assert_eq!(state.take(Event::Figures(Box::new(figures))), None);
    state
}

fn view() -> State {
    state_of(shop(), (80, 24))
}

/// Returns the drawn screen, without blanks at the ends of lines.
fn drawn(state: &State) -> String {
    let mut terminal = Terminal::new(TestBackend::new(state.size.0, state.size.1)).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut lines = Vec::new();
    for y in 0..state.size.1 {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..state.size.0 {
            let symbol = buffer[(x, y)].symbol();
            // A wide character has a second cell.
            if skip == 0 {
                line += symbol;
                skip = cells(symbol).max(1);
            }
            skip -= 1;
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n") + "\n"
}

fn press(state: &mut State, code: KeyCode) -> Option<Effect> {
    state.take(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn press_char(state: &mut State, c: char) -> Option<Effect> {
    press(state, KeyCode::Char(c))
}

fn list_of(kind: &str, state: ListState, group: Option<DeadGroup>) -> ListOf {
    ListOf { kind: kind.to_owned(), state, group }
}

fn answer(state: &mut State, of: ListOf, page: usize, jobs: Vec<JobRow>, has_more: bool) {
    let list = List { of, page, jobs, has_more, note: None };
    assert_eq!(state.take(Event::List(list)), None);
}
