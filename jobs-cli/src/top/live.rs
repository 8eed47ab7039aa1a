//! The threads of the view of `top`, and the terminal that they share: one reads keys, one asks the store, one waits
//! for signals, and one for each change of jobs. The thread of the caller draws, takes over the terminal, and gives it
//! back: at the end, after an error, and before a panic is printed.
//!
//! Ground rules:
//!
//! - The thread that draws never asks the store, so a store that answers late or not at all does not hold up a key.
//! - The store is asked once a second, and at most for a tenth of the time: after a slow answer the pause is longer.

use std::io::{self, IsTerminal, Stdout, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Once};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{event, execute};
use tickwheel_jobs::{Client, StoreError};

use super::ask::Source;
use super::change::Change;
use super::draw::draw;
use super::lists::Lists;
use super::state::{Effect, Event, State, View};
use crate::audit::Audit;
use crate::open::Place;
use crate::text::now;
use crate::{Answer, Outcome};

const EVERY: Duration = Duration::from_secs(1);
/// How often the view compares the figures with the present.
const TICK: Duration = Duration::from_millis(500);
/// After each answer the store has a pause. The pause is this many times as long as the answer took.
const PAUSES: u32 = 9;

/// A client that may change jobs, the file that gets a line for each change, and the names of store and queue.
type Writer = (Answer<Client>, Option<Audit>, (String, Option<String>));

enum Signal {
    Event(Event),
    /// The keyboard cannot be read.
    NoKeys(std::io::Error),
    #[cfg(unix)]
    Ended(i32),
}

