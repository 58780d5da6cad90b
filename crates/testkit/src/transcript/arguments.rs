//! The words of one command: `name word key=value ...`.

use std::collections::{BTreeMap, VecDeque};
use std::str::FromStr;

/// Why a command could not be run; it fails the transcript, unlike an error code, which is output.
pub type CommandError = String;

/// The words of a command, taken one by one; what is left over at the end is an error.
#[derive(Clone, Debug)]
pub(super) struct Arguments {
    words: VecDeque<String>,
    options: BTreeMap<String, String>,
}

impl Arguments {
    /// Splits a command into its name and its arguments.
    pub(super) fn split(command: &str) -> (String, Self) {
        let mut parts = command.split_whitespace();
        let name = parts.next().unwrap_or_default().to_owned();
        let mut arguments = Self { words: VecDeque::new(), options: BTreeMap::new() };
        for part in parts {
            match part.split_once('=') {
                Some((key, value)) => {
                    arguments.options.insert(key.to_owned(), value.to_owned());
                }
                None => arguments.words.push_back(part.to_owned()),
            }
        }
        (name, arguments)
    }

    /// Takes the next word.
    ///
    /// # Errors
    ///
    /// Returns an error that says `what` is missing.
    pub(super) fn word(&mut self, what: &str) -> Result<String, CommandError> {
        self.words.pop_front().ok_or_else(|| format!("{what} is missing"))
    }

    /// Takes a word if it stands somewhere among the arguments, and returns whether it did.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        if let Some(at) = self.words.iter().position(|word| word == name) {
            self.words.remove(at);
        }
        self.words.len() < before
    }

    /// Takes the words up to (and without) `end`, and `end` itself.
    pub(super) fn words_until(&mut self, end: &str) -> Vec<String> {
        let mut taken = Vec::new();
        while let Some(word) = self.words.pop_front() {
            if word == end {
                break;
            }
            taken.push(word);
        }
        taken
    }

    /// Takes an option, if it is given.
    pub(super) fn option(&mut self, name: &str) -> Option<String> {
        self.options.remove(name)
    }

    /// Takes an option, or its default.
    pub(super) fn text(&mut self, name: &str, default: &str) -> String {
        self.option(name).unwrap_or_else(|| default.to_owned())
    }

    /// Takes an option as a number, if it is given.
    ///
    /// # Errors
    ///
    /// Returns an error when it is no such number.
    pub(super) fn number_if_given<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, CommandError> {
        self.option(name)
            .map(|text| text.parse().map_err(|_| format!("{name}={text} is no number of the right size")))
            .transpose()
    }

    /// Takes an option as a number, or its default.
    ///
    /// # Errors
    ///
    /// Returns an error when it is no such number.
    pub(super) fn number<T: FromStr>(&mut self, name: &str, default: T) -> Result<T, CommandError> {
        Ok(self.number_if_given(name)?.unwrap_or(default))
    }

    /// Takes a list option (`a,b,c`), if it is given.
    pub(super) fn list(&mut self, name: &str) -> Option<Vec<String>> {
        self.option(name)
            .map(|text| text.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect())
    }

    /// Takes all options that are left, for commands that pass them on.
    pub(super) fn rest(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.options)
    }

    /// Refuses what nobody took.
    ///
    /// # Errors
    ///
    /// Returns the first word or option that is left.
    pub(super) fn finish(self) -> Result<(), CommandError> {
        if let Some(word) = self.words.front() {
            return Err(format!("`{word}` means nothing here"));
        }
        if let Some(name) = self.options.keys().next() {
            return Err(format!("`{name}=` means nothing here"));
        }
        Ok(())
    }
}

/// Splits `topic-0` into the topic and the partition.
///
/// # Errors
///
/// Returns an error when the text has no number after its last hyphen.
pub(super) fn topic_partition(text: &str) -> Result<(String, i32), CommandError> {
    text.rsplit_once('-')
        .and_then(|(topic, index)| Some((topic.to_owned(), index.parse().ok()?)))
        .ok_or_else(|| format!("`{text}` is no partition, such as t-0"))
}

/// Reads a range of offsets: `3-7`, or `5` alone.
///
/// # Errors
///
/// Returns an error when it is neither.
pub(super) fn offset_range(text: &str) -> Result<(i64, i64), CommandError> {
    let range = match text.split_once('-') {
        Some((first, last)) => first.parse().ok().zip(last.parse().ok()),
        None => text.parse().ok().map(|offset| (offset, offset)),
    };
    range.ok_or_else(|| format!("`{text}` is no range of offsets, such as 3-7"))
}
