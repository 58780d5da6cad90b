//! The text form of a transcript: commands, `----`, what came out, and comments between.
//!
//! ```text
//! # recorded from Kafka 4.4.0
//!
//! # A first fetch acquires what is there.
//! produce t-0 count=10
//! share-fetch group=g member=A t-0
//! ----
//! t-0 NONE base_offset=0
//! NONE lock_ms=30000
//! t-0 NONE acquired 0-9x1
//!
//! ```
//!
//! Where Sharemark differs on purpose, the block has a second answer after a line
//! `---- sharemark: <class>: <why>`, and `docs/differences.md` says more.

use std::fmt;

/// The line between commands and what came out.
const RULE: &str = "----";
const SHAREMARK_RULE: &str = "---- sharemark: ";
const RECORDED: &str = "# recorded from ";
const NOT_BUILT: &str = "# not built: ";
const STARTED_WITH: &str = "# started with: ";
const CONFIGURED_WITH: &str = "# configured with: ";
const FEATURES: &str = "# features: ";

/// The classes that a difference may stand in.
const CLASSES: [&str; 3] = ["Kafka is only slow", "test-broker default", "not built"];

/// What a transcript was recorded from, as its first line says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// `# recorded from Kafka <version>`.
    Kafka,
    /// `# recorded from Sharemark: <why>`; only for what Kafka does not have.
    Sharemark,
}

/// Some commands with what they print.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Block {
    /// The commands, each with the number of its line.
    pub commands: Vec<(usize, String)>,
    /// What came out, without a blank line at its end.
    pub output: String,
    /// What comes out of Sharemark, where it differs: the reason, and the output.
    pub sharemark: Option<(String, String)>,
}

/// A part of a transcript.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Part {
    /// Comments and blank lines, kept as they are.
    Text(String),
    /// Commands.
    Block(Block),
}

/// A transcript.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Script {
    /// What it was recorded from; `None` before the first recording.
    pub origin: Option<Origin>,
    /// All after the first line.
    pub parts: Vec<Part>,
}

/// Why a text is no transcript, with the number of the line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ScriptError(pub usize, pub &'static str);

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.0, self.1)
    }
}

impl Script {
    /// Reads a transcript.
    ///
    /// # Errors
    ///
    /// Returns the first line that does not fit.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line)).peekable();
        let origin = lines.peek().and_then(|(_, line)| origin_of(line));
        if origin.is_some() {
            lines.next();
        }
        let mut parts = Vec::new();
        while let Some(&(number, line)) = lines.peek() {
            if line.is_empty() || line.starts_with('#') {
                lines.next();
                match parts.last_mut() {
                    Some(Part::Text(text)) => push_line(text, line),
                    Some(Part::Block(_)) | None => parts.push(Part::Text(format!("{line}\n"))),
                }
                continue;
            }
            let mut block = Block { commands: Vec::new(), output: String::new(), sharemark: None };
            let mut rule = false;
            for (number, line) in lines.by_ref() {
                if line == RULE {
                    rule = true;
                    break;
                }
                if line.is_empty() || line.starts_with('#') {
                    return Err(ScriptError(
                        number,
                        "a blank line or a comment between a command and its output",
                    ));
                }
                block.commands.push((number, line.to_owned()));
            }
            if !rule {
                return Err(ScriptError(number, "commands without a line of four hyphens after them"));
            }
            while let Some((number, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
                if let Some(reason) = line.strip_prefix(SHAREMARK_RULE) {
                    if !CLASSES.iter().any(|class| reason.starts_with(&format!("{class}: "))) {
                        return Err(ScriptError(number, "a difference of no known class"));
                    }
                    block.sharemark = Some((reason.to_owned(), String::new()));
                } else if let Some((_, output)) = &mut block.sharemark {
                    push_line(output, line);
                } else {
                    push_line(&mut block.output, line);
                }
            }
            parts.push(Part::Block(block));
        }
        Ok(Self { origin, parts })
    }

    /// Returns what Sharemark lacks for this transcript, as its line `# not built: ...` says.
    pub fn not_built(&self) -> Option<&str> {
        self.said(NOT_BUILT)
    }

    /// Returns the arguments that Sharemark is started with for this transcript, as its line
    /// `# started with: ...` says; only for those that Kafka cannot run.
    pub fn server_arguments(&self) -> Vec<&str> {
        self.said(STARTED_WITH).unwrap_or_default().split_whitespace().collect()
    }

    /// Returns the properties (`key=value`) that both brokers have for this transcript, beside those that all have,
    /// as its line `# configured with: ...` says.
    pub fn properties(&self) -> Vec<&str> {
        self.said(CONFIGURED_WITH).unwrap_or_default().split_whitespace().collect()
    }

    /// Returns the features (`name=level`) that both brokers have for this transcript, as its line
    /// `# features: ...` says.
    pub fn features(&self) -> Vec<&str> {
        self.said(FEATURES).unwrap_or_default().split_whitespace().collect()
    }

    /// Returns the rest of the first comment that begins so.
    fn said(&self, prefix: &str) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            Part::Text(text) => text.lines().find_map(|line| line.strip_prefix(prefix)),
            Part::Block(_) => None,
        })
    }

    /// Returns all blocks in order.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.parts.iter().filter_map(|part| match part {
            Part::Block(block) => Some(block),
            Part::Text(_) => None,
        })
    }

    /// Returns all commands in order.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.blocks().flat_map(|block| block.commands.iter().map(|(_, line)| line.as_str()))
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Some(Origin::Kafka) => writeln!(f, "{RECORDED}Kafka 4.4.0")?,
            Some(Origin::Sharemark) => writeln!(f, "{RECORDED}Sharemark: Kafka 4.4 has no such request")?,
            None => {}
        }
        for part in &self.parts {
            match part {
                Part::Text(text) => f.write_str(text)?,
                Part::Block(block) => {
                    for (_, command) in &block.commands {
                        writeln!(f, "{command}")?;
                    }
                    writeln!(f, "{RULE}")?;
                    f.write_str(&block.output)?;
                    if let Some((reason, output)) = &block.sharemark {
                        writeln!(f, "{SHAREMARK_RULE}{reason}")?;
                        f.write_str(output)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn origin_of(line: &str) -> Option<Origin> {
    let source = line.strip_prefix(RECORDED)?;
    if source.starts_with("Kafka") {
        Some(Origin::Kafka)
    } else if source.starts_with("Sharemark") {
        Some(Origin::Sharemark)
    } else {
        None
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

#[cfg(test)]
mod tests;