/// Shows the view until the user or a signal ends it. `writer` opens a client that may change jobs.
pub(crate) fn run<W>(client: Client, place: &Place, writer: W) -> Answer
where
    W: Fn() -> Answer<Writer> + Send + Sync + 'static,
{
    if !stdout().is_terminal() {
        let cure = "`top --once` prints a page, `top --json` the same as JSON";
        return Err(format!("the output is no terminal: {cure}").into());
    }
    let has_color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (to, events) = mpsc::channel();
    #[cfg(unix)]
    wait_for_signals(to.clone())?;
    let mut screen = Screen::take()?;
    let (ask, asked) = mpsc::channel();
    let (source, answers) = (Source::new(client, place), to.clone());
    spawn("asks the store", move || answer(source, &asked, &answers))?;
    let keys = to.clone();
    spawn("reads keys", move || read_keys(&keys))?;

    let mut state = State::new(now().into(), screen.size()?, has_color);
    let (writer, stop) = (Arc::new(writer), Arc::new(AtomicBool::new(false)));
    loop {
        screen.draw(&state)?;
        let event = match events.recv_timeout(TICK) {
            Ok(Signal::Event(event)) => event,
            Err(RecvTimeoutError::Timeout) => Event::Tick(now().into()),
            Ok(Signal::NoKeys(error)) => return Err(error.into()),
            Err(RecvTimeoutError::Disconnected) => return Err("no keys can be read".into()),
            #[cfg(unix)]
            Ok(Signal::Ended(signal)) => {
                drop(screen);
                // The process ends by the signal, so that its parent sees that.
                signal_hook::low_level::emulate_default_handler(signal)?;
                return Ok(Outcome::Missed);
            }
        };
        if !is_taken() {
            return Err("the view has failed: see above".into());
        }
        match state.take(event) {
            None => {}
            Some(Effect::Quit) => return Ok(Outcome::Done),
            // The thread ends only with a panic, which the next round sees.
            Some(Effect::Ask(view)) => drop(ask.send(view)),
            Some(Effect::Stop) => stop.store(true, Ordering::Relaxed),
            Some(Effect::Change(change)) => {
                stop.store(false, Ordering::Relaxed);
                let (writer, stop, to) = (Arc::clone(&writer), Arc::clone(&stop), to.clone());
                spawn("changes jobs", move || make(change, &*writer, &stop, &to))?;
            }
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

#[cfg(unix)]
fn wait_for_signals(to: Sender<Signal>) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    spawn("waits for signals", move || {
        for signal in signals.forever() {
            if to.send(Signal::Ended(signal)).is_err() {
                return;
            }
        }
    })
}

fn read_keys(to: &Sender<Signal>) {
    loop {
        let signal = match event::read() {
            Ok(event::Event::Key(key)) => Signal::Event(Event::Key(key)),
            Ok(event::Event::Resize(width, height)) => Signal::Event(Event::Resize(width, height)),
            Ok(_) => continue,
            Err(error) => Signal::NoKeys(error),
        };
        let is_end = matches!(signal, Signal::NoKeys(_));
        if to.send(signal).is_err() || is_end {
            return;
        }
    }
}

/// Asks the store for the figures and the opened list or job, again and again, until the view ends.
fn answer(source: Source, views: &Receiver<View>, to: &Sender<Signal>) {
    let mut lists = Lists::new(source.clone());
    let (mut view, mut is_read) = (View::Figures, false);
    loop {
        let began = present();
        let asked = ask(&source, &mut lists, &view, &mut is_read, to);
        if let Err(error) = asked {
            let problem = Event::Problem(error.to_string());
            if to.send(Signal::Event(problem)).is_err() {
                return;
            }
        }
        let took = present().duration_since(began);
        let pause = EVERY.saturating_sub(took).max(took * PAUSES);
        match wait(views, pause) {
            Ok(Some(next)) => (view, is_read) = (next, false),
            Ok(None) => {}
            Err(()) => return,
        }
    }
}

/// The pause after an answer is a multiple of the time it took. The clock of the wall may be set meanwhile, and an hour
/// would become a pause of nine.
#[expect(clippy::disallowed_methods, reason = "the view runs in real time, without a wheel")]
fn present() -> Instant {
    Instant::now()
}

/// Waits for the latest view that was sent, or for the pause to end. Fails if the view has ended.
fn wait(views: &Receiver<View>, pause: Duration) -> Result<Option<View>, ()> {
    match views.recv_timeout(pause) {
        Ok(first) => Ok(views.try_iter().last().or(Some(first))),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(()),
    }
}

/// Asks once: first for the opened list or job, and then for the figures. Then `is_read` is set, and a further page
/// of a list is not read again.
fn ask(
    source: &Source,
    lists: &mut Lists,
    view: &View,
    is_read: &mut bool,
    to: &Sender<Signal>,
) -> Result<(), StoreError> {
    let send = |event| drop(to.send(Signal::Event(event)));
    match view {
        View::Figures => {}
        View::List(_, page) if *page > 0 && *is_read => {}
        View::List(of, page) => send(Event::List(lists.page(of, *page)?)),
        View::Job(id) => send(Event::Job(Box::new(lists.job(*id)?))),
    }
    *is_read = true;
    send(Event::Figures(Box::new(source.figures()?)));
    Ok(())
}

fn make(
    change: Change,
    writer: &dyn Fn() -> Answer<Writer>,
    stop: &AtomicBool,
    to: &Sender<Signal>,
) {
    let send = |event| drop(to.send(Signal::Event(event)));
    let made = writer().map_err(|error| error.to_string()).and_then(|writer| {
        let (client, audit, (store, queue)) = writer;
        let command = format!("top: {}", change.question());
        let tell = |jobs| send(Event::Progress(jobs));
        let client = client.map_err(|error| error.to_string());
        let made = client.and_then(|client| change.make(&client, stop, tell));
        let Some(audit) = audit else { return made };
        let (changed, problem) = match &made {
            Ok(said) => (&**said, None),
            Err(problem) => ("", Some(&**problem)),
        };
        let written = audit.write((&store, queue.as_deref()), &command, changed, problem);
        match (made, written) {
            (made, Ok(())) => made,
            (Ok(said) | Err(said), Err(unwritten)) => Err(format!("{said}; {unwritten}")),
        }
    });
    send(Event::Changed(made));
}

static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub(crate) fn take() -> io::Result<Screen> {
        HOOK.call_once(|| {
            let print = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // On any thread: the text is lost on the other screen, and the view ends.
                give_back();
                print(panic);
            }));
        });
        TAKEN.store(true, Ordering::SeqCst);
        let taken = enable_raw_mode()
            .and_then(|()| execute!(stdout(), EnterAlternateScreen))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match taken {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Draws the state, unless the terminal was given back meanwhile.
    pub(crate) fn draw(&mut self, state: &State) -> io::Result<()> {
        if is_taken() {
            self.terminal.draw(|frame| draw(state, frame))?;
        }
        Ok(())
    }

    pub(crate) fn size(&self) -> io::Result<(u16, u16)> {
        self.terminal.size().map(|size| (size.width, size.height))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Says whether the terminal is still taken over. After a panic of any thread it is not.
pub(crate) fn is_taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // There may be no terminal any more. Then there is nothing to give back.
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use tickwheel_jobs::{Job, Jobs};

    use super::*;
    use tickwheel_jobs::view::ListState;

    use crate::top::lists::ListOf;

    #[derive(Serialize, Deserialize)]
    struct Push;

    impl Job for Push {
        const KIND: &'static str = "push";
    }

    /// A further page of a list is read until the store has answered, and not again afterwards.
    #[test]
    fn further_page_is_asked_for_until_it_is_read() {
        let queue = |jobs: &Jobs| Source {
            view: tickwheel_jobs::view::View::new(jobs.client()),
            store: String::new(),
            queue: None,
            is_file: false,
        };
        let (closed, open) =
            [(); 2].map(|()| Jobs::memory().handle(|_: Push, _| Ok(())).start().unwrap()).into();
        let (silent, source) = (queue(&closed), queue(&open));
        closed.shutdown().unwrap();
        let of = ListOf { kind: "push".to_owned(), state: ListState::Pending, group: None };
        let view = View::List(of, 1);
        let (to, answers) = mpsc::channel();
        let is_list = |signal: &Signal| matches!(signal, Signal::Event(Event::List(_)));
        let lists_read = || answers.try_iter().filter(is_list).count();

        let mut is_read = false;
        let mut lists = Lists::new(silent.clone());
        assert!(ask(&silent, &mut lists, &view, &mut is_read, &to).is_err());
        let mut lists = Lists::new(source.clone());
        for expected in [1, 0] {
            ask(&source, &mut lists, &view, &mut is_read, &to).unwrap();
            assert_eq!(lists_read(), expected);
        }
        // An error of the figures does not read the page again.
        assert!(ask(&silent, &mut lists, &view, &mut is_read, &to).is_err());
        ask(&source, &mut lists, &view, &mut is_read, &to).unwrap();
        assert_eq!(lists_read(), 0);
    }

    /// If a change fails and so does its line in the audit file, the view shows both errors. A store that cannot be
    /// opened is an error of the change.
    #[cfg(target_os = "linux")]
    #[test]
    fn error_of_a_change_is_shown_beside_that_of_its_line() {
        let (to, events) = mpsc::channel();
        let scope = crate::top::change::Scope::Job {
            id: tickwheel_jobs::JobId::new(),
            kind: "push".to_owned(),
        };
        let change = Change { verb: crate::top::change::Verb::Retry, scope, asked: now().into() };
        let jobs = Jobs::memory().handle(|_: Push, _| Ok(())).start().unwrap();
        for (opens, says) in [(true, "is not there any more"), (false, "no such store")] {
            let writer = || -> Answer<Writer> {
                let file = crate::open::Target::File("jobs.db".into());
                let audit = Audit::open(Some("/dev/full".as_ref()), &[], &file)?;
                let client = if opens { Ok(jobs.client()) } else { Err("no such store".into()) };
                Ok((client, audit, ("jobs.db".to_owned(), None)))
            };
            make(change.clone(), &writer, &AtomicBool::new(false), &to);
            let Signal::Event(Event::Changed(Err(error))) = events.recv().unwrap() else {
                panic!("the change has not failed");
            };
            assert!(error.contains(says) && error.contains("/dev/full"), "{error}");
        }
    }
}

#[cfg(all(test, unix))]
mod screen_tests {
    use super::*;
    use crate::top::tmux::Tmux;

    /// Takes over the terminal, and panics on another thread.
    #[test]
    #[ignore = "the test below runs it in a terminal"]
    fn screen_is_taken_and_a_thread_panics() {
        let screen = Screen::take().unwrap();
        let thread = std::thread::spawn(|| panic!("a planted panic"));
        assert!(thread.join().is_err() && !is_taken());
        drop(screen);
    }

    /// A panic on any thread gives the terminal back before it is printed, so it can be read.
    #[test]
    fn screen_is_given_back_before_a_panic_is_printed() {
        let Some(tmux) = Tmux::start("panic") else { return };
        let tests = std::env::current_exe().unwrap();
        let test = "top::live::screen_tests::screen_is_taken_and_a_thread_panics";
        let args = format!("--ignored --exact {test} --nocapture");
        tmux.type_line(&format!("{} {args}; echo \"ended: $?\"", tests.display()));
        tmux.assert_given_back("ended: 0");
        assert!(tmux.screen().contains("a planted panic"), "{}", tmux.screen());
    }
}
