//! Takes over the terminal, and gives it back: at the end, after an error, and before a panic is printed.

use std::io::{self, Stdout, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::draw::draw;
use super::state::State;

/// The terminal is taken over.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal, until it is dropped.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes over the terminal.
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

/// Gives back the terminal, once.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // There may be no terminal any more. Then there is nothing to give back.
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

#[cfg(all(test, unix))]
mod tests {
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
        let test = "top::screen::tests::screen_is_taken_and_a_thread_panics";
        let args = format!("--ignored --exact {test} --nocapture");
        tmux.type_line(&format!("{} {args}; echo \"ended: $?\"", tests.display()));
        tmux.assert_given_back("ended: 0");
        assert!(tmux.screen().contains("a planted panic"), "{}", tmux.screen());
    }
}
