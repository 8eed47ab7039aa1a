//! The options that every comparison has, and a reader for the words of a command line.

use std::str::FromStr;
use std::vec::IntoIter;

use crate::Fallible;

/// A command line. A value may follow the word that was taken last.
pub struct Words {
    rest: IntoIter<String>,
    last: String,
}

impl Words {
    pub fn new(words: impl IntoIterator<Item = String>) -> Words {
        Words { rest: words.into_iter().collect::<Vec<_>>().into_iter(), last: String::new() }
    }

    /// Takes the next word.
    pub fn take(&mut self) -> Option<String> {
        self.last = self.rest.next()?;
        Some(self.last.clone())
    }

    /// Takes the value of the word before.
    pub fn value(&mut self) -> Fallible<String> {
        self.rest.next().ok_or_else(|| format!("`{}` wants a value", self.last))
    }

    /// Takes the value, a number in which `_` may part the digits.
    pub fn number<N: FromStr>(&mut self) -> Fallible<N> {
        number(&self.value()?)
    }

    /// Takes the value, numbers that are separated by commas.
    pub fn numbers<N: FromStr>(&mut self) -> Fallible<Vec<N>> {
        self.value()?.split(',').map(number).collect()
    }

    /// Takes the value, names that are separated by commas.
    pub fn names(&mut self) -> Fallible<Vec<String>> {
        Ok(self.value()?.split(',').map(str::to_owned).collect())
    }
}

/// Reads a number in which `_` may part the digits.
fn number<N: FromStr>(text: &str) -> Fallible<N> {
    text.replace('_', "").parse().map_err(|_| format!("`{text}` is not a number"))
}

/// The command.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Action {
    #[default]
    Measure,
    /// Makes tables and drawings again, from the figures of earlier runs.
    Report,
    Help,
}

/// The options that every comparison has.
#[derive(Default, Debug)]
pub struct Common {
    pub action: Action,
    /// As briefly as it gets.
    pub short: bool,
    /// Whether figures, tables and drawings are to be written.
    pub write: bool,
    /// How often a case is measured, instead of the comparison's own number.
    pub rounds: Option<usize>,
}

impl Common {
    /// Handles a word, with its value, if it is one of these options. Returns whether it is.
    pub fn heed(&mut self, word: &str, words: &mut Words) -> Fallible<bool> {
        match word {
            "-h" | "--help" => self.action = Action::Help,
            "--report" => self.action = Action::Report,
            "--short" => self.short = true,
            "--write" => self.write = true,
            "--rounds" => self.rounds = Some(words.number()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Common, Words};

    #[test]
    fn words_have_values() {
        let mut words = Words::new(
            ["--report", "--rounds", "1_000", "--sizes", "1,2", "--rounds"].map(str::to_owned),
        );
        let mut common = Common::default();
        for _ in 0..2 {
            let word = words.take().unwrap();
            assert_eq!(common.heed(&word, &mut words), Ok(true));
        }
        assert_eq!((common.action, common.rounds), (Action::Report, Some(1000)));
        let word = words.take().unwrap();
        assert_eq!(common.heed(&word, &mut words), Ok(false));
        assert_eq!(words.numbers::<usize>(), Ok(vec![1, 2]));
        let word = words.take().unwrap();
        assert_eq!(common.heed(&word, &mut words), Err("`--rounds` wants a value".to_owned()));
        assert_eq!(words.take(), None);
    }
}
