//! The words of the protocol between this process and the scripts.
//!
//! Ground rules:
//!
//! - Each word stands once here, and once in a script. A test compares the two.
//! - A value that an answer has once is a word. The result of an operation is one letter, since an answer
//!   has up to 256 results.

use crate::store::{IfTaken, Notification};
use crate::values::group::GroupError;

/// The result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum ResultCode {
    Inserted = b'n',
    /// A job has the id, or the id is remembered.
    Known = b'k',
    /// Another job has the key. A detail follows: its length in two bytes; the id of that job; and after a
    /// retry the key, which the caller may not know.
    KeyTaken = b't',
    Cancelled = b'c',
    Running = b'r',
    Gone = b'g',
    Done = b'd',
    /// The claim is no longer held.
    ClaimLost = b'x',
    Changed = b'1',
    Unchanged = b'0',
    /// A group does not take the change. A letter follows: see [`group_error`].
    GroupRefused = b'f',
}

impl ResultCode {
    const ALL: [ResultCode; 11] = [
        ResultCode::Inserted,
        ResultCode::Known,
        ResultCode::KeyTaken,
        ResultCode::Cancelled,
        ResultCode::Running,
        ResultCode::Gone,
        ResultCode::Done,
        ResultCode::ClaimLost,
        ResultCode::Changed,
        ResultCode::Unchanged,
        ResultCode::GroupRefused,
    ];

    pub(super) fn of(letter: u8) -> Option<ResultCode> {
        ResultCode::ALL.into_iter().find(|code| *code as u8 == letter)
    }
}

/// Returns why a group does not take a change, from the letter behind [`ResultCode::GroupRefused`].
pub(super) fn group_error(letter: u8) -> Option<GroupError> {
    Some(match letter {
        b'u' => GroupError::Unknown,
        b'x' => GroupError::Exists,
        b'e' => GroupError::Ended,
        b's' => GroupError::Sealed,
        b'a' => GroupError::Cancelled,
        b'c' => GroupError::CallbackKnown,
        _ => return None,
    })
}

/// Returns the word for what an insert does if another job has its key.
pub(super) fn if_taken(if_taken: IfTaken) -> &'static str {
    match if_taken {
        IfTaken::Replace => "replace",
        IfTaken::ReplaceKeepingTime => "replace_keeping_time",
        IfTaken::Leave => "leave",
        IfTaken::Debounce => "debounce",
    }
}

/// Makes an enum with a word for each variant.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($variant:ident $word:literal),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) enum $name {
            $($variant),+
        }

        impl $name {
            pub(super) fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word),+
                }
            }
        }
    };
}

words! {
    /// The jobs that a page lists.
    PageSet: Pending "pending", Claimed "claimed", Results "results", Ended "ended"
}

words! {
    /// How a question names a job.
    By: Id "id", Key "key"
}

/// Reads the first word of a message: why a process has published it.
pub(super) fn notification(message: &[u8]) -> Option<Notification> {
    match message.split(|byte| *byte == b' ').next()? {
        b"due" => Some(Notification::Due),
        b"poll" => Some(Notification::Poll),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::values::run_end::Outcome;

    const PRELUDE: &str = include_str!("scripts/prelude.lua");
    const RESULTS: &str = include_str!("scripts/results.lua");
    const CHANGE: &str = include_str!("scripts/change_jobs.lua");
    const ENDS: &str = include_str!("scripts/other_ends.lua");
    const PAGE: &str = include_str!("scripts/page.lua");
    const INFO: &str = include_str!("scripts/info.lua");

    /// Returns every text in a script that stands between `from` and `to`.
    fn between<'a>(script: &'a str, from: &str, to: &str) -> BTreeSet<&'a str> {
        script.split(from).skip(1).filter_map(|rest| rest.split(to).next()).collect()
    }

    /// Each letter has the same name here and in the scripts.
    #[test]
    fn result_codes_are_those_of_the_scripts() {
        let mut letters = Vec::new();
        let is_of_texts = |line: &&str| line.starts_with("local ") && line.ends_with("'");
        for line in RESULTS.lines().filter(is_of_texts) {
            let (names, values) = line["local ".len()..].split_once(" = ").unwrap();
            let all = names.split(", ").zip(values.split(", "));
            letters.extend(all.filter(|(_, value)| value.len() == "'x'".len()));
        }
        letters.sort_unstable();
        let name = |code: ResultCode| {
            let mut name = String::new();
            for letter in format!("{code:?}").chars() {
                if letter.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.push(letter.to_ascii_uppercase());
            }
            (name, format!("'{}'", char::from(code as u8)))
        };
        let mut expected = ResultCode::ALL.map(name);
        expected.sort_unstable();
        let expected: Vec<(&str, &str)> =
            expected.iter().map(|(name, letter)| (&**name, &**letter)).collect();
        assert_eq!(letters, expected);
    }

    /// The scripts compare an argument with every word but one, which remains for `else`, and with no others.
    #[test]
    fn words_of_arguments_are_those_of_the_scripts() {
        let compared = |scripts: &[&'static str], variable: &str| {
            let mut words = BTreeSet::new();
            for script in scripts {
                words.extend(between(script, &format!("{variable} == '"), "'"));
                words.extend(between(script, &format!("{variable} ~= '"), "'"));
            }
            words
        };
        let keys = [IfTaken::Leave, IfTaken::ReplaceKeepingTime, IfTaken::Debounce].map(if_taken);
        assert_eq!(compared(&[CHANGE], "if_taken"), keys.into());
        let fates = [Outcome::Snoozed, Outcome::Dead, Outcome::Cancelled, Outcome::Expired];
        let fates = fates.map(|it| it.to_string());
        assert_eq!(compared(&[ENDS], "fate"), fates.iter().map(|fate| &**fate).collect());
        let sets = [PageSet::Pending, PageSet::Claimed, PageSet::Results].map(PageSet::word);
        assert_eq!(compared(&[PAGE], "set"), sets.into());
        assert_eq!(compared(&[INFO], "by"), [By::Key.word()].into());
        let mut published = between(PRELUDE, "publish('", " ");
        published.extend(between(CHANGE, "publish('", " "));
        let messages: Vec<_> =
            published.iter().filter_map(|word| notification(word.as_bytes())).collect();
        assert_eq!((published.len(), messages), (2, vec![Notification::Due, Notification::Poll]));
    }
}
