//! The view of `top` without a terminal and without a store: exact pages, and what every key does.

use std::time::{Duration, SystemTime};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use tickwheel_jobs::Counts;

use super::change::{Change, Scope, Verb};
use super::draw::draw;
use super::figures::{Figures, Group, KindRow, Listed, Minute, Next, Node, Rates, Run, Time};
use super::lists::{JobPage, List, ListOf, Set};
use super::state::{Effect, Event, Mode, Opened, State, Tab, View};

/// 2026-11-22T10:00:30Z.
fn at(seconds: f64) -> Time {
    Time(
        SystemTime::UNIX_EPOCH
            + Duration::from_secs(1_795_341_630)
            + Duration::from_secs_f64(seconds),
    )
}

fn before(seconds: u64) -> Time {
    Time(at(0.0).0 - Duration::from_secs(seconds))
}

fn rates(completed: f64, failed: f64) -> Rates {
    Rates {
        seconds: 90.0,
        completed_per_second: completed,
        failed_per_second: failed,
        late: Some(Duration::from_millis(25)),
        took: Some(Duration::from_micros(2500)),
        ..Rates::default()
    }
}

fn kind(kind: &str, pending: u64, dead: u64) -> KindRow {
    KindRow {
        kind: kind.to_owned(),
        has_node: true,
        pending,
        running: Some(pending % 7),
        dead,
        dead_is_exact: true,
        rates: rates(pending as f64 / 100.0, dead as f64 / 1000.0),
        ..KindRow::default()
    }
}

fn group(kind: &str, error: &str, jobs: u64) -> Group {
    Group { kind: kind.to_owned(), error: error.to_owned(), jobs }
}

/// A shop with five kinds.
fn shop() -> Figures {
    let mut counts = Counts::default();
    (counts.pending, counts.claimed, counts.dead, counts.schedules) = (1_204_311, 16, 344, 1);
    (counts.overdue.count, counts.oldest_overdue) = (12, Some(Duration::from_secs(184)));
    let mut kinds = vec![
        kind("close-order", 4711, 0),
        kind("push", 1_199_000, 340),
        kind("charge", 420, 4),
        kind("report", 0, 0),
        kind("forgotten", 180, 0),
    ];
    kinds[3].is_paused = true;
    (kinds[4].has_node, kinds[4].oldest_overdue) = (false, Some(Duration::from_secs(184)));
    kinds[4].rates = Rates::default();
    let minute = |begin, completed, failed| Minute { begin: before(begin), completed, failed };
    Figures {
        time: at(0.0),
        store: "/var/lib/shop/shop.db".to_owned(),
        counts,
        limit: 64,
        rates: rates(12.5, 0.25),
        all_kinds: 5,
        kinds,
        nodes: vec![Node {
            host: "shop-3".to_owned(),
            pid: 4711,
            version: "0.1.0".to_owned(),
            threads: Some(4),
            in_flight: 16,
            max_in_flight: 64,
            started: before(90_000),
            seen: before(4),
            was_seen_lately: true,
            kinds: vec!["charge".to_owned(), "close-order".to_owned()],
        }],
        runs: Some(vec![Run {
            id: ID.to_owned(),
            kind: "report".to_owned(),
            key: Some("customer-7".to_owned()),
            attempt: 2,
            due: before(65),
            progress: Some("{\"done\":3}".to_owned()),
        }]),
        dead_by_error: vec![
            group("push", "no route to host", 340),
            group("charge", "card declined", 4),
        ],
        next_schedules: vec![Next {
            name: "nightly".to_owned(),
            kind: "report".to_owned(),
            rule: "cron Europe/Berlin 0 7 * * mon-fri".to_owned(),
            next: at(3600.0),
        }],
        minutes: vec![minute(90, 300, 0), minute(30, 600, 30)],
        ..Figures::default()
    }
}

const ID: &str = "1a201ea65320004000000000000000ff";

fn listed(dead: bool) -> Listed {
    Listed {
        id: ID.to_owned(),
        kind: "push".to_owned(),
        state: if dead { "dead" } else { "pending" }.to_owned(),
        is_dead: dead,
        has_ended: dead,
        key: Some("order-1001".to_owned()),
        error: Some("no route to host\nafter 3 hops".to_owned()),
        failures: 3,
        due: before(10),
        ended: dead.then(|| before(5)),
    }
}

