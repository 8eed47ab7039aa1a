//! Tests of the drawn screen, with exact pages and with hostile text.

use super::*;

/// Compares the drawn screen with a file in `pages/`. `TICKWHEEL_UPDATE_PAGES=1` writes the file.
fn assert_page(state: &State, name: &str) {
    let file = format!("{}/src/top/pages/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let drawn = drawn(state);
    if std::env::var_os("TICKWHEEL_UPDATE_PAGES").is_some() {
        std::fs::write(&file, &drawn).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(drawn == expected, "{file} differs. Drawn:\n{drawn}");
}

/// The view of a known queue is drawn exactly so, each table on 80 columns and 24 rows, and with the help.
#[test]
fn top_draws_every_table_exactly() {
    let mut state = view();
    let tables = ["kinds", "nodes", "running", "dead", "schedules", "limits", "groups"];
    for (c, name) in ('1'..).zip(tables) {
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
        list_of("push", ListState::Dead, Some(group("push", "no route to host", 340))),
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
    state.take(Event::Job(Box::new(open_job(true, lines))));
    assert_page(&state, "job");
    state.take(Event::Job(Box::new(JobPage { id: id(), job: None })));
    assert_page(&state, "job-gone");
}

/// A queue without anything says so in every table, and so does a view without an answer.
#[test]
fn top_draws_an_empty_store() {
    let empty = Figures {
        store: "shop.db".to_owned(),
        queue: Some("mail".to_owned()),
        overview: made!(Overview { now: at(0.0), is_paused: true }),
        runs: Some(Vec::new()),
        ..Figures::default()
    };
    let mut state = state_of(empty, (80, 24));
    assert_page(&state, "empty");
    for (c, said) in ('2'..).zip([
        "no nodes",
        "nothing runs",
        "no dead jobs",
        "no schedules",
        "too many to count them",
        "no groups",
    ]) {
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
    (wide.id, wide.key) = ("b".repeat(32).parse().unwrap(), Some("東京".repeat(50)));
    press(&mut state, KeyCode::Enter);
    answer(&mut state, list_of("push", ListState::Pending, None), 0, vec![long, wide], true);
    assert_page(&state, "long-key");
    press(&mut state, KeyCode::Esc);
    state.take(Event::Resize(40, 24));
    assert_page(&state, "narrow");
    for (width, height) in [(1, 1), (10, 3), (20, 2), (40, 8), (200, 60), (30, 16), (5, 30)] {
        state.take(Event::Resize(width, height));
        for c in ['1', '2', '3', '4', '5', '6', '7', '?', 'x', 'R', 'n'] {
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
        for limit in figures.limits.iter_mut().flatten() {
            (limit.flow, limit.kind, limit.partition) =
                (Some(text.to_owned()), Some(text.to_owned()), Some(text.to_owned()));
        }
        let mut state = state_of(figures, (80, 24));
        let is_symbol = |c: char| {
            let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
            c == '\n' || !(c.is_control() || turns || c == '\u{feff}')
        };
        let assert_harmless = |state: &State| {
            let drawn = drawn(state);
            assert!(drawn.chars().all(is_symbol), "{drawn:?}");
            assert!(drawn.lines().all(|line| cells(line) <= 80), "{drawn}");
        };
        for c in ['6', '5', '3', '2', '1'] {
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
        answer(
            &mut state,
            list_of(text, ListState::Dead, Some(group(text, text, 7))),
            0,
            vec![job],
            false,
        );
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
    let later = |seconds, dead| {
        let mut later = shop();
        (later.overview.now, later.overview.dead) = (at(seconds), dead);
        Box::new(later)
    };
    state.take(Event::Figures(later(35.0, 344)));
    assert!(!drawn(&state).contains("these figures") && !drawn(&state).contains("locked"));

    press_char(&mut state, 'p');
    state.take(Event::Figures(later(36.0, 345)));
    state.take(Event::Tick(at(90.0)));
    let page = drawn(&state);
    assert!(
        page.contains("FROZEN") && page.contains("dead 344") && !page.contains("these figures"),
        "{page}"
    );
    press_char(&mut state, 'p');
    state.take(Event::Figures(later(36.0, 345)));
    assert!(drawn(&state).contains("dead 345"));
}
