//! Writes a journal: the owner's thread lays entries out in a buffer, a thread of the journal writes buffers to the file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use sharemark_log::Flush;
use sharemark_protocol::Writer;
use tracing::error;

use super::layout::{self, End};
use super::{MAGIC, VERSION, config};
use crate::broker::{Command, CommandProblem, Input, Now, Output};
use crate::config::BrokerConfig;

/// A buffer is handed over when it holds this much, or when the owner comes to rest.
const BUFFER_BYTES: usize = 256 * 1024;

/// How many buffers may wait for the file; with one more, the owner waits.
const BUFFERS_MAX: usize = 16;

/// Writes what the core is told, and what it says to that. Once the file cannot be written, it does nothing more.
#[derive(Debug)]
pub(in crate::shell) struct Recorder {
    buffer: Vec<u8>,
    /// None once the file cannot be written.
    buffers: Option<Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Begins a journal in a file, in place of what it held.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened to be written, or the system refuses a thread.
    pub(in crate::shell) fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        let (buffers, to_write) = bounded(BUFFERS_MAX);
        let path = path.to_owned();
        let writer = thread::Builder::new()
            .name("sharemark-journal".to_owned())
            .spawn(move || write_buffers(file, &path, &to_write))?;
        let mut buffer = MAGIC.to_vec();
        buffer.extend_from_slice(&VERSION.to_be_bytes());
        Ok(Self { buffer, buffers: Some(buffers), writer: Some(writer) })
    }

    /// Notes that the core begins.
    pub(in crate::shell) fn start(&mut self, now: Now, config: &BrokerConfig) {
        self.note(|| layout::start(now, env!("CARGO_PKG_VERSION"), &config::write(config)));
    }

    /// Notes what the core is about to be told.
    pub(in crate::shell) fn input(&mut self, now: Now, input: &Input) {
        self.note(|| layout::input(now, input));
    }

    /// Notes what is about to be done to the core.
    pub(in crate::shell) fn command(&mut self, now: Now, command: &Command) {
        self.note(|| layout::command(now, command));
    }

    /// Notes what came of the command before.
    pub(in crate::shell) fn outcome(&mut self, outcome: Result<Option<u64>, CommandProblem>) {
        self.note(|| layout::outcome(outcome));
    }

    /// Notes that the core has handed out a flush.
    pub(in crate::shell) fn flush(&mut self, flush: &Flush) {
        self.note(|| layout::flush(flush));
    }

    /// Notes that the core has handed out an output.
    pub(in crate::shell) fn output(&mut self, output: &Output) {
        self.note(|| layout::output(output));
    }

    /// Hands over what is not yet on its way to the file.
    pub(in crate::shell) fn hand_over(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let buffer = std::mem::take(&mut self.buffer);
        if self.buffers.as_ref().is_some_and(|buffers| buffers.send(buffer).is_err()) {
            self.buffers = None; // The writer has said why.
        }
    }

    /// Notes how the core ended, and waits until all is written.
    pub(in crate::shell) fn end(mut self, end: &End) {
        self.note(|| layout::end(end));
        self.hand_over();
        self.buffers = None;
        if let Some(writer) = self.writer.take() {
            // An error means that it panicked, and has said so.
            drop(writer.join());
        }
    }

    fn note(&mut self, entry: impl FnOnce() -> Writer) {
        if self.buffers.is_none() {
            return;
        }
        append(entry(), &mut self.buffer);
        if BUFFER_BYTES <= self.buffer.len() {
            self.hand_over();
        }
    }
}

/// Appends an entry behind its length and its checksum.
pub(super) fn append(entry: Writer, out: &mut Vec<u8>) {
    // The core's messages are far shorter: a frame has an int32 in front of it.
    let length = u32::try_from(entry.len()).unwrap_or(u32::MAX).to_be_bytes();
    let pieces = entry.into_pieces();
    let checksum =
        pieces.iter().fold(crc32c::crc32c(&length), |sum, piece| crc32c::crc32c_append(sum, piece));
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum.to_be_bytes());
    for piece in pieces {
        out.extend_from_slice(&piece);
    }
}

fn write_buffers(mut file: File, path: &Path, buffers: &Receiver<Vec<u8>>) {
    for buffer in buffers {
        if let Err(error) = file.write_all(&buffer) {
            error!(path = %path.display(), %error, "the journal ends here, it cannot be written; the server goes on");
            return;
        }
    }
}