fn state_of(figures: Figures, size: (u16, u16)) -> State {
    let mut state = State::new(at(0.0), size, true);
    assert_eq!(state.take(Event::Figures(Box::new(figures))), None);
    state
}

fn view() -> State {
    state_of(shop(), (80, 24))
}

/// Returns what is drawn, without blanks at the ends of lines.
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
                skip = super::draw::cells(symbol).max(1);
            }
            skip -= 1;
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n") + "\n"
}

/// Compares what is drawn with a file beside this one. `TICKWHEEL_UPDATE_PAGES=1` writes the file.
fn assert_page(state: &State, name: &str) {
    let file =
        format!("{}/src/bin/tickwheel-jobs/top/pages/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let drawn = drawn(state);
    if std::env::var_os("TICKWHEEL_UPDATE_PAGES").is_some() {
        std::fs::write(&file, &drawn).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(drawn == expected, "{file} differs. Drawn:\n{drawn}");
}

fn press(state: &mut State, code: KeyCode) -> Option<Effect> {
    state.take(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn press_char(state: &mut State, c: char) -> Option<Effect> {
    press(state, KeyCode::Char(c))
}

fn list_of(kind: &str, set: Set, error: Option<&str>) -> ListOf {
    ListOf { kind: kind.to_owned(), set, error: error.map(str::to_owned) }
}

fn answer(state: &mut State, of: ListOf, page: usize, jobs: Vec<Listed>, has_more: bool) {
    let list = List { of, page, jobs, has_more, note: None };
    assert_eq!(state.take(Event::List(list)), None);
}

/// The view of a known queue is drawn exactly so, each table on 80 columns and 24 rows, and with the help.
#[test]
fn top_draws_every_table_exactly() {
    let mut state = view();
    for (c, name) in
        [('1', "kinds"), ('2', "nodes"), ('3', "running"), ('4', "dead"), ('5', "schedules")]
    {
        press_char(&mut state, c);
        assert_page(&state, name);
    }
    press_char(&mut state, '?');
    assert_page(&state, "help");
}

/// A list of jobs, a job, and the question before a change are drawn exactly so.
#[test]
fn top_draws_lists_jobs_and_questions_exactly() {
    let mut state = view();
    press_char(&mut state, '4');
    press(&mut state, KeyCode::Enter);
    assert_page(&state, "asking");
    answer(
        &mut state,
        list_of("push", Set::Dead, Some("no route to host")),
        0,
        vec![listed(true)],
        false,
    );
    assert_page(&state, "list");
    press_char(&mut state, 'D');
    assert_page(&state, "question");
    press_char(&mut state, 'n');
    press(&mut state, KeyCode::Enter);
    let lines = vec!["id            ..".to_owned(), "payload       ".to_owned() + &"x".repeat(100)];
    let page = JobPage { id: ID.to_owned(), job: Some((listed(true), lines)) };
    state.take(Event::Job(Box::new(page)));
    assert_page(&state, "job");
    state.take(Event::Job(Box::new(JobPage { id: ID.to_owned(), job: None })));
    assert_page(&state, "job-gone");
}

/// A queue without anything says so in every table, and so does a view without an answer.
#[test]
fn top_draws_an_empty_store() {
    let empty = Figures {
        time: at(0.0),
        store: "shop.db".to_owned(),
        queue: Some("mail".to_owned()),
        is_paused: true,
        runs: Some(Vec::new()),
        ..Figures::default()
    };
    let mut state = state_of(empty, (80, 24));
    assert_page(&state, "empty");
    for (c, said) in
        [('2', "no nodes"), ('3', "nothing runs"), ('4', "no dead jobs"), ('5', "no schedules")]
    {
        press_char(&mut state, c);
        assert!(drawn(&state).contains(said), "{}", drawn(&state));
    }
    let mut silent = State::new(at(0.0), (80, 24), true);
    silent.take(Event::Problem("the server is loading\u{1b}[2J".to_owned()));
    assert_page(&silent, "no-answer");
}

/// With forty kinds, the page with the selected one is shown.
#[test]
fn top_pages_through_forty_kinds() {
    let kinds = (0..40).map(|n| kind(&format!("kind-{n:02}"), 4000 - 100 * n, 0)).collect();
    let mut state = state_of(Figures { kinds, all_kinds: 240, ..shop() }, (80, 24));
    for _ in 0..20 {
        press(&mut state, KeyCode::Down);
    }
    assert_page(&state, "forty-kinds");
    press(&mut state, KeyCode::End);
    assert_eq!(state.selected().as_deref(), Some("kind-39"));
    press(&mut state, KeyCode::PageUp);
    assert_eq!(state.selected().as_deref(), Some("kind-27"));
    press(&mut state, KeyCode::Home);
    assert_eq!(state.selected().as_deref(), Some("kind-00"));
    press(&mut state, KeyCode::PageDown);
    assert_eq!(state.selected().as_deref(), Some("kind-12"));
}

/// A key of 200 characters is cut, and moves no other column. A narrow screen loses columns, and a tiny one loses
/// rows.
#[test]
fn top_fits_long_keys_and_small_screens() {
    let mut state = view();
    let mut long = listed(false);
    long.key = Some("k".repeat(200));
    let mut wide = listed(false);
    (wide.id, wide.key) = ("b".repeat(32), Some("東京".repeat(50)));
    press(&mut state, KeyCode::Enter);
    answer(&mut state, list_of("push", Set::Pending, None), 0, vec![long, wide], true);
    assert_page(&state, "long-key");
    press(&mut state, KeyCode::Esc);
    state.take(Event::Resize(40, 24));
    assert_page(&state, "narrow");
    for (width, height) in [(1, 1), (10, 3), (20, 2), (40, 8), (200, 60), (30, 16), (5, 30)] {
        state.take(Event::Resize(width, height));
        for c in ['1', '2', '3', '4', '5', '?', 'x', 'R', 'n'] {
            press_char(&mut state, c);
            assert_eq!(drawn(&state).lines().count(), usize::from(height));
        }
    }
}

/// Texts that would steer a terminal, turn round a line or stack marks, as kinds, keys, errors and hosts.
const HOSTILE: [&str; 8] = [
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "a\r\nb\tc\0\u{7f}\u{9b}31m\u{85}",
    "\u{202e}desrever\u{2066}\u{2069}\u{200f}",
    "zero\u{200b}width\u{feff}\u{2060}\u{ad}\u{fe0f}",
    "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
    "👩\u{200d}👩\u{200d}👧\u{200d}👦 family \u{e0041}",
    "\u{2028}\u{2029}<script>alert(1)</script>",
    "",
];

/// Hostile texts reach no cell of any page with a control character, and move no border.
#[test]
fn top_shows_hostile_text_as_symbols() {
    for text in HOSTILE {
        let mut figures = shop();
        (figures.store, figures.queue) = (text.to_owned(), Some(text.to_owned()));
        figures.kinds[0].kind = text.to_owned();
        (figures.nodes[0].host, figures.nodes[0].version) = (text.to_owned(), text.to_owned());
        figures.nodes[0].kinds = vec![text.to_owned()];
        figures.dead_by_error[0] = group(text, text, 7);
        let run = &mut figures.runs.as_mut().unwrap()[0];
        (run.kind, run.key, run.progress) =
            (text.to_owned(), Some(text.to_owned()), Some(text.to_owned()));
        let next = &mut figures.next_schedules[0];
        (next.name, next.kind, next.rule) = (text.to_owned(), text.to_owned(), text.to_owned());
        let mut state = state_of(figures, (80, 24));
        let is_symbol = |c: char| {
            let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
            c == '\n' || !(c.is_control() || turns || c == '\u{feff}')
        };
        let assert_harmless = |state: &State| {
            let drawn = drawn(state);
            assert!(drawn.chars().all(is_symbol), "{drawn:?}");
            assert!(drawn.lines().all(|line| super::draw::cells(line) <= 80), "{drawn}");
        };
        for c in ['5', '3', '2', '1'] {
            press_char(&mut state, c);
            assert_harmless(&state);
        }
        press_char(&mut state, '/');
        text.chars().for_each(|c| drop(press_char(&mut state, c)));
        assert_harmless(&state);
        press(&mut state, KeyCode::Esc);
        press_char(&mut state, '4');
        press_char(&mut state, 'R');
        assert_harmless(&state);
        press_char(&mut state, 'n');
        press(&mut state, KeyCode::Enter);
        let mut job = listed(true);
        (job.key, job.error) = (Some(text.to_owned()), Some(text.to_owned()));
        answer(&mut state, list_of(text, Set::Dead, Some(text)), 0, vec![job], false);
        assert_harmless(&state);
        state.take(Event::Changed(Err(text.to_owned())));
        state.take(Event::Problem(text.to_owned()));
        assert_harmless(&state);
    }
}

/// Without colors nothing is colored, and the page has the same text.
#[test]
fn top_without_colors_says_the_same() {
    let (colored, mut plain) = (view(), view());
    plain.has_color = false;
    assert_eq!(drawn(&colored), drawn(&plain));
    let colors = |state: &State| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(state, frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert!(colors(&colored) > 0);
    assert_eq!(colors(&plain), 0);
}

/// Figures that grow old say so, and why. A frozen view keeps its figures and says that it is frozen.
#[test]
fn top_says_how_old_its_figures_are() {
    let mut state = view();
    state.take(Event::Tick(at(4.0)));
    assert!(!drawn(&state).contains("these figures"));
    state.take(Event::Tick(at(34.0)));
    assert!(drawn(&state).contains("the store does not answer; these figures are 34s old"));
    state.take(Event::Problem("database is locked".to_owned()));
    assert!(drawn(&state).contains("database is locked; these figures are 34s old"));
    state.take(Event::Figures(Box::new(Figures { time: at(35.0), ..shop() })));
    assert!(!drawn(&state).contains("these figures") && !drawn(&state).contains("locked"));

    press_char(&mut state, 'p');
    let mut later = Figures { time: at(36.0), ..shop() };
    later.counts.dead = 345;
    state.take(Event::Figures(Box::new(later.clone())));
    state.take(Event::Tick(at(90.0)));
    let page = drawn(&state);
    assert!(
        page.contains("FROZEN") && page.contains("dead 344") && !page.contains("these figures"),
        "{page}"
    );
    press_char(&mut state, 'p');
    state.take(Event::Figures(Box::new(later)));
    assert!(drawn(&state).contains("dead 345"));
}

/// Each key that only looks does what the help says, and leaves the store alone.
#[test]
fn top_keys_select_sort_filter_and_open() {
    let mut state = view();
    let row = |state: &State| state.selected().unwrap();
    assert_eq!(row(&state), "push");
    // The same row stays selected in another order.
    press_char(&mut state, 'o');
    assert_eq!((row(&state).as_str(), state.place().unwrap().at), ("push", 4));
    press_char(&mut state, '<');
    assert_eq!((state.sort, row(&state).as_str()), ((0, false), "push"));
    press_char(&mut state, '>');
    press_char(&mut state, '>');
    assert_eq!(state.sort, (2, true));
    press(&mut state, KeyCode::Home);
    assert_eq!(row(&state), "forgotten");
    for (column, first) in [(3, "forgotten"), (4, "push"), (5, "push"), (6, "push")] {
        press_char(&mut state, '>');
        press(&mut state, KeyCode::Home);
        assert_eq!((state.sort.0, row(&state).as_str()), (column, first));
    }
    for _ in 0..5 {
        press_char(&mut state, '>');
    }
    assert_eq!(state.sort, (1, true));
    press(&mut state, KeyCode::Home);
    press_char(&mut state, 'j');
    assert_eq!(row(&state), "close-order");
    press_char(&mut state, 'k');
    press(&mut state, KeyCode::Up);
    assert_eq!(row(&state), "push");

    press_char(&mut state, '/');
    "CHq".chars().for_each(|c| drop(press_char(&mut state, c)));
    assert!(drawn(&state).contains("no row has \"CHq\""), "{}", drawn(&state));
    press(&mut state, KeyCode::Backspace);
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    assert_eq!((&state.mode, row(&state).as_str()), (&Mode::Normal, "charge"));
    assert_eq!(press(&mut state, KeyCode::Esc), None);
    assert_eq!((state.table().unwrap().rows.len(), row(&state).as_str()), (5, "charge"));

    for tab in [Tab::Nodes, Tab::Running, Tab::Dead, Tab::Schedules, Tab::Kinds] {
        assert_eq!(press(&mut state, KeyCode::Tab), Some(Effect::Ask(View::Figures)));
        assert_eq!(state.tab, tab);
    }
    press(&mut state, KeyCode::Left);
    assert_eq!(state.tab, Tab::Schedules);
    press(&mut state, KeyCode::Right);
    press(&mut state, KeyCode::BackTab);
    let opened = press(&mut state, KeyCode::Enter);
    assert_eq!(opened, Some(Effect::Ask(View::List(list_of("report", Set::Pending, None), 0))));
    press(&mut state, KeyCode::Backspace);
    press_char(&mut state, '3');
    assert_eq!(press(&mut state, KeyCode::Enter), Some(Effect::Ask(View::Job(ID.to_owned()))));
    assert_eq!(press(&mut state, KeyCode::Esc), Some(Effect::Ask(View::Figures)));
    press_char(&mut state, '2');
    assert_eq!(press(&mut state, KeyCode::Enter), None);

    for (code, modifiers) in [
        (KeyCode::Char('q'), KeyModifiers::NONE),
        (KeyCode::Char('c'), KeyModifiers::CONTROL),
        (KeyCode::Char('d'), KeyModifiers::CONTROL),
    ] {
        let quit = view().take(Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(quit, Some(Effect::Quit));
    }
    // In the help and in a question, `q` does not quit.
    press_char(&mut state, '?');
    assert_eq!((press_char(&mut state, 'q'), &state.mode), (None, &Mode::Normal));
}

/// A list turns through the states of its kind and through its pages, and opens a job.
#[test]
fn top_lists_turn_through_states_and_pages() {
    let mut state = view();
    let view_of = |set, page| Some(Effect::Ask(View::List(list_of("push", set, None), page)));
    assert_eq!(press(&mut state, KeyCode::Enter), view_of(Set::Pending, 0));
    // An answer about another list comes too late.
    answer(&mut state, list_of("charge", Set::Pending, None), 0, vec![listed(false)], true);
    assert_eq!(state.selected(), None);
    assert_eq!(press_char(&mut state, 'n'), None);
    answer(&mut state, list_of("push", Set::Pending, None), 0, vec![listed(false)], true);
    assert_eq!(press_char(&mut state, 'n'), view_of(Set::Pending, 1));
    answer(&mut state, list_of("push", Set::Pending, None), 1, vec![listed(false)], false);
    assert_eq!(press_char(&mut state, 'n'), None);
    assert_eq!(press_char(&mut state, 'b'), view_of(Set::Pending, 0));
    assert_eq!(press_char(&mut state, 'b'), None);
    for set in [Set::Running, Set::Dead, Set::Completed, Set::Pending] {
        assert_eq!(press(&mut state, KeyCode::Right), view_of(set, 0));
    }
    assert_eq!(press(&mut state, KeyCode::Left), view_of(Set::Completed, 0));
    press(&mut state, KeyCode::Right);
    answer(&mut state, list_of("push", Set::Pending, None), 0, vec![listed(false)], false);
    assert_eq!(press(&mut state, KeyCode::Enter), Some(Effect::Ask(View::Job(ID.to_owned()))));
    let lines = (0..30).map(|n| format!("line {n}")).collect();
    state.take(Event::Job(Box::new(JobPage {
        id: ID.to_owned(),
        job: Some((listed(false), lines)),
    })));
    press(&mut state, KeyCode::End);
    assert!(matches!(state.opened.last(), Some(Opened::Job { scroll: 29, .. })));
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    assert_eq!(press(&mut state, KeyCode::Esc), view_of(Set::Pending, 0));
    // A group of dead jobs has no other state.
    press_char(&mut state, '4');
    press(&mut state, KeyCode::Enter);
    assert_eq!(press(&mut state, KeyCode::Right), None);
}

/// A capital asks, with the number of jobs and which they are. Only `y` does it; every other key does nothing.
#[test]
fn top_capitals_ask_before_they_change() {
    let change = |verb, scope| Change { verb, scope, asked: at(0.0) };
    let dead = || Scope::Dead { kind: "push".to_owned(), jobs: 340, is_exact: true };
    let pending = || Scope::Pending { kind: "push".to_owned(), jobs: 1_199_000 };
    let one = |kind: &str| Scope::Job { id: ID.to_owned(), kind: kind.to_owned() };
    let of_group = || Scope::Group(group("push", "no route to host", 340));
    type Steps = &'static [char];
    let cases: [(Steps, char, Change, &str); 6] = [
        (&[], 'R', change(Verb::Retry, dead()), "Retry 340 dead jobs of push, with any error?"),
        (
            &[],
            'D',
            change(Verb::Delete, dead()),
            "Delete 340 dead jobs of push, with any error? They",
        ),
        (&[], 'C', change(Verb::Cancel, pending()), "Cancel 1199000 pending jobs of push? They"),
        (&['3'], 'C', change(Verb::Cancel, one("report")), "Cancel 1 job of report, 1a20"),
        (
            &['4'],
            'R',
            change(Verb::Retry, of_group()),
            "340 dead jobs of push with the error \"no route",
        ),
        (
            &['4'],
            'D',
            change(Verb::Delete, of_group()),
            "Delete 340 dead jobs of push with the error",
        ),
    ];
    for (steps, capital, change, question) in cases {
        let mut state = view();
        steps.iter().for_each(|step| drop(press_char(&mut state, *step)));
        for no in [
            KeyCode::Char('n'),
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Char('Y'),
            KeyCode::Char(capital),
        ] {
            assert_eq!(press_char(&mut state, capital), None);
            let page = drawn(&state);
            assert!(change.question().contains(question), "{}", change.question());
            let first = question.split(' ').take(3).collect::<Vec<_>>().join(" ");
            assert!(page.contains(&first), "{page}");
            assert_eq!(press(&mut state, no), None);
            assert_eq!(state.message.as_deref(), Some("nothing was changed"));
        }
        press_char(&mut state, capital);
        assert_eq!(press_char(&mut state, 'y'), Some(Effect::Change(change)));
        // One change at a time. Esc stops it.
        assert_eq!((press_char(&mut state, capital), &state.mode), (None, &Mode::Normal));
        state.take(Event::Progress(256));
        assert!(drawn(&state).contains("256 jobs"));
        assert_eq!(press(&mut state, KeyCode::Esc), Some(Effect::Stop));
        let changed = state.take(Event::Changed(Ok("340 jobs were retried".to_owned())));
        assert_eq!(changed, Some(Effect::Ask(View::Figures)));
        assert!(drawn(&state).contains("340 jobs were retried"));
    }
}

/// A verb that is not for the selected jobs asks nothing, and says why.
#[test]
fn top_capitals_refuse_jobs_that_they_are_not_for() {
    let mut state = view();
    let mut refused = |steps: &[char], capital: char| {
        steps.iter().for_each(|step| drop(press_char(&mut state, *step)));
        assert_eq!(press_char(&mut state, capital), None);
        assert_eq!(state.mode, Mode::Normal, "{steps:?} {capital}");
        assert!(state.message.is_some(), "{steps:?} {capital}");
    };
    for capital in ['R', 'D', 'C'] {
        refused(&['2'], capital);
        refused(&['5'], capital);
    }
    refused(&['3'], 'R');
    refused(&['3'], 'D');
    refused(&['4'], 'C');
    // `report` has neither pending nor dead jobs.
    for capital in ['R', 'D', 'C'] {
        refused(&['1', 'k', 'j', 'j', 'j', 'j'], capital);
    }
    let mut state = view();
    press(&mut state, KeyCode::Enter);
    for (dead, refused, asked) in [(false, ['R', 'D'], ['C', 'C']), (true, ['C', 'C'], ['R', 'D'])]
    {
        let jobs = vec![listed(dead)];
        answer(&mut state, list_of("push", Set::Pending, None), 0, jobs, false);
        for capital in refused {
            press_char(&mut state, capital);
            assert_eq!(state.mode, Mode::Normal, "{dead} {capital}");
        }
        for capital in asked {
            press_char(&mut state, capital);
            assert!(matches!(state.mode, Mode::Confirm(_)), "{dead} {capital}");
            press_char(&mut state, 'n');
        }
    }
}
